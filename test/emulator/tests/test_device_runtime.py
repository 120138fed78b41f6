"""torch.cuda around the operators: memory, streams, events, generators, the profiler, and errors in PyTorch's words."""

import io
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from device_process import run_emulated
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

import gfx950_emulator


@triton.jit
def fill_kernel(out, value, n: tl.constexpr):
    tl.store(out + tl.arange(0, n), value)


@triton.jit
def store_through(address):
    tl.store(tl.load(address).to(tl.pointer_type(tl.float32)), 1.0)


class TestMemory(TestCase):
    def test_statistics(self):
        before = torch.cuda.memory_stats()
        small, large = torch.empty(100, device="cuda"), torch.empty(1 << 20, device="cuda")
        stats = torch.cuda.memory_stats()

        def grown(name):
            return stats[name] - before.get(name, 0)

        self.assertEqual(grown("allocated_bytes.small_pool.current"), 512)
        self.assertEqual(grown("allocated_bytes.large_pool.current"), 4 << 20)
        self.assertEqual(grown("allocated_bytes.all.current"), 512 + (4 << 20))
        self.assertEqual(grown("requested_bytes.all.current"), 400 + (4 << 20))
        self.assertEqual(grown("reserved_bytes.all.current"), 512 + (4 << 20))
        self.assertEqual((grown("allocation.all.current"), grown("segment.all.allocated")), (2, 2))
        del small, large
        self.assertEqual(torch.cuda.memory_allocated(), before["allocated_bytes.all.current"])
        self.assertGreaterEqual(torch.cuda.max_memory_allocated(), before["allocated_bytes.all.current"] + (4 << 20))
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.reset_accumulated_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated())
        self.assertEqual(torch.cuda.memory_stats()["allocation.all.freed"], 0)
        self.assertIn("Allocated memory", torch.cuda.memory_summary())

    def test_free_memory_follows_the_limit(self):
        free, total = torch.cuda.mem_get_info()
        x = torch.empty(1 << 20, device="cuda")
        self.assertEqual(free - torch.cuda.mem_get_info()[0], x.nbytes)
        self.assertEqual(total, 288 << 30)

    def test_fraction(self):
        result = run_emulated(
            "import torch; torch.cuda.set_per_process_memory_fraction(0.5); "
            "torch.empty(9 << 20, dtype=torch.uint8, device='cuda')",
            env={"GFX950_MEMORY_LIMIT": "16M"},
        )
        self.assertRegex(result.stderr, r"OutOfMemoryError: HIP out of memory. Tried to allocate 9\.00 MiB.*8\.00 MiB")

    def test_observers_of_memory_that_ran_out(self):
        result = run_emulated(
            "import torch\n"
            "seen = []\n"
            "for k in (1, 2):\n"
            "    torch._C._cuda_attach_out_of_memory_observer(\n"
            "        lambda *numbers, k=k: seen.append((k, *numbers, torch.cuda.memory_allocated())))\n"
            "kept = torch.empty(4 << 20, dtype=torch.uint8, device='cuda')\n"
            "try:\n"
            "    torch.empty(13 << 20, dtype=torch.uint8, device='cuda')\n"
            "except torch.OutOfMemoryError:\n"
            "    print(seen)\n",
            env={"GFX950_MEMORY_LIMIT": "16M"},
        )
        seen = [(k, 0, 13 << 20, 16 << 20, 12 << 20, 4 << 20) for k in (1, 2)]
        self.assertEqual(result.stdout.strip(), str(seen), result.stderr)

    def test_capability_names_every_type(self):
        types = torch.accelerator.get_device_capability()["supported_dtypes"]
        self.assertLessEqual({torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.float4_e2m1fn_x2}, set(types))

    def test_snapshot_and_history(self):
        torch.cuda.memory._record_memory_history()
        self.addCleanup(torch.cuda.memory._record_memory_history, enabled=None)
        x = torch.empty(100, device="cuda")
        address = x.data_ptr()
        snapshot = torch.cuda.memory._snapshot()
        (segment,) = [s for s in snapshot["segments"] if s["address"] == address]
        self.assertEqual((segment["total_size"], segment["segment_type"], segment["device"]), (512, "small", 0))
        self.assertEqual(segment["blocks"][0]["state"], "active_allocated")
        del x
        trace = torch.cuda.memory._snapshot()["device_traces"][0]
        self.assertEqual([e["action"] for e in trace if e["addr"] == address], ["alloc", "free_completed"])
        self.assertNotIn(address, [s["address"] for s in torch.cuda.memory_snapshot()])

    def test_raw_allocations(self):
        before = torch.cuda.memory_allocated()
        address = torch.cuda.caching_allocator_alloc(1000)
        self.assertEqual(torch.cuda.memory_allocated() - before, 1024)
        torch.cuda.caching_allocator_delete(address)
        self.assertEqual(torch.cuda.memory_allocated(), before)

    def test_pinned(self):
        before = torch.cuda.host_memory_stats()["active_bytes.current"]
        x = torch.arange(256.0).pin_memory()
        self.assertTrue(x.is_pinned())
        self.assertFalse(torch.arange(4.0).is_pinned())
        self.assertEqual(torch.cuda.host_memory_stats()["active_bytes.current"] - before, 1024)
        self.assertEqual(x.to("cuda", non_blocking=True).cpu(), torch.arange(256.0))
        del x
        self.assertEqual(torch.cuda.host_memory_stats()["active_bytes.current"], before)
        torch.accelerator.empty_host_cache()

    def test_use_after_free_in_a_kernel(self):
        """An address that a kernel reads from memory: Triton's launcher refuses a stale tensor before."""
        code = (
            f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
            "import torch; from test_device_runtime import store_through\n"
            "x = torch.empty(64, device='cuda'); address = torch.tensor([x.data_ptr()], device='cuda')\n"
            "store_through[(1,)](address); torch.cuda.synchronize(); print('alive is right'); del x\n"
            "store_through[(1,)](address); torch.cuda.synchronize()"
        )
        result = run_emulated(code, env={"GFX950_CHECK": "1"})
        self.assertIn("alive is right", result.stdout, result.stderr)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"AcceleratorError: HIP error: an illegal memory access was encountered")
        self.assertIn("kernel store_through", result.stderr)


class TestStreamsAndEvents(TestCase):
    def test_events_measure_the_virtual_clock(self):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        x = torch.ones(1 << 20, device="cuda")
        first.record()
        start = gfx950_emulator.clock_ns()
        x.add_(1)
        last.record()
        last.synchronize()
        self.assertEqual(first.elapsed_time(last), (gfx950_emulator.clock_ns() - start) * 1e-6, atol=1e-6, rtol=1e-5)
        self.assertTrue(last.query())

    def test_event_errors(self):
        plain, timed = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
        plain.record()
        with self.assertRaisesRegex(ValueError, "Both events must be created with argument 'enable_timing=True'"):
            plain.elapsed_time(plain)
        with self.assertRaisesRegex(ValueError, "Both events must be recorded before calculating elapsed time"):
            timed.elapsed_time(timed)
        with self.assertRaisesRegex(NotImplementedError, "interprocess"):
            torch.cuda.Event(interprocess=True)

    def test_streams(self):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self.assertEqual(torch.cuda.current_stream(), stream)
            x = torch.ones(4, device="cuda") * 2
        x.record_stream(torch.cuda.current_stream())
        torch.cuda.current_stream().wait_stream(stream)
        self.assertEqual(torch.cuda.ExternalStream(stream.cuda_stream).cuda_stream, stream.cuda_stream)
        self.assertEqual(torch.cuda.Stream.priority_range(), (0, -1))
        self.assertEqual([torch.cuda.Stream(priority=p).priority for p in (0, -1, -5)], [0, -1, -1])
        with self.assertRaisesRegex(RuntimeError, "priority to be less than or equal to 0, got 1"):
            torch.cuda.Stream(priority=1)
        self.assertEqual(x.sum().item(), 8)

    def test_sync_debug_mode(self):
        x, host, pinned = torch.ones(4, device="cuda"), torch.ones(4), torch.ones(4).pin_memory()
        waits = {
            "item": lambda: x.sum().item(),
            "to the host": lambda: x.cpu(),
            "from the host": lambda: x.copy_(host),
            "nonzero": lambda: x.nonzero(),
            "a mask": lambda: x[x > 0],
            "equal": lambda: torch.equal(x, x),
            "a stream": lambda: torch.cuda.current_stream().synchronize(),
        }
        goes_on = {
            "an operator": lambda: x + 1,
            "a pinned copy": lambda: x.copy_(pinned, non_blocking=True),
            "a copy on the device": lambda: x.clone().copy_(x),
            "the whole device": lambda: torch.cuda.synchronize(),
        }
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("error")
        self.addCleanup(torch.cuda.set_sync_debug_mode, 0)
        self.assertIn("does not yet detect all synchronizing operations", str(told[0].message))
        for name, call in waits.items():
            with self.subTest(name=name), self.assertRaisesRegex(RuntimeError, "called a synchronizing HIP operation"):
                call()
        torch.cuda.set_sync_debug_mode("warn")
        self.assertEqual(torch.cuda.get_sync_debug_mode(), 1)
        for name, call in (waits | goes_on).items():
            with self.subTest(name=name), warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                call()
            self.assertEqual(any("called a synchronizing" in str(w.message) for w in told), name in waits, name)

    def test_accelerator(self):
        self.assertEqual(torch.accelerator.current_accelerator(), torch.device("cuda"))
        self.assertEqual(torch.accelerator.memory_allocated(), torch.cuda.memory_allocated())
        stream = torch.Stream("cuda")
        with stream:
            self.assertEqual(torch.accelerator.current_stream(), stream)
        torch.accelerator.synchronize()
        x, graph = torch.ones(4, device="cuda"), torch.accelerator.Graph()
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            x.add_(1)
            graph.capture_end()
        graph.replay()
        self.assertEqual(x.cpu(), torch.full((4,), 2.0))


class TestGenerators(TestCase):
    def test_state_and_forks(self):
        torch.cuda.manual_seed_all(9)
        generator = torch.cuda.default_generators[0]
        with torch.random.fork_rng():
            torch.rand(8, device="cuda")
            self.assertGreater(generator.get_offset(), 0)
        self.assertEqual((generator.initial_seed(), generator.get_offset()), (9, 0))
        generator.set_offset(16)
        state = torch.cuda.get_rng_state()
        self.assertEqual(state.view(torch.int64).tolist(), [9, 16])
        first = torch.rand(4, device="cuda")
        torch.cuda.set_rng_state_all([state])
        self.assertEqual(torch.rand(4, device="cuda"), first)
        with self.assertRaisesRegex(RuntimeError, "must be a multiple of 4"):
            generator.set_offset(3)
        with self.assertRaisesRegex(RuntimeError, "Expected a 'cuda' device type for generator"):
            torch.rand(4, device="cuda", generator=torch.Generator())


class TestExchange(TestCase):
    def test_dlpack(self):
        x = torch.arange(6.0, device="cuda").reshape(2, 3)
        y = torch.from_dlpack(x)
        self.assertEqual((y.data_ptr(), y.device, y.shape), (x.data_ptr(), x.device, x.shape))
        y.add_(1)
        self.assertEqual(x.cpu(), torch.arange(1.0, 7.0).reshape(2, 3))
        device_type, index = x.__dlpack_device__()
        self.assertEqual((int(device_type), index), (10, 0))  # kDLROCM
        self.assertEqual(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x.t())).stride(), (1, 3))

    def test_save_and_load(self):
        buffer = io.BytesIO()
        torch.save({"on_device": torch.arange(3.0, device="cuda"), "on_host": torch.arange(2.0)}, buffer)
        for location, devices in ((None, ("cuda", "cpu")), ("cpu", ("cpu", "cpu")), ("cuda:0", ("cuda", "cuda"))):
            buffer.seek(0)
            loaded = torch.load(buffer, map_location=location)
            self.assertEqual((loaded["on_device"].device.type, loaded["on_host"].device.type), devices)
            self.assertEqual(loaded["on_device"].cpu(), torch.arange(3.0))

    def test_storages_change_their_size(self):
        x = torch.arange(4.0, device="cuda")
        storage, before = x.untyped_storage(), torch.cuda.memory_allocated()
        self.assertEqual(storage.resize_(8).nbytes(), 8)
        storage.resize_(24)
        self.assertEqual((x[:2].tolist(), storage.device.type), ([0.0, 1.0], "cuda"))
        storage.resize_(0)
        self.assertEqual((storage.nbytes(), torch.cuda.memory_allocated()), (0, before - 512))
        storage.resize_(16)
        self.assertEqual(x.fill_(2).sum().item(), 8)
        with self.assertRaises(torch.OutOfMemoryError):
            storage.resize_(1 << 50)
        torch.ops.inductor.resize_storage_bytes_(x, 0)  # what compiled code calls
        self.assertEqual(storage.nbytes(), 0)
        self.assertEqual(torch.ones(2).untyped_storage().resize_(4).nbytes(), 4)

        y = torch.ones(4, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(torch.cuda.Stream()):
            graph.capture_begin()
            with self.assertRaisesRegex(RuntimeError, "operation not permitted when stream is capturing"):
                y.untyped_storage().resize_(8)
            with self.assertRaisesRegex(RuntimeError, "previous error during capture"):
                graph.capture_end()
        graph.reset()
        self.assertEqual(y.sum().item(), 4)

    def test_memory_is_not_shared_between_processes(self):
        with self.assertRaisesRegex(NotImplementedError, "CUDA IPC"):
            torch.ones(2, device="cuda").untyped_storage()._share_cuda_()


class TestProfiler(TestCase):
    def test_kernels_and_operators_have_device_time(self):
        x = torch.ones(1 << 20, device="cuda")
        fill_kernel[(1,)](x, 1.0, 64)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            start = gfx950_emulator.clock_ns()
            torch.mul(x, 2)
            of_operator = (gfx950_emulator.clock_ns() - start) * 1e-3
            torch.cuda.nvtx.range_push("my range")
            start = gfx950_emulator.clock_ns()
            fill_kernel[(1,)](x, 1.0, 64)
            of_kernel = (gfx950_emulator.clock_ns() - start) * 1e-3
            torch.cuda.nvtx.range_pop()
        # The profiler keeps whole microseconds.
        rows = {row.key: row for row in profiled.key_averages()}
        self.assertEqual(rows["aten::mul"].device_time_total, of_operator, atol=1, rtol=0)
        self.assertEqual(rows["fill_kernel"].device_time_total, of_kernel, atol=1, rtol=0)
        self.assertIn("my range", rows)

    def test_nvtx(self):
        self.assertEqual([torch.cuda.nvtx.range_push("a"), torch.cuda.nvtx.range_push("b")], [0, 1])
        self.assertEqual([torch.cuda.nvtx.range_pop(), torch.cuda.nvtx.range_pop()], [1, 0])
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("c"))
        torch.cuda.nvtx.mark("d")
        with torch.autograd.profiler.emit_nvtx():
            self.assertEqual((torch.ones(2, device="cuda") + 1).sum().item(), 4)


class TestErrors(TestCase):
    @parametrize("operation", ["index", "gather", "scatter", "embedding", "nll_loss", "index_add"])
    def test_indices_out_of_range(self, operation):
        """As a kernel's assertion on the device; but at once, and the device goes on."""
        x, bad = torch.arange(6.0, device="cuda"), torch.tensor([10], device="cuda")
        calls = {
            "index": lambda: x[bad],
            "gather": lambda: x.gather(0, bad),
            "scatter": lambda: x.scatter(0, bad, 1.0),
            "embedding": lambda: F.embedding(bad, x.reshape(3, 2)),
            "nll_loss": lambda: F.nll_loss(x.reshape(1, 6), bad),
            "index_add": lambda: x.index_add(0, bad, x[:1]),
        }
        with self.assertRaisesRegex(torch.AcceleratorError, r"HIP error: device-side assert triggered\n.*out of"):
            calls[operation]()
        self.assertEqual(x.sum().item(), 15)

    def test_shapes_stay_python_errors(self):
        x = torch.arange(6.0, device="cuda")
        with self.assertRaisesRegex(IndexError, "Dimension out of range"):
            x.gather(3, torch.tensor([1], device="cuda"))
        with self.assertRaisesRegex(IndexError, "index 10 is out of bounds for dimension 0 with size 6"):
            x[10]

    def test_mixed_devices_name_the_argument(self):
        x = torch.ones(4, 4, device="cuda")
        for call, words in (
            (lambda: torch.mm(x, torch.ones(4, 4)), "argument mat2 in method wrapper_CUDA_mm"),
            (lambda: x.index_select(0, torch.tensor([1])), "argument index in method wrapper_CUDA__index_select"),
        ):
            with self.assertRaisesRegex(
                RuntimeError, rf"same device.*cuda:0 and cpu! \(when checking argument for {words}"
            ):
                call()

    def test_devices_that_do_not_exist(self):
        with self.assertRaisesRegex(torch.AcceleratorError, "HIP error: invalid device ordinal"):
            torch.ones(1, device="cuda:5")
        with self.assertRaisesRegex(AssertionError, "Invalid device id"):
            torch.cuda.get_device_properties(5)

    def test_fork_after_use(self):
        code = (
            "import os, sys, torch; torch.ones(1, device='cuda'); pid = os.fork()\n"
            "if pid == 0:\n"
            "    try: torch.ones(1, device='cuda') + 1; torch.cuda.current_device(); torch.cuda.init()\n"
            "    except RuntimeError as error: print(error, flush=True)\n"
            "    os._exit(0)\n"
            "os.waitpid(pid, 0)"
        )
        self.assertIn("Cannot re-initialize CUDA in forked subprocess", run_emulated(code).stdout)
        self.assertNotIn("Cannot", run_emulated(code.replace("torch.ones(1, device='cuda'); pid", "pid")).stdout)
        tensor_alone = code.replace("torch.cuda.current_device(); torch.cuda.init()", "print('made')")
        self.assertRegex(run_emulated(tensor_alone).stdout, "^Cannot re-initialize CUDA in forked subprocess")

    def test_several_devices(self):
        code = """
import torch
assert torch.cuda.can_device_access_peer(0, 1)
a = torch.arange(4., device="cuda:1")
b = a.to("cuda:2") + 1
assert b.device.index == 2 and b.tolist() == [1, 2, 3, 4]
b.copy_(a); assert b.tolist() == [0, 1, 2, 3]
with torch.cuda.device(1):
    assert torch.ones(1, device="cuda").device.index == 1
    assert torch.cuda.current_stream().device.index == 1
assert torch.cuda.memory_allocated(1) >= 512 and torch.cuda.memory_allocated(0) == 0
torch.cuda.manual_seed_all(4)
assert torch.equal(torch.rand(3, device="cuda:0").cpu(), torch.rand(3, device="cuda:2").cpu())
parts = torch.nn.parallel.scatter(torch.arange(6.), [0, 1, 2])
assert [p.device.index for p in parts] == [0, 1, 2]
g = torch.cuda.CUDAGraph()
with torch.cuda.device(2):
    with torch.cuda.graph(g): c = b * 2
g.replay(); assert c.tolist() == [0, 2, 4, 6]
model = torch.nn.parallel.DataParallel(torch.nn.Linear(4, 2).cuda())
assert model(torch.ones(6, 4, device="cuda")).shape == (6, 2)
print("all right")
"""
        result = run_emulated(code, env={"GFX950_DEVICES": "3"})
        self.assertIn("all right", result.stdout, result.stderr)


instantiate_parametrized_tests(TestErrors)

if __name__ == "__main__":
    run_tests()
