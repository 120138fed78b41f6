# Owner(s): ["module: inductor"]
"""torch.export and AOTInductor: an exported program compiles as any other, a package without Python falls back (T2)."""

from __future__ import annotations

import logging
import tempfile
import zipfile
from pathlib import Path

import torch
from inductor.flydsl_testing import LOGGER, FlyDSLTestCase, exact, flydsl_launches, integers
from torch.testing._internal.common_utils import run_tests

M, N, K = 48, 64, 128
REASON = "FLYDSL not used for addmm [48, 128] @ [128, 64]: the C++ wrapper and AOTInductor cannot call a FlyDSL kernel"


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(integers(N, K), requires_grad=False)
        self.bias = torch.nn.Parameter(integers(N, seed=1), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.nn.functional.linear(x, self.weight, self.bias))

    def expected(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(exact(x) @ exact(self.weight).T + exact(self.bias))


class TestExport(FlyDSLTestCase):
    def test_an_exported_program_under_torch_compile(self) -> None:
        layer, x = Layer(), integers(M, K, seed=2)
        result, _ = self.compiled(torch.export.export(layer, (x,)).module(), x)
        self.assertRounded(result, layer.expected(x))

    def test_exported_with_symbolic_rows(self) -> None:
        layer = Layer()
        rows = torch.export.Dim("rows", min=2, max=4096)
        program = torch.export.export(layer, (integers(M, K),), dynamic_shapes=({0: rows},))
        compiled, before = torch.compile(program.module(), dynamic=True), flydsl_launches()
        for count, m in enumerate((M, 7, 130), start=1):
            x = integers(m, K, seed=m)
            self.assertRounded(compiled(x), layer.expected(x))
            self.assertEqual(flydsl_launches() - before, count)

    def test_a_package_of_aotinductor_calls_aten(self) -> None:
        """Its C++ is written and not built: that needs a ROCm PyTorch's headers."""
        program = torch.export.export(Layer(), (integers(M, K, seed=2),))
        options = {
            "aot_inductor.package_cpp_only": True,
            "max_autotune": True,
            "max_autotune_gemm_backends": "ATEN,FLYDSL",
        }
        with tempfile.TemporaryDirectory() as folder, self.assertLogs(LOGGER, logging.INFO) as logs:
            path = torch._inductor.aoti_compile_and_package(
                program, package_path=str(Path(folder, "layer.pt2")), inductor_configs=options
            )
            with zipfile.ZipFile(path) as package:
                names = [name for name in package.namelist() if name.endswith(".wrapper.cpp")]
                (code,) = (package.read(name).decode() for name in names)
        self.assertEqual([record.getMessage() for record in logs.records], [REASON])
        self.assertIn("aoti_torch_cuda_addmm_out(", code)
        self.assertNotIn("flydsl", code.lower())


if __name__ == "__main__":
    run_tests()
