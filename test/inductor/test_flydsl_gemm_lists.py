# Owner(s): ["module: inductor"]
"""Every configuration that a search of the published shapes tries: none spills (T1), and a sample runs clean (T2).

The EXHAUSTIVE lists of these shapes together are some 450 configurations, four minutes of compiling. A run of the tests
walks every eighth of them; FLYDSL_WALK=1 walks them all. The default list is walked whole in test_flydsl_gemm_kernel.
"""

from __future__ import annotations

import os
import re
import unittest
from unittest import mock

import torch
from inductor.test_flydsl_gemm_kernel import CANNOT_COMPILE, ON_GFX950, assembly
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel.flydsl.gemm_arguments import problem_of
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import mm as reference

SHAPES = (
    *[(2**i, 4096, 4096) for i in range(3, 13)],
    (4096, 4096, 8192),
    (8192, 8192, 8192),
    (32, 14336, 4096),
    (16, 28672, 4096),
    (4096, 256, 4096),
)
LAYOUTS = (("k", "k"), ("k", "n"), ("m", "n"), ("m", "k"))
EVERY = 1 if os.environ.get("FLYDSL_WALK", "0") == "1" else 8
SAMPLE = 5  # of those walked one in so many runs


def searched() -> list[gemm_config.GemmConfig]:
    found: dict[gemm_config.GemmConfig, None] = {}
    for m, n, k in SHAPES:
        problem = gemm_config.GemmProblem(m=m, n=n, k=k, dtype="bf16", lda=k, ldb=k, ldc=n)
        candidates = gemm_config.configs(problem, exhaustive=True)
        assert len(candidates) < 64, (m, n, k)
        found.update(dict.fromkeys(candidates))
    return list(found)


WALKED = list(enumerate(searched()))[::EVERY]


def spec_of(i: int, config: gemm_config.GemmConfig) -> gemm_config.GemmSpec:
    """Layouts and element types in turn."""
    a_layout, b_layout = LAYOUTS[i // EVERY % 4]
    return gemm_config.GemmSpec(
        dtype="bf16",
        config=config,
        arch="gfx950",
        k_tail=False,
        a_layout=a_layout,  # type: ignore[arg-type]
        b_layout=b_layout,  # type: ignore[arg-type]
    )


@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
@instantiate_parametrized_tests
class TestLists(TestCase):
    @parametrize("i, config", WALKED, name_fn=lambda i, config: f"{i}_{config.name}")
    def test_no_registers_spill(self, i: int, config: gemm_config.GemmConfig) -> None:
        whole = assembly(spec_of(i, config))
        for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
            self.assertEqual(set(re.findall(rf"\.{field}:\s*(\d+)$", whole, re.MULTILINE)), {"0"}, field)

    @unittest.skipUnless(ON_GFX950, "running needs a gfx950, real or emulated (python -m gfx950_emulator)")
    @parametrize("i, config", WALKED[::SAMPLE], name_fn=lambda i, config: f"{i}_{config.name}")
    def test_a_sample_runs_clean(self, i: int, config: gemm_config.GemmConfig) -> None:
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        spec = spec_of(i, config)
        m, n = config.tile_m + 8, config.tile_n + 8
        k = config.tile_k * (config.loaded_ahead + 1) * config.split_k
        a, b_nk = reference.integer_inputs(m, n, k, torch.bfloat16, largest=2)
        layouts = (spec.a_layout, spec.b_layout)
        operands = [
            reference.laid_out(x, layout == "k", 0, "cuda") for x, layout in zip((a, b_nk), layouts, strict=True)
        ]
        out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        self.assertIsNone(gemm_config.config_unsupported_reason(problem_of(*operands, out, *layouts), config))
        with mock.patch.dict(os.environ, {"GFX950_CHECK": "2", "GFX950_SCHEDULE": f"random:{i}"}):
            compile_gemm(spec)(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        self.assertTrue(torch.equal(out.cpu(), reference.rounded(a, b_nk)))


if __name__ == "__main__":
    run_tests()
