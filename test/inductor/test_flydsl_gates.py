# Owner(s): ["module: inductor"]
"""Whether a GEMM may use FlyDSL, and the reason if not (T0: no GPU, no flydsl)."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import importlib.metadata
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import sympy
import torch
from torch._inductor import config, ir
from torch._inductor.codegen.flydsl import gate, lowering
from torch._inductor.codegen.flydsl.problem import GemmCall, gemm_call
from torch._inductor.codegen.flydsl.template import flydsl_gemm_template
from torch._inductor.graph import GraphLowering
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.template_heuristics.registry import get_template_heuristic
from torch._inductor.virtualized import V
from torch._native.flydsl import target
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    run_tests,
    subtest,
)

BF16 = torch.bfloat16
LOGGER = "torch._native.flydsl.inductor"


def layout(
    size: list[Any], stride: list[Any], dtype: torch.dtype = BF16, offset: int = 0, device: str = "cuda:0"
) -> ir.FixedLayout:
    sizes, strides = [sympy.sympify(s) for s in size], [sympy.sympify(s) for s in stride]
    return ir.FixedLayout(torch.device(device), dtype, sizes, strides, sympy.Integer(offset))


def problem(m: Any = 512, n: Any = 1024, k: Any = 2048, **changes: Any) -> tuple[Any, Any, Any]:
    """(output layout, mat1, mat2) of a supported NT problem; ``changes`` replace layouts by name."""
    dtype = changes.pop("dtype", BF16)
    parts = {
        "out": layout([m, n], [n, 1], dtype),
        "mat1": layout([m, k], [k, 1], dtype),
        "mat2": layout([k, n], [1, k], dtype),
        **changes,
    }
    return parts["out"], *(ir.InputBuffer(name=name, layout=parts[name]) for name in ("mat1", "mat2"))


# What is changed in a supported problem, and the reason that follows. Each of them alone.
REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "fp32": (
        {"dtype": torch.float32},
        "mat1 has dtype torch.float32, not one of torch.bfloat16, torch.float16",
    ),
    "mixed_dtypes": (
        {"mat2": layout([2048, 1024], [1, 2048], torch.float16)},
        "mat2 has dtype torch.float16 and mat1 torch.bfloat16",
    ),
    "fp16_out_of_bf16": (
        {"out": layout([512, 1024], [1024, 1], torch.float16)},
        "the output has dtype torch.float16, not torch.bfloat16 or torch.float32",
    ),
    "mat1_neither_way_contiguous": (
        {"mat1": layout([512, 2048], [4096, 2])},
        "mat1 has strides (4096, 2): neither rows nor columns are contiguous",
    ),
    "mat2_neither_way_contiguous": (
        {"mat2": layout([2048, 1024], [2, 4096])},
        "mat2 has strides (2, 4096): neither rows nor columns are contiguous",
    ),
    "overlapping_rows": (
        {"mat1": layout([512, 2048], [0, 1])},
        "A: row stride 0 is below its 2048 columns: rows overlap",
    ),
    "out_column_major": (
        {"out": layout([512, 1024], [1, 512])},
        "the output must be row-major, but has strides (1, 512)",
    ),
    "out_offset": (
        {"out": layout([512, 1024], [1024, 1], offset=8)},
        "the output has a storage offset of 8",
    ),
    "mat1_offset": (
        {"mat1": layout([512, 2048], [2048, 1], offset=1)},
        "mat1 does not start at a multiple of 16 bytes",
    ),
    "mat2_offset": (
        {"mat2": layout([2048, 1024], [1, 2048], offset=4)},
        "mat2 does not start at a multiple of 16 bytes",
    ),
    "mat1_row_stride": (
        {"mat1": layout([512, 2048], [2052, 1])},
        "A: row stride 2052 is not a multiple of 8 elements (16 bytes)",
    ),
    "three_and_two_dimensions": (
        {"mat1": layout([1, 512, 2048], [0, 2048, 1])},
        "mat1 has 3 dimensions and the output 2, not 2 or 3 each",
    ),
    "empty_m": ({"m": 0}, "M=0: an empty product has no tile to compute"),
    "empty_k": ({"k": 0}, "K=0: an empty product has no tile to compute"),
    "odd_k": ({"k": 1025}, "K=1025 is not a multiple of 8: loads and stores move 16 bytes a lane"),
    "odd_n": ({"n": 1028}, "N=1028 is not a multiple of 8: loads and stores move 16 bytes a lane"),
}


def run_script(script: str, **environment: str) -> str:
    """What a script prints in a fresh process."""
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, env={**os.environ, **environment}, text=True, capture_output=True, check=False)
    if run.returncode:
        raise RuntimeError(f"exit status {run.returncode}:\n{run.stderr}")
    return run.stdout.strip()


@contextlib.contextmanager
def installed_flydsl(version: str | None) -> Iterator[None]:
    """Pretend that flydsl is installed with this version, or is not."""
    real_version, real_spec = importlib.metadata.version, importlib.util.find_spec

    def fake_version(name: str) -> str:
        if name != "flydsl":
            return real_version(name)
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    target.unavailable_reason.cache_clear()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch.object(importlib.metadata, "version", fake_version),
        ):
            package = importlib.machinery.ModuleSpec("flydsl", None, origin=folder, is_package=True)
            package.submodule_search_locations = [folder]
            (Path(folder) / "_mlir").mkdir()

            def fake_spec(name: str, parent: str | None = None) -> importlib.machinery.ModuleSpec | None:
                if name != "flydsl":
                    return real_spec(name, parent)
                return None if version is None else package

            with mock.patch.object(importlib.util, "find_spec", fake_spec):
                yield
    finally:
        target.unavailable_reason.cache_clear()


class GateTestCase(TestCase):
    """A graph, a supported device and FLYDSL among the backends."""

    def setUp(self) -> None:
        super().setUp()
        gate.log_once.cache_clear()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.graph = GraphLowering(make_fx(lambda: torch.zeros(2, 3))())
        stack.enter_context(V.set_graph_handler(self.graph))
        stack.enter_context(config.patch(max_autotune=True, max_autotune_gemm_backends="ATEN,TRITON,FLYDSL"))
        stack.enter_context(mock.patch.object(torch.version, "hip", "7.1.0"))
        self.arch = stack.enter_context(mock.patch.object(target, "device_arch", return_value="gfx950"))


def supported() -> GemmCall:
    call = gemm_call(*problem())
    assert isinstance(call, GemmCall), call
    return call


def reason_of(out: Any, mat1: Any, mat2: Any) -> str | None:
    return gate.unsupported_reason("mm", MMKernelInputs([mat1, mat2]), out)


@instantiate_parametrized_tests
class TestFlyDSLGates(GateTestCase):
    def test_supported(self) -> None:
        self.assertIsNone(reason_of(*problem()))
        self.assertIsNone(reason_of(*problem(dtype=torch.float16)))

    def test_problem_is_in_the_kernels_terms(self) -> None:
        out, mat1, mat2 = problem(
            m=48, n=64, k=96, mat1=layout([48, 96], [128, 1], offset=8), mat2=layout([96, 64], [1, 104])
        )
        call = gemm_call(out, mat1, mat2)
        assert isinstance(call, GemmCall), call
        p = call.problem
        self.assertEqual((p.m, p.n, p.k, p.dtype, p.lda, p.ldb, p.ldc), (48, 64, 96, "bf16", 128, 104, 64))
        a, b = call.views
        self.assertEqual((a.size, a.stride, a.offset), ((48, 96), (128, 1), 8))
        self.assertEqual((b.size, b.stride, b.offset), ((64, 96), (104, 1), 0))

    @parametrize("case", list(REASONS))
    def test_reason(self, case: str) -> None:
        changes, expected = REASONS[case]
        self.assertEqual(reason_of(*problem(**changes)), expected)

    @parametrize(
        "m,n,k,operand",
        [
            subtest((175000, 1024, 12288, "A"), name="more_than_2_31_elements_in_a"),  # case M1
            subtest((1024, 175000, 12288, "B"), name="more_than_2_31_elements_in_b"),
            subtest((65536, 32768, 64, "C"), name="output_of_4_gib"),  # case M2
        ],
    )
    def test_spans_that_32_bits_do_not_hold(self, m: int, n: int, k: int, operand: str) -> None:
        reason = reason_of(*problem(m=m, n=n, k=k))
        self.assertIsNotNone(reason)
        self.assertRegex(reason, rf"^{operand} spans .* bytes, not below 2\^32")

    def test_span_counts_the_stride_not_the_elements(self) -> None:
        """Few elements far apart (case M2)."""
        reason = reason_of(*problem(m=4096, k=64, n=64, mat1=layout([4096, 64], [2**20, 1])))
        self.assertRegex(str(reason), r"^A spans \(4096-1\)\*1048576\+64 elements")

    def test_unaligned_input(self) -> None:
        self.graph.unaligned_buffers.add("mat2")
        self.assertEqual(reason_of(*problem()), "mat2 does not start at a multiple of 16 bytes")

    def test_arch(self) -> None:
        self.arch.return_value = "gfx942"
        self.assertEqual(reason_of(*problem()), "device architecture gfx942 is not one of gfx950")

    def test_device(self) -> None:
        cpu = {"device": "cpu"}
        out, mat1, mat2 = problem(
            out=layout([512, 1024], [1024, 1], **cpu),
            mat1=layout([512, 2048], [2048, 1], **cpu),
            mat2=layout([2048, 1024], [1, 2048], **cpu),
        )
        self.assertEqual(reason_of(out, mat1, mat2), "the device is cpu, not a GPU")

    def test_max_autotune_off(self) -> None:
        with config.patch(max_autotune=False, max_autotune_gemm=False):
            self.assertEqual(reason_of(*problem()), "max_autotune is off")

    @parametrize("mode", ["cpp_wrapper", "aot_mode"])
    def test_without_python_at_run_time(self, mode: str) -> None:
        with mock.patch.object(self.graph, mode, True):
            reason = reason_of(*problem())
        self.assertEqual(reason, "the C++ wrapper and AOTInductor cannot call a FlyDSL kernel")

    def test_flexible_input_counts_with_the_strides_it_would_get(self) -> None:
        flexible = ir.FlexibleLayout(torch.device("cuda:0"), BF16, [sympy.Integer(512), sympy.Integer(2048)])
        out, _, mat2 = problem()
        mat1 = ir.ComputedBuffer(name="buf0", layout=flexible, data=mock.Mock(spec=ir.Pointwise))
        self.assertIsNone(reason_of(out, mat1, mat2))
        self.assertIsInstance(mat1.layout, ir.FlexibleLayout)


class TestFlyDSLConfigurations(GateTestCase):
    """Which configurations the template offers, through the registry that choices handlers and lookup tables use."""

    def offered(self, **options: Any) -> list[str]:
        _, mat1, mat2 = problem()
        inputs = MMKernelInputs([mat1, mat2])
        with config.patch(**options):
            heuristic = get_template_heuristic(flydsl_gemm_template.uid, "cuda", "mm")
            fields = [params.to_kwargs() for params in heuristic.get_template_configs(inputs, "mm")]
        return [gemm_config.GemmConfig(**each).name for each in fields]

    def test_one_by_rule(self) -> None:
        p = supported().problem
        self.assertEqual(self.offered(flydsl_enable_autotuning=False), [gemm_config.default_config(p).name])

    def test_the_list_to_search(self) -> None:
        p = supported().problem
        names = [each.name for each in gemm_config.configs(p)]
        self.assertEqual(self.offered(flydsl_enable_autotuning=True), names)

    def test_exhaustive_enlarges_the_search_only(self) -> None:
        exhaustive = {"max_autotune_gemm_search_space": "EXHAUSTIVE"}
        default = self.offered(flydsl_enable_autotuning=True)
        self.assertGreater(len(self.offered(flydsl_enable_autotuning=True, **exhaustive)), len(default))
        self.assertEqual(len(self.offered(flydsl_enable_autotuning=False, **exhaustive)), 1)

    def test_a_configuration_that_does_not_fit_is_no_candidate(self) -> None:
        """A lookup table may hold a configuration of another problem."""
        out, mat1, mat2 = problem()
        fields = dataclasses.asdict(dataclasses.replace(gemm_config.DEFAULT_CONFIGS[0], tile_n=40))
        with self.assertRaisesRegex(NotImplementedError, "tile_n=40 is not a multiple of"):
            flydsl_gemm_template.generate(input_nodes=[mat1, mat2], layout=out, **fields)

    def test_the_option_comes_from_the_environment(self) -> None:
        script = "import torch._inductor.config as config\nprint(config.flydsl_enable_autotuning)"
        self.assertEqual(run_script(script, FLYDSL_ENABLE_AUTOTUNING="1"), "True")
        self.assertEqual(run_script(script, FLYDSL_ENABLE_AUTOTUNING="0"), "False")


@instantiate_parametrized_tests
class TestFlyDSLAvailability(GateTestCase):
    """FLYDSL is listed by name: unavailable warns once, unsupported is logged once at INFO, both continue."""

    def templates(self, *, changes: dict[str, Any] | None = None) -> list[str]:
        out, mat1, mat2 = problem(**(changes or {}))
        templates = lowering.flydsl_gemm_templates("mm", MMKernelInputs([mat1, mat2]), out)
        return [template.name for template in templates]

    def test_offered(self) -> None:
        with installed_flydsl("0.3.4.1"), self.assertNoLogs(LOGGER, logging.INFO):
            self.assertEqual(self.templates(), ["flydsl_gemm"])

    def test_not_listed_is_silent(self) -> None:
        with (
            installed_flydsl(None),
            config.patch(max_autotune_gemm_backends="ATEN,TRITON"),
            self.assertNoLogs(LOGGER, logging.DEBUG),
        ):
            self.assertEqual(self.templates(), [])

    @parametrize(
        "version,reason",
        [
            subtest((None, "flydsl is not installed; pip install 'flydsl>=0.3.0,<0.4'"), name="missing"),
            subtest(("0.2.9", "flydsl 0.2.9 is too old; install a release >=0.3.0,<0.4"), name="too_old"),
            subtest(("0.4.0", "flydsl 0.4.0 is too new; install a release >=0.3.0,<0.4"), name="too_new"),
            subtest(("0.3.5rc1", "flydsl 0.3.5rc1 is a prerelease; install a release >=0.3.0,<0.4"), name="prerelease"),
        ],
    )
    def test_unavailable_warns_once(self, version: str | None, reason: str) -> None:
        with installed_flydsl(version), self.assertLogs(LOGGER, logging.INFO) as logs:
            self.assertEqual(self.templates(), [])
            self.assertEqual(self.templates(changes={"m": 64}), [])
        self.assertEqual(
            [(record.levelname, record.getMessage()) for record in logs.records],
            [("WARNING", f"FLYDSL is in max_autotune_gemm_backends but unavailable: {reason}")],
        )

    def test_not_a_rocm_build_warns(self) -> None:
        with (
            mock.patch.object(torch.version, "hip", None),
            installed_flydsl("0.3.4.1"),
            self.assertLogs(LOGGER, logging.WARNING) as logs,
        ):
            self.assertEqual(self.templates(), [])
        self.assertIn("this PyTorch is not a ROCm build", logs.output[0])

    def test_unsupported_is_logged_once_a_problem(self) -> None:
        with installed_flydsl("0.3.4.1"), self.assertLogs(LOGGER, logging.INFO) as logs:
            for k in (1025, 1025, 1027):
                self.assertEqual(self.templates(changes={"k": k}), [])
        expected = "FLYDSL not used for mm [512, {0}] @ [{0}, 1024]: K={0} is not a multiple of 8"
        self.assertEqual([record.levelname for record in logs.records], ["INFO", "INFO"])
        for record, k in zip(logs.records, (1025, 1027), strict=True):
            self.assertIn(expected.format(k), record.getMessage())

    def test_unsupported_and_no_other_backend_warns(self) -> None:
        """The compile is about to fail; the reason must not be hidden in a log that is off."""
        with (
            installed_flydsl("0.3.4.1"),
            config.patch(max_autotune_gemm_backends="FLYDSL"),
            self.assertLogs(LOGGER, logging.WARNING) as logs,
        ):
            self.assertEqual(self.templates(changes={"k": 1025}), [])
        self.assertIn("K=1025 is not a multiple of 8", logs.output[0])

    def test_the_log_is_native_dsl(self) -> None:
        script = f"import logging, torch\nprint(logging.getLogger({LOGGER!r}).isEnabledFor(logging.INFO))\n"
        for value, expected in (("native_dsl", "True"), ("dynamo", "False")):
            self.assertEqual(run_script(script, TORCH_LOGS=value), expected)


class TestImports(TestCase):
    def test_no_part_of_the_choice_type_imports_flydsl(self) -> None:
        script = (
            "import sys, torch\n"
            "from torch._inductor.codegen.flydsl import compile, gate, lowering, scheduling, template\n"
            "import torch._inductor.codegen.cuda_combined_scheduling, torch._inductor.kernel.mm\n"
            "print(sorted(name for name in sys.modules if name.split('.')[0] == 'flydsl'))\n"
        )
        self.assertEqual(run_script(script), "[]")


if __name__ == "__main__":
    run_tests()
