# Owner(s): ["module: inductor"]
"""The FlyDSL scaled GEMM under the emulator's hazard checker (T2), LDS without bank conflicts, busy matrix cores."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

import torch
from torch._inductor.kernel.flydsl import scaled_gemm_config
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
from torch._inductor.kernel.flydsl.scaled_gemm_config import DEFAULT_CONFIGS
from torch._inductor.kernel.flydsl.scaled_gemm_tile import Operands
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import scaled_mm as reference

EMULATED = "gfx950_emulator" in sys.modules and torch.cuda.is_available()
CANNOT_RUN = scaled_gemm_config.unavailable_reason() or linker_missing_reason()
# 8-bit, 4-bit and mixed operands read LDS differently; every configuration is for one of the first two at least.
PAIRS = (("e4m3", "e4m3"), ("e2m1", "e2m1"), ("e5m2", "e2m1"))
SCHEDULES = ("run_to_barrier", "round_robin", "random:1")


def cases():
    """Every configuration with a pair of formats that it can be built for, those that load scales ahead with two; pairs
    and wave schedules in turn."""
    number = 0
    for config in DEFAULT_CONFIGS:
        fits = [pair for pair in PAIRS if scaled_gemm_config.invalid_reason(config, Operands(*pair, True)) is None]
        for _ in range(min(len(fits), 2 if config.scale_tiles > 1 else 1)):
            yield config, fits[number % len(fits)], SCHEDULES[number % len(SCHEDULES)]
            number += 1


def case_name(config, pair, schedule):
    return f"{config.name}_{'_'.join(pair)}_{schedule.replace(':', '_')}"


# Runs in a process of its own: a launch that fails leaves the device unusable, as on hardware.
BROKEN = """
import torch
from torch._inductor.kernel.flydsl import scaled_gemm, scaled_gemm_config, scaled_pipeline, schedule
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
from reference import scaled_mm as reference

MUTATION
config = next(c for c in scaled_gemm_config.DEFAULT_CONFIGS if c.scale_tiles > 1 and "_r32" in c.name)
kind = "e4m3" if config.tile_k == 128 else "e2m1"
m, n, k = 40, 32, config.tile_k * (2 * config.scale_tiles + 3)
codes = [reference.random_operand(rows, k, kind) for rows in (m, n)] + [reference.random_scales(r, k) for r in (m, n)]
operands = [x.view(torch.uint8).cuda().view(x.dtype) for x in codes]
out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
problem = scaled_problem_of(*operands, out, "block32")
compiled = scaled_gemm.CompiledScaledGemm(scaled_gemm_config.spec_for(problem, config, "gfx950"))
compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
print("no hazard", reference.excess(out, *codes) <= 1)
"""

MUTATIONS = {
    "intact": ("", None),
    "one_load_too_many": (
        """
        wait = schedule.wait_for_stage
        schedule.wait_for_stage = lambda younger_loads: wait(younger_loads + 1)
        """,
        "lds dma not waited|lds dma race",
    ),
    "scales_into_the_half_that_is_read": (
        """
        part = scaled_pipeline.ScaleLoads._part
        def early(self, number, which, place):
            return part(self, number, which, place if isinstance(place, int) else self._half - place)
        scaled_pipeline.ScaleLoads._part = early
        """,
        "lds dma not waited|lds dma over a read|lds dma race|lds write/read race",
    ),
}


@unittest.skipUnless(EMULATED, "the hazard checker is the emulator's: run with python -m gfx950_emulator")
@unittest.skipIf(CANNOT_RUN is not None, f"compiling needs flydsl and its linker: {CANNOT_RUN}")
@instantiate_parametrized_tests
class TestScaledHazards(TestCase):
    def operands(self, m, n, k, pair):
        codes = [reference.integer_operand(rows, k, kind, rows) for rows, kind in zip((m, n), pair, strict=True)]
        codes += [reference.random_scales(rows, k, rows, 126, 128) for rows in (m, n)]
        return codes, [x.view(torch.uint8).cuda().view(x.dtype) for x in codes]

    def compiled(self, config, operands, out):
        from torch._inductor.kernel.flydsl.scaled_gemm import compile_scaled_gemm

        problem = scaled_problem_of(*operands, out, "block32")
        spec = scaled_gemm_config.spec_for(problem, config, target.device_arch(out.device.index))
        return compile_scaled_gemm(spec)

    @parametrize("config, pair, schedule", list(cases()), name_fn=case_name)
    def test_every_config_is_clean(self, config, pair, schedule):
        # Two tiles and a bit, more K tiles than stages so that each stage is filled twice, a tail of K where it can.
        k = config.tile_k * (config.loaded_ahead + 2 * config.scale_tiles) * config.split_k + 128
        codes, operands = self.operands(config.tile_m + 1, config.tile_n + 16, k, pair)
        out = torch.empty(config.tile_m + 1, config.tile_n + 16, dtype=torch.float32, device="cuda")
        compiled = self.compiled(config, operands, out)
        with unittest.mock.patch.dict(os.environ, {"GFX950_CHECK": "2", "GFX950_SCHEDULE": schedule}):
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        exact, _ = reference.product_and_bound(*codes, torch.float32)
        self.assertTrue(torch.equal(out.cpu().double(), exact))

    @parametrize("config, pair, schedule", list(cases()), name_fn=case_name)
    def test_no_lds_access_has_bank_conflicts(self, config, pair, schedule):
        """By the addresses that the kernel makes: DMA's, the fragments', the scales', and those of sums over waves."""
        import gfx950_emulator

        m, n, k = config.tile_m, config.tile_n, config.tile_k * (config.loaded_ahead + 1) * config.split_k + 128
        _, operands = self.operands(m, n, k, pair)
        out = torch.empty(m, n, dtype=torch.float32, device="cuda")  # as above: one kernel to compile for both
        compiled = self.compiled(config, operands, out)
        with gfx950_emulator.timing_only() if config.split_k == 1 else contextlib.nullcontext():
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        report = gfx950_emulator.report(compiled.spec.name)
        lds = [each for each in report["instructions"] if each["unit"] == "lds"]
        self.assertGreater(sum(each["lds_cycles"] for each in lds), 0)
        self.assertTrue(any(re.match(r"ds_read_[iu](8|16)|ds_read2?(st64)?_b32", each["text"]) for each in lds))
        self.assertEqual([each["text"] for each in report["instructions"] if each.get("conflict_cycles")], [])

    @parametrize("kind, least", (("e4m3", 0.8), ("e2m1", 0.7)))
    def test_matrix_cores_are_busy_in_a_large_product(self, kind, least):
        """Modelled: 8192^3; less would be a schedule that waits."""
        import gfx950_emulator

        size = 8192
        dtype, columns = reference.FORMATS[kind], Operands(kind, kind, True).row_bytes(size)[0]
        shapes = ((size, columns), (size, columns), (size, size // 32), (size, size // 32))
        kinds = (dtype, dtype, torch.float8_e8m0fnu, torch.float8_e8m0fnu)
        operands = [
            torch.empty(shape, dtype=torch.uint8, device="cuda").view(kind)
            for shape, kind in zip(shapes, kinds, strict=True)
        ]
        out = torch.empty(size, size, dtype=torch.bfloat16, device="cuda")
        config = scaled_gemm_config.default_config(scaled_problem_of(*operands, out, "block32"))
        compiled = self.compiled(config, operands, out)
        with gfx950_emulator.timing_only():
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        self.assertGreaterEqual(gfx950_emulator.report(compiled.spec.name)["main_loop"]["mfma_busy"], least)

    # A process each. The dense GEMM's tests break the parts that are shared.
    @parametrize("name", sorted(MUTATIONS))
    def test_a_broken_pipeline_is_found(self, name):
        mutation, kinds = MUTATIONS[name]
        code = BROKEN.replace("MUTATION", textwrap.dedent(mutation))
        with tempfile.TemporaryDirectory() as cache:  # FlyDSL's cache does not see that a function was replaced
            env = {"GFX950_CHECK": "1", "GFX950_SCHEDULE": "run_to_barrier", "FLYDSL_RUNTIME_CACHE_DIR": cache}
            env["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
            command = [sys.executable, "-m", "gfx950_emulator", "-c", code]
            done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
        if kinds is None:
            self.assertEqual((done.returncode, done.stdout.strip()), (0, "no hazard True"), done.stderr)
        else:
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertTrue(re.search(rf"\[({kinds})\]", done.stderr), done.stderr)


if __name__ == "__main__":
    run_tests()
