"""What the tests of FLYDSL under torch.compile share: a gfx950, real or emulated, counted launches, exact values."""

from __future__ import annotations

import sys
import unittest
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.codegen.flydsl import gate
from torch._inductor.utils import fresh_inductor_cache, run_and_get_code
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase

LOGGER = "torch._native.flydsl.inductor"


def missing_device() -> str | None:
    """Why these tests cannot run here. Goes when a gfx950 is there, e.g. by GFX950_EMULATOR=1."""
    if not torch.cuda.is_available():
        return "no GPU; with the emulator installed set GFX950_EMULATOR=1"
    return target.arch_unsupported_reason(target.device_arch(0))


def flydsl_launches() -> int:
    """Launches of our GEMMs so far: those that the emulator finished, or on hardware those that returned."""
    emulator = sys.modules.get("gfx950_emulator")
    if emulator is not None:
        counts = emulator.launch_counts().items()
        return sum(count for name, count in counts if name.startswith(("gemm_", "scaled_gemm_")))
    from torch._inductor.kernel.flydsl import gemm, scaled_gemm

    return gemm.launch_count() + scaled_gemm.launch_count()


def integers(*size: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0, largest: int = 3) -> torch.Tensor:
    """Small integers: products and their sums are exact in fp32, so a result is right or wrong to the bit."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-largest, largest + 1, size, generator=generator).to(dtype).cuda()


def normal(*size: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator).to(dtype).cuda()


def exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().double()


@unittest.skipIf(missing_device() is not None, str(missing_device()))
class FlyDSLTestCase(TestCase):
    """FLYDSL alone, one configuration by rule, nothing cached."""

    options: ClassVar[dict[str, Any]] = {"max_autotune_gemm_backends": "FLYDSL", "flydsl_enable_autotuning": False}

    def setUp(self) -> None:
        super().setUp()
        torch._dynamo.reset()
        counters.clear()
        gate.log_once.cache_clear()
        target.unavailable_reason.cache_clear()
        self.enterContext(fresh_inductor_cache())
        self.enterContext(config.patch(max_autotune=True, fx_graph_cache=False, **self.options))

    def compiled(self, fn: Callable[..., Any], *args: Any, launches: int = 1, **options: Any) -> tuple[Any, str]:
        """The result and the code of ``fn`` under torch.compile, whose one call launches so many FlyDSL kernels."""
        before = flydsl_launches()
        result, codes = run_and_get_code(torch.compile(fn, **options), *args)
        self.assertEqual(flydsl_launches() - before, launches)
        return result, "\n".join(codes)

    def assertRounded(self, result: torch.Tensor, expected: torch.Tensor) -> None:
        """``result`` is the float64 ``expected``, exact in fp32, rounded once."""
        self.assertTrue(torch.equal(expected.float().double(), expected), "the test's numbers are not exact in fp32")
        self.assertEqual(result.cpu(), expected.float().to(result.dtype), atol=0, rtol=0)
