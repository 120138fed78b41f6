"""How many vectors the tests hold for each instruction family, and where their expected values come from.

    python test/emulator/tests/vectors.py [--json | --mnemonics]

A vector is one set of inputs of one instruction with its result: a lane, or for a scalar instruction a wave.
--mnemonics: which families have each instruction, as JSON; `python -m gfx950_emulator coverage` asks for it.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mfma_reference
import test_sparse_matrix
from memory_case import MemoryCase
from vector_case import VectorCase

GOLDEN = Path(__file__).parent / "golden"
NUMPY = "numpy, Python integers, exact fractions, float64 in the test"
BYTES = "a byte array and Python's struct in the test"
# Modules with a list CASES -> their expected values.
GENERATED = {
    "test_vector_alu": NUMPY,
    "test_vector_16bit": NUMPY,
    "test_vector_f64": NUMPY,
    "test_vector_dot": NUMPY,
    "test_vector_convert": "ml_dtypes and numpy",
    "test_vector_scaled": "ml_dtypes, float64",
    "test_vector_scaled_block": "ml_dtypes, exact fractions",
    "test_cross_lane": NUMPY,
    "test_scalar_alu": "Python integers",
    "test_memory": BYTES,
    "test_memory_atomics": BYTES,
    "test_memory_ranges": BYTES,
    "test_vector_compare": NUMPY,
    "test_vector_rare": NUMPY,
}


@dataclass(frozen=True)
class Family:
    name: str
    kind: str  # golden: data in a file; generated: by the test
    forms: int  # instructions, counted by operand form
    vectors: int
    source: str


def golden() -> list[Family]:
    families = []
    for path in sorted(GOLDEN.glob("*.json")):
        content = json.loads(path.read_text())
        rows: list[dict[str, Any]] = content["rows"]
        vectors = sum(len(row.get("scc") or row["results"] or row["masks"]) for row in rows)
        families.append(Family(path.stem, "golden", len(rows), vectors, content["source"]))
    return families


def vectors_of(case: Any) -> int:
    if isinstance(case, VectorCase):
        return int(case.patterns()[0].size)
    if isinstance(case, MemoryCase):
        return sum(mask.bit_count() for mask in case.masks)
    if hasattr(case, "inputs"):
        return len(case.inputs())
    return 64  # one launch of one wave


def generated() -> list[Family]:
    families = []
    for name, source in GENERATED.items():
        cases = importlib.import_module(name).CASES
        families.append(
            Family(name.removeprefix("test_"), "generated", len(cases), sum(map(vectors_of, cases)), source)
        )
    shapes = [*mfma_reference.DENSE, *mfma_reference.F8F6F4, *mfma_reference.SCALED]
    results = sum(shape.m * shape.n * shape.blocks for shape in shapes)
    families.append(
        Family("mfma", "generated", len(shapes), results, "CDNA4 ISA document's layouts, float64 products in the test")
    )
    sparse = test_sparse_matrix.SHAPES
    results = sum(shape.m * shape.m for shape in sparse)
    families.append(
        Family(
            "sparse_matrix",
            "generated",
            len(sparse),
            results,
            "layouts of AMD's fpsan library as observed on MI350, float64 products in the test",
        )
    )
    return families


def mnemonics() -> dict[str, list[str]]:
    """Instruction -> the modules whose cases have it; many are put together from parts, which no file names whole."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in GENERATED:
        for case in importlib.import_module(name).CASES:
            text = getattr(case, "text", "") or str(case)
            for line in text.splitlines():
                if match := re.match(r"\s*([a-z]+_[a-z0-9_]+)", line):
                    found[re.sub(r"_(e32|e64|dpp|sdwa)$", "", match[1])].add(name)
    for shape in [*mfma_reference.DENSE, *mfma_reference.F8F6F4, *mfma_reference.SCALED]:
        found[shape.mnemonic].add("test_mfma")
    for sparse in test_sparse_matrix.SHAPES:
        found[sparse.mnemonic].add("test_sparse_matrix")
    return {name: sorted(modules) for name, modules in sorted(found.items())}


def main(argv: list[str]) -> int:
    if argv == ["--mnemonics"]:
        print(json.dumps(mnemonics(), indent=1))
        return 0
    if argv not in ([], ["--json"]):
        print(__doc__, file=sys.stderr)
        return 2
    families = golden() + generated()
    if argv:
        print(json.dumps([asdict(family) for family in families], indent=1))
        return 0
    print(f"{'family':22} {'':9} {'forms':>6} {'vectors':>9}  expected values from")
    for family in families:
        print(f"{family.name:22} {family.kind:9} {family.forms:6,} {family.vectors:9,}  {family.source}")
    for kind in ("golden", "generated"):
        chosen = [family for family in families if family.kind == kind]
        forms, vectors = (sum(getattr(family, field) for family in chosen) for field in ("forms", "vectors"))
        print(f"{'all ' + kind:32} {forms:6,} {vectors:9,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
