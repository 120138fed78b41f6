# Owner(s): ["module: inductor"]
"""The FlyDSL GEMM under the emulator's hazard checker (T2): every configuration is clean, and a broken one is found."""

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
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel.flydsl.gemm_arguments import problem_of
from torch._inductor.kernel.flydsl.gemm_config import DEFAULT_CONFIGS
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import mm as reference

EMULATED = "gfx950_emulator" in sys.modules and torch.cuda.is_available()
CANNOT_RUN = gemm_config.unavailable_reason() or linker_missing_reason()
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Runs in a process of its own: a launch that fails leaves the device unusable, as on hardware.
BROKEN = """
import torch
from torch._inductor.kernel.flydsl import gemm, gemm_config, pipeline, schedule
from torch._inductor.kernel.flydsl.gemm_config import GemmConfig, GemmProblem

MUTATION
config = GemmConfig(tile_m=64, tile_n=64, tile_k=64, stages=STAGES, waves_m=2, waves_n=2, interleave=INTERLEAVE)
m, n, k = 65, 72, 64 * 6 + 8
problem = GemmProblem(m=m, n=n, k=k, dtype="bf16", lda=k, ldb=k, ldc=n)
compiled = gemm.CompiledGemm(gemm_config.spec_for(problem, config, "gfx950"))
a, b, out = (torch.ones(shape, dtype=torch.bfloat16, device="cuda") for shape in ((m, k), (n, k), (m, n)))
compiled(a, b, out, torch.cuda.current_stream().cuda_stream)
torch.cuda.synchronize()
print("no hazard")
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
    "no_barrier": ("pipeline.s_barrier = lambda: None", "lds dma race|lds write/read race"),
    "loads_into_the_stage_that_is_read": (
        """
        each = pipeline.StraightLoads.each
        pipeline.StraightLoads.each = lambda self, k_tile, offset: each(self, k_tile, offset * 0)
        """,
        "lds dma not waited|lds dma over a read|lds dma race|lds write/read race",
    ),
}


@unittest.skipUnless(EMULATED, "the hazard checker is the emulator's: run with python -m gfx950_emulator")
@unittest.skipIf(CANNOT_RUN is not None, f"compiling needs flydsl and its linker: {CANNOT_RUN}")
@instantiate_parametrized_tests
class TestHazards(TestCase):
    # Operands with K contiguous and without take other loads and reads; the element type changes only the MFMA.
    @parametrize(
        "schedule, dtype, layouts",
        (
            ("run_to_barrier", "bf16", ("k", "k")),
            ("round_robin", "fp16", ("m", "n")),
            ("random:1", "bf16", ("m", "k")),
        ),
    )
    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_every_config_is_clean(self, config, schedule, dtype, layouts):
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        # Two tiles and a bit, more K tiles than stages so that each stage is filled twice, and a tail of K.
        m, n, k = config.tile_m + 1, config.tile_n + 8, config.tile_k * (config.loaded_ahead + 2) * config.split_k + 8
        a, b_nk = reference.integer_inputs(m, n, k, DTYPES[dtype], largest=2)
        out = torch.empty(m, n, dtype=DTYPES[dtype], device="cuda")
        operands = [
            reference.laid_out(x, layout == "k", 0, "cuda") for x, layout in zip((a, b_nk), layouts, strict=True)
        ]
        problem = problem_of(*operands, out, *layouts)
        compiled = compile_gemm(gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))
        with unittest.mock.patch.dict(os.environ, {"GFX950_CHECK": "2", "GFX950_SCHEDULE": schedule}):
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        self.assertTrue(torch.equal(out.cpu(), reference.rounded(a, b_nk)))

    @parametrize("layouts", (("k", "k"), ("m", "n")), name_fn="".join)
    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_no_lds_access_has_bank_conflicts(self, config, layouts):
        """By the addresses that the kernel makes: DMA's, the fragments', and those of the sums over waves."""
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        import gfx950_emulator

        m, n, k = config.tile_m * 2, config.tile_n * 2, config.tile_k * (config.loaded_ahead + 1) * config.split_k
        operands = [
            torch.empty((size, k) if lies == "k" else (k, size), dtype=torch.bfloat16, device="cuda")
            for size, lies in zip((m, n), layouts, strict=True)
        ]
        operands = [x if lies == "k" else x.T for x, lies in zip(operands, layouts, strict=True)]
        out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
        problem = problem_of(*operands, out, *layouts)
        compiled = compile_gemm(gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))
        # A tile that workgroups share is completed by the last of them, which an execution alone tells.
        with gfx950_emulator.timing_only() if config.split_k == 1 else contextlib.nullcontext():
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        report = gfx950_emulator.report(compiled.spec.name)
        lds = [each for each in report["instructions"] if each["unit"] == "lds"]
        self.assertGreater(len(lds), 0)
        self.assertGreater(sum(each["lds_cycles"] for each in lds), 0)
        self.assertEqual([each["text"] for each in report["instructions"] if each.get("conflict_cycles")], [])

    def test_matrix_cores_are_busy_in_a_large_product(self):
        """Modelled: 8192^3 in bf16; less would be a schedule that waits."""
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        import gfx950_emulator

        a, b_nk, out = (torch.empty(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(3))
        problem = problem_of(a, b_nk, out, "k", "k")
        config = gemm_config.default_config(problem)
        compiled = compile_gemm(gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))
        with gfx950_emulator.timing_only():
            compiled(a, b_nk, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
        self.assertGreaterEqual(gfx950_emulator.report(compiled.spec.name)["main_loop"]["mfma_busy"], 0.85)

    # A process each: no full product.
    @parametrize("stages, interleave, schedule", ((2, True, "run_to_barrier"), (4, False, "random:3")))
    @parametrize("name", sorted(MUTATIONS))
    def test_a_broken_pipeline_is_found(self, name, stages, interleave, schedule):
        mutation, kinds = MUTATIONS[name]
        code = BROKEN.replace("MUTATION", textwrap.dedent(mutation)).replace("STAGES", str(stages))
        code = code.replace("INTERLEAVE", str(interleave))
        with tempfile.TemporaryDirectory() as cache:  # FlyDSL's cache does not see that a function was replaced
            env = {"GFX950_CHECK": "1", "GFX950_SCHEDULE": schedule, "FLYDSL_RUNTIME_CACHE_DIR": cache}
            command = [sys.executable, "-m", "gfx950_emulator", "-c", code]
            done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
        if kinds is None:
            self.assertEqual((done.returncode, done.stdout.strip()), (0, "no hazard"), done.stderr)
        else:
            self.assertNotEqual(done.returncode, 0, done.stdout)
            self.assertTrue(re.search(rf"\[({kinds})\]", done.stderr), done.stderr)


if __name__ == "__main__":
    run_tests()
