# Owner(s): ["module: inductor"]
"""The FlyDSL GEMM: what it compiles to (T1, needs flydsl and a linker), what it computes (T2 emulated, T3 gfx950)."""

import contextlib
import dataclasses
import os
import re
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel.flydsl.epilogue_expr import IDENTITY
from torch._inductor.kernel.flydsl.gemm_arguments import problem_of
from torch._inductor.kernel.flydsl.gemm_config import DEFAULT_CONFIGS, GemmConfig, GemmProblem, GemmSpec
from torch._native.flydsl import target
from torch._native.flydsl.launch import linker_missing_reason
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from reference import mm as reference

CANNOT_COMPILE = target.package_unsupported_reason() or linker_missing_reason()
ON_GFX950 = (
    gemm_config.unavailable_reason() is None
    and torch.cuda.is_available()
    and target.device_arch(torch.cuda.current_device()) in target.SUPPORTED_ARCHS
)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
# The smallest that show what a configuration does wrong: one row, odd rows, two tiles and a bit, tails in N and K.
SMALL = GemmConfig(tile_m=64, tile_n=64, tile_k=64, stages=2, waves_m=2, waves_n=2)
SPLIT = dataclasses.replace(SMALL, split_k=3)


def spec_name(spec):
    return spec.name


LAYOUTS = (("k", "k"), ("k", "n"), ("m", "n"), ("m", "k"))


def every_spec():
    """Each configuration of the default list in two of the layouts, once with K tail; the other two layouts differ from
    these in nothing but the combination. fp16 changes only the MFMA."""
    for config in DEFAULT_CONFIGS:
        yield GemmSpec(dtype="bf16", config=config, arch="gfx950", k_tail=True)
        yield GemmSpec(dtype="fp16", config=config, arch="gfx950", k_tail=False, a_layout="m", b_layout="n")
    for a_layout, b_layout in LAYOUTS[1::2]:
        yield GemmSpec(dtype="bf16", config=SMALL, arch="gfx950", k_tail=True, a_layout=a_layout, b_layout=b_layout)


def assembly(spec: GemmSpec) -> str:
    """The final ISA with its metadata, as FlyDSL dumps it."""
    from torch._inductor.kernel.flydsl.gemm import CompiledGemm

    with tempfile.TemporaryDirectory() as folder:
        with (
            unittest.mock.patch.dict(os.environ, {"FLYDSL_DUMP_IR": "1", "FLYDSL_DUMP_DIR": folder}),
            contextlib.redirect_stdout(None),
        ):
            CompiledGemm(spec)
        (file,) = Path(folder).rglob("*_final_isa.s")
        return file.read_text()


def metadata(isa: str, field: str) -> int:
    (value,) = re.findall(rf"^\s*\.{field}:\s*(\d+)$", isa, re.MULTILINE)
    return int(value)


def main_loop(isa: str) -> list[str]:
    """Instructions of the only loop: from the label that a later branch goes back to, up to that branch."""
    lines = [line.strip() for line in isa.split("s_endpgm")[0].splitlines()]
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.LBB\d+_\d+:", line)}
    loops = []
    for i, line in enumerate(lines):
        branch = re.match(r"s_c?branch\S* (\.LBB\d+_\d+)", line)
        if branch and labels[branch[1]] < i:
            loops.append(lines[labels[branch[1]] + 1 : i + 1])
    (loop,) = loops
    return loop


def waits_at_barriers(isa: str) -> list[int]:
    """For each barrier the vmcnt waited for, with lgkmcnt(0) and no memory access since; -1 if there is none."""
    counts, count = [], -1
    for line in isa.split("s_endpgm")[0].splitlines():
        instruction = line.strip()
        wait = re.fullmatch(r"s_waitcnt vmcnt\((\d+)\) lgkmcnt\(0\)", instruction)
        if wait:
            count = int(wait[1])
        elif instruction.startswith(("buffer_", "ds_", "global_", "flat_")):
            count = -1
        elif instruction == "s_barrier":
            counts.append(count)
            count = -1
    return counts


def waits_for_stages(isa: str) -> list[int]:
    """The vmcnt of each wait for a stage, in a kernel without barriers."""
    return [int(count) for count in re.findall(r"s_waitcnt vmcnt\((\d+)\) lgkmcnt\(0\)", isa)]


@unittest.skipIf(CANNOT_COMPILE is not None, f"compiling needs flydsl and its linker: {CANNOT_COMPILE}")
@instantiate_parametrized_tests
class TestCompiled(TestCase):
    @parametrize("spec", list(every_spec()), name_fn=spec_name)
    def test_registers_lds_and_instructions(self, spec):
        whole, config = assembly(spec), spec.config
        self.assertIn('"amdgcn-amd-amdhsa-unknown-gfx950"', whole)
        for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
            self.assertEqual(set(re.findall(rf"\.{field}:\s*(\d+)$", whole, re.MULTILINE)), {"0"}, field)
        self.assertEqual(whole.count(".vgpr_spill_count:"), 1)
        self.assertEqual(metadata(whole, "group_segment_fixed_size"), config.lds_bytes)
        self.assertEqual(metadata(whole, "max_flat_workgroup_size"), config.threads)

        isa = whole.split("s_endpgm")[0]
        tiles_m, tiles_n = config.tile_m // config.waves_m // 16, config.tile_n // config.waves_n // 16
        mfmas = tiles_m * tiles_n * config.steps
        instruction = f"v_mfma_f32_16x16x32_{'bf16' if spec.dtype == 'bf16' else 'f16'}"
        loop = main_loop(isa)
        tiles_in_loop, rest = divmod(sum(instruction in line for line in loop), mfmas)
        self.assertEqual((rest, tiles_in_loop in (1, 2, 4)), (0, True))
        # LLVM may unroll the loop, with one more K tile beside it for what is left over; behind it come the tiles that
        # were loaded ahead.
        tiles = tiles_in_loop + (tiles_in_loop > 1) + config.loaded_ahead
        self.assertEqual(len(re.findall(rf"\b{instruction}\b", isa)), mfmas * tiles)
        dma = re.findall(r"buffer_load_dwordx4 .* lds$", isa, re.MULTILINE)
        self.assertEqual(len(dma), config.loads_per_stage * tiles)
        # Nothing travels to LDS through registers: only the parts of a shared tile are loaded there.
        parts = tiles_m * tiles_n if config.split_k > 1 else 0
        self.assertEqual(len(re.findall(r"buffer_load_dword\w* v\[", isa)), parts * config.split_k)
        self.assertEqual("ds_write" in isa, config.waves_k > 1 or config.split_k > 1)
        pairs, lone = tiles_m * (tiles_n // 2), tiles_m * (tiles_n % 2)
        wide, narrow = pairs + parts, lone
        self.assertEqual(len(re.findall(r"buffer_store_dwordx4", isa)), wide)
        self.assertEqual(len(re.findall(r"buffer_store_dwordx2", isa)), narrow)

        waits = [i for i, line in enumerate(loop) if line.startswith("s_waitcnt") and "vmcnt" in line]
        younger = (config.stages - 2) * config.loads_per_stage
        # For each K tile one wait that leaves the younger stages in flight, then the barrier, then everything that
        # touches the stages it frees or makes readable.
        self.assertEqual([loop[i] for i in waits], [f"s_waitcnt vmcnt({younger}) lgkmcnt(0)"] * tiles_in_loop)
        # A workgroup of one wave meets nobody, and LLVM drops its barriers; the waits must stay.
        barriers = tiles_in_loop if config.waves > 1 else 0
        self.assertEqual(loop.count("s_barrier"), barriers)
        # Interleaved, the reads of a K tile's later steps stand before the wait and those of the next one's first
        # behind it, so a loop that is turned by that much holds the same.
        start = waits[0]
        turned = loop[start:] + loop[:start]
        waits = [i for i, line in enumerate(turned) if line.startswith("s_waitcnt") and "vmcnt" in line]
        straight = (tiles_m if spec.a_layout == "k" else 0) + (tiles_n if spec.b_layout == "k" else 0)
        for first, last in zip(waits, [*waits[1:], len(turned)], strict=True):
            part = turned[first:last]
            self.assertEqual(sum(line.endswith(" lds") for line in part), config.loads_per_stage)
            self.assertEqual(sum(line.startswith("ds_read_b128") for line in part), straight * config.steps)
            transposed = 2 * (tiles_m + tiles_n - straight) * config.steps
            self.assertEqual(sum(line.startswith("ds_read_b64_tr_b16") for line in part), transposed)
        # Over the whole kernel: no barrier without its wait, and ever fewer loads in flight behind the loop.
        meetings = waits_at_barriers(isa) if config.waves > 1 else waits_for_stages(isa)
        before = [(config.stages - 1) * config.loads_per_stage] if config.interleave else []
        in_loops = [younger] * (tiles - config.loaded_ahead)
        behind = [(config.stages - 2 - left) * config.loads_per_stage for left in range(config.stages - 1)]
        sums = [0, 0] if config.waves_k > 1 else []
        shares = [0, 0] if config.split_k > 1 else []
        self.assertEqual(sorted(meetings), sorted(before + in_loops + behind + sums + shares))

    def test_parts_are_released_before_they_are_counted_and_acquired_before_they_are_read(self):
        """The XCDs' L2s do not see each other's writes by themselves, which the emulator does not model."""
        isa = assembly(GemmSpec(dtype="bf16", config=SPLIT, arch="gfx950", k_tail=False))
        order = (
            r"buffer_store_dwordx4",  # a part
            r"buffer_wbl2 sc1",
            r"s_waitcnt vmcnt\(0\)",
            r"s_barrier",
            r"global_atomic_add v\d+, .* sc0",  # counted, and how many were before
            r"ds_write_b32",
            r"s_barrier",
            r"ds_read_b32",
            r"s_cbranch",  # of the last only
            r"buffer_inv sc1",
            r"buffer_load_dwordx4 v\[",  # the parts
            r"buffer_store_dwordx[24]",  # C
            r"global_store_dword v",  # the counter is 0 again
        )
        self.assertRegex(isa, re.compile(".*".join(order), re.DOTALL))
        parts = isa[isa.index("buffer_wbl2 sc1") :]
        self.assertLess(parts.index("buffer_inv sc1"), re.search(r"buffer_load_dwordx4 v\[", parts).start())

    def test_arch_is_ours_whatever_the_environment_says(self):
        # I1: FlyDSL alone takes the environment's word, and gfx942 where there is none.
        spec = GemmSpec(dtype="bf16", config=SMALL, arch="gfx950", k_tail=False)
        with unittest.mock.patch.dict(os.environ, {"FLYDSL_GPU_ARCH": "gfx1100", "ARCH": "gfx942"}):
            before = dict(os.environ)
            isa = assembly(spec)
            self.assertEqual({k: v for k, v in os.environ.items() if k in before}, before)
        self.assertIn('"amdgcn-amd-amdhsa-unknown-gfx950"', isa)


def run(config: GemmConfig, a, b_nk, out, layouts=("k", "k"), epilogue=IDENTITY, inputs=()) -> int:
    """Run the kernel on tensors as they lie; how often it was launched."""
    from torch._inductor.kernel.flydsl.gemm import compile_gemm

    problem = problem_of(a, b_nk, out, *layouts, epilogue, inputs)
    compiled = compile_gemm(gemm_config.spec_for(problem, config, target.device_arch(out.device.index)))
    before = compiled.launches
    compiled(a, b_nk, out, torch.cuda.current_stream().cuda_stream, *inputs)
    torch.cuda.synchronize()
    return compiled.launches - before


def emulated_launches(name: str) -> int | None:
    """How often the emulated device ran a kernel; None on a real one, which does not count."""
    emulator = sys.modules.get("gfx950_emulator")
    return None if emulator is None else emulator.launch_counts().get(name, 0)


def shapes_of(config: GemmConfig) -> list[tuple[int, int, int]]:
    """M, N, K that reach every tail of a configuration, as small as they come."""
    k = config.tile_k * config.loaded_ahead * config.split_k
    return [
        (1, 8, k),
        (config.tile_m * 2 + 1, config.tile_n + 8, k + 8),  # M3: the last row of a partial tile; K tail of one chunk
        (config.tile_m + 15, config.tile_n * 2 - 8, k + 2 * config.tile_k),
    ]


@unittest.skipUnless(ON_GFX950, "running needs a gfx950, real or emulated (python -m gfx950_emulator)")
@instantiate_parametrized_tests
class TestValues(TestCase):
    def check(self, config, m, n, k, dtype, pads=(0, 0, 0), seed=0, layouts=("k", "k"), out_dtype=None):
        """Integers exactly, normal numbers within the bound, in poisoned surroundings that nobody reads or writes."""
        pad_a, pad_b, pad_c = pads
        stored = DTYPES[out_dtype or dtype]
        for make, exact in ((reference.integer_inputs, True), (reference.normal_inputs, False)):
            a, b_nk = make(m, n, k, DTYPES[dtype], seed)
            a_device = reference.laid_out(a, layouts[0] == "k", pad_a, "cuda")
            b_device = reference.laid_out(b_nk, layouts[1] == "k", pad_b, "cuda")
            # Guard rows before and behind C, and the padding between its rows, keep their poison.
            stride, guard = n + pad_c, 2
            backing = torch.full((m + 2 * guard, stride), 12345.0, dtype=stored, device="cuda")
            out = backing[guard : guard + m, :n]
            self.assertEqual(run(config, a_device, b_device, out, layouts), 1)
            result = backing.cpu()
            if exact:
                expected = reference.rounded(a, b_nk, stored)
                self.assertTrue(torch.equal(result[guard : guard + m, :n], expected))
            else:
                self.assertLessEqual(reference.excess(result[guard : guard + m, :n], a, b_nk), 1.0)
            result[guard : guard + m, :n] = 12345.0
            self.assertTrue((result == torch.tensor(12345.0, dtype=stored)).all(), "wrote outside C")

    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_every_config_on_its_tails(self, config):
        for (m, n, k), dtype, layouts in zip(shapes_of(config), ("bf16", "fp16", "bf16"), LAYOUTS[1:], strict=True):
            self.check(config, m, n, k, dtype, layouts=layouts)

    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_padded_rows(self, config):
        k = config.tile_k * config.loaded_ahead * config.split_k + 8
        self.check(config, config.tile_m + 1, config.tile_n + 8, k, "bf16", pads=(8, 24, 16))

    @settings(deadline=None, max_examples=25, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(
        m=st.one_of(st.just(1), st.integers(1, 300)),
        n8=st.integers(1, 40),
        k8=st.integers(1, 70),
        dtype=st.sampled_from(["bf16", "fp16"]),
        out_dtype=st.sampled_from([None, "fp32"]),
        layouts=st.sampled_from(LAYOUTS),
        pads=st.tuples(*[st.sampled_from([0, 8, 40])] * 3),
        data=st.data(),
    )
    def test_drawn_shapes(self, m, n8, k8, dtype, out_dtype, layouts, pads, data):
        n, k = 8 * n8, 8 * k8
        lda = k if layouts[0] == "k" else (m + 7) // 8 * 8
        ldb = k if layouts[1] == "k" else n
        problem = GemmProblem(
            m=m,
            n=n,
            k=k,
            dtype=dtype,
            out_dtype=out_dtype,
            lda=lda + pads[0],
            ldb=ldb + pads[1],
            ldc=n + pads[2],
            a_layout=layouts[0],
            b_layout=layouts[1],
        )
        config = data.draw(st.sampled_from(gemm_config.configs(problem)))
        self.check(config, m, n, k, dtype, pads, seed=m + n + k, layouts=layouts, out_dtype=out_dtype)

    def test_workgroups_that_share_tiles_leave_zeros(self):
        """Whatever a launch counts in is 0 for the next one, of another kernel and of another size."""
        from torch._native.flydsl import counters

        for config, m, n in ((SPLIT, 130, 136), (dataclasses.replace(SPLIT, split_k=2), 70, 264), (SPLIT, 1, 8)):
            self.check(config, m, n, 64 * 3 * 3, "bf16")
            for each in [x for of_stream in counters._of.values() for x in of_stream]:
                self.assertEqual(int(each.abs().sum()), 0)

    @parametrize("shared", ["none", "a", "b"])
    @parametrize("config", [SMALL, SPLIT], name_fn=lambda config: config.name)
    def test_batches(self, config, shared):
        batch, m, n, k = 3, 37, 72, 136 * config.split_k
        pairs = [reference.integer_inputs(m, n, k, torch.bfloat16, seed) for seed in range(batch)]
        a, b_nk = (torch.stack(each).cuda() for each in zip(*pairs, strict=True))
        a = a[:1].expand(batch, m, k) if shared == "a" else a
        b_nk = b_nk[:1].expand(batch, n, k) if shared == "b" else b_nk
        backing = torch.full((batch, m + 1, n + 8), 7.0, dtype=torch.bfloat16, device="cuda")
        run(config, a, b_nk, backing[:, :m, :n])
        result = backing.cpu()
        self.assertTrue(torch.equal(result[:, :m, :n], reference.rounded(a, b_nk)))
        result[:, :m, :n] = 7.0
        self.assertTrue((result == 7.0).all(), "wrote outside C")

    @parametrize("config", DEFAULT_CONFIGS, name_fn=lambda config: config.name)
    def test_the_same_again(self, config):
        # And under another order of waves, which on hardware nobody chooses.
        k = config.tile_k * (config.loaded_ahead + 1) * config.split_k
        a, b_nk = (x.cuda() for x in reference.normal_inputs(config.tile_m, config.tile_n, k, torch.bfloat16))
        results = []
        for schedule in ("run_to_barrier", "round_robin"):
            out = torch.empty(config.tile_m, config.tile_n, dtype=a.dtype, device="cuda")
            with unittest.mock.patch.dict(os.environ, {"GFX950_SCHEDULE": schedule}):
                run(config, a, b_nk, out)
            results.append(out.cpu())
        self.assertTrue(torch.equal(*results))

    def test_rows_do_not_depend_on_the_tail_of_m(self):
        a, b_nk = (x.cuda() for x in reference.normal_inputs(130, 64, 192, torch.bfloat16))
        whole = torch.empty(130, 64, dtype=a.dtype, device="cuda")
        part = torch.empty(67, 64, dtype=a.dtype, device="cuda")
        run(SMALL, a, b_nk, whole)
        run(SMALL, a[:67], b_nk, part)
        self.assertTrue(torch.equal(whole[:67].cpu(), part.cpu()))

    def test_nan_and_inf_reach_only_their_row_and_column(self):
        a, b_nk = reference.integer_inputs(70, 72, 136, torch.bfloat16)
        a[3, 135] = float("nan")
        b_nk[71, 0] = float("inf")
        a[:, 0] = 1.0
        out = torch.empty(70, 72, dtype=a.dtype, device="cuda")
        run(SMALL, a.cuda(), b_nk.cuda(), out)
        out = out.cpu()
        expected = reference.product(a, b_nk).float().to(a.dtype)
        self.assertTrue(torch.equal(out.isnan(), expected.isnan()))
        self.assertTrue(torch.equal(out.nan_to_num(0.0), expected.nan_to_num(0.0)))
        self.assertEqual(int(out.isnan().sum()), 72)

    def test_two_calls_are_two_launches(self):
        # I12: the first call compiles and must not compute twice or not at all.
        from torch._inductor.kernel.flydsl.gemm import CompiledGemm

        a, b_nk = (x.cuda() for x in reference.integer_inputs(64, 64, 64, torch.bfloat16))
        compiled = CompiledGemm(GemmSpec(dtype="bf16", config=SMALL, arch="gfx950", k_tail=False))
        before = emulated_launches(compiled.spec.name)
        for launches in (1, 2):
            out = torch.full((64, 64), 7.0, dtype=torch.bfloat16, device="cuda")
            compiled(a, b_nk, out, torch.cuda.current_stream().cuda_stream)
            torch.cuda.synchronize()
            self.assertEqual(compiled.launches, launches)
            if before is not None:
                self.assertEqual(emulated_launches(compiled.spec.name), before + launches)
            self.assertTrue(torch.equal(out.cpu(), reference.rounded(a, b_nk)))

    def test_compile_only_in_the_environment_is_an_error(self):
        from torch._inductor.kernel.flydsl.gemm import CompiledGemm

        a, b_nk = (x.cuda() for x in reference.integer_inputs(64, 64, 64, torch.bfloat16))
        out = torch.empty(64, 64, dtype=torch.bfloat16, device="cuda")
        compiled = CompiledGemm(GemmSpec(dtype="bf16", config=SMALL, arch="gfx950", k_tail=False))
        with (
            unittest.mock.patch.dict(os.environ, {"COMPILE_ONLY": "1"}),
            self.assertRaisesRegex(RuntimeError, "COMPILE_ONLY=1 is set"),
        ):
            compiled(a, b_nk, out, 0)

    @parametrize(
        "change, words",
        [
            (lambda a, b, out: (a.half(), b, out), "a is torch.float16"),
            (lambda a, b, out: (a[:, :56], b, out), r"is not \(64, 64\)"),
            (lambda a, b, out: (a[:, :56], b[:, :56], out), "without a K tail"),
            (lambda a, b, out: (a, b, out[:, :60]), r"is not \(64, 60\)"),
            (lambda a, b, out: (a.T, b, out), "not contiguous rows"),
            (lambda a, b, out: (a, b, out.float()), "compiled for bf16 and bf16"),
            (
                lambda a, b, out: (a.flatten()[1 : 1 + 63 * 64].view(63, 64), b, out[:63]),
                "is not a multiple of 16 bytes",
            ),
        ],
        name_fn=lambda change, words: re.sub(r"\W+", "_", words),
    )
    def test_wrong_arguments_are_named(self, change, words):
        from torch._inductor.kernel.flydsl.gemm import compile_gemm

        a, b_nk = (x.cuda() for x in reference.integer_inputs(64, 64, 64, torch.bfloat16))
        out = torch.empty(64, 64, dtype=torch.bfloat16, device="cuda")
        compiled = compile_gemm(GemmSpec(dtype="bf16", config=SMALL, arch="gfx950", k_tail=False))
        with self.assertRaisesRegex(ValueError, words):
            compiled(*change(a, b_nk, out), 0)


if __name__ == "__main__":
    run_tests()
