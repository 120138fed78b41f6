"""v_cvt_scalef32_* of 32 six-bit elements (pk32, 2xpk16, sr_pk32), against ml_dtypes.

The order of the elements, the scale and the step of the random word are from AMD's CDNA4 pseudocode, as in tinygrad
0.14.0; stochastic rounding is what the CDNA4 ISA document, section 7.3, says: add random bits, then truncate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from assemble import KernelText
from core_library import Program
from scaled_formats import FORMATS, decoded, encoded, next_random, scale_of, wide_values

U32, F32, F64 = np.uint32, np.float32, np.float64
LANES, ELEMENTS = 64, 32
EXEC = 0xF0F3A5A5123455AB
# v8.. destination, v48.. sources, v100 scale, v101 random word
SCALES = np.array([code << 23 for code in (127, 128, 126, 100, 150)] + [0x3FC00000, 0xBF800000], U32)
WIDE_BITS = {"f32": 32, "f16": 16, "bf16": 16}


@dataclass(frozen=True)
class Block:
    name: str  # of the six-bit format
    wide: str
    kind: str  # "unpack", "pack", "pack2" (two sources), "stochastic"
    scale: str = "v100"

    @property
    def text(self) -> str:
        def span(first: int, count: int) -> str:
            return f"v[{first}:{first + count - 1}]"

        wide = WIDE_BITS[self.wide]
        prefix = "v_cvt_scalef32_"
        if self.kind == "unpack":
            return f"{prefix}pk32_{self.wide}_{self.name} {span(8, wide)}, {span(48, 6)}, {self.scale}"
        if self.kind == "pack":
            return f"{prefix}pk32_{self.name}_{self.wide} {span(8, 6)}, {span(48, wide)}, {self.scale}"
        if self.kind == "pack2":
            return f"{prefix}2xpk16_{self.name}_{self.wide} {span(8, 6)}, {span(48, 16)}, {span(64, 16)}, {self.scale}"
        return f"{prefix}sr_pk32_{self.name}_{self.wide} {span(8, 6)}, {span(48, wide)}, v101, {self.scale}"

    @property
    def source_rows(self) -> int:
        return 6 if self.kind == "unpack" else WIDE_BITS[self.wide]

    @property
    def result_rows(self) -> int:
        return WIDE_BITS[self.wide] if self.kind == "unpack" else 6

    def kernel(self, name: str) -> KernelText:
        lines = ["s_load_dwordx4 s[4:7], s[0:1], 0x0", "v_lshlrev_b32_e32 v1, 2, v0", "s_waitcnt lgkmcnt(0)"]
        lines.append("s_load_dword s20, s[4:5], 0x0")
        rows = [100, 101, *range(48, 48 + self.source_rows), *range(8, 8 + self.result_rows)]
        for row in rows:
            lines += [f"global_load_dword v{row}, v1, s[4:5]", "s_waitcnt vmcnt(0) lgkmcnt(0)"]
            lines += ["s_add_u32 s4, s4, 256", "s_addc_u32 s5, s5, 0"]
        lines += [f"s_mov_b32 exec_lo, {EXEC & 0xFFFFFFFF:#x}", f"s_mov_b32 exec_hi, {EXEC >> 32:#x}"]
        lines += [self.text, "s_nop 7", "s_mov_b64 exec, -1"]
        for row in range(8, 8 + self.result_rows):
            lines += [f"global_store_dword v1, v{row}, s[6:7]", "s_add_u32 s6, s6, 256", "s_addc_u32 s7, s7, 0"]
        return KernelText(name, "\n".join(lines), kernarg_size=16, vgprs=104)

    def scales(self, drawn: np.ndarray) -> np.ndarray:
        if self.scale == "v100":
            return drawn
        return np.full_like(drawn, drawn[0] if self.scale == "s20" else F32(float(self.scale)).view(U32))


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """[lane, element] -> [register, lane], the first element lowest."""
    words = codes.shape[1] * bits // 32
    result = np.zeros((words, LANES), U32)
    for lane in range(LANES):
        number = sum(int(code) << (bits * index) for index, code in enumerate(codes[lane]))
        result[:, lane] = [number >> (32 * word) & 0xFFFFFFFF for word in range(words)]
    return result


CASES = [
    Block(name, wide, kind)
    for name in ("fp6", "bf6")
    for wide in WIDE_BITS
    for kind in ("unpack", "stochastic", "pack2" if wide == "f32" else "pack")
]
CASES += [Block("fp6", "f32", "unpack", "s20"), Block("bf6", "f16", "pack", "2.0"), Block("bf6", "f32", "pack2", "s20")]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case.text for case in CASES])
@pytest.mark.parametrize("seed", range(3))
def test_block(program: Program, index: int, seed: int) -> None:
    case, generator = CASES[index], np.random.default_rng(seed)
    wide = WIDE_BITS[case.wide]
    drawn = generator.choice(SCALES, LANES)
    randoms = generator.integers(0, 1 << 32, LANES, dtype=U32)
    scale = scale_of(case.scales(drawn))[:, None]
    old = generator.integers(0, 1 << 32, (case.result_rows, LANES), dtype=U32)
    if case.kind == "unpack":
        codes = generator.integers(0, 64, (LANES, ELEMENTS), dtype=U32)
        source = packed(codes, 6)
        expected = packed(wide_values(case.wide, decoded(case.name, codes) * scale), wide)
    else:
        # Up to twice the largest number; a quarter of it exact numbers of the format or halfway between them.
        largest = float(FORMATS[case.name].largest)
        values = generator.uniform(-2 * largest, 2 * largest, (LANES, ELEMENTS)) * generator.choice([1, 0.1, 0.01], 32)
        steps = decoded(case.name, generator.integers(0, 64, (LANES, ELEMENTS), dtype=U32))
        halfway = steps * generator.choice([1, 1 + 2**-4, 1 + 2**-3], steps.shape)
        values = np.where(generator.random(values.shape) < 0.25, halfway, values)
        values[0, :4] = [np.inf, -np.inf, 0.0, -0.0]
        bits = wide_values(case.wide, values * scale)
        exact = decoded(case.wide, bits) / scale
        random = np.empty(exact.shape, U32)
        random[:, 0] = randoms
        for element in range(1, ELEMENTS):
            random[:, element] = next_random(random[:, element - 1])
        expected = packed(encoded(case.name, exact, random if case.kind == "stochastic" else None), 6)
        if case.kind == "pack2":  # the operands alternate
            bits = np.concatenate([bits[:, 0::2], bits[:, 1::2]], axis=1)
        source = packed(bits, wide)
    inputs = np.concatenate([drawn[None], randoms[None], source, old])
    results = np.zeros((case.result_rows, LANES), U32)
    program.launch(f"case{index}", 1, [np.ascontiguousarray(inputs), results])
    on = np.array([EXEC >> lane & 1 for lane in range(LANES)], bool)
    np.testing.assert_array_equal(results[:, ~on], old[:, ~on], err_msg="lanes that EXEC disables")
    np.testing.assert_array_equal(results[:, on], expected[:, on], err_msg=case.text)
