"""MFMA in numpy: lane layouts as AMD's CDNA4 ISA document gives them, products and sums in float64 or Python integers.

Written from the document's formulas (7.1.4, 7.1.5, 7.2.1), not from the emulator: a matrix element is placed into lane
and item one by one, where the emulator unpacks whole registers.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

SMALL = {
    "fp8": (ml_dtypes.float8_e4m3fn, 8),
    "bf8": (ml_dtypes.float8_e5m2, 8),
    "fp6": (ml_dtypes.float6_e2m3fn, 6),
    "bf6": (ml_dtypes.float6_e3m2fn, 6),
    "fp4": (ml_dtypes.float4_e2m1fn, 4),
}
F8F6F4_FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "i8": 8, **{name: bits for name, (_, bits) in SMALL.items()}}


@dataclass(frozen=True)
class Shape:
    mnemonic: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str
    cbsz: int = 0
    blgp: int = 0

    @property
    def accumulator(self) -> str:
        return {"f64": "f64", "i8": "i32"}.get(self.a, "f32")

    @property
    def registers(self) -> tuple[int, int, int]:
        """Of A, B, and C or D."""
        a, b = (
            self.k * rows * self.blocks // 64 * BITS[kind] // 32 for rows, kind in ((self.m, self.a), (self.n, self.b))
        )
        return a, b, self.m * self.n * self.blocks // 64 * (2 if self.accumulator == "f64" else 1)

    @property
    def f8f6f4(self) -> bool:
        return self.mnemonic.endswith("f8f6f4")

    def __str__(self) -> str:
        return f"{self.mnemonic}-{self.a}-{self.b}" if self.f8f6f4 else self.mnemonic


def _dense() -> list[Shape]:
    rows: list[Shape] = []
    for kind in ("f16", "bf16"):
        for m, k, blocks in (
            (16, 32, 1),
            (32, 16, 1),
            (16, 16, 1),
            (32, 8, 1),
            (4, 4, 16),
            (16, 4, 4),
            (32, 4, 2),
        ):
            suffix = f"_{blocks}b" if blocks > 1 else ""
            rows.append(Shape(f"v_mfma_f32_{m}x{m}x{k}{suffix}_{kind}", m, m, k, blocks, kind, kind))
    for m, k, blocks in ((16, 4, 1), (32, 2, 1), (4, 1, 16), (16, 1, 4), (32, 1, 2)):
        suffix = f"_{blocks}b" if blocks > 1 else ""
        rows.append(Shape(f"v_mfma_f32_{m}x{m}x{k}{suffix}_f32", m, m, k, blocks, "f32", "f32"))
    for m, k, blocks in ((16, 32, 1), (32, 16, 1), (16, 64, 1), (32, 32, 1), (4, 4, 16), (16, 4, 4), (32, 4, 2)):
        suffix = f"_{blocks}b" if blocks > 1 else ""
        rows.append(Shape(f"v_mfma_i32_{m}x{m}x{k}{suffix}_i8", m, m, k, blocks, "i8", "i8"))
    for a in ("fp8", "bf8"):
        for b in ("fp8", "bf8"):
            rows.append(Shape(f"v_mfma_f32_16x16x32_{a}_{b}", 16, 16, 32, 1, a, b))
            rows.append(Shape(f"v_mfma_f32_32x32x16_{a}_{b}", 32, 32, 16, 1, a, b))
    rows.append(Shape("v_mfma_f64_16x16x4_f64", 16, 16, 4, 1, "f64", "f64"))
    rows.append(Shape("v_mfma_f64_4x4x4_4b_f64", 4, 4, 4, 4, "f64", "f64"))
    return rows


def _f8f6f4(prefix: str) -> list[Shape]:
    return [
        Shape(f"{prefix}_f32_{m}x{m}x{k}_f8f6f4", m, m, k, 1, a, b, F8F6F4_FORMATS.index(a), F8F6F4_FORMATS.index(b))
        for m, k in ((16, 128), (32, 64))
        for a in F8F6F4_FORMATS
        for b in F8F6F4_FORMATS
    ]


DENSE = _dense()
F8F6F4 = _f8f6f4("v_mfma")
SCALED = _f8f6f4("v_mfma_scale")


# ---- elements ------------------------------------------------------------------------------------


def encode(kind: str, values: np.ndarray) -> np.ndarray:
    """Bit patterns as Python-sized unsigned integers (uint64)."""
    if kind == "f64":
        return values.astype(np.float64).view(np.uint64)
    if kind == "f32":
        return values.astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind == "bf16":
        return values.astype(ml_dtypes.bfloat16).view(np.uint16).astype(np.uint64)
    if kind == "i8":
        return values.astype(np.int8).view(np.uint8).astype(np.uint64)
    return values.astype(SMALL[kind][0]).view(np.uint8).astype(np.uint64)


@np.errstate(invalid="ignore")  # signalling NaN
def decode(kind: str, codes: np.ndarray) -> np.ndarray:
    if kind == "f64":
        return codes.astype(np.uint64).view(np.float64)
    if kind == "f32":
        return codes.astype(np.uint32).view(np.float32).astype(np.float64)
    if kind == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "bf16":
        return np.asarray(codes.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64))
    if kind == "i8":
        return codes.astype(np.uint8).view(np.int8).astype(np.float64)
    return np.asarray(codes.astype(np.uint8).view(SMALL[kind][0]).astype(np.float64))


def random_codes(kind: str, shape: tuple[int, ...], generator: np.random.Generator, finite: bool = True) -> np.ndarray:
    bits = min(BITS[kind], 63)
    codes = generator.integers(0, 1 << bits, shape, dtype=np.uint64)
    if not finite or kind == "i8":
        return codes
    while True:
        bad = ~np.isfinite(decode(kind, codes))
        if not bad.any():
            return codes
        codes[bad] = generator.integers(0, 1 << bits, int(bad.sum()), dtype=np.uint64)


# ---- layouts -------------------------------------------------------------------------------------


def input_place(shape: Shape, kind: str, rows: int, i: int, k: int, block: int) -> tuple[int, int]:
    """(lane, item) of an element of A or B."""
    if shape.f8f6f4 and BITS[kind] == 8:  # 7.1.5.1, table FP8
        groups = 64 // rows
        return i + rows * (k % (16 * groups) // 16), k // (16 * groups) * 16 + k % 16
    per_lane = shape.k * rows * shape.blocks // 64
    return i + rows * (block + shape.blocks * (k // per_lane)), k % per_lane


def output_place(shape: Shape, i: int, j: int, block: int) -> tuple[int, int]:
    """(lane, item) of an element of C or D."""
    if shape.mnemonic == "v_mfma_f64_4x4x4_4b_f64":  # as observed on MI350, see core/exec/mfma.md
        return 16 * i + 4 * block + j, 0
    height = 1 if shape.accumulator == "f64" else 4
    blocks_per_item = -(-64 // (shape.n * shape.m // height))
    rows_per_item = 64 // blocks_per_item // shape.n
    groups = shape.m // (height * rows_per_item)
    item = i % height + height * (i // (height * rows_per_item) + groups * (block // blocks_per_item))
    return j + shape.n * (i // height % rows_per_item + rows_per_item * (block % blocks_per_item)), item


def pack(items: np.ndarray, bits: int) -> np.ndarray:
    """items[lane, item] -> registers[r, lane], densely, item 0 lowest."""
    registers = np.zeros((items.shape[1] * bits // 32, 64), np.uint32)
    for lane in range(64):
        word = 0
        for index, code in enumerate(items[lane]):
            word |= int(code) << (bits * index)
        registers[:, lane] = [word >> (32 * r) & 0xFFFFFFFF for r in range(registers.shape[0])]
    return registers


def place_inputs(shape: Shape, kind: str, codes: np.ndarray) -> np.ndarray:
    """codes[block, row or column, k] -> registers."""
    rows = codes.shape[1]
    items = np.zeros((64, shape.k * rows * shape.blocks // 64), np.uint64)
    for block in range(shape.blocks):
        for i in range(rows):
            for k in range(shape.k):
                items[input_place(shape, kind, rows, i, k, block)] = codes[block, i, k]
    return pack(items, BITS[kind])


def output_index(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """lane and item for [block, i, j]."""
    places = [
        output_place(shape, i, j, block)
        for block in range(shape.blocks)
        for i in range(shape.m)
        for j in range(shape.n)
    ]
    lanes, items = np.array(places).T.reshape(2, shape.blocks, shape.m, shape.n)
    return lanes, items


def place_outputs(shape: Shape, values: np.ndarray) -> np.ndarray:
    """Bit patterns [block, i, j] -> registers."""
    lanes, items = output_index(shape)
    per_item = 2 if shape.accumulator == "f64" else 1
    registers = np.zeros((shape.m * shape.n * shape.blocks // 64 * per_item, 64), np.uint32)
    for half in range(per_item):
        registers[items * per_item + half, lanes] = (values >> np.uint64(32 * half)).astype(np.uint32)
    return registers


def read_outputs(shape: Shape, registers: np.ndarray) -> np.ndarray:
    """Registers -> values [block, i, j], as float64, or as int64 for i32."""
    lanes, items = output_index(shape)
    if shape.accumulator == "f64":
        low, high = registers[2 * items, lanes].astype(np.uint64), registers[2 * items + 1, lanes].astype(np.uint64)
        return np.asarray(low | high << np.uint64(32)).view(np.float64)
    values = np.ascontiguousarray(registers[items, lanes])
    if shape.accumulator == "i32":
        return values.view(np.int32).astype(np.int64)
    return values.view(np.float32).astype(np.float64)


def place_scales(rows: int, codes: np.ndarray, byte: int, generator: np.random.Generator) -> np.ndarray:
    """e8m0 codes [row, k // 32] -> one dword per lane; the three bytes that are not selected hold noise."""
    lanes = generator.integers(0, 1 << 32, 64, dtype=np.uint64).astype(np.uint32)
    for row in range(rows):
        for block in range(codes.shape[1]):
            lane = block * rows + row
            lanes[lane] = lanes[lane] & ~np.uint32(0xFF << (8 * byte)) | np.uint32(int(codes[row, block]) << (8 * byte))
    return lanes


def exact_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """sum over k of a[block, i, k] * b[block, j, k] in float64."""
    return np.asarray(np.einsum("gik,gjk->gij", a, b))
