"""Published times of an MI355X, one row each, from test/bench/data/published_times.csv."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "published_times.csv"
FAMILIES = ("own GEMM", "Triton GEMM", "FP8 GEMM", "Triton FP8 GEMM", "MX GEMM", "attention", "norm", "stream")

# Bytes of one element; FP4 packs two to a byte.
ITEM_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "fp8 blockscale 128": 1.0, "mxfp8": 1.0, "mxfp4": 0.5}
# Dense matrix throughput at 2.4 GHz in FLOP/ns, AMD's data sheet.
PEAK_FLOP_PER_NS = {
    "bf16": 2.516e6,
    "fp16": 2.516e6,
    "fp8": 5.033e6,
    "fp8 blockscale 128": 5.033e6,
    "mxfp8": 5.033e6,
    "mxfp4": 10.066e6,
    "fp32": 157.3e3,
}
# A stream that no cache holds; the source names no size for it.
COPY_ELEMENTS = 1 << 30


@dataclass(frozen=True)
class Row:
    """One published figure, and what has to be computed and moved for it at least."""

    family: str
    op: str
    dtype: str
    shape: str
    published_backend: str
    metric: str
    value: float
    device: str
    source: str
    note: str

    @functools.cached_property
    def sizes(self) -> dict[str, int]:
        if self.op == "add":
            a, b, c = (int(part) for part in self.shape.split("x"))
            return {"elements": a * b * c}
        if self.op == "copy":
            return {"elements": COPY_ELEMENTS}
        return {name: int(value) for name, value in (part.split("=") for part in self.shape.split(";"))}

    @property
    def flops(self) -> float:
        """As the sources count them: causal attention does half of the full product's work."""
        s = self.sizes
        if self.op == "attention_fwd":
            return 4.0 * s["B"] * s["H"] * s["Sq"] * s["Skv"] * s["D"] / (2 if s["causal"] else 1)
        if "K" in s:
            return 2.0 * s["M"] * s["N"] * s["K"]
        return 0.0

    @property
    def bytes(self) -> float:
        """Every operand and result once."""
        s, item = self.sizes, ITEM_BYTES[self.dtype]
        if self.op == "attention_fwd":
            rows = s["B"] * s["D"] * item
            return rows * (2 * s["H"] * s["Sq"] + 2 * s["Hkv"] * s["Skv"])
        if "K" in s:
            m, n, k = s["M"], s["N"], s["K"]
            scales = (m + n) * k / 32 if self.dtype.startswith("mx") else 0.0
            return (m * k + n * k) * item + scales + 2.0 * m * n
        if self.op == "rms_norm":
            return (2.0 * s["M"] * s["N"] + s["N"]) * item
        return s["elements"] * item * (3 if self.op == "add" else 2)

    @property
    def published_ns(self) -> float:
        if self.metric == "us":
            return self.value * 1e3
        if self.metric == "tflops":
            return self.flops / (self.value * 1e3)
        if self.metric == "tb_per_s":
            return self.bytes / (self.value * 1e3)
        raise ValueError(f"{DATA.name}: {self.shape}: no way to read a time from the metric {self.metric!r}")

    @property
    def peak_flop_per_ns(self) -> float:
        return PEAK_FLOP_PER_NS[self.dtype]

    @property
    def label(self) -> str:
        return self.shape.replace(";", " ")


def load(path: Path = DATA) -> list[Row]:
    """Every row, in the file's order. A family that is not one of ours is an error, so that no row goes unreported."""
    rows = []
    with path.open(newline="") as file:
        for number, record in enumerate(csv.DictReader(file), start=2):
            if record["family"] not in FAMILIES:
                raise ValueError(f"{path.name}:{number}: unknown family {record['family']!r}")
            row = Row(**{**record, "value": float(record["value"])})  # type: ignore[arg-type]
            if not row.published_ns > 0:
                raise ValueError(f"{path.name}:{number}: the published time is {row.published_ns} ns")
            rows.append(row)
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows
