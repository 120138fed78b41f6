"""Writes golden/*.json: results of ALU instructions as AMD's pseudocode gives them.

    make_golden.py PSEUDOCODE_FILE

PSEUDOCODE_FILE is tinygrad/runtime/autogen/amd/cdna/str_pcode.py of the package tinygrad 0.14.0. Instructions whose
pseudocode needs more than pseudocode.py knows, or is known to be wrong, are left out; the program lists them.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import test_scalar_alu
import test_vector_16bit
import test_vector_alu
import test_vector_convert
import test_vector_f64
from pseudocode import Machine, Unsupported, Value
from values import TYPES, words
from vector_case import VectorCase

SOURCE = "AMD CDNA pseudocode, as in tinygrad 0.14.0 (tinygrad/runtime/autogen/amd/cdna/str_pcode.py)"
GOLDEN = Path(__file__).parent / "golden"
VECTORS = 32
WRONG = {
    "v_div_fmas_f32": "multiplies by 2^32 where v_div_scale divided by 2^64",
    "v_ldexp_f32": "multiplies 0 by 2^65535, which is infinity",
    "v_ldexp_f64": "as v_ldexp_f32",
    "v_frexp_exp_i32_f32": "gives a denormal the exponent of the smallest normal; LLVM's frexp relies on the true one",
    "v_frexp_exp_i32_f64": "as v_frexp_exp_i32_f32",
    "v_lerp_u8": "adds two bytes as a byte, so that the average loses its highest bit",
    "v_rndne_f16": "loses the sign of a zero, and rounds twice where adding 0.5 is inexact",
    "v_rndne_f32": "as v_rndne_f16",
    "v_rndne_f64": "as v_rndne_f16",
}


def load_pseudocode(path: Path) -> dict[str, str]:
    """Mnemonic -> text, without running the file."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Attribute) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found.setdefault(key.attr.lower(), value.value)
    return found


def bits_of(value: int | Value) -> int:
    return value.bits() if isinstance(value, Value) else value


def plain(text: str) -> str | None:
    """The mnemonic, if the instruction has no modifier and only registers as operands."""
    match = re.fullmatch(r"(\w+?)(_e32|_e64)? ((\{\w+\}|vcc)(, (\{\w+\}|vcc))*)", text)
    return match[1] if match and "{s" not in text else None


def vector_row(case: VectorCase, text: str) -> dict[str, Any]:
    generator = np.random.default_rng(list(str(case).encode()))
    pool = case.patterns()
    chosen = generator.choice(pool[0].size, VECTORS, replace=False)
    inputs = [[int(values[index]) for index in chosen] for values in pool]
    old = [int(value) for value in generator.integers(0, 1 << 62, VECTORS)]
    vcc = [int(value) for value in generator.integers(0, 2, VECTORS)]
    results, masks = [], []
    for lane in range(VECTORS):
        registers: dict[str, int] = {f"S{index}": values[lane] for index, values in enumerate(inputs)}
        registers |= {"D0": old[lane], "VCC": vcc[lane] << lane, "laneId": lane, "tmp": 0}
        after = Machine(text, registers, {"__outputs__": ("D0", "VCC", "D1")}).run()  # type: ignore[dict-item]
        if case.result:
            results.append(bits_of(after["D0"]) & (1 << TYPES[case.result][0]) - 1)
        if case.mask:
            name = "D1" if "D1" in after else "D0" if not case.result else "VCC"
            masks.append(bits_of(after[name]) & 1 if name == "D1" else bits_of(after[name]) >> lane & 1)
    return {
        "text": case.text,
        "sources": list(case.sources),
        "result": case.result,
        "mask": case.mask,
        "inputs": inputs,
        "old": [value & (1 << 32 * max(1, words(case.result) if case.result else 1)) - 1 for value in old],
        "vcc": vcc,
        "results": results,
        "masks": masks,
    }


def scalar_row(case: test_scalar_alu.Case, text: str) -> dict[str, Any]:
    generator = np.random.default_rng(list(str(case).encode()))
    pool = case.inputs()
    rows = [pool[index] for index in generator.permutation(len(pool))[:VECTORS]]
    results, flags = [], []
    for (*sources, scc), old in zip(rows, test_scalar_alu.noise(8, len(rows)), strict=True):
        registers: dict[str, int] = {f"S{index}": value for index, value in enumerate(sources)}
        registers |= {"D0": old, "SCC": scc, "tmp": 0}
        after = Machine(text, registers, {"__outputs__": ("D0", "SCC")}).run()  # type: ignore[dict-item]
        results.append(bits_of(after["D0"]) & (1 << (64 if case.result == "u64" else 32)) - 1)
        flags.append(bits_of(after["SCC"]) & 1)
    return {
        "text": case.text,
        "sources": list(case.sources),
        "result": case.result,
        "inputs": [list(row) for row in rows],
        "results": results if case.result else [],
        "scc": flags,
    }


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    pseudocode = load_pseudocode(Path(argv[0]))
    GOLDEN.mkdir(exist_ok=True)
    families = {
        "vector_alu": (test_vector_alu.CASES, vector_row),
        "vector_convert": (test_vector_convert.CASES, vector_row),
        "vector_16bit": (test_vector_16bit.CASES, vector_row),
        "vector_f64": (test_vector_f64.CASES, vector_row),
        "scalar_alu": (test_scalar_alu.CASES, scalar_row),
    }
    for family, (cases, make) in families.items():
        rows, left_out = [], []
        for case in cases:
            mnemonic = plain(case.text)
            text = None
            if mnemonic is not None and not getattr(case, "ulps", 0) and mnemonic not in WRONG:
                candidates = (mnemonic, f"{mnemonic}_e32", f"{mnemonic}_e64")
                text = next((pseudocode[name] for name in candidates if name in pseudocode), None)
            if mnemonic is None or text is None:
                continue
            try:
                rows.append(make(case, text))  # type: ignore[operator]
            except Unsupported as reason:
                left_out.append(f"{mnemonic} ({reason})")
        lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        (GOLDEN / f"{family}.json").write_text(f'{{"source": {json.dumps(SOURCE)}, "rows": [\n{lines}\n]}}\n')
        print(f"{family}: {len(rows)} instructions, {len(rows) * VECTORS} vectors")
        print(f"  left out: {', '.join(left_out) or 'none'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
