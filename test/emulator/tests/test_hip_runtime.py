"""The HIP entry points through ctypes: the list, handles, memory, errors in words."""

import ctypes
import re
import subprocess
from pathlib import Path

from assemble import KernelText, assemble
from device_process import run_python
from torch.testing._internal.common_utils import TestCase, run_tests

import gfx950_emulator.machine as machine
from gfx950_emulator import hip

ENTRY_POINTS = Path(__file__).parents[1] / "hip" / "entry_points.inc"
INVALID_VALUE, INVALID_HANDLE, NOT_FOUND, INVALID_DIRECTION = 1, 400, 500, 21
INVALID_IMAGE, ILLEGAL_ADDRESS = 200, 700
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2


def listed():
    return set(re.findall(r"GFX950_HIP_ENTRY\((\w+)\)", ENTRY_POINTS.read_text()))


class TestEntryPoints(TestCase):
    def setUp(self):
        super().setUp()
        machine.set_up()
        self.hip = hip.runtime()

    def last_error(self):
        return self.hip.gfx950_last_error().decode()

    def address(self, name):
        pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
        code = self.hip.hipGetProcAddress(
            name.encode(), ctypes.byref(pointer), 0, ctypes.c_uint64(0), ctypes.byref(status)
        )
        return code, pointer.value, status.value

    def test_the_list_is_what_the_library_exports(self):
        table = subprocess.run(
            ["readelf", "--dyn-syms", "--wide", str(machine.HIP_LIBRARY)], capture_output=True, text=True, check=True
        ).stdout
        exported = set(re.findall(r"FUNC\s+GLOBAL\s+DEFAULT\s+\d+\s+(hip\w+)@@hip_4\.2", table))
        self.assertEqual(exported, listed())

    def test_every_listed_name_is_found_and_no_other(self):
        for name in sorted(listed() | {"hipGetDeviceProperties"}):
            code, pointer, status = self.address(name)
            self.assertEqual((code, status), (0, 0), name)
            self.assertIsNotNone(pointer)
        code, pointer, status = self.address("hipGraphAddKernelNode")
        self.assertEqual((code, pointer, status), (NOT_FOUND, None, 1))
        self.assertIn("hipGraphAddKernelNode is not implemented", self.last_error())

    def test_memory(self):
        device = ctypes.c_void_p()
        self.assertEqual(self.hip.hipMalloc(ctypes.byref(device), ctypes.c_size_t(64)), 0)
        self.assertEqual(device.value % 256, 0)
        source, back = (ctypes.c_uint32 * 16)(*range(16)), (ctypes.c_uint32 * 16)()
        size = ctypes.c_size_t(64)
        self.assertEqual(self.hip.hipMemcpy(device, source, size, HOST_TO_DEVICE), 0)
        self.assertEqual(self.hip.hipMemsetD32Async(device, 7, ctypes.c_size_t(2), None), 0)
        self.assertEqual(self.hip.hipMemcpy(back, device, size, DEVICE_TO_HOST), 0)
        self.assertEqual(list(back), [7, 7, *range(2, 16)])
        self.assertEqual(self.hip.hipMemcpy(back, device, ctypes.c_size_t(65), DEVICE_TO_HOST), INVALID_VALUE)
        self.assertIn("run past the end", self.last_error())
        self.assertEqual(self.hip.hipMemcpy(back, device, size, HOST_TO_DEVICE), INVALID_DIRECTION)
        self.assertEqual(self.hip.hipFree(device), 0)
        self.assertEqual(self.hip.hipFree(device), INVALID_VALUE)
        self.assertIn("does not begin a live allocation", self.last_error())

    def test_host_pointers_are_told_from_device_pointers(self):
        host, result = ctypes.create_string_buffer(64), ctypes.c_void_p()
        attribute = 3  # HIP_POINTER_ATTRIBUTE_DEVICE_POINTER
        address = ctypes.addressof(host)
        call = self.hip.hipPointerGetAttribute
        self.assertEqual(call(ctypes.byref(result), attribute, ctypes.c_void_p(address)), INVALID_VALUE)
        self.assertEqual(self.hip.hipHostRegister(ctypes.c_void_p(address), ctypes.c_size_t(64), 0), 0)
        self.assertEqual(call(ctypes.byref(result), attribute, ctypes.c_void_p(address)), 0)
        self.assertEqual(result.value, address)
        self.assertEqual(self.hip.hipHostUnregister(ctypes.c_void_p(address)), 0)

    def test_stale_handles(self):
        event, stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(self.hip.hipEventCreateWithFlags(ctypes.byref(event), 0), 0)
        self.assertEqual(self.hip.hipStreamCreate(ctypes.byref(stream)), 0)
        self.assertEqual(self.hip.hipEventRecord(event, stream), 0)
        self.assertEqual(self.hip.hipStreamDestroy(stream), 0)
        self.assertEqual(self.hip.hipEventRecord(event, stream), INVALID_HANDLE)
        self.assertEqual(self.hip.hipEventDestroy(event), 0)
        self.assertEqual(self.hip.hipEventQuery(event), INVALID_HANDLE)

    def test_a_launch_that_fails_stays_pending_until_it_is_told(self):
        import torch

        module = ctypes.c_void_p()
        code = self.hip.hipModuleLoadData(ctypes.byref(module), ctypes.create_string_buffer(b"not a code object", 4096))
        self.assertEqual(code, 200)
        with self.assertRaisesRegex(torch.AcceleratorError, "hipErrorInvalidImage"):
            torch.ones(4, device="cuda") + 1
        self.assertEqual((torch.ones(4, device="cuda") + 1).sum().item(), 8)  # told once

    def launch_that_faults(self):
        body = "v_mov_b32_e32 v1, 0\ns_mov_b64 s[2:3], 64\nglobal_store_dword v1, v1, s[2:3]\n"
        image = assemble([KernelText("stray", body, 0)])
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(self.hip.hipModuleLoadData(ctypes.byref(module), image), 0, self.last_error())
        self.assertEqual(self.hip.hipModuleGetFunction(ctypes.byref(function), module, b"stray"), 0)
        self.assertEqual(self.hip.hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, None, None), 0)

    def test_what_waits_for_the_device_returns_the_code_of_a_failed_launch(self):
        event, device = ctypes.c_void_p(), ctypes.c_void_p()
        self.assertEqual(self.hip.hipEventCreateWithFlags(ctypes.byref(event), 0), 0)
        self.assertEqual(self.hip.hipMalloc(ctypes.byref(device), ctypes.c_size_t(64)), 0)
        back = (ctypes.c_uint32 * 16)(*range(16))
        self.assertEqual(self.hip.hipDeviceSynchronize(), 0)
        self.launch_that_faults()
        for _ in range(2):
            self.assertEqual(self.hip.hipDeviceSynchronize(), ILLEGAL_ADDRESS)
            self.assertEqual(self.hip.hipStreamSynchronize(None), ILLEGAL_ADDRESS)
            self.assertEqual(self.hip.hipEventSynchronize(event), ILLEGAL_ADDRESS)
            self.assertEqual(self.hip.hipMemcpy(back, device, ctypes.c_size_t(64), DEVICE_TO_HOST), ILLEGAL_ADDRESS)
        self.assertEqual(list(back), list(range(16)))
        self.hip.hipGetErrorString.restype = ctypes.c_char_p
        self.assertIn(b"kernel stray", self.hip.hipGetErrorString(ILLEGAL_ADDRESS))  # told
        self.assertEqual(self.hip.hipDeviceSynchronize(), 0)
        self.assertEqual(self.hip.hipMemcpy(back, device, ctypes.c_size_t(64), DEVICE_TO_HOST), 0)
        self.assertEqual(self.hip.hipFree(device), 0)

    def test_torch_raises_it_by_name_and_then_nothing_is_left(self):
        import torch

        for wait in (torch.cuda.synchronize, torch.cuda.current_stream().synchronize):
            self.launch_that_faults()
            with self.assertRaisesRegex(torch.AcceleratorError, "hipErrorIllegalAddress.*kernel stray"):
                wait()
            self.assertEqual(self.hip.hipDeviceSynchronize(), 0)

    def test_a_failed_load_is_returned_once(self):
        module = ctypes.c_void_p()
        image = ctypes.create_string_buffer(b"\x7fELF" + b"\xff" * 60, 4096)  # headers far outside memory
        self.assertEqual(self.hip.hipModuleLoadData(ctypes.byref(module), image), INVALID_IMAGE)
        self.assertEqual(self.hip.hipDeviceSynchronize(), 0)
        self.hip.hipGetErrorString(INVALID_IMAGE)  # told

    def test_bad_variables_are_refused_at_once(self):
        for name, value in (
            ("GFX950_SCHEDULE", "random"),
            ("GFX950_THREADS", "many"),
            ("GFX950_CHECK", "3"),
            ("GFX950_TIMEOUT", "inf"),
        ):
            result = run_python("-c", "import gfx950_emulator", env={name: value})
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(f"{name}='{value}': expected", result.stderr)
        self.assertEqual(self.hip.hipInit(0), 0)


if __name__ == "__main__":
    run_tests()
