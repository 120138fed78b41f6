# Owner(s): ["module: inductor"]
"""FLYDSL as a choice of compiled mm, end to end on a gfx950, real or emulated (T2, T3)."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from inductor.flydsl_testing import LOGGER, FlyDSLTestCase, flydsl_launches
from torch._inductor import config
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.select_algorithm import add_feedback_saver, clear_feedback_savers
from torch._inductor.utils import run_and_get_code
from torch._native.flydsl import target
from torch.testing._internal.common_utils import (
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)

from reference import mm as reference

BF16 = torch.bfloat16
# Small, so that the emulator takes little time; tails in M and N, more K tiles than any pipeline holds.
M, N, K = 80, 136, 1024
SCRIPT = Path(__file__).with_name("flydsl_choice_script.py")


def linear(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b.T


@dataclasses.dataclass
class Tuned:
    """What the autotuner knew of one mm: time in ms by (backend, name or configuration)."""

    timings: dict[tuple[str, str], float]

    def of(self, backend: str) -> dict[str, float]:
        return {name: time for (by, name), time in self.timings.items() if by == backend}


class ChoiceTestCase(FlyDSLTestCase):
    options: ClassVar[dict[str, Any]] = {"max_autotune_gemm_backends": "ATEN,FLYDSL", "flydsl_enable_autotuning": True}

    def setUp(self) -> None:
        super().setUp()
        self.tuned: list[Tuned] = []
        add_feedback_saver(self._save)
        self.addCleanup(clear_feedback_savers)

    def _save(self, timings: dict[Any, float], *_: object) -> None:
        facts = [(choice.info_dict(), choice, time) for choice, time in timings.items()]
        self.tuned.append(
            Tuned({(str(f.get("backend")), str(f.get("config", choice.name))): time for f, choice, time in facts})
        )

    def inputs(self, m: int = M, k: int = K, dtype: torch.dtype = BF16) -> tuple[torch.Tensor, torch.Tensor]:
        a, b_nk = reference.normal_inputs(m, N, k, dtype)
        return a.cuda(), b_nk.cuda()

    def compile_and_check(
        self, a: torch.Tensor, b_nk: torch.Tensor, fn: Callable[..., torch.Tensor] = linear, **options: Any
    ) -> list[str]:
        """Compile, hold every element of the product to its bound, return the generated code."""
        result, code = run_and_get_code(torch.compile(fn, **options), a, b_nk)
        self.assertLessEqual(reference.excess(result, a, b_nk), 1.0)
        return code


@instantiate_parametrized_tests
class TestFlyDSLChoice(ChoiceTestCase):
    def test_offered_beside_aten_and_triton(self) -> None:
        a, b = self.inputs()
        with config.patch(max_autotune_gemm_backends="ATEN,TRITON,FLYDSL"):
            self.compile_and_check(a, b)
        [tuned] = self.tuned
        p = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        self.assertEqual(set(tuned.of("FLYDSL")), {each.name for each in gemm_config.configs(p)})
        self.assertTrue(tuned.of("Triton"))
        self.assertTrue(tuned.of("extern"))
        self.assertTrue(all(0 < time < float("inf") for time in tuned.of("FLYDSL").values()), tuned)

    @parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_alone_its_kernel_runs_and_matches(self, dtype: torch.dtype) -> None:
        a, b = self.inputs(dtype=dtype)
        before = flydsl_launches()
        with config.patch(max_autotune_gemm_backends="FLYDSL", flydsl_enable_autotuning=False):
            [code] = self.compile_and_check(a, b)
        self.assertEqual(flydsl_launches() - before, 1)
        self.assertIn("async_compile.flydsl(", code)
        self.assertNotIn("extern_kernels.mm", code)

    def test_the_fastest_wins(self) -> None:
        a, b = self.inputs()
        with config.patch(max_autotune_gemm_backends="FLYDSL"):
            [code] = self.compile_and_check(a, b)
        [tuned] = self.tuned
        timings = tuned.of("FLYDSL")
        fastest = min(timings, key=timings.__getitem__)
        p = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        [winner] = [each for each in gemm_config.configs(p) if each.name == fastest]
        for field in dataclasses.fields(winner):
            self.assertIn(f"        {field.name}={getattr(winner, field.name)},\n", code)

    def test_without_autotuning_one_candidate_by_rule(self) -> None:
        with config.patch(flydsl_enable_autotuning=False):
            self.compile_and_check(*self.inputs())
        [tuned] = self.tuned
        p = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        self.assertEqual(list(tuned.of("FLYDSL")), [gemm_config.default_config(p).name])

    def test_strided_and_offset_operands(self) -> None:
        """Slices: rows apart, not at the start of their storage."""

        def sliced(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x[8 : 8 + M, 16 : 16 + K] @ y[:, 8 : 8 + K].T

        generator = torch.Generator().manual_seed(0)
        x = torch.randn(M + 16, K + 64, generator=generator).to(BF16).cuda()
        y = torch.randn(N, K + 16, generator=generator).to(BF16).cuda()
        before = flydsl_launches()
        with config.patch(max_autotune_gemm_backends="FLYDSL"):
            result = torch.compile(sliced)(x, y)
        self.assertGreater(flydsl_launches(), before)
        self.assertLessEqual(reference.excess(result, x[8 : 8 + M, 16 : 16 + K], y[:, 8 : 8 + K]), 1.0)

    def test_one_tensor_for_both_operands(self) -> None:
        a, _ = self.inputs(m=N)
        with config.patch(max_autotune_gemm_backends="FLYDSL"):
            result = torch.compile(lambda x: x @ x.T)(a)
        self.assertLessEqual(reference.excess(result, a, a), 1.0)

    def test_no_prologue_is_fused_into_it(self) -> None:
        """A pointwise producer becomes a kernel of its own."""

        def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (2 * a) @ b.T

        a, b = self.inputs()
        before = flydsl_launches()
        with config.patch(max_autotune_gemm_backends="FLYDSL", flydsl_enable_autotuning=False):
            result, [code] = run_and_get_code(torch.compile(fn), a, b)
        self.assertEqual(flydsl_launches() - before, 1)
        self.assertEqual(code.count("async_compile.flydsl("), 1)
        self.assertEqual(code.count("async_compile.triton("), 1)
        self.assertLessEqual(reference.excess(result, 2 * a, b), 1.0)  # doubling is exact

    @parametrize("epilogue_fusion", [True, False])
    @parametrize("backends", ["FLYDSL", "ATEN,FLYDSL"])
    def test_an_input_whose_strides_are_not_settled(self, epilogue_fusion: bool, backends: str) -> None:
        """The kernel counts on strides that Inductor could still change for another user of the buffer."""

        def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            doubled = 2 * a
            return doubled @ b.T, doubled.view(1, 4, M // 4, K).to(memory_format=torch.channels_last) + 1

        a, b = self.inputs()
        with config.patch(
            max_autotune_gemm_backends=backends,
            flydsl_enable_autotuning=False,
            benchmark_epilogue_fusion=epilogue_fusion,
        ):
            product, other = torch.compile(fn)(a, b)
        self.assertLessEqual(reference.excess(product, 2 * a, b), 1.0)
        self.assertEqual(other, (2 * a).view(1, 4, M // 4, K) + 1)

    def test_an_input_that_would_rather_be_column_major(self) -> None:
        """Left to itself, Inductor stores the intermediate as its input is strided, which the kernel cannot read."""

        def fn(a_t: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (2 * a_t.t()) @ b.T

        a, b = self.inputs()
        with config.patch(max_autotune_gemm_backends="FLYDSL", flydsl_enable_autotuning=False):
            product = torch.compile(fn)(a.t().contiguous(), b)
        self.assertLessEqual(reference.excess(product, 2 * a, b), 1.0)

    def test_two_problems_share_one_module(self) -> None:
        """M and N are run-time values, so equal configurations are compiled once."""

        def fn(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a @ b.T, a[:48] @ b.T

        p = [gemm_config.GemmProblem(m=m, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N) for m in (M, 48)]
        self.assertEqual(len({gemm_config.default_config(each) for each in p}), 1, "choose other sizes for this test")
        a, b = self.inputs()
        with config.patch(max_autotune_gemm_backends="FLYDSL", flydsl_enable_autotuning=False):
            (first, second), [code] = run_and_get_code(torch.compile(fn), a, b)
        self.assertEqual(code.count("async_compile.flydsl("), 1)
        self.assertLessEqual(reference.excess(first, a, b), 1.0)
        self.assertLessEqual(reference.excess(second, a[:48], b), 1.0)


MESSAGE = r"FLYDSL candidate flydsl_gemm_\d+ \((?P<name>\S+) bf16 gfx950\) dropped: (?P<doing>\w+) failed: (?P<why>.*)"


class TestDroppedCandidates(ChoiceTestCase):
    """A candidate that fails is dropped with one warning that names it; the others go on."""

    def setUp(self) -> None:
        super().setUp()
        # In this process, where the failures are made.
        self.enterContext(config.patch(compile_threads=1))

    def fail(self, what: str, names: set[str] | None) -> Any:
        """Make compiling or calling the configurations ``names`` (None: all) fail."""
        from torch._inductor.kernel.flydsl import gemm

        def wrong(spec: Any) -> bool:
            return names is None or spec.config.name in names

        real_compile, real_call = gemm.compile_gemm, gemm.CompiledGemm.__call__

        def compile_gemm(spec: Any) -> Any:
            if what == "compiling" and wrong(spec):
                raise ValueError("LLVM has no such instruction")
            return real_compile(spec)

        def call(self: Any, *args: Any) -> None:
            if what == "running" and wrong(self.spec):
                raise ValueError("HIP refused the launch")
            real_call(self, *args)

        compiling = mock.patch.object(gemm, "compile_gemm", compile_gemm)
        return compiling, mock.patch.object(gemm.CompiledGemm, "__call__", call)

    def check(self, what: str, message: str, victims: int | None) -> None:
        a, b = self.inputs()
        p = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        names = [each.name for each in gemm_config.configs(p)]
        wrong = set(names[:victims])
        compiling, running = self.fail(what, wrong)
        with compiling, running, self.assertLogs(LOGGER, logging.WARNING) as logs:
            self.compile_and_check(a, b)
        dropped = [re.match(MESSAGE, record.getMessage()) for record in logs.records]
        self.assertNotIn(None, dropped, logs.output)
        self.assertEqual(sorted(match["name"] for match in dropped if match), sorted(wrong))
        self.assertEqual({(match["doing"], match["why"]) for match in dropped if match}, {(what, message)})
        [tuned] = self.tuned
        alive = {name for name, time in tuned.of("FLYDSL").items() if time < float("inf")}
        self.assertEqual(alive, set(names) - wrong)

    def test_compiling_fails(self) -> None:
        self.check("compiling", "ValueError: LLVM has no such instruction", 1)

    def test_running_fails(self) -> None:
        self.check("running", "ValueError: HIP refused the launch", 1)

    def test_compiling_all_of_them_fails(self) -> None:
        self.check("compiling", "ValueError: LLVM has no such instruction", None)

    def test_asked_for_alone_and_unable_raises(self) -> None:
        compiling, running = self.fail("compiling", None)
        with (
            config.patch(max_autotune_gemm_backends="FLYDSL", flydsl_enable_autotuning=False),
            compiling,
            running,
            self.assertRaisesRegex(Exception, "LLVM has no such instruction"),
        ):
            torch.compile(linear)(*self.inputs())


@instantiate_parametrized_tests
class TestUnavailable(ChoiceTestCase):
    """flydsl missing, too old, too new: warned once, and everything is as if FLYDSL were not listed."""

    @parametrize(
        "version,reason",
        [
            subtest((None, "flydsl is not installed"), name="missing"),
            subtest(("0.2.9", "flydsl 0.2.9 is too old"), name="too_old"),
            subtest(("0.4.0", "flydsl 0.4.0 is too new"), name="too_new"),
        ],
    )
    def test_other_backends_go_on(self, version: str | None, reason: str) -> None:
        a, b = self.inputs()
        with config.patch(max_autotune_gemm_backends="ATEN"):
            expected, [expected_code] = run_and_get_code(torch.compile(linear), a, b)
        torch._dynamo.reset()
        real_version, real_spec = importlib.metadata.version, importlib.util.find_spec

        def fake_version(name: str) -> str:
            if name == "flydsl" and version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return str(version) if name == "flydsl" else real_version(name)

        def fake_spec(name: str, package: str | None = None) -> Any:
            return None if name == "flydsl" and version is None else real_spec(name, package)

        self.addCleanup(target.unavailable_reason.cache_clear)
        target.unavailable_reason.cache_clear()
        with (
            mock.patch.object(importlib.metadata, "version", fake_version),
            mock.patch.object(importlib.util, "find_spec", fake_spec),
            self.assertLogs(LOGGER, logging.WARNING) as logs,
        ):
            result, [code] = run_and_get_code(torch.compile(linear), a, b)
        self.assertEqual(len(logs.output), 1)
        self.assertIn(f"FLYDSL is in max_autotune_gemm_backends but unavailable: {reason}", logs.output[0])
        self.assertFalse(any(tuned.of("FLYDSL") for tuned in self.tuned))
        self.assertEqual(result, expected, atol=0, rtol=0)
        # But for the first line, which numbers the graphs of a process.
        self.assertEqual(code.splitlines()[1:], expected_code.splitlines()[1:])


class TestInSubprocess(ChoiceTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.enterContext(config.patch(autotune_in_subproc=True))
        p = gemm_config.GemmProblem(m=M, n=N, k=K, dtype="bf16", lda=K, ldb=K, ldc=N)
        self.names = [each.name for each in gemm_config.configs(p)][:2]
        chosen = "|".join(re.escape(name) for name in self.names)
        self.enterContext(config.patch({"test_configs.autotune_choice_desc_regex": rf"^({chosen}) "}))
        self.enterContext(config.patch(max_autotune_gemm_backends="FLYDSL"))

    def test_autotuning(self) -> None:
        a, b = self.inputs()
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Failed to benchmark choice")
            self.compile_and_check(a, b)
        [tuned] = self.tuned
        self.assertEqual(set(tuned.of("FLYDSL")), set(self.names))
        self.assertTrue(all(0 < time < float("inf") for time in tuned.of("FLYDSL").values()), tuned)

    def test_a_candidate_that_never_ends(self) -> None:
        """Case M7: it is given up after a while, and the others go on."""
        from torch._inductor.codegen.flydsl import template

        stuck, other = self.names
        real = template.gemm_module

        def gemm_module(name: str, spec: gemm_config.GemmSpec) -> str:
            text = real(name, spec)
            if spec.config.name == stuck:
                text += f"\n\ndef {name}_main(*args):\n    import time\n\n    time.sleep(3600)\n"
            return text

        with (
            mock.patch.object(template, "gemm_module", gemm_module),
            config.patch(max_autotune_subproc_result_timeout_seconds=12.0),
        ):
            self.compile_and_check(*self.inputs())
        [tuned] = self.tuned
        times = tuned.of("FLYDSL")
        self.assertEqual(times.get(stuck, float("inf")), float("inf"))
        self.assertTrue(0 < times[other] < float("inf"), times)


class TestCaches(ChoiceTestCase):
    """Another process reuses what this one found, until FlyDSL changes."""

    def run_script(self, **environment: str) -> dict[str, str]:
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")]),
            **environment,
        }
        run = subprocess.run([sys.executable, str(SCRIPT)], env=env, text=True, capture_output=True, check=False)
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        return dict(line.split("=", 1) for line in run.stdout.splitlines() if "=" in line)

    def test_reuse_until_the_toolchain_changes(self) -> None:
        first = self.run_script(FX_GRAPH_CACHE="1")
        self.assertEqual((first["benchmarked"], first["graph_hits"], first["launches"]), ("1", "0", "1"))
        same_graph = self.run_script(FX_GRAPH_CACHE="1")
        # A graph from the cache brings the counters of its compile along, so the feedback says that nothing was tuned.
        self.assertEqual((same_graph["timings"], same_graph["graph_hits"], same_graph["launches"]), ("{}", "1", "1"))
        same_choice = self.run_script(FX_GRAPH_CACHE="0")
        self.assertEqual((same_choice["benchmarked"], same_choice["launches"]), ("0", "1"))
        self.assertEqual(same_choice["timings"], first["timings"])
        other_options = self.run_script(FX_GRAPH_CACHE="1", FLYDSL_COMPILE_OPT_LEVEL="3")
        self.assertEqual((other_options["benchmarked"], other_options["graph_hits"]), ("1", "0"))


if __name__ == "__main__":
    run_tests()
