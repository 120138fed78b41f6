# Owner(s): ["module: inductor"]
"""T0: what the GEMM accepts, its configurations, its LDS layout and the order of its workgroups. Needs no flydsl."""

import dataclasses
import itertools
import os
import subprocess
import sys
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st
from torch._inductor.kernel.flydsl import epilogue_expr, gemm_config, lds_layout, workgroup_order
from torch._inductor.kernel.flydsl.gemm_config import DEFAULT_CONFIGS, GemmConfig, GemmProblem, GemmSpec
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

GOOD = GemmConfig(tile_m=128, tile_n=128, tile_k=64, stages=2, waves_m=2, waves_n=2)
BIAS = epilogue_expr.EpilogueInput(dtype="bf16", kind="row")
EVERY_CONFIG = (*DEFAULT_CONFIGS, *gemm_config._exhaustive_space())


def problem(m=512, n=1024, k=2048, dtype="bf16", lda=None, ldb=None, ldc=None):
    return GemmProblem(m=m, n=n, k=k, dtype=dtype, lda=lda or k, ldb=ldb or k, ldc=ldc or n)


def config_name(config):
    return config.name


@instantiate_parametrized_tests
class TestMay(TestCase):
    @parametrize(
        "accepted",
        [
            problem(),
            problem(m=1),
            problem(m=1, lda=3, ldc=5),  # a single row's stride is never used
            problem(n=8, k=8),
            problem(lda=2056, ldb=2064, ldc=1032),
            problem(dtype="fp16"),
            problem(m=2**19, n=2048, k=4088),  # A: 2^19 * 4088 * 2 bytes, just below 2^32
        ],
        name_fn=str,
    )
    def test_accepted(self, accepted):
        self.assertIsNone(gemm_config.unsupported_reason(accepted))
        self.assertIsNotNone(gemm_config.default_config(accepted))

    @parametrize(
        "refused, words",
        [
            (problem(dtype="fp32"), "dtype fp32"),
            (problem(m=0), "M=0"),
            (problem(n=0, ldc=8), "N=0"),
            (problem(k=0, lda=8, ldb=8), "K=0"),
            (problem(n=1020), "N=1020 is not a multiple of 8"),
            (problem(k=2044), "K=2044 is not a multiple of 8"),
            (problem(lda=2040), "A: row stride 2040 is below its 2048 columns"),
            (problem(ldb=2052), "B: row stride 2052 is not a multiple of 8"),
            (problem(ldc=1028), "C: row stride 1028 is not a multiple of 8"),
            (problem(m=175000, k=12288), "A spans"),  # M1: 2^31 elements
            (problem(m=2**20, n=2048, k=64), "C spans"),  # M2: the output
            (problem(m=3, n=64, k=64, ldc=2**30), "C spans"),  # M2: by (M-1)*stride, not by elements
            (problem(n=2**20, k=2048, ldc=2**20, m=1), "B spans"),
            (problem(m=2**31), "M=2147483648 is not below 2^31"),
        ],
        name_fn=lambda refused, words: words.split(" is ")[0].replace(" ", "_") + f"_{refused.m}_{refused.ldc}",
    )
    def test_refused_with_the_reason(self, refused, words):
        reason = gemm_config.unsupported_reason(refused)
        self.assertIn(words, reason)
        self.assertEqual(gemm_config.configs(refused), [])
        self.assertIsNone(gemm_config.default_config(refused))
        with self.assertRaisesRegex(ValueError, "cannot compute"):
            gemm_config.spec_for(refused, GOOD, "gfx950")

    # M8: offsets of batches are 64 bits, so only a batch's own span counts.
    @parametrize(
        "changes, words",
        [
            ({"batch": 1024, "stride_a": 2**22, "stride_b": 0, "stride_c": 2**22}, None),
            ({"batch": 65536, "stride_c": 2**22}, "batch=65536 is over 65535"),
            ({"batch": 2, "stride_c": 2**22 - 8}, "batches overlap"),
            ({"batch": 2, "stride_c": 2**22, "stride_a": 4}, "A: batch stride 4 is not a multiple of 16 bytes"),
            ({"batch": 2, "stride_c": 2**22, "stride_b": -8}, "B: batch stride -8 is negative"),
            ({"batch": 60000, "stride_c": 2**40}, "2^47 bytes of address space"),
            ({"a_layout": "m", "m": 2041}, None),  # rows of a multiple of 8 elements, the last not all used
            ({"a_layout": "m", "lda": 2044}, "A: row stride 2044 is below its 2048 columns"),
            ({"b_layout": "n", "ldb": 2052}, "B: row stride 2052 is not a multiple of 8"),
            ({"b_layout": "n", "n": 2**20, "ldb": 2**20, "ldc": 2**20, "m": 64}, "B spans"),
            ({"a_layout": "n"}, "layouts n, k are not"),
            ({"out_dtype": "fp8"}, "out_dtype fp8 is not one of"),
            ({"out_dtype": "fp32", "m": 2**19 + 1}, "C spans"),  # four bytes an element
            ({"epilogue": epilogue_expr.addmm(BIAS)}, "strides of 0 epilogue inputs, there are 1"),
        ],
        name_fn=lambda changes, words: (
            "_".join(f"{k}_{v}" for k, v in changes.items() if k != "epilogue").replace("-", "minus_").replace(" ", "_")
            or "epilogue"
        ),
    )
    def test_batches_layouts_and_outputs(self, changes, words):
        square = problem(m=2048, n=2048, k=2048)
        reason = gemm_config.unsupported_reason(dataclasses.replace(square, **changes))
        self.assertIsNone(reason) if words is None else self.assertIn(words, reason)

    def test_span_limit_is_exact(self):
        # ((m - 1) * lda + k) * 2 bytes around 2^32
        rows = 2**19
        self.assertIsNone(gemm_config.unsupported_reason(problem(m=rows, n=64, k=64, lda=4096)))
        self.assertIn("A spans", gemm_config.unsupported_reason(problem(m=rows + 1, n=64, k=64, lda=4096)))

    def test_flydsl_that_is_too_old_for_the_kernel(self):
        # I11: inside the releases that the project accepts, and still not enough for this kernel.
        self.assertIsNone(target.release_unsupported_reason("0.3.0"))
        self.assertIn("too old", target.release_unsupported_reason("0.3.0", gemm_config.FLYDSL_AT_LEAST))
        self.assertIsNone(target.release_unsupported_reason("0.3.4.1", gemm_config.FLYDSL_AT_LEAST))
        with (
            mock.patch.object(target, "unavailable_reason", return_value=None),
            mock.patch.object(target, "flydsl_version", return_value="0.3.0"),
        ):
            self.assertIn("flydsl 0.3.0 is too old; install a release >=0.3.4,<0.4", gemm_config.unavailable_reason())
        with mock.patch.object(target, "unavailable_reason", return_value="not a ROCm build"):
            self.assertEqual(gemm_config.unavailable_reason(), "not a ROCm build")


@instantiate_parametrized_tests
class TestConfigs(TestCase):
    @parametrize("config", DEFAULT_CONFIGS, name_fn=config_name)
    def test_default_list_is_valid(self, config):
        self.assertIsNone(gemm_config.invalid_reason(config))

    def test_names_are_distinct(self):
        self.assertEqual(len({c.name for c in EVERY_CONFIG}), len(set(EVERY_CONFIG)))

    @parametrize(
        "changes, words",
        [
            ({"tile_m": 48, "waves_m": 2}, "tile_m=48 is not a multiple of waves_m*16=32"),
            ({"tile_n": 48, "waves_n": 2}, "tile_n=48 is not a multiple of waves_n*16=32"),
            ({"tile_k": 32}, "tile_k=32 is not 64, 128, 256 or 512"),
            ({"waves_k": 4}, "tile_k=64 is not a multiple of waves_k*32=128"),
            ({"split_k": 0}, "split_k=0 is not positive"),
            ({"tile_n": 96, "waves_n": 1, "waves_m": 1}, "tile_n=96 is not a power of two"),
            ({"stages": 1}, "stages=1"),
            ({"stages": 6}, "196608 bytes of LDS, over 163840"),
            ({"waves_m": 4, "waves_n": 8, "tile_m": 256, "tile_n": 256}, "2048 threads, over 1024"),
            ({"tile_m": 256, "waves_m": 1, "waves_n": 1}, "it would spill"),
            ({"tile_m": 0}, "tile_m=0 is not positive"),
            ({"group_m": -1}, "group_m=-1"),
            # M3: a partial A tile would not be loaded whole
            (
                {"tile_m": 112, "waves_m": 1, "waves_n": 4},
                "A tile of 112x64 is 14336 bytes, not a multiple of 4 waves x 1024",
            ),
            ({"tile_m": 16, "waves_m": 1, "waves_n": 4}, "A tile of 16x64 is 2048 bytes"),
        ],
        name_fn=lambda changes, words: "_".join(f"{k}_{v}" for k, v in changes.items()),
    )
    def test_invalid_with_the_arithmetic(self, changes, words):
        self.assertIsNone(gemm_config.invalid_reason(GOOD))
        self.assertIn(words, gemm_config.invalid_reason(dataclasses.replace(GOOD, **changes)))

    def test_too_many_outstanding_loads(self):
        config = GemmConfig(tile_m=16, tile_n=64, tile_k=256, stages=4, waves_m=1, waves_n=1)
        self.assertIn("120 outstanding loads a wave, over 63", gemm_config.invalid_reason(config))

    @parametrize(
        "refused, config, words",
        [
            (problem(k=64), dataclasses.replace(GOOD, stages=4), "1 K tiles, fewer than the 3"),
            (problem(m=3, lda=2**24), GOOD, "A: a tile of 128 rows spans"),
            (problem(m=2**22, n=64, k=8), dataclasses.replace(GOOD, tile_m=0), "tile_m=0"),
        ],
        name_fn=lambda refused, config, words: words.split(" ")[0].strip(":") + f"_{refused.m}",
    )
    def test_config_refused_for_a_problem(self, refused, config, words):
        self.assertIn(words, gemm_config.config_unsupported_reason(refused, config))
        with self.assertRaisesRegex(ValueError, "cannot compute"):
            gemm_config.spec_for(refused, config, "gfx950")

    def test_spec_for_another_arch(self):
        with self.assertRaisesRegex(ValueError, "gfx942"):
            gemm_config.spec_for(problem(), GOOD, "gfx942")

    @settings(deadline=None, max_examples=200)
    @given(st.integers(1, 9000), st.integers(1, 1200), st.integers(1, 1200))
    def test_every_supported_problem_has_candidates(self, m, n8, k8):
        p = problem(m=m, n=8 * n8, k=8 * k8)
        default = gemm_config.configs(p)
        self.assertGreater(len(default), 0)
        self.assertEqual(default[0], gemm_config.default_config(p))
        for candidate in default:
            self.assertIsNone(gemm_config.config_unsupported_reason(p, candidate))
            self.assertEqual(gemm_config.spec_for(p, candidate, "gfx950").k_tail, p.k % candidate.tile_k != 0)
        exhaustive = gemm_config.configs(p, exhaustive=True)
        self.assertLess(len(exhaustive), 64)
        self.assertEqual(len(exhaustive), len(set(exhaustive)))

    def test_one_default_does_not_serve_all_shapes(self):
        shapes = [(8, 4096, 4096), (512, 1024, 2048), (8192, 8192, 8192)]
        self.assertEqual(len({gemm_config.default_config(problem(m, n, k)) for m, n, k in shapes}), 3)


class TestSpecKey(TestCase):
    SPEC = GemmSpec(dtype="bf16", config=GOOD, arch="gfx950", k_tail=False)

    def test_every_field_changes_the_key(self):
        # I4: a kernel cached for one set of compile-time parameters must not serve another.
        keys = [self.SPEC.key]
        changes = [{"dtype": "fp16"}, {"arch": "gfx942"}, {"k_tail": True}, {"out_dtype": "fp32"}, {"a_layout": "m"}]
        changes += [{"b_layout": "n"}, {"epilogue": epilogue_expr.addmm(BIAS)}]
        keys += [dataclasses.replace(self.SPEC, **change).key for change in changes]
        for field in dataclasses.fields(GemmConfig):
            value = getattr(GOOD, field.name)
            changed = dataclasses.replace(GOOD, **{field.name: not value if isinstance(value, bool) else value + 1})
            keys.append(dataclasses.replace(self.SPEC, config=changed).key)
        self.assertEqual(len(set(keys)), 1 + len(changes) + len(dataclasses.fields(GemmConfig)))
        tested = {name for change in changes for name in change}
        self.assertEqual({f.name for f in dataclasses.fields(GemmSpec)}, {"config"} | tested, "a new field needs a key")

    def test_key_is_equal_in_another_process(self):
        # I7
        program = f"from torch._inductor.kernel.flydsl.gemm_config import *\nprint({self.SPEC!r}.key)"
        env = {**os.environ, "PYTHONHASHSEED": "7"}
        result = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
        self.assertEqual(result.stdout.strip(), str(self.SPEC.key))


def bank_conflicts(addresses: list[int], size: int, phases: list[list[int]]) -> int:
    """Extra passes that a wave's LDS read of ``size`` bytes a lane at these addresses needs beyond one a phase."""
    extra = 0
    for phase in phases:
        # Equal addresses are served together.
        touched = [
            (address // target.LDS_BANK_BYTES + word) % target.LDS_BANKS
            for address in {addresses[lane] for lane in phase}
            for word in range(size // target.LDS_BANK_BYTES)
        ]
        extra += max(touched.count(bank) for bank in set(touched)) - 1
    return extra


B128_PHASES = [
    [lane + offset for lane in phase] for offset, phase in itertools.product((0, 32), target.DS_READ_B128_PHASES)
]
B64_PHASES = [list(range(32)), list(range(32, 64))]
LANES = range(target.WAVE_SIZE)
STRAIGHT = [lds_layout.Straight(64, tile_k) for tile_k in (64, 128, 256, 512)]
TRANSPOSED = [lds_layout.Transposed(cols, tile_k) for cols in (16, 32, 64, 128, 256) for tile_k in (64, 128)]


def layout_name(layout):
    return "_".join((type(layout).__name__, *map(str, dataclasses.astuple(layout))))


@instantiate_parametrized_tests
class TestLdsLayout(TestCase):
    @parametrize("layout", STRAIGHT, name_fn=layout_name)
    def test_straight_reads_have_no_bank_conflicts(self, layout):
        for step in range(layout.tile_k // 32):
            addresses = [2 * layout.read_item(lane, step) for lane in LANES]
            self.assertEqual(bank_conflicts(addresses, 16, B128_PHASES), 0)
            plain = [2 * ((lane % 16) * layout.tile_k + step * 32 + lane // 16 * 8) for lane in LANES]
            self.assertGreater(bank_conflicts(plain, 16, B128_PHASES), 0)  # the counter counts

    @parametrize("layout", TRANSPOSED, name_fn=layout_name)
    def test_transposed_reads_have_no_bank_conflicts(self, layout):
        for step, half, unit in itertools.product(range(layout.tile_k // 32), range(2), range(layout.cols // 16)):
            addresses = [2 * layout.read_item(lane, step, half, unit) for lane in LANES]
            self.assertEqual(bank_conflicts(addresses, 8, B64_PHASES), 0)
            # In rows as they come, the two groups' rows lie apart by a multiple of 256 bytes.
            rows = [step * 32 + lane // 16 * 8 + half * 4 + lane // 4 % 4 for lane in LANES]
            plain = [2 * (row * layout.cols + unit * 16 + lane % 4 * 4) for row, lane in zip(rows, LANES, strict=True)]
            self.assertGreater(bank_conflicts(plain, 8, B64_PHASES), 0)

    @parametrize("layout", STRAIGHT + TRANSPOSED, name_fn=layout_name)
    def test_places_are_a_permutation_that_the_loads_invert(self, layout):
        rows = layout.rows if isinstance(layout, lds_layout.Straight) else layout.tile_k
        places = []
        for row, chunk in itertools.product(range(rows), range(layout.chunks_per_row)):
            places.append(layout.position(row, chunk))
            self.assertEqual(layout.chunk_at(places[-1]), (row, chunk))
        self.assertEqual(sorted(places), list(range(rows * layout.chunks_per_row)))

    @parametrize("layout", STRAIGHT, name_fn=layout_name)
    def test_straight_reads_get_the_rows_of_their_tile(self, layout):
        for step, tile, lane in itertools.product(range(layout.tile_k // 32), range(4), LANES):
            place, inside = divmod(layout.read_item(lane, step) + tile * 16 * layout.tile_k, 8)
            row, chunk = layout.chunk_at(place)
            self.assertEqual((row, chunk * 8 + inside), (tile * 16 + lane % 16, step * 32 + lane // 16 * 8))

    @parametrize("layout", TRANSPOSED, name_fn=layout_name)
    def test_transposed_reads_get_the_rows_and_columns_of_their_tile(self, layout):
        # Lane 4j + c of a group points to row j and columns 4c..4c+3 of the block that the hardware transposes.
        for step, half, unit in itertools.product(range(layout.tile_k // 32), range(2), range(layout.cols // 16)):
            for lane in LANES:
                place, inside = divmod(layout.read_item(lane, step, half, unit), 8)
                row, chunk = layout.chunk_at(place)
                self.assertEqual(row, step * 32 + lane // 16 * 8 + half * 4 + lane // 4 % 4)
                self.assertEqual(chunk * 8 + inside, unit * 16 + lane % 4 * 4)
                constant = layout.read_item(lane, 0, 0, unit) + layout.offset(step, half)
                self.assertEqual(layout.read_item(lane, step, half, unit), constant)


class TestWorkgroupOrder(TestCase):
    @settings(deadline=None, max_examples=300)
    @given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([0, 1, 2, 4, 7]))
    def test_every_tile_is_computed_once(self, tiles_m, tiles_n, group_m):
        tiles = [workgroup_order.tile_of(i, tiles_m, tiles_n, group_m) for i in range(tiles_m * tiles_n)]
        self.assertEqual(sorted(tiles), list(itertools.product(range(tiles_m), range(tiles_n))))

    def test_an_xcd_gets_neighbouring_tiles(self):
        tiles = [workgroup_order.tile_of(i, 32, 32, 4) for i in range(32 * 32)]
        first_xcd = tiles[:: target.XCDS]
        # 128 tiles in bands of 4 rows: few rows of A and columns of B for one L2.
        self.assertEqual(len(first_xcd), 128)
        self.assertEqual({row for row, _ in first_xcd}, {0, 1, 2, 3})
        plain = [workgroup_order.tile_of(i, 32, 32, 0) for i in range(32 * 32)]
        self.assertEqual(plain[:3], [(0, 0), (1, 0), (2, 0)])


if __name__ == "__main__":
    run_tests()
