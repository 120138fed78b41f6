"""One vector instruction applied to every lane of a buffer: the kernel for it, its inputs, and the comparison.

The kernel loads the old destination and the sources from memory, sets EXEC and VCC, runs the instruction and stores the
destination with EXEC full again. Each workgroup is one wave with its own EXEC and VCC; the first has EXEC full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hip_device
import numpy as np
from assemble import KernelText
from values import combinations, noise, typed, words

ROW = 256  # bytes of one register
DESTINATION, FIRST_SOURCE = 8, 12  # v8.., then two registers a source
EXECUTION_MASKS = (
    0xFFFFFFFFFFFFFFFF,
    0x00000000FFFFFFFF,
    0xFFFFFFFF00000000,
    0xAAAAAAAAAAAAAAAA,
    0x0000000000000001,
    0x8000000000000000,
    0xF0F0A5A5123455AA,
)


@dataclass(frozen=True)
class VectorCase:
    """`text` with {d} and {0}, {1}, ... for the destination and the sources, {s0}, ... for sources read from a scalar
    register (every lane gets lane 0's), {m} for a pair of scalar registers that receives a mask, {c} for one that holds
    the mask of VCC."""

    text: str
    sources: tuple[str, ...]
    result: str  # type of the destination; "" if there is none
    reference: Callable[..., Any]  # takes the typed sources; with needs: also old=, vcc=, lane=, exec_=
    needs: tuple[str, ...] = ()
    mask: str = ""  # "vcc" or "m" when the instruction writes a mask: the reference returns it last
    ulps: float = 0  # allowed distance of a float result from the (float64) reference
    high_half: str = "zero"  # of a 16-bit result: "zero", "keep" or "any"
    values: dict[int, list[int]] = field(default_factory=dict)  # patterns to take for a source instead of its type's
    canonical: Callable[[np.ndarray], np.ndarray] | None = None  # applied to both results, to level out NaN codes
    execution: tuple[int, ...] = EXECUTION_MASKS  # EXEC of the first wave, the second, ...

    def __str__(self) -> str:
        return self.text.replace("{", "").replace("}", "")

    # ---- kernel ------------------------------------------------------------------------------------------

    @property
    def destination_words(self) -> int:
        return words(self.result) if self.result else 0

    def row_of(self, source: int) -> int:
        return self.destination_words + sum(words(kind) for kind in self.sources[:source])

    @property
    def input_rows(self) -> int:
        return self.row_of(len(self.sources)) + 1  # the last holds EXEC and VCC

    @property
    def output_rows(self) -> int:
        return self.destination_words + 1  # the last holds the mask

    def operands(self) -> dict[str, str]:
        def registers(letter: str, first: int, count: int) -> str:
            return f"{letter}{first}" if count == 1 else f"{letter}[{first}:{first + count - 1}]"

        names = {"d": registers("v", DESTINATION, max(1, self.destination_words)), "m": "s[18:19]", "c": "s[16:17]"}
        for index, kind in enumerate(self.sources):
            names[f"a{index}"] = registers("v", FIRST_SOURCE + 2 * index, words(kind))
            names[f"s{index}"] = registers("s", 20 + 2 * index, words(kind))
        return names

    def instruction(self) -> str:
        text = self.text
        for index in range(len(self.sources)):
            text = text.replace(f"{{{index}}}", f"{{a{index}}}")
        return text.format(**self.operands())

    def kernel(self, name: str) -> KernelText:
        lines = [
            "s_load_dwordx4 s[4:7], s[0:1], 0x0",
            f"s_mul_i32 s8, s2, {self.input_rows * ROW}",
            f"s_mul_i32 s9, s2, {self.output_rows * ROW}",
            "v_lshlrev_b32_e32 v1, 2, v0",
            "s_waitcnt lgkmcnt(0)",
            "s_add_u32 s4, s4, s8",
            "s_addc_u32 s5, s5, 0",
            "s_add_u32 s6, s6, s9",
            "s_addc_u32 s7, s7, 0",
            f"s_load_dwordx4 s[12:15], s[4:5], {(self.input_rows - 1) * ROW}",
        ]
        for word in range(self.destination_words):
            lines.append(f"global_load_dword v{DESTINATION + word}, v1, s[4:5] offset:{word * ROW}")
        for index, kind in enumerate(self.sources):
            for word in range(words(kind)):
                offset = (self.row_of(index) + word) * ROW
                lines.append(f"global_load_dword v{FIRST_SOURCE + 2 * index + word}, v1, s[4:5] offset:{offset}")
                lines.append(f"s_load_dword s{20 + 2 * index + word}, s[4:5], {offset}")
        lines += [
            "s_waitcnt vmcnt(0) lgkmcnt(0)",
            "s_mov_b64 s[18:19], 0",
            "s_mov_b64 s[16:17], s[14:15]",
            "s_mov_b64 vcc, s[14:15]",
            "s_mov_b64 exec, s[12:13]",
            "s_nop 7",
            self.instruction(),
            "s_nop 7",
            "s_mov_b64 exec, -1",
        ]
        for word in range(self.destination_words):
            lines.append(f"global_store_dword v1, v{DESTINATION + word}, s[6:7] offset:{word * ROW}")
        low, high = ("vcc_lo", "vcc_hi") if self.mask != "m" else ("s18", "s19")
        lines += [
            f"v_mov_b32_e32 v2, {low}",
            f"v_mov_b32_e32 v3, {high}",
            "v_mov_b32_e32 v4, 0",
            f"global_store_dwordx2 v4, v[2:3], s[6:7] offset:{self.destination_words * ROW}",
        ]
        return KernelText(name, "\n".join(lines), kernarg_size=16, vgprs=32, agprs=8)

    # ---- inputs and comparison ---------------------------------------------------------------------------

    def patterns(self) -> list[np.ndarray]:
        result = combinations(self.sources) if self.sources else [np.zeros(256, np.uint64)]
        generator = np.random.default_rng(5)
        for index, pool in self.values.items():
            result[index] = generator.choice(np.array(pool, np.uint64), result[index].size)
        return result

    def run(self, launch: Callable[[int, list[np.ndarray]], object]) -> int:
        """Runs and compares; the number of lanes compared."""
        patterns = self.patterns()
        groups = patterns[0].size // 64
        generator = np.random.default_rng(6)
        for index in range(len(self.sources)):
            if f"{{s{index}}}" in self.text:  # one value per wave: another decisive one for each
                per_wave = patterns[index].reshape(groups, 64)
                per_wave[:] = generator.permutation(patterns[index])[:groups, None]
        old = noise(self.result or "b32", groups * 64, generator)
        vcc = generator.random(groups * 64) < 0.5
        enabled = np.array([self.execution[group % len(self.execution)] for group in range(groups)], np.uint64)

        inputs = np.zeros((groups, self.input_rows, 64), np.uint32)
        operands = ([(self.result, 0, old)] if self.result else []) + [
            (kind, self.row_of(index), patterns[index]) for index, kind in enumerate(self.sources)
        ]
        for kind, row, values in operands:
            for word in range(words(kind)):
                inputs[:, row + word] = (values >> np.uint64(32 * word)).astype(np.uint32).reshape(groups, 64)
        inputs[:, -1, 0:2] = enabled.view(np.uint32).reshape(groups, 2)
        inputs[:, -1, 2:4] = np.packbits(vcc, bitorder="little").view(np.uint32).reshape(groups, 2)
        outputs = np.full((groups, self.output_rows, 64), 0xA5A5A5A5, np.uint32)
        launch(groups, [inputs, outputs])

        lanes_on = np.unpackbits(enabled.view(np.uint8), bitorder="little").astype(bool)
        extra = {"old": None if not self.result else typed(self.result, old), "vcc": vcc, "lane": np.arange(64)}
        extra["lane"] = np.tile(np.arange(64, dtype=np.uint32), groups)
        extra["exec_"] = enabled
        with np.errstate(all="ignore"):
            expected = self.reference(
                *(typed(kind, values) for kind, values in zip(self.sources, patterns, strict=False)),
                **{name: extra[name] for name in self.needs},
            )
        if self.mask:
            expected, mask = expected if isinstance(expected, tuple) else (None, expected)
            ours = outputs[:, -1, 0:2].copy().view(np.uint8).reshape(-1)
            ours_bits = np.unpackbits(ours, bitorder="little").astype(bool)
            self.compare(ours_bits, np.asarray(mask, bool) & lanes_on, np.ones_like(lanes_on), patterns, "mask")
        if self.result:
            raw = np.zeros(groups * 64, np.uint64)
            for word in range(self.destination_words):
                raw |= outputs[:, word].reshape(-1).astype(np.uint64) << np.uint64(32 * word)
            self.compare_result(raw, expected, old, lanes_on, patterns)
        return groups * 64

    def compare_result(
        self, raw: np.ndarray, expected: Any, old: np.ndarray, lanes_on: np.ndarray, patterns: list[np.ndarray]
    ) -> None:
        np.testing.assert_array_equal(raw[~lanes_on], old[~lanes_on], err_msg="lanes that EXEC disables")
        if self.result in ("f16", "u16"):
            high = raw >> np.uint64(16)
            wanted = {"zero": np.zeros_like(high), "keep": old >> np.uint64(16), "any": high}[self.high_half]
            np.testing.assert_array_equal(high[lanes_on], wanted[lanes_on], err_msg="high half")
        ours, theirs = typed(self.result, raw), np.asarray(expected)
        if self.canonical:
            ours, theirs = self.canonical(ours), self.canonical(theirs)
        self.compare(ours, theirs, lanes_on, patterns, "result")

    def compare(
        self, ours: np.ndarray, expected: np.ndarray, where: np.ndarray, patterns: list[np.ndarray], what: str
    ) -> None:
        if ours.dtype.kind == "f":
            both_nan = np.isnan(ours) & np.isnan(expected)
            if self.ulps:
                with np.errstate(all="ignore"):
                    target = expected.astype(ours.dtype)
                    gap = np.abs(ours.astype(np.float64) - expected.astype(np.float64))
                    ulps = max(self.ulps, 1.0) if hip_device.wanted() else self.ulps  # what hardware promises
                    equal = (ours == target) | (gap <= ulps * np.spacing(np.abs(target)).astype(np.float64))
            else:
                if expected.dtype != ours.dtype:
                    raise TypeError(f"{self}: the reference gives {expected.dtype}, the result is {ours.dtype}")
                bits = f"u{ours.dtype.itemsize}"
                equal = ours.view(bits) == expected.view(bits)
            equal |= both_nan
        else:
            equal = ours == expected
        bad = np.flatnonzero(where & ~equal)
        if bad.size:
            lines = []
            for lane in bad[:6]:
                inputs = ", ".join(f"{int(values[lane]):#x}" for values in patterns)
                lines.append(
                    f"  lane {lane % 64} of wave {lane // 64}: ({inputs}) -> {ours[lane]!r}, not {expected[lane]!r}"
                )
            raise AssertionError(f"{self}: {what} of {bad.size} of {where.sum()} lanes differs\n" + "\n".join(lines))
