# Owner(s): ["module: inductor"]
"""The FlyDSL scaled GEMM's predicates, configurations and layouts (T0: no flydsl, no device)."""

import dataclasses
import os
import subprocess
import sys

import torch
from torch._inductor.kernel.flydsl import scaled_gemm_config
from torch._inductor.kernel.flydsl.epilogue_expr import Builder, EpilogueInput, InputStrides, addmm
from torch._inductor.kernel.flydsl.scaled_gemm_arguments import scaled_problem_of
from torch._inductor.kernel.flydsl.scaled_gemm_config import DEFAULT_CONFIGS, ScaledGemmConfig, ScaledGemmProblem
from torch._inductor.kernel.flydsl.scaled_gemm_tile import BITS, Operands, Stage
from torch._inductor.kernel.flydsl.scaled_layout import ScaledRows, ScaleRows
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

KINDS = ("e4m3", "e5m2", "e2m1")
PAIRS = [(a, b) for a in KINDS for b in KINDS]
PUBLISHED = [(m, 4096, 4096) for m in (32, 64, 128, 256, 512, 1024, 2048, 4096)]
PUBLISHED += [(32, 14336, 4096), (32, 28672, 4096), (4096, 256, 4096), (4096, 4096, 8192), (8192, 8192, 8192)]
PUBLISHED += [(4096, 4096, k) for k in (256, 512, 1024, 2048)]
LEAST = ScaledGemmConfig(tile_m=32, tile_n=32, tile_k=128, stages=2, waves_m=1, waves_n=1, mfma_rows=32)


def problem(m=64, n=64, k=256, a="e4m3", b="e4m3", recipe="block32", **changes):
    """Contiguous operands."""
    row_a, row_b = Operands(a, b, True).row_bytes(k)
    scales = k // 32 if recipe == "block32" else int(recipe == "row")
    whole = ScaledGemmProblem(
        m=m,
        n=n,
        k=k,
        a_format=a,
        b_format=b,
        out_dtype="bf16",
        recipe=recipe,
        lda=row_a,
        ldb=row_b,
        ldc=n,
        scale_a_stride=scales,
        scale_b_stride=scales,
    )
    return dataclasses.replace(whole, **changes)


# What is wrong, and words of the reason. S9, S18 of the known faults among them.
REFUSED = {
    "k_of_48": (problem(k=48), "K=48 is not a multiple of 128"),
    "k_of_32_times_13": (problem(k=416), "K=416 is not a multiple of 128"),
    "n_of_24": (problem(n=24), "N=24 is not a multiple of 16"),
    "no_rows": (problem(m=0), "M=0: an empty product"),
    "no_k": (problem(k=0), "K=0: an empty product"),
    "a_of_4_gib": (problem(m=2**20, k=4096), "A spans .* = 4294967296 bytes, not below 2.32"),
    "c_of_4_gib": (problem(m=2**16, n=2**15, out_dtype="fp16"), "C spans"),
    "scales_of_4_gib": (problem(m=2**18, k=128, scale_a_stride=2**14 + 4), "A's scales spans"),
    "rows_that_overlap": (problem(lda=240), "A: row stride 240 is below its 256 bytes"),
    "rows_not_aligned": (problem(ldb=264), "B: row stride 264 is not a multiple of 16 bytes"),
    "scales_not_aligned": (problem(scale_a_stride=9), "A's scales: row stride 9 is not a multiple of 4 bytes"),
    "scales_that_overlap": (problem(scale_b_stride=4), "B's scales: row stride 4 is below its 8 bytes"),
    "fp4_with_row_scales": (problem(b="e2m1", recipe="row"), "4-bit elements come with block32 scales"),
    "row_k_of_24": (problem(k=24, recipe="row"), "K=24 is not a multiple of 16 bytes"),
    "format": (problem(a_format="e3m4"), "A's format e3m4 is not one of"),
    "recipe": (problem(recipe="block16", scale_a_stride=8, scale_b_stride=8), "recipe block16 is not one of"),
    "out_dtype": (problem(out_dtype="e4m3"), "out_dtype e4m3 is not one of"),
    "rows_of_c": (problem(ldc=68), "C: row stride 68"),
    "epilogue_inputs": (
        problem(epilogue=addmm(EpilogueInput(dtype="bf16", kind="row"))),
        "strides of 0 epilogue inputs, there are 1",
    ),
}
INVALID = {
    "one_stage": ({"stages": 1}, "stages=1"),
    "rows_of_an_mfma": ({"mfma_rows": 64}, "mfma_rows=64"),
    "no_power_of_two": ({"tile_m": 96}, "tile_m=96 is not a power of two"),
    "tile_smaller_than_mfma": ({"tile_m": 16}, "tile_m=16 is not a multiple of waves"),
    "waves_along_k_of_32_rows": ({"tile_k": 512, "waves_k": 2}, "waves_k=2 with 32x32 MFMAs"),
    "too_much_lds": ({"tile_m": 256, "tile_n": 256, "tile_k": 512, "waves_m": 2, "waves_n": 2}, "bytes of LDS, over"),
    "scales_ahead_in_the_plain_schedule": ({"scale_tiles": 4}, "loaded ahead in the interleaved schedule"),
    "too_many_registers": (
        {"tile_m": 256, "tile_n": 256, "waves_m": 2, "waves_n": 4, "interleave": True, "mfma_rows": 16},
        "it would spill",
    ),
}


@instantiate_parametrized_tests
class TestScaledGemmConfig(TestCase):
    def test_problem_of_the_tests_is_supported(self):
        for pair in PAIRS:
            self.assertIsNone(scaled_gemm_config.unsupported_reason(problem(1, 16, 128, *pair)))
        for recipe in ("row", "tensor"):
            self.assertIsNone(scaled_gemm_config.unsupported_reason(problem(k=16, recipe=recipe)))

    @parametrize("name", sorted(REFUSED))
    def test_refused_with_a_reason(self, name):
        bad, words = REFUSED[name]
        self.assertRegex(str(scaled_gemm_config.unsupported_reason(bad)), words)
        self.assertEqual(scaled_gemm_config.configs(bad), [])
        self.assertIsNone(scaled_gemm_config.default_config(bad))
        with self.assertRaisesRegex(ValueError, words):
            scaled_gemm_config.spec_for(bad, LEAST, "gfx950")

    @parametrize("name", sorted(INVALID))
    def test_invalid_configurations(self, name):
        changes, words = INVALID[name]
        config = dataclasses.replace(LEAST, **changes)
        self.assertRegex(str(scaled_gemm_config.invalid_reason(config, Operands("e4m3", "e4m3", True))), words)

    def test_other_architectures_are_refused(self):
        with self.assertRaisesRegex(ValueError, "gfx942"):
            scaled_gemm_config.spec_for(problem(), LEAST, "gfx942")

    def test_every_problem_has_a_configuration(self):
        for pair in PAIRS:
            for m, n, k in ((1, 16, 128), (33, 48, 384), *PUBLISHED):
                self.assertIsNotNone(scaled_gemm_config.default_config(problem(m, n, k, *pair)), (pair, m, n, k))
        self.assertIsNotNone(scaled_gemm_config.default_config(problem(1, 16, 16, recipe="tensor")))

    @parametrize("kind", ("e4m3", "e2m1"))
    def test_lists_of_the_published_shapes(self, kind):
        for m, n, k in PUBLISHED:
            found = scaled_gemm_config.configs(problem(m, n, k, kind, kind))
            every = scaled_gemm_config.configs(problem(m, n, k, kind, kind), exhaustive=True)
            self.assertEqual(found[0], scaled_gemm_config.default_config(problem(m, n, k, kind, kind)))
            self.assertTrue(3 <= len(found) <= 20 and len(found) <= len(every) < 64, (m, n, k, len(found), len(every)))

    def test_every_default_is_for_some_published_shape(self):
        used = {
            c
            for kind in ("e4m3", "e2m1")
            for shape in (*PUBLISHED, (8, 512, 16384), (8, 4096, 4096))
            for c in scaled_gemm_config.configs(problem(*shape, kind, kind))
        }
        self.assertEqual([c.name for c in DEFAULT_CONFIGS if c not in used and c != LEAST], [])

    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_stages_fit_lds_and_every_wave_loads_as_much(self, config):
        fits = [pair for pair in PAIRS if scaled_gemm_config.invalid_reason(config, Operands(*pair, True)) is None]
        self.assertGreater(len(fits), 0)
        for pair in fits:
            stage = Stage(config, Operands(*pair, True))
            self.assertLessEqual(stage.lds_bytes, target.LDS_BYTES)
            self.assertEqual((stage.a_bytes + stage.b_bytes) % (config.waves * 1024), 0)

    def test_key_names_everything(self):
        spec = scaled_gemm_config.spec_for(problem(), LEAST, "gfx950")
        others = [dataclasses.replace(spec, k_tail=True), dataclasses.replace(spec, a_format="e5m2")]
        others += [dataclasses.replace(spec, recipe="row"), dataclasses.replace(spec, out_dtype="fp32")]
        others += [
            dataclasses.replace(spec, config=dataclasses.replace(LEAST, **{field.name: 7}))
            for field in dataclasses.fields(LEAST)
        ]
        self.assertEqual(len({spec.key, *(other.key for other in others)}), 1 + len(others))

    def test_scales_of_rows_come_before_the_epilogue(self):
        builder = Builder()
        twice = builder.op("mul", builder.acc(), builder.const(2.0))
        epilogue = builder.build(builder.op("add", builder.input("bf16", "row"), twice))
        full = scaled_gemm_config.full_epilogue("row", epilogue)
        self.assertEqual([i.kind for i in full.inputs], ["column", "row", "row"])
        self.assertEqual(full.steps[:5], (("acc",), ("input", 0), ("mul", 0, 1), ("input", 1), ("mul", 2, 3)))
        self.assertIn(("input", 2), full.steps)
        self.assertEqual(scaled_gemm_config.full_epilogue("block32", epilogue), epilogue)
        p = problem(recipe="row", epilogue=epilogue, epilogue_strides=(InputStrides(),))
        self.assertIsNone(scaled_gemm_config.unsupported_reason(p))

    def test_needs_no_flydsl(self):
        code = "import sys; sys.modules['flydsl'] = None\n"
        code += "from torch._inductor.kernel.flydsl import scaled_gemm_arguments, scaled_gemm_config, scaled_layout"
        env = {key: value for key, value in os.environ.items() if key != "GFX950_EMULATOR"}
        subprocess.run([sys.executable, "-c", code], check=True, env=env)


class TestArguments(TestCase):
    def operands(self, m=33, n=48, k=256, a=torch.float8_e4m3fn, b=torch.float4_e2m1fn_x2):
        def of_bytes(rows, cols, dtype):
            return torch.zeros(rows, cols, dtype=torch.uint8).view(dtype)

        cols = [k // (2 if dtype == torch.float4_e2m1fn_x2 else 1) for dtype in (a, b)]
        scales = [of_bytes(rows, k // 32, torch.float8_e8m0fnu) for rows in (m, n)]
        return of_bytes(m, cols[0], a), of_bytes(n, cols[1], b), *scales, torch.zeros(m, n, dtype=torch.bfloat16)

    def test_k_of_packed_operands_is_logical(self):
        """S5: A of 4-bit elements has K/2 columns, and K/32 scales a row."""
        p = scaled_problem_of(*self.operands(a=torch.float4_e2m1fn_x2), "block32")
        self.assertEqual((p.m, p.n, p.k, p.lda, p.ldb, p.scale_a_stride), (33, 48, 256, 128, 128, 8))

    def test_what_does_not_fit_together(self):
        a, b, scale_a, scale_b, out = self.operands()
        bad = {
            "not torch.float8_e8m0fnu": (a, b, scale_a[:, :4], scale_b, out),
            "a row's scales are not contiguous": (
                a,
                b,
                scale_a.view(torch.uint8).repeat(1, 2).view(torch.float8_e8m0fnu)[:, ::2],
                scale_b,
                out,
            ),
            "is not \\(33, 47\\)": (a, b, scale_a, scale_b, out[:, :47]),
            "not two of": (a.view(torch.uint8), b, scale_a, scale_b, out),
            "dimensions, not 2 each": (a[None], b, scale_a, scale_b, out),
            "not contiguous rows": (a.view(torch.uint8).T.contiguous().T.view(a.dtype), b, scale_a, scale_b, out),
        }
        for words, tensors in bad.items():
            with self.assertRaisesRegex(ValueError, words):
                scaled_problem_of(*tensors, "block32")


@instantiate_parametrized_tests
class TestLayouts(TestCase):
    @parametrize("kind", ("e4m3", "e2m1"))
    @parametrize("rows", (16, 32))
    def test_a_lane_gets_the_elements_that_the_mfma_wants_of_it(self, rows, kind):
        """Chunks that a lane reads for a step, against where the instruction has each block of 32 and which block's
        scales the lane holds: the ISA's layouts, written once more here."""
        bits, depth = BITS[kind], {16: 128, 32: 64}[rows]
        groups = 64 // rows
        for tile_k in (128, 256, 512, 1024):
            row_items = tile_k * bits // 16
            for window in (1, 2, 4):
                steps = tile_k // depth
                if steps % window or row_items < 32:
                    continue
                layout = ScaledRows(2 * rows, row_items, rows, bits=bits, window=window)
                places = range(layout.rows * layout.chunks_per_row)
                held = {place: layout.chunk_at(place) for place in places}
                self.assertEqual(len(set(held.values())), len(places))
                for step in range(steps):
                    for lane in range(64):
                        row, group = lane % rows, lane // rows
                        for half in range(bits // 4):
                            got_row, chunk = held[layout.read_item(lane, step * (bits // 4) + half) // 8]
                            # k of the instruction where the lane's 16 bytes begin, and the block that it is in
                            k = 32 * group if bits == 4 else half * 16 * groups + 16 * group
                            block = k // 32
                            wanted = (step // window * groups + block) * window + step % window
                            begins = chunk * 16 * 8 // bits
                            self.assertEqual((got_row, begins // 32, begins % 32), (row, wanted, k % 32))

    @parametrize("rows", (16, 32))
    def test_lanes_read_scales_in_different_banks(self, rows):
        groups = 64 // rows
        for window in (1, 2, 4):
            span = groups * window // 4
            if span == 0:
                continue
            for dwords in (span, 2 * span, 4 * span, 8 * span):
                layout = ScaleRows(dwords=dwords, span=span, mfma_rows=rows)
                cells = [layout.dword_at(place) for place in range(64 * dwords)]
                self.assertEqual(len(set(cells)), len(cells))
                for first in range(0, dwords, span):
                    read = [layout.position(row, first + i) for row in range(rows) for i in range(span)]
                    self.assertEqual(len({place % 64 for place in read}), len(read))
                    for place, row in zip(read, [row for row in range(rows) for _ in range(span)], strict=True):
                        self.assertEqual(cells[place][0], row)


if __name__ == "__main__":
    run_tests()
