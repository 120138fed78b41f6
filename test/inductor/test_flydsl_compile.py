# Owner(s): ["module: inductor"]
"""Compiling candidates in worker processes: in parallel, and a failure or crash harms no other candidate (no GPU)."""

from __future__ import annotations

import os
import tempfile
import textwrap
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from unittest import mock

from torch._inductor import config
from torch._inductor.async_compile import AsyncCompile, shutdown_compile_workers
from torch._inductor.codegen.flydsl import compile as flydsl_compile
from torch._inductor.codegen.flydsl.compile import CompileBatch, CompileJob, FlyDSLKernelWrapper
from torch._inductor.compile_worker.subproc_pool import SubprocException
from torch.testing._internal.common_utils import TestCase, run_tests

WORKERS = 2


def module(body: str, header: str = "") -> str:
    """A generated module's shape, with ``body`` in place of the compile."""
    body = textwrap.indent(f"{body}\nreturn job_main", "    ")
    main = "def job_main(*args):\n    CALLS.append(args)\n"
    return f"{header}\nCALLS = []\n\n\ndef job_precompile():\n{body}\n\n\n{main}"


class CompileTestCase(TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor")}))


class TestInWorkers(CompileTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(config.patch(compile_threads=WORKERS))

    @classmethod
    def tearDownClass(cls) -> None:
        shutdown_compile_workers()
        super().tearDownClass()

    def test_runs_in_another_process(self) -> None:
        marker = self.folder / "pid"
        job = CompileJob(
            "job", module(f"import os, pathlib\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))")
        )
        job.start()
        job.result()
        self.assertNotEqual(int(marker.read_text()), os.getpid())

    def test_a_batch_compiles_in_parallel(self) -> None:
        """Each job waits until the other runs too, so one after the other they would never end."""
        jobs = []
        for mine, other in (("a", "b"), ("b", "a")):
            body = f"""\
                import pathlib, time
                folder = pathlib.Path({str(self.folder)!r})
                (folder / {mine!r}).touch()
                for _ in range(600):
                    if (folder / {other!r}).exists():
                        return
                    time.sleep(0.1)
                raise TimeoutError("alone for 60 s")
                """
            jobs.append(CompileJob("job", module(textwrap.dedent(body))))
        batch = CompileBatch()
        for job in jobs:
            batch.add(job)
        batch.start()
        for job in jobs:
            job.result()

    def test_an_error_arrives_each_time_and_is_compiled_once(self) -> None:
        count = self.folder / "count"
        body = f"open({str(count)!r}, 'a').write('x')\nraise ValueError('tile_n=48 is not a multiple of 64')"
        job = CompileJob("job", module(body))
        job.start()
        for _ in range(2):
            with self.assertRaises(SubprocException) as raised:
                job.result()
            reason = flydsl_compile.failure_reason(raised.exception)
            self.assertEqual(reason, "ValueError: tile_n=48 is not a multiple of 64")
        self.assertEqual(count.read_text(), "x")

    def test_a_reason_is_the_message_not_what_it_drags_along(self) -> None:
        """FlyDSL's errors end in the text of the MLIR module."""
        body = """\
            try:
                raise KeyError("cause")
            except KeyError as cause:
                raise RuntimeError("failed to link\\n    %1 = op() : () -> ()\\n" + "x" * 1000) from cause
            """
        job = CompileJob("job", module(textwrap.dedent(body)))
        job.start()
        with self.assertRaises(SubprocException) as raised:
            job.result()
        reason = flydsl_compile.failure_reason(raised.exception)
        self.assertRegex(reason, r"^RuntimeError: failed to link %1 = op\(\) : \(\) -> \(\) x+\.\.\.$")
        self.assertLess(len(reason), 320)

    def test_a_crash_is_charged_to_the_job_that_crashes(self) -> None:
        """A dead worker fails every job in flight; the innocent ones must still succeed."""
        crash = CompileJob("job", module("import os, time\ntime.sleep(0.5)\nos._exit(3)"))
        good = [CompileJob("job", module(f"import time\ntime.sleep(1.5)\nreturn {index}")) for index in range(3)]
        batch = CompileBatch()
        for job in (crash, *good):
            batch.add(job)
        batch.start()
        for job in good:
            job.result()
        with self.assertRaises(BrokenProcessPool) as raised:
            crash.result()
        self.assertEqual(flydsl_compile.failure_reason(raised.exception), "the process that compiled it died")

    def test_workers_see_this_environment_and_no_earlier_one(self) -> None:
        """Workers outlive a cache folder: a variable that is unset here must be unset there too."""
        seen = self.folder / "seen"
        body = (
            f"import os\n"
            f"open({str(seen)!r}, 'a').write(os.environ.get('FLYDSL_RUNTIME_CACHE_DIR', 'unset') + ' '"
            f" + os.environ['TORCHINDUCTOR_CACHE_DIR'] + '\\n')"
        )
        folder = str(self.folder / "inductor")
        expected = []
        for index, value in enumerate(("first", "second", None, "third", None)):
            with mock.patch.dict(os.environ):
                os.environ.pop("FLYDSL_RUNTIME_CACHE_DIR", None)
                if value is not None:
                    os.environ["FLYDSL_RUNTIME_CACHE_DIR"] = value
                job = CompileJob("job", module(body, header=f"# {index}"))
                job.start()
                job.result()
            expected.append(f"{value or 'unset'} {folder}")
        self.assertEqual(seen.read_text().splitlines(), expected)

    def test_kernels_are_compiled_again_in_this_process_only_to_load_them(self) -> None:
        """``AsyncCompile.flydsl`` returns before the compile ends; the wrapper is ready when it arrives."""
        calls = self.folder / "calls"
        source = module(f"import os\nopen({str(calls)!r}, 'a').write(f'{{os.getpid()}}\\n')")
        AsyncCompile.wait_pool_ready()
        scope = {"kernel": AsyncCompile().flydsl("job", source)}
        AsyncCompile().wait(scope)
        kernel = scope["kernel"]
        self.assertIsInstance(kernel, FlyDSLKernelWrapper)
        self.assertEqual(kernel.kernel.__name__, "job_main")
        worker, mine = (int(line) for line in calls.read_text().split())
        self.assertNotEqual(worker, os.getpid())
        self.assertEqual(mine, os.getpid())

    def test_a_kernel_that_does_not_compile_raises_with_its_name(self) -> None:
        AsyncCompile.wait_pool_ready()
        scope = {"kernel": AsyncCompile().flydsl("job", module("raise ValueError('no such instruction')"))}
        with self.assertRaisesRegex(Exception, r"(?s)Name=job.*no such instruction"):
            AsyncCompile().wait(scope)


class TestWithoutWorkers(CompileTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(config.patch(compile_threads=1))

    def test_compiles_here(self) -> None:
        marker = self.folder / "pid"
        job = CompileJob(
            "job", module(f"import os, pathlib\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))")
        )
        job.start()
        self.assertFalse(marker.exists())
        job.result()
        self.assertEqual(int(marker.read_text()), os.getpid())

    def test_an_error(self) -> None:
        job = CompileJob("job", module("raise RuntimeError('LDS of 200 KiB,\\nover 160')"))
        with self.assertRaises(RuntimeError) as raised:
            job.result()
        self.assertEqual(flydsl_compile.failure_reason(raised.exception), "RuntimeError: LDS of 200 KiB, over 160")

    def test_a_kernel_is_ready_when_it_is_returned(self) -> None:
        marker = self.folder / "compiled"
        kernel = AsyncCompile().flydsl("job", module(f"import pathlib\npathlib.Path({str(marker)!r}).touch()"))
        self.assertIsInstance(kernel, FlyDSLKernelWrapper)
        self.assertTrue(marker.exists())

    def test_a_module_without_its_entries(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "has no job_precompile"):
            AsyncCompile().flydsl("job", "def job_main(*args):\n    pass\n")


if __name__ == "__main__":
    run_tests()
