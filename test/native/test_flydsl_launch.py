# Owner(s): ["module: rocm"]
"""T1: FlyDSL compiles for the architecture we name, leaves the process as it was, and shares its artifacts."""

import functools
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from unittest import mock

from torch._native.flydsl import target
from torch._native.flydsl.launch import FlyDSLKernel, linker_missing_reason
from torch.testing._internal.common_utils import TestCase, run_tests

CANNOT_COMPILE = target.package_unsupported_reason() or linker_missing_reason()

# Compiles one kernel and prints how often FlyDSL's pipeline ran. Waits for a line first, so several start together.
COMPILE_ONE = """
import sys
from pathlib import Path
import flydsl.compiler.jit_function as jit_function
from torch._native.flydsl.launch import FlyDSLKernel
sys.path.insert(0, sys.argv[1])
import test_flydsl_launch

runs = []
compile_module = jit_function.MlirCompiler.compile
jit_function.MlirCompiler.compile = lambda *args, **kwargs: runs.append(1) or compile_module(*args, **kwargs)
print("ready", flush=True)
sys.stdin.readline()
test_flydsl_launch.compile_fill(Path(sys.argv[2]))
print(len(runs), flush=True)
"""


def make_fill_launcher():
    """A launcher that fills n floats with their index."""
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    @flyc.kernel(name="fill")
    def fill(out: fx.Pointer, n: fx.Int32):
        index = fx.block_idx.x * 64 + fx.thread_idx.x
        buffer = fx.rocdl.make_buffer_ptr(out, num_records_bytes=fx.Int64(n) * 4)
        registers = fx.make_rmem_tensor(1, fx.Float32)
        registers.store(fx.Vector.from_elements([fx.Float32(index)], fx.Float32))
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32)
        fx.copy_atom_call(atom, registers, fx.make_view(buffer + index, fx.make_layout(1, 1)))

    @flyc.jit
    def launch(out: fx.Pointer, n: fx.Int32, stream: fx.Stream):
        fill(out, n).launch(grid=((n + 63) // 64, 1, 1), block=(64, 1, 1), stream=stream)

    return launch


def compile_fill(cache_dir, make_launcher=make_fill_launcher):
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    example = (flyc.from_c_void_p(fx.Float32, 0, assumed_align=4), 8, None)
    return FlyDSLKernel(
        name="fill", make_launcher=make_launcher, example_args=example, arch="gfx950", cache_dir=cache_dir
    )


@functools.cache
def flydsl_environment():
    """FlyDSL's own options, as FlyDSL reads them."""
    from flydsl.utils import env

    return env


@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
class TestScope(TestCase):
    def test_only_the_calling_thread_is_affected(self):
        from torch._native.flydsl.flydsl_private import flydsl_scope

        env = flydsl_environment()

        def options():
            return env.compile.arch, env.compile.compile_only, env.runtime.cache_dir

        seen = []
        with mock.patch.dict(os.environ, {"ARCH": "gfx942", "COMPILE_ONLY": "0"}):
            os.environ.pop("FLYDSL_RUNTIME_CACHE_DIR", None)  # a folder that the user chose wins over the scope's
            outside = options()
            self.assertEqual(outside[:2], ("gfx942", False))
            with flydsl_scope(arch="gfx950", compile_only=True, cache_dir=Path("elsewhere")):
                self.assertEqual(options(), ("gfx950", True, "elsewhere"))
                thread = threading.Thread(target=lambda: seen.append(options()))
                thread.start()
                thread.join()
                with flydsl_scope(arch="gfx950", compile_only=False, cache_dir=None):
                    self.assertEqual(options(), ("gfx950", False, outside[2]))
                self.assertEqual(options(), ("gfx950", True, "elsewhere"))
            self.assertEqual(options(), outside)
        self.assertEqual(seen, [outside])

    def test_a_cache_folder_that_the_user_chose_wins(self):
        from torch._native.flydsl.flydsl_private import flydsl_scope

        with (
            mock.patch.dict(os.environ, {"FLYDSL_RUNTIME_CACHE_DIR": "chosen"}),
            flydsl_scope(arch="gfx950", compile_only=True, cache_dir=Path("elsewhere")),
        ):
            self.assertEqual(flydsl_environment().runtime.cache_dir, "chosen")

    def test_scope_ends_with_an_exception(self):
        from torch._native.flydsl.flydsl_private import flydsl_scope

        before = flydsl_environment().compile.compile_only
        with (
            self.assertRaises(ZeroDivisionError),
            flydsl_scope(arch="gfx950", compile_only=not before, cache_dir=None),
        ):
            raise ZeroDivisionError
        self.assertEqual(flydsl_environment().compile.compile_only, before)


@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
class TestCompile(TestCase):
    def test_for_gfx950_whatever_the_environment_says(self):
        # I1: no agent tool on PATH, and an environment that speaks of other GPUs.
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, {"FLYDSL_GPU_ARCH": "gfx1100", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}),
        ):
            before = dict(os.environ)
            text = compile_fill(Path(folder)).compiled_ir()
            self.assertEqual(dict(os.environ), before)
        self.assertIn('chip = "gfx950"', text)
        self.assertNotIn("gfx1100", text)

    def test_the_artifact_is_where_it_was_asked_for(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ):
            os.environ.pop("FLYDSL_RUNTIME_CACHE_DIR", None)
            compile_fill(Path(folder))
            self.assertEqual(len(list(Path(folder).rglob("*.pkl"))), 1)

    def test_missing_linker_is_named(self):
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.dict(os.environ, {"ROCM_PATH": folder}),
            self.assertRaisesRegex(RuntimeError, "fill could not be compiled: FlyDSL links with .*ld.lld, which"),
        ):
            compile_fill(Path(folder))

    def test_other_errors_are_not_blamed_on_the_linker(self):
        def broken():
            raise KeyError("no such kernel")

        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(KeyError, "no such kernel"):
            compile_fill(Path(folder), broken)

    def start(self, folder):
        env = {**os.environ, "FLYDSL_RUNTIME_CACHE_DIR": folder}
        command = [sys.executable, "-c", COMPILE_ONE, str(Path(__file__).parent), folder]
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def test_two_cold_processes_compile_once_and_a_third_not_at_all(self):
        # I6
        with tempfile.TemporaryDirectory() as folder:
            both = [self.start(folder), self.start(folder)]
            for process in both:
                self.assertEqual(process.stdout.readline(), "ready\n")
            for process in both:
                process.stdin.write("go\n")
                process.stdin.flush()
            counts = [process.communicate(timeout=120)[0].strip() for process in both]
            self.assertEqual(sorted(counts), ["0", "1"])
            third = self.start(folder)
            self.assertEqual(third.communicate("go\n", timeout=120)[0].split(), ["ready", "0"])
            self.assertEqual([process.returncode for process in (*both, third)], [0, 0, 0])


if __name__ == "__main__":
    run_tests()
