"""Switching the emulated device on and off, in this process's children; what it refuses and what it then says."""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from device_process import run_emulated, run_python
from torch.testing._internal.common_utils import TestCase, run_tests

import gfx950_emulator  # noqa: F401  before torch
import gfx950_emulator.machine as machine
import gfx950_emulator.rocm_tree as rocm_tree
from gfx950_emulator.errors import EmulatorError

SPAWN = """
import multiprocessing
import torch


def child(queue):
    queue.put((torch.ones(3, device="cuda") * 2).sum().item())


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    print("child says", queue.get(timeout=120))
    process.join()
"""


class TestActivation(TestCase):
    def assertRuns(self, result, expected):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(expected, result.stdout)

    def assertFails(self, result, expected):
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertRegex(result.stdout + result.stderr, expected)

    def test_off_leaves_torch_alone(self):
        code = "import torch; print(torch.cuda.is_available(), torch.version.hip)"
        self.assertRuns(run_python("-c", code), "False None")
        self.assertRuns(
            run_python("-c", "import gfx950_emulator, torch; print(torch.version.hip)", env={"GFX950_EMULATOR": "0"}),
            "None",
        )

    def test_variable_switches_on(self):
        code = "import torch; print(torch.ones(2, device='cuda').device)"
        self.assertRuns(run_python("-c", code, env={"GFX950_EMULATOR": "1"}), "cuda:0")

    def test_module_and_script(self):
        self.assertRuns(run_python("-m", "gfx950_emulator", "-m", "torch.utils.collect_env"), "HIP runtime")
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "spawns.py"
            script.write_text(SPAWN)
            self.assertRuns(run_python("-m", "gfx950_emulator", str(script)), "child says 6.0")
        self.assertFails(run_python("-m", "gfx950_emulator", "missing.py"), "no such file: missing.py")

    def test_after_torch_is_an_error(self):
        self.assertFails(run_python("-c", "import torch, gfx950_emulator"), "must be imported before torch")

    def test_bad_variables(self):
        use = "import torch; torch.ones(1, device='cuda')"
        self.assertFails(run_emulated(use, env={"GFX950_DEVICES": "many"}), "GFX950_DEVICES=many: expected a number")
        self.assertFails(run_emulated(use, env={"GFX950_MEMORY_LIMIT": "lots"}), "GFX950_MEMORY_LIMIT=lots: expected")
        self.assertFails(run_emulated(use, env={"GFX950_DEVICES": "0"}), "GFX950_DEVICES=0")
        self.assertFails(run_python("-c", "import gfx950_emulator", env={"GFX950_EMULATOR": "yes"}), "expected 1")

    def test_a_bad_switch_ends_the_process_before_the_program_runs(self):
        for value in ("2", "true"):
            result = run_python("-c", "print('ran')", env={"GFX950_EMULATOR": value})
            self.assertFails(result, f"GFX950_EMULATOR='{value}': expected 1 .on. or 0 .off.")
            self.assertNotIn("ran", result.stdout)

    def test_memory_limit_out_of_range(self):
        use = "import torch; torch.ones(1, device='cuda')"
        for value in ("1e30", "99999999999T", "1e999", "289G", "0", "0.5", "-1", "nan", "inf"):
            result = run_emulated(use, env={"GFX950_MEMORY_LIMIT": value})
            self.assertFails(result, re.escape(f"GFX950_MEMORY_LIMIT={value}: expected") + ".*from 1 to 288G")
        code = "import torch; print(torch.ones(1, device='cuda').item())"
        self.assertRuns(run_emulated(code, env={"GFX950_MEMORY_LIMIT": "288G"}), "1.0")

    def test_visible_devices(self):
        code = (
            "import torch; count = torch.cuda.device_count(); "
            "print([torch.cuda.get_device_properties(i).pci_bus_id for i in range(count)])"
        )
        for env, buses in (
            ({}, "[1, 2, 3]"),
            ({"CUDA_VISIBLE_DEVICES": ""}, "[]"),
            ({"HIP_VISIBLE_DEVICES": "-1"}, "[]"),
            ({"CUDA_VISIBLE_DEVICES": "2,0"}, "[3, 1]"),
            ({"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1,2"}, "[2, 3]"),
            ({"ROCR_VISIBLE_DEVICES": "2,1", "HIP_VISIBLE_DEVICES": "1"}, "[2]"),
            ({"HIP_VISIBLE_DEVICES": "1,7,0"}, "[2]"),
        ):
            self.assertRuns(run_emulated(code, env={"GFX950_DEVICES": "3", **env}), buses)
        use = "import torch; print(torch.cuda.is_available()); torch.ones(1, device='cuda')"
        hidden = run_emulated(use, env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertIn("False", hidden.stdout)
        self.assertFails(hidden, "No HIP GPUs are available: CUDA_VISIBLE_DEVICES=")
        for value, reason in (("GPU-1", "expected numbers of devices"), ("0,0", "device 0 is listed twice")):
            self.assertFails(run_emulated(use, env={"HIP_VISIBLE_DEVICES": value}), f"={value}: {reason}")

    def test_memory_limit(self):
        code = "import torch; a = torch.ones(200000, device='cuda'); print(a.sum().item()); a + a"
        result = run_emulated(code, env={"GFX950_MEMORY_LIMIT": "1M"})
        self.assertFails(result, r"OutOfMemoryError: HIP out of memory. Tried to allocate 0\.76 MiB.*1\.00 MiB")
        self.assertIn("200000", result.stdout)

    def test_several_devices(self):
        code = (
            "import torch; print(torch.cuda.device_count(), torch.ones(2, device='cuda:2').to('cuda:1').device); "
            "torch.ones(2, device='cuda:2') + torch.ones(2, device='cuda:1')"
        )
        result = run_emulated(code, env={"GFX950_DEVICES": "3"})
        self.assertIn("3 cuda:1", result.stdout)
        self.assertFails(result, "same device.*cuda:2 and cuda:1")


class TestMissingPackages(TestCase):
    def test_what_to_install(self):
        """An environment without Triton, FlyDSL and their tools: links to everything else."""
        code = (
            "import torch\n"
            "x = torch.ones(4, device='cuda') + 1; print(x.sum().item())\n"
            "from torch._native.flydsl import target; print(target.package_unsupported_reason())\n"
            "torch.compile(lambda x: x + 1)(x)"
        )
        absent = re.compile(r"triton|flydsl|ziglang|rocm|.*\.pth$")
        with tempfile.TemporaryDirectory() as folder:
            for path in Path(sysconfig.get_path("purelib")).iterdir():
                if not absent.match(path.name):
                    (Path(folder) / path.name).symlink_to(path)
            environment = {"PYTHONPATH": folder}
            result = run_python("-S", "-m", "gfx950_emulator", "-c", code, env=environment)
        self.assertIn("8.0", result.stdout, result.stderr)
        self.assertIn("flydsl is not installed; pip install 'flydsl", result.stdout)
        self.assertRegex(result.stderr, "TritonMissing: Cannot find a working triton installation")


class TestRocmTree(TestCase):
    def test_layout(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder) / "tree"
            rocm_tree._fill(tree, machine.HIP_LIBRARY, Path("/bin/echo"), Path(folder))
            self.assertTrue((tree / "lib" / "libamdhip64.so").samefile(machine.HIP_LIBRARY))
            linked = subprocess.run(
                [tree / "llvm" / "bin" / "ld.lld", "x.o"], capture_output=True, text=True, check=True
            )
            self.assertEqual(linked.stdout, "ld.lld x.o\n")
            self.assertTrue((tree / "amdgcn" / "bitcode").samefile(folder))

    def test_a_missing_linker_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder:
            rocm_tree._fill(Path(folder) / "tree", machine.HIP_LIBRARY, None, None)
            linker = Path(folder) / "tree" / "llvm" / "bin" / "ld.lld"
            result = subprocess.run([linker, "x.o"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 127)
        self.assertIn("pip install ziglang", result.stderr)

    def test_two_processes_make_one_tree(self):
        code = "import os; from gfx950_emulator import machine; machine.set_up(); print(os.environ['ROCM_PATH'])"
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-c", code]
            env = os.environ | {"XDG_CACHE_HOME": cache, "GFX950_EMULATOR": "1"}
            both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
            said = {process.communicate()[0].strip() for process in both}
            self.assertEqual([process.returncode for process in both], [0, 0])
            self.assertEqual(len(said), 1)
            self.assertEqual([str(path) for path in (Path(cache) / "gfx950_emulator").iterdir()], list(said))


class TestRefusals(TestCase):
    def test_processor(self):
        machine.check_processor("flags\t\t: avx avx2 bmi1 bmi2 f16c fma movbe\n")
        with self.assertRaisesRegex(EmulatorError, "lacks avx2, fma"):
            machine.check_processor("flags\t\t: avx bmi1 bmi2 f16c movbe\n")

    def refusal(self, torch_files, version):
        """What the package says about a torch that looks like this."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "torch" / "lib").mkdir(parents=True)
            (root / "torch" / "__init__.py").write_text("")
            (root / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
            for name in torch_files:
                (root / "torch" / "lib" / name).write_text("")
            result = run_emulated("pass", env={"PYTHONPATH": folder})
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_torch_with_a_device_of_its_own(self):
        release = machine.built_for_torch()
        said = self.refusal(["libtorch_hip.so"], f"{release}+rocm7.1")
        self.assertRegex(said, r"has a device of its own \(libtorch_hip\.so\)")

    def test_torch_of_another_release(self):
        said = self.refusal([], "2.12.0+cpu")
        self.assertRegex(said, rf"built for torch {re.escape(machine.built_for_torch())}, and torch 2\.12\.0\+cpu")

    def test_torch_of_another_abi(self):
        """The right release, with libraries that lack the symbols that ours were built against."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "torch"
            (package / "lib").mkdir(parents=True)
            (package / "__init__.py").write_text("import torch._C\n")
            (package / "_C.py").write_text("")
            (package / "version.py").write_text(f"__version__ = '{machine.built_for_torch()}+cpu'\n")
            for name in ("libc10.so", "libtorch_cpu.so"):
                command = ["c++", "-shared", f"-Wl,-soname,{name}", "-x", "c++", "/dev/null", "-o"]
                subprocess.run([*command, str(package / "lib" / name)], check=True)
            environment = {"PYTHONPATH": folder, "LD_LIBRARY_PATH": str(package / "lib")}
            result = run_emulated("import torch", env=environment)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"built against another ABI.*\n?.*undefined symbol.*rebuild it for this torch")

    def test_torch_without_a_version(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch").mkdir()
            (Path(folder) / "torch" / "__init__.py").write_text("")
            result = run_emulated("pass", env={"PYTHONPATH": folder})
        self.assertEqual(result.returncode, 1)
        self.assertIn("does not look like an installed PyTorch", result.stderr)

    def test_the_build_id_is_the_linker_s(self):
        notes = subprocess.run(
            ["readelf", "-n", machine.HIP_LIBRARY], capture_output=True, text=True, check=True
        ).stdout
        self.assertIn(f"Build ID: {machine.build_id(machine.HIP_LIBRARY)}", notes)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "x.so").write_bytes(b"\x7fELF" + bytes(100))
            with self.assertRaisesRegex(EmulatorError, "has no build id"):
                machine.build_id(Path(folder) / "x.so")

    def test_sources_before_the_installed_package(self):
        sources = Path(__file__).parents[1]
        result = run_python("-m", "gfx950_emulator", "coverage", env={"GFX950_EMULATOR": "0"}, cwd=sources)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(f"the package's sources in {sources} before the installed package", result.stderr)

    def test_a_longer_local_version_is_the_same_release(self):
        release = machine.built_for_torch()
        self.assertEqual(self.refusal_free(f"{release}+cpu.flydsl1"), "")

    def refusal_free(self, version):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "torch").mkdir()
            (Path(folder) / "torch" / "__init__.py").write_text("")
            (Path(folder) / "torch" / "version.py").write_text(f"__version__ = '{version}'\n")
            result = run_emulated("pass", env={"PYTHONPATH": folder})
        return result.stderr if result.returncode else ""


if __name__ == "__main__":
    run_tests()
