# Owner(s): ["module: inductor"]
"""The FlyDSL scaled GEMM: what it compiles to (T1, needs flydsl and a linker), what it computes (T2 emulated, T3
gfx950). The hazard checker and LDS banks: test_flydsl_scaled_gemm_hazards.py."""

import contextlib
import os
import re
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._inductor.kernel.flydsl import scaled_gemm_config
from torch._inductor.kernel.flydsl.epilogue_expr import IDENTITY, Builder, EpilogueInput, addmm
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
from torch._inductor.kernel.flydsl.scaled_gemm_config import DEFAULT_CONFIGS, ScaledGemmConfig, ScaledGemmSpec
from torch._inductor.kernel.flydsl.scaled_gemm_tile import Operands
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import scaled_mm as reference

CANNOT_COMPILE = target.package_unsupported_reason() or linker_missing_reason()
ON_GFX950 = (
    scaled_gemm_config.unavailable_reason() is None
    and torch.cuda.is_available()
    and target.device_arch(torch.cuda.current_device()) in target.SUPPORTED_ARCHS
)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
KINDS = ("e4m3", "e5m2", "e2m1")
PAIRS = [(a, b) for a in KINDS for b in KINDS]
SMALL = ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=128, stages=2, waves_m=1, waves_n=1, mfma_rows=32)
SMALL_16 = ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=256, stages=2, waves_m=1, waves_n=1, waves_k=2)
SPLIT = ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=256, stages=2, waves_m=1, waves_n=1, split_k=2)
# Of those that load scales ahead, the one that is for the format: the deepest K tile that LDS holds.
LARGE = {
    kind: max(
        (
            c
            for c in DEFAULT_CONFIGS
            if c.scale_tiles > 1 and scaled_gemm_config.invalid_reason(c, Operands(kind, kind, True)) is None
        ),
        key=lambda c: c.tile_k,
    )
    for kind in ("e4m3", "e2m1")
}


def valid(config, a, b, block_scales=True):
    return scaled_gemm_config.invalid_reason(config, Operands(a, b, block_scales)) is None


def every_spec():
    """Each configuration of the default list with 8-bit and 4-bit operands where they fit, some with mixed ones, with
    and without K tail, and without block scales. e5m2 for e4m3 changes only the MFMA's format field."""
    for number, config in enumerate(DEFAULT_CONFIGS):
        for a, b in (("e4m3", "e4m3"), ("e2m1", "e2m1"), ("e5m2", "e2m1")):
            if valid(config, a, b) and (a == b or number % 4 == 1):
                yield ScaledGemmSpec(
                    a_format=a,
                    b_format=b,
                    out_dtype="bf16",
                    recipe="block32",
                    config=config,
                    arch="gfx950",
                    k_tail=(number + (a == "e2m1")) % 2 == 0,
                )
        if number % 3 == 0 and valid(config, "e4m3", "e4m3", False):
            yield ScaledGemmSpec(
                a_format="e4m3",
                b_format="e5m2",
                out_dtype="fp16",
                recipe="row",
                config=config,
                arch="gfx950",
                k_tail=number % 2 == 1,
            )


def assembly(spec):
    """The final ISA with its metadata, as FlyDSL dumps it."""
    from torch._inductor.kernel.flydsl.scaled_gemm import CompiledScaledGemm

    with tempfile.TemporaryDirectory() as folder:
        with (
            unittest.mock.patch.dict(os.environ, {"FLYDSL_DUMP_IR": "1", "FLYDSL_DUMP_DIR": folder}),
            contextlib.redirect_stdout(None),
        ):
            CompiledScaledGemm(spec)
        (file,) = Path(folder).rglob("*_final_isa.s")
        return file.read_text()


def to_device(x):
    """On the device; torch cannot copy what it has no arithmetic for, so bytes are copied."""
    return x.view(torch.uint8).cuda().view(x.dtype) if x.element_size() == 1 else x.cuda()


def compiled_for(config, a, b_nk, scale_a, scale_b, out, recipe="block32", epilogue=IDENTITY, inputs=()):
    from torch._inductor.kernel.flydsl.scaled_gemm import compile_scaled_gemm

    problem = scaled_problem_of(a, b_nk, scale_a, scale_b, out, recipe, epilogue, inputs)
    return compile_scaled_gemm(scaled_gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))


def run(config, a, b_nk, scale_a, scale_b, out_dtype="bf16", recipe="block32", epilogue=IDENTITY, inputs=()):
    """The kernel's result for operands on the CPU."""
    rows, cols = a.shape[0], b_nk.shape[0]
    out = torch.full((rows, cols), torch.nan, dtype=DTYPES[out_dtype], device="cuda")
    operands = [to_device(x) for x in (a, b_nk, scale_a, scale_b)]
    inputs = [x.cuda() for x in inputs]
    compiled = compiled_for(config, *operands, out, recipe, epilogue, inputs)
    before = compiled.launches
    compiled(*operands, out, torch.cuda.current_stream().cuda_stream, *inputs)
    torch.cuda.synchronize()
    assert compiled.launches == before + 1
    return out.cpu()


def random_problem(m, n, k, a, b, seed=0):
    operands = reference.random_operand(m, k, a, seed), reference.random_operand(n, k, b, seed + 1)
    return (*operands, reference.random_scales(m, k, seed + 2), reference.random_scales(n, k, seed + 3))


@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
@instantiate_parametrized_tests
class TestCompiled(TestCase):
    @parametrize("spec", list(every_spec()), name_fn=lambda spec: spec.name)
    def test_registers_lds_and_instructions(self, spec):
        whole, config = assembly(spec), spec.config
        for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
            self.assertEqual(set(re.findall(rf"\.{field}:\s*(\d+)$", whole, re.MULTILINE)), {"0"}, field)
        sizes = re.findall(r"^\s*\.group_segment_fixed_size:\s*(\d+)$", whole, re.MULTILINE)
        self.assertEqual(int(sizes[0]), spec.stage.lds_bytes)

        isa = whole.split("s_endpgm")[0]
        shape = {16: "16x16x128", 32: "32x32x64"}[config.mfma_rows]
        scaled = "_scale" if spec.operands.block_scales else ""
        other = "" if spec.operands.block_scales else "_scale"
        self.assertRegex(isa, rf"\bv_mfma{scaled}_f32_{shape}_f8f6f4\b")
        self.assertNotRegex(isa, rf"\bv_mfma{other}_f32_{shape}_f8f6f4\b")
        mfmas = len(re.findall(r"\bv_mfma_\S*f8f6f4\b", isa))
        self.assertEqual(len(re.findall(r"\bv_mfma_", isa)), mfmas)
        # Scales go to LDS by DMA as everything else, and from there by reads of a window's bytes.
        self.assertEqual(bool(re.search(r"buffer_load_dword v\d+, .* lds$", isa, re.MULTILINE)), bool(scaled))
        if scaled and config.split_k == 1:  # else parts come back from memory
            self.assertNotRegex(isa, r"buffer_load_dword\w* v\[")
            read = {1: "ds_read_[ui]8", 2: "ds_read_[ui]16", 4: "ds_read2?(st64)?_b32"}[spec.stage.window]
            self.assertRegex(isa, rf"\b{read}\b")
            # Every byte of a window is used: the instruction selects it, nothing shifts scales about.
            selections = {
                (int(low[1]) if low else 0) + 2 * (int(high[1]) if high else 0)
                for low, high in (
                    (re.search(r"op_sel:\[(\d)", line), re.search(r"op_sel_hi:\[(\d)", line))
                    for line in re.findall(r"v_mfma_scale_.*", isa)
                )
            }
            self.assertEqual(selections, set(range(spec.stage.window)))


@unittest.skipUnless(ON_GFX950, "needs a gfx950, real or emulated: run with python -m gfx950_emulator")
@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
@instantiate_parametrized_tests
class TestValues(TestCase):
    def check(self, config, m, n, k, a, b, seed=0, **options):
        problem = random_problem(m, n, k, a, b, seed)
        self.assertLessEqual(reference.excess(run(config, *problem, **options), *problem), 1.0)

    @parametrize("pair", PAIRS, name_fn="_".join)
    def test_every_pair_of_formats(self, pair):
        for config, m, n, k in ((SMALL, 33, 48, 384), (SMALL_16, 65, 16, 640)):
            self.check(config, m, n, k, *pair)

    @parametrize("out_dtype", list(DTYPES))
    @parametrize("config", (SMALL, SMALL_16, SPLIT), name_fn=lambda config: config.name)
    def test_output_types_with_bias(self, config, out_dtype):
        problem = random_problem(35, 48, 1024, "e4m3", "e2m1")
        bias = (torch.randn(48) * 100).to(DTYPES[out_dtype])
        epilogue = addmm(EpilogueInput(dtype=out_dtype, kind="row"))
        result = run(config, *problem, out_dtype=out_dtype, epilogue=epilogue, inputs=[bias])
        self.assertLessEqual(reference.excess(result, *problem, bias=bias), 1.0)
        self.assertGreater(reference.excess(result, *problem), 1.0)  # the bias is not lost in the bound

    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_every_config(self, config):
        kind = "e4m3" if valid(config, "e4m3", "e4m3") else "e2m1"
        k = config.tile_k * max(config.loaded_ahead, 1) * config.split_k + 128
        self.check(config, config.tile_m + 1, config.tile_n + 16, k, kind, kind, out_dtype="fp32")

    @parametrize("kind", ("e4m3", "e2m1"))
    def test_scales_that_are_loaded_ahead(self, kind):
        """K of less than the scales that come together, of them exactly, of a bit more, and of many times as much."""
        config = LARGE[kind]
        together = config.tile_k * config.scale_tiles
        for k in (2 * config.tile_k, together, together + 128, 3 * together + config.tile_k):
            self.check(config, 40, 32, k, kind, kind)

    def test_integers_are_exact(self):
        """With scales that are powers of two and small integers nothing is rounded but the result: to the bit."""
        a, b = reference.integer_operand(37, 896, "e4m3", 1), reference.integer_operand(32, 896, "e2m1", 2)
        scale_a = reference.random_scales(37, 896, 3, 126, 129)
        scale_b = reference.random_scales(32, 896, 4, 126, 129)
        exact, _ = reference.product_and_bound(a, b, scale_a, scale_b, torch.float32)
        for config in (SMALL, SMALL_16, SPLIT):
            self.assertTrue(torch.equal(run(config, a, b, scale_a, scale_b, out_dtype="fp32").double(), exact))

    @parametrize("kind", KINDS)
    def test_every_exponent(self, kind):
        """Row i of A has scales of byte i, from 2^-127 to 2^127, against small, large and middling ones of B.

        Rows whose partial sums leave fp32's range may give infinities, or NaN of two of them; the others are exact.
        """
        m, n, k = 255, 16, 256
        a, b = reference.integer_operand(m, k, kind, 1), reference.integer_operand(n, k, kind, 2)
        codes = torch.arange(255, dtype=torch.uint8)
        scale_a = codes[:, None].repeat(1, k // 32).view(torch.float8_e8m0fnu)
        seen = torch.zeros(m, dtype=torch.bool)
        for other in (1, 126, 127, 250):
            scale_b = torch.full((n, k // 32), other, dtype=torch.uint8).view(torch.float8_e8m0fnu)
            left, right = reference.dequantised(a, scale_a), reference.dequantised(b, scale_b)
            largest = (left.abs() @ right.abs().T).max(1).values
            for config in (SMALL, SMALL_16):
                got = run(config, a, b, scale_a, scale_b, out_dtype="fp32").double()
                inside = (largest < 2.0**127) & (largest >= 2.0**-100)
                self.assertTrue(torch.equal(got[inside], (left @ right.T)[inside]))
                # Products below fp32's normal range, each within half of its smallest step.
                below = (got - left @ right.T)[largest < 2.0**-100].abs()
                self.assertLessEqual(max(below.flatten().tolist(), default=0.0), k * 2.0**-150)
                seen |= inside
        self.assertTrue(bool(seen.all()))

    def test_byte_zero_is_two_to_the_minus_127(self):
        """S2: 128 terms of 2^112 and 256 under a scale of 2^-127 on one side: 2^(112 + 8 - 127 + 7) = 1."""
        a = torch.full((1, 128), 1.0).to(torch.float8_e4m3fn)
        b = torch.full((16, 128), 256.0).to(torch.float8_e4m3fn)
        scale_a = torch.full((1, 4), 127 + 112, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        scale_b = torch.zeros(16, 4, dtype=torch.uint8).view(torch.float8_e8m0fnu)
        self.assertEqual(run(SMALL, a, b, scale_a, scale_b, out_dtype="fp32"), torch.ones(1, 16), atol=0, rtol=0)

    @parametrize("config", (SMALL, SMALL_16, SPLIT), name_fn=lambda config: config.name)
    @parametrize("pair", (("e4m3", "e4m3"), ("e2m1", "e2m1"), ("e2m1", "e5m2")), name_fn="_".join)
    def test_nan_scales_poison_their_block_alone(self, config, pair):
        """S2: 0xFF for one block of a row of A, and one of B: that row and that column are NaN, and nothing else."""
        for k in (512, 640):
            for block in (0, 5, k // 32 - 1):
                a, b, scale_a, scale_b = random_problem(34, 32, k, *pair)
                scale_a.view(torch.uint8)[33, block] = 0xFF
                scale_b.view(torch.uint8)[7, block] = 0xFF
                result = run(config, a, b, scale_a, scale_b)
                self.assertLessEqual(reference.excess(result, a, b, scale_a, scale_b), 1.0)
                nan = torch.zeros(34, 32, dtype=torch.bool)
                nan[33], nan[:, 7] = True, True
                self.assertTrue(torch.equal(result.isnan(), nan))

    @parametrize("pair", (("e4m3", "e4m3"), ("e2m1", "e2m1"), ("e5m2", "e2m1")), name_fn="_".join)
    @parametrize("config", (SMALL, SMALL_16, *LARGE.values()), name_fn=lambda config: config.name)
    def test_every_block_meets_its_scale(self, config, pair):
        """S8: one element of one block is not zero, each block with a power of two of its own."""
        if not valid(config, *pair):
            self.skipTest("the other large configuration is for these formats")
        k = max(config.tile_k * 3 + 128, 128 * 13)
        blocks, n = k // 32, 16
        # Row i of A has a one in block i at a place that differs from block to block; B is all ones.
        ones = torch.ones(n, k)
        values = torch.zeros(blocks, k)
        for block in range(blocks):
            values[block, 32 * block + (block * 7) % 32] = 1.0
        codes = {"e4m3": 0x38, "e5m2": 0x3C, "e2m1": 2}
        a = reference.bytes_of(values * codes[pair[0]], reference.FORMATS[pair[0]])
        b = reference.bytes_of(ones * codes[pair[1]], reference.FORMATS[pair[1]])
        exponents = torch.arange(blocks) % 15
        scale_a = (127 + exponents).to(torch.uint8).repeat(blocks, 1).view(torch.float8_e8m0fnu)
        scale_b = (127 + 3 * (exponents % 4)).to(torch.uint8).repeat(n, 1).view(torch.float8_e8m0fnu)
        result = run(config, a, b, scale_a, scale_b, out_dtype="fp32")
        expected = 2.0 ** (exponents + 3 * (exponents % 4))
        self.assertEqual(result, expected.float()[:, None].expand(blocks, n), atol=0, rtol=0)

    def test_unswizzled_layout_where_sizes_are_those_of_swizzled_scales(self):
        """S1: M = N = 32, K = 256, where both readings have as many bytes."""
        self.check(SMALL, 32, 32, 256, "e4m3", "e4m3")

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(
        st.integers(1, 70),
        st.integers(1, 5),
        st.integers(1, 9),
        st.sampled_from(PAIRS),
        st.sampled_from([SMALL, SMALL_16]),
    )
    def test_drawn_shapes(self, m, n, k, pair, config):
        self.check(config, m, 16 * n, 128 * k, *pair, seed=m)

    @parametrize("recipe", ("row", "tensor"))
    def test_scales_of_rows_and_tensors(self, recipe):
        for config, pair, k in ((SMALL, ("e4m3", "e5m2"), 272), (SMALL_16, ("e4m3", "e4m3"), 656)):
            a, b, _, _ = random_problem(35, 48, k // 32 * 32 + 32, *pair)
            a, b = a.view(torch.uint8)[:, :k].contiguous().view(a.dtype), b.view(torch.uint8)[:, :k].view(b.dtype)
            b = b.view(torch.uint8).contiguous().view(b.dtype)
            shapes = ((35, 1), (1, 48)) if recipe == "row" else ((), (1,))
            scale_a, scale_b = (torch.rand(shape) + 0.5 for shape in shapes)
            bias = (torch.randn(48) * 1e4).bfloat16()
            self.assertLessEqual(
                reference.excess(run(config, a, b, scale_a, scale_b, recipe=recipe), a, b, scale_a, scale_b), 1.0
            )
            epilogue = addmm(EpilogueInput(dtype="bf16", kind="row"))
            result = run(config, a, b, scale_a, scale_b, recipe=recipe, epilogue=epilogue, inputs=[bias])
            self.assertLessEqual(reference.excess(result, a, b, scale_a, scale_b, bias=bias), 1.0)

    @parametrize("recipe", ("block32", "tensor"))
    def test_epilogue_sees_the_scaled_product(self, recipe):
        a, b, scale_a, scale_b = random_problem(33, 32, 256, "e4m3", "e4m3")
        if recipe == "tensor":
            scale_a, scale_b = torch.tensor(2.0), torch.tensor(-0.25)
        builder = Builder()
        epilogue = builder.build(builder.op("relu", builder.op("neg", builder.acc())))
        plain = run(SMALL, a, b, scale_a, scale_b, "fp32", recipe)
        self.assertEqual(run(SMALL, a, b, scale_a, scale_b, "fp32", recipe, epilogue), (-plain).relu(), atol=0, rtol=0)

    @parametrize("pair", (("e4m3", "e4m3"), ("e2m1", "e2m1")), name_fn="_".join)
    def test_strided_operands_and_guards(self, pair):
        """Padding of rows is neither read nor written: 0xFF behind every row, a guard behind every row of C."""
        m, n, k = 33, 48, 384
        for config in (SMALL, SMALL_16):
            problem = random_problem(m, n, k, *pair)
            row_bytes = Operands(*pair, True).row_bytes(k)
            operands = [
                reference.strided(x, stride, "cuda")
                for x, stride in zip(problem, (row_bytes[0] + 16, row_bytes[1] + 32, 16, 20), strict=True)
            ]
            backing = torch.full((m + 1, n + 8), 7.0, dtype=torch.bfloat16, device="cuda")
            out = backing[:m, :n]
            compiled = compiled_for(config, *operands, out)
            compiled(*operands, out, torch.cuda.current_stream().cuda_stream)
            self.assertLessEqual(reference.excess(out, *problem), 1.0)
            self.assertTrue(bool((backing[:m, n:] == 7).all()) and bool((backing[m:] == 7).all()))

    @parametrize("config", (SMALL, SMALL_16, SPLIT), name_fn=lambda config: config.name)
    def test_deterministic_and_independent_of_the_tail_of_m(self, config):
        a, b, scale_a, scale_b = random_problem(65, 48, 1024, "e4m3", "e2m1")
        whole = run(config, a, b, scale_a, scale_b)
        self.assertTrue(torch.equal(whole, run(config, a, b, scale_a, scale_b)))
        for m in (1, 31, 64):
            self.assertTrue(torch.equal(run(config, a[:m], b, scale_a[:m], scale_b), whole[:m]))

    def test_one_kernel_serves_all_sizes_of_its_spec_and_refuses_others(self):
        a, b, scale_a, scale_b = (to_device(x) for x in random_problem(33, 32, 256, "e4m3", "e4m3"))
        out = torch.empty(33, 32, dtype=torch.bfloat16, device="cuda")
        compiled = compiled_for(SMALL, a, b, scale_a, scale_b, out)
        stream = torch.cuda.current_stream().cuda_stream
        for m, n, k in ((1, 16, 128), (40, 64, 512)):
            problem = random_problem(m, n, k, "e4m3", "e4m3")
            result = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
            compiled(*(to_device(x) for x in problem), result, stream)
            self.assertLessEqual(reference.excess(result, *problem), 1.0)
        with self.assertRaisesRegex(ValueError, "not torch.float8_e8m0fnu"):
            compiled(a, b, scale_a[:, :4], scale_b, out, stream)
        with self.assertRaisesRegex(ValueError, "compiled for e4m3 x e4m3"):
            compiled(a.view(torch.float8_e5m2), b, scale_a, scale_b, out, stream)
        with self.assertRaisesRegex(ValueError, "is not a multiple of 16 bytes"):
            moved = torch.zeros(33 * 256 + 1, dtype=torch.uint8, device="cuda")[1:].view(33, 256).view(a.dtype)
            compiled(moved, b, scale_a, scale_b, out, stream)


if __name__ == "__main__":
    run_tests()
