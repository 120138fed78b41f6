"""Scalar ALU instructions: result and SCC of every combination of decisive inputs, one wave each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from assemble import KernelText
from core_library import Program

WORD, WIDE = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_U32 = [
    0,
    1,
    2,
    5,
    31,
    32,
    0x7F,
    0x80,
    0xFFFF,
    0x8000,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    WORD,
    0x12345678,
    0x00050003,
]
_U64 = [0, 1, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x8000000000000000, WIDE, 0x7FFFFFFFFFFFFFFF, 0x123456789ABCDEF0]
_SHIFT = [0, 1, 7, 31, 32, 33, 63, 64, 0xFFFFFFFF]
_FIELD = [0x00010000, 0x00080000, 0x00080008, 0x0010000C, 0x00200000, 0x001F0001, 0x00000004, 0x0001001F, 0x00080018]
POOLS = {"u32": _U32, "u64": _U64, "shift": _SHIFT, "field": _FIELD}

# The reference works on Python integers and returns (result, SCC); None in the place of SCC: unchanged.
Outcome = tuple[int, bool | None]


def noise(seed: int, count: int) -> list[int]:
    """Destinations (seed 8) and EXEC (seed 9) before the instruction."""
    return [int(value) for value in np.random.default_rng(seed).integers(0, 1 << 63, count)]


@dataclass(frozen=True)
class Case:
    """{d}, {0}, {1} are scalar registers, pairs for u64. SCC is set to each value before; EXEC holds a pattern."""

    text: str
    sources: tuple[str, ...]
    result: str  # "u32", "u64" or "" when only SCC counts
    reference: Callable[..., Outcome]
    needs: tuple[str, ...] = ()  # of "scc", "old", "exec_"
    new_exec: Callable[..., int] | None = None

    def __str__(self) -> str:
        return self.text.replace("{", "").replace("}", "")

    def inputs(self) -> list[tuple[int, ...]]:
        values = itertools.product(*(POOLS[kind] for kind in self.sources), (0, 1))
        return list(values)

    def kernel(self, name: str) -> KernelText:
        def registers(first: int, kind: str) -> str:
            return f"s[{first}:{first + 1}]" if kind == "u64" else f"s{first}"

        names = {"d": registers(20, self.result or "u32")}
        names.update({f"a{index}": registers(24 + 2 * index, kind) for index, kind in enumerate(self.sources)})
        text = self.text
        for index in range(len(self.sources)):
            text = text.replace(f"{{{index}}}", f"{{a{index}}}")
        lines = [
            "s_load_dwordx4 s[4:7], s[0:1], 0x0",
            "s_lshl_b32 s8, s2, 6",
            "s_lshl_b32 s9, s2, 5",
            "s_waitcnt lgkmcnt(0)",
            "s_add_u32 s4, s4, s8",
            "s_addc_u32 s5, s5, 0",
            "s_add_u32 s6, s6, s9",
            "s_addc_u32 s7, s7, 0",
            "s_load_dwordx8 s[24:31], s[4:5], 0x0",  # sources in pairs, then SCC and the old destination
            "s_load_dwordx4 s[20:23], s[4:5], 0x20",
            "s_waitcnt lgkmcnt(0)",
            "s_mov_b64 exec, s[28:29]",
            "s_cmp_lg_u32 s30, 0",
            text.format(**names),
            "s_cselect_b32 s22, 1, 0",
            "s_mov_b64 s[28:29], exec",
            "s_mov_b64 exec, 1",
            "v_mov_b32_e32 v2, s20",
            "v_mov_b32_e32 v3, s21",
            "v_mov_b32_e32 v4, s22",
            "v_mov_b32_e32 v6, s28",
            "v_mov_b32_e32 v7, s29",
            "v_mov_b32_e32 v1, 0",
            "global_store_dwordx3 v1, v[2:4], s[6:7]",
            "global_store_dwordx2 v1, v[6:7], s[6:7] offset:16",
        ]
        return KernelText(name, "\n".join(lines), kernarg_size=16, vgprs=8)

    def run(self, launch: Callable[[int, list[np.ndarray]], object]) -> None:
        self.run_on(self.inputs(), launch)

    def run_on(self, inputs: list[tuple[int, ...]], launch: Callable[[int, list[np.ndarray]], object]) -> None:
        old, enabled = noise(8, len(inputs)), noise(9, len(inputs))
        buffer = np.zeros((len(inputs), 16), np.uint32)
        for row, values in enumerate(inputs):
            *sources, scc = values
            for index, value in enumerate(sources):
                buffer[row, 2 * index : 2 * index + 2] = value & WORD, value >> 32 & WORD
            buffer[row, 4:6] = enabled[row] & WORD, enabled[row] >> 32
            buffer[row, 6] = scc
            buffer[row, 8:10] = old[row] & WORD, old[row] >> 32
        outputs = np.full((len(inputs), 8), 0xA5A5A5A5, np.uint32)
        launch(len(inputs), [buffer, outputs])
        for row, values in enumerate(inputs):
            *sources, scc = values
            width = WIDE if self.result == "u64" else WORD
            extra = {"scc": scc, "old": old[row] & width, "exec_": enabled[row]}
            expected, flag = self.reference(*sources, **{name: extra[name] for name in self.needs})
            got = int(outputs[row, 0]) | int(outputs[row, 1]) << 32
            untouched = old[row] if not self.result else (old[row] & ~width | expected & width)
            where = f"{self} of {[hex(value) for value in sources]}, SCC {scc}"
            assert got == untouched, f"{where}: {got:#x}, not {untouched:#x}"
            assert int(outputs[row, 2]) == int(scc if flag is None else flag), f"{where}: SCC {outputs[row, 2]}"
            mask = int(outputs[row, 4]) | int(outputs[row, 5]) << 32
            wanted = self.new_exec(*sources, enabled[row]) if self.new_exec else enabled[row]
            assert mask == wanted & WIDE, f"{where}: EXEC {mask:#x}, not {wanted & WIDE:#x}"


CASES: list[Case] = []


def add(text: str, sources: str, result: str, reference: Callable[..., Outcome], *needs: str) -> None:
    CASES.append(Case(text, tuple(sources.split()), result, reference, needs))


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def overflows(value: int) -> bool:
    return not -(1 << 31) <= value < 1 << 31


def nonzero(value: int, bits: int = 32) -> Outcome:
    value &= (1 << bits) - 1
    return value, value != 0


def field_of(value: int, where: int) -> tuple[int, int]:
    offset, width = where & 31, where >> 16 & 0x7F
    return value >> offset & ((1 << width) - 1), width


def signed_field(value: int, where: int) -> Outcome:
    """An arithmetic shift first, so a field that reaches past bit 31 is filled with the sign."""
    field, width = field_of(signed(value), where)
    if width == 0:
        return 0, False
    return nonzero(signed(field, width) if width < 32 else field)


def reversed_bits(value: int) -> int:
    return int(f"{value:032b}"[::-1], 2)


def first_one(value: int) -> int:
    return (value & -value).bit_length() - 1 if value else WORD


for wide, kind in (("b32", "u32"), ("b64", "u64")):
    bits = 32 if wide == "b32" else 64
    for name, operation in {
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "andn2": lambda a, b: a & ~b,
        "orn2": lambda a, b: a | ~b,
        "nand": lambda a, b: ~(a & b),
        "nor": lambda a, b: ~(a | b),
        "xnor": lambda a, b: ~(a ^ b),
    }.items():
        add(
            f"s_{name}_{wide} {{d}}, {{0}}, {{1}}",
            f"{kind} {kind}",
            kind,
            lambda a, b, operation=operation, bits=bits: nonzero(operation(a, b), bits),
        )
    add(f"s_not_{wide} {{d}}, {{0}}", kind, kind, lambda a, bits=bits: nonzero(~a, bits))
    add(f"s_mov_{wide} {{d}}, {{0}}", kind, kind, lambda a: (a, None))
    add(
        f"s_cselect_{wide} {{d}}, {{0}}, {{1}}",
        f"{kind} {kind}",
        kind,
        lambda a, b, scc: (a if scc else b, None),
        "scc",
    )
    add(f"s_cmov_{wide} {{d}}, {{0}}", kind, kind, lambda a, scc, old: (a if scc else old, None), "scc", "old")
    mask = bits - 1
    add(
        f"s_lshl_{wide} {{d}}, {{0}}, {{1}}",
        f"{kind} shift",
        kind,
        lambda a, b, bits=bits, mask=mask: nonzero(a << (b & mask), bits),
    )
    add(
        f"s_lshr_{wide} {{d}}, {{0}}, {{1}}",
        f"{kind} shift",
        kind,
        lambda a, b, bits=bits, mask=mask: nonzero(a >> (b & mask), bits),
    )
    add(
        f"s_ashr_{wide.replace('b', 'i')} {{d}}, {{0}}, {{1}}",
        f"{kind} shift",
        kind,
        lambda a, b, bits=bits, mask=mask: nonzero(signed(a, bits) >> (b & mask), bits),
    )
    add(f"s_bcnt1_i32_{wide} {{d}}, {{0}}", kind, "u32", lambda a: nonzero(a.bit_count()))
    add(f"s_ff1_i32_{wide} {{d}}, {{0}}", kind, "u32", lambda a: (first_one(a), None))
for name, exec_of in {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "andn2": lambda s, e: s & ~e,
    "orn2": lambda s, e: s | ~e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "andn1": lambda s, e: ~s & e,
    "orn1": lambda s, e: ~s | e,
}.items():
    CASES.append(
        Case(
            f"s_{name}_saveexec_b64 {{d}}, {{0}}",
            ("u64",),
            "u64",
            lambda s, exec_, exec_of=exec_of: (exec_, exec_of(s, exec_) & WIDE != 0),
            ("exec_",),
            exec_of,
        )
    )
for name, exec_of in {"andn1": lambda s, e: ~s & e, "andn2": lambda s, e: s & ~e}.items():
    CASES.append(
        Case(
            f"s_{name}_wrexec_b64 {{d}}, {{0}}",
            ("u64",),
            "u64",
            lambda s, exec_, exec_of=exec_of: (exec_of(s, exec_) & WIDE, exec_of(s, exec_) & WIDE != 0),
            ("exec_",),
            exec_of,
        )
    )
add(
    "s_bitreplicate_b64_b32 {d}, {0}",
    "u32",
    "u64",
    lambda a: (sum(3 << 2 * bit for bit in range(32) if a >> bit & 1), None),
)
add("s_mov_b32 {d}, -16", "", "u32", lambda: (-16, None))
add("s_mov_b32 {d}, 0x12345678", "", "u32", lambda: (0x12345678, None))
add("s_mov_b64 {d}, -2", "", "u64", lambda: (-2, None))
add("s_mov_b32 {d}, 0.5", "", "u32", lambda: (0x3F000000, None))
add("s_movk_i32 {d}, 0x8001", "", "u32", lambda: (signed(0x8001, 16), None))
add("s_movk_i32 {d}, 0x7fff", "", "u32", lambda: (0x7FFF, None))
add("s_brev_b32 {d}, {0}", "u32", "u32", lambda a: (reversed_bits(a), None))
add("s_sext_i32_i8 {d}, {0}", "u32", "u32", lambda a: (signed(a, 8), None))
add("s_sext_i32_i16 {d}, {0}", "u32", "u32", lambda a: (signed(a, 16), None))
add("s_abs_i32 {d}, {0}", "u32", "u32", lambda a: nonzero(abs(signed(a))))
add("s_bitset0_b32 {d}, {0}", "u32", "u32", lambda a, old: (old & ~(1 << (a & 31)), None), "old")
add("s_bitset1_b32 {d}, {0}", "u32", "u32", lambda a, old: (old | 1 << (a & 31), None), "old")

add("s_add_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a + b, a + b > WORD))
add("s_sub_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a - b, a < b))
add("s_addc_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b, scc: (a + b + scc, a + b + scc > WORD), "scc")
add("s_subb_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b, scc: (a - b - scc, a < b + scc), "scc")
add("s_add_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a + b, overflows(signed(a) + signed(b))))
add("s_sub_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a - b, overflows(signed(a) - signed(b))))
add("s_mul_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a * b, None))
add("s_mul_hi_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a * b >> 32, None))
add("s_mul_hi_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (signed(a) * signed(b) >> 32, None))
add("s_min_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (min(a, b), a < b))
add("s_max_u32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (max(a, b), a > b))
add("s_min_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (min(signed(a), signed(b)), signed(a) < signed(b)))
add("s_max_i32 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (max(signed(a), signed(b)), signed(a) > signed(b)))
for count in (1, 2, 3, 4):
    add(
        f"s_lshl{count}_add_u32 {{d}}, {{0}}, {{1}}",
        "u32 u32",
        "u32",
        lambda a, b, count=count: ((a << count) + b, (a << count) + b > WORD),
    )
add("s_bfe_u32 {d}, {0}, {1}", "u32 field", "u32", lambda a, b: nonzero(field_of(a, b)[0]))
add("s_bfe_i32 {d}, {0}, {1}", "u32 field", "u32", signed_field)
add("s_bfm_b32 {d}, {0}, {1}", "shift shift", "u32", lambda a, b: (((1 << (a & 31)) - 1) << (b & 31), None))
for constant in (0x7FFF, 0x8000, 3, 0xFFF0):
    number = signed(constant, 16)
    add(
        f"s_addk_i32 {{d}}, {constant:#x}",
        "",
        "u32",
        lambda old, number=number: (old + number, overflows(signed(old) + number)),
        "old",
    )
    add(f"s_mulk_i32 {{d}}, {constant:#x}", "", "u32", lambda old, number=number: (old * number, None), "old")

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "lg": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
for name, compare in COMPARISONS.items():
    add(f"s_cmp_{name}_u32 {{0}}, {{1}}", "u32 u32", "", lambda a, b, compare=compare: (0, compare(a, b)))
    add(
        f"s_cmp_{name}_i32 {{0}}, {{1}}",
        "u32 u32",
        "",
        lambda a, b, compare=compare: (0, compare(signed(a), signed(b))),
    )
    for constant in (0x7FFF, 0x8000, 5):
        add(
            f"s_cmpk_{name}_u32 {{0}}, {constant:#x}",
            "u32",
            "",
            lambda a, compare=compare, constant=constant: (0, compare(a, constant)),
        )
        add(
            f"s_cmpk_{name}_i32 {{0}}, {constant:#x}",
            "u32",
            "",
            lambda a, compare=compare, constant=constant: (0, compare(signed(a), signed(constant, 16))),
        )
for name in ("eq", "lg"):
    add(f"s_cmp_{name}_u64 {{0}}, {{1}}", "u64 u64", "", lambda a, b, compare=COMPARISONS[name]: (0, compare(a, b)))
add("s_bitcmp0_b32 {0}, {1}", "u32 shift", "", lambda a, b: (0, a >> (b & 31) & 1 == 0))
add("s_bitcmp1_b32 {0}, {1}", "u32 shift", "", lambda a, b: (0, a >> (b & 31) & 1 == 1))

for bits, wide, kind in ((32, "b32", "u32"), (64, "b64", "u64")):
    add(f"s_bcnt0_i32_{wide} {{d}}, {{0}}", kind, "u32", lambda a, bits=bits: nonzero(bits - a.bit_count()))
    add(
        f"s_ff0_i32_{wide} {{d}}, {{0}}",
        kind,
        "u32",
        lambda a, bits=bits: (first_one(~a & (1 << bits) - 1), None),
    )
    add(
        f"s_flbit_i32_{wide} {{d}}, {{0}}",
        kind,
        "u32",
        lambda a, bits=bits: (bits - a.bit_length() if a else WORD, None),
    )


def wide_field(value: int, where: int, is_signed: bool) -> Outcome:
    offset, width = where & 63, where >> 16 & 0x7F
    if width == 0:
        return 0, False
    field = (signed(value, 64) if is_signed else value) >> offset & (1 << width) - 1
    return nonzero(signed(field, width) if is_signed and width < 64 else field, 64)


def sign_run(value: int, bits: int) -> int:
    """Bits at the top that equal the sign; -1 if all do."""
    top = f"{value:0{bits}b}"
    return WORD if len(set(top)) == 1 else len(top) - len(top.lstrip(top[0]))


add("s_bfe_u64 {d}, {0}, {1}", "u64 field", "u64", lambda a, b: wide_field(a, b, False))
add("s_bfe_i64 {d}, {0}, {1}", "u64 field", "u64", lambda a, b: wide_field(a, b, True))
add("s_flbit_i32 {d}, {0}", "u32", "u32", lambda a: (sign_run(a, 32), None))
add("s_flbit_i32_i64 {d}, {0}", "u64", "u32", lambda a: (sign_run(a, 64), None))
add("s_wqm_b64 {d}, {0}", "u64", "u64", lambda a: nonzero(sum(15 << k for k in range(0, 64, 4) if a >> k & 15), 64))
add("s_brev_b64 {d}, {0}", "u64", "u64", lambda a: (int(f"{a:064b}"[::-1], 2), None))
add("s_bfm_b64 {d}, {0}, {1}", "shift shift", "u64", lambda a, b: (((1 << (a & 63)) - 1) << (b & 63), None))
add("s_bitset0_b64 {d}, {0}", "u32", "u64", lambda a, old: (old & ~(1 << (a & 63)), None), "old")
add("s_bitset1_b64 {d}, {0}", "u32", "u64", lambda a, old: (old | 1 << (a & 63), None), "old")
add("s_bitcmp0_b64 {0}, {1}", "u64 shift", "", lambda a, b: (0, a >> (b & 63) & 1 == 0))
add("s_bitcmp1_b64 {0}, {1}", "u64 shift", "", lambda a, b: (0, a >> (b & 63) & 1 == 1))
add("s_pack_ll_b32_b16 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a & 0xFFFF | (b & 0xFFFF) << 16, None))
add("s_pack_lh_b32_b16 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a & 0xFFFF | (b >> 16) << 16, None))
add("s_pack_hh_b32_b16 {d}, {0}, {1}", "u32 u32", "u32", lambda a, b: (a >> 16 | (b >> 16) << 16, None))
add(
    "s_absdiff_i32 {d}, {0}, {1}",
    "u32 u32",
    "u32",
    lambda a, b: nonzero(abs(signed(a) - signed(b) if not overflows(signed(a) - signed(b)) else signed(a - b))),
)
add("s_cmovk_i32 {d}, 0x8001", "", "u32", lambda scc, old: (signed(0x8001, 16) if scc else old, None), "scc", "old")

# Branches: the destination tells which way it went.
BRANCH = "s_mov_b32 {{d}}, 1\n{setup}\n{branch} .Ltaken_%s\ns_mov_b32 {{d}}, 2\n.Ltaken_%s:"
for label, (setup, branch, taken) in enumerate(
    (
        ("s_nop 0", "s_cbranch_scc0", lambda a, scc, exec_: not scc),
        ("s_nop 0", "s_cbranch_scc1", lambda a, scc, exec_: bool(scc)),
        ("s_mov_b64 vcc, {0}", "s_cbranch_vccz", lambda a, scc, exec_: a == 0),
        ("s_mov_b64 vcc, {0}", "s_cbranch_vccnz", lambda a, scc, exec_: a != 0),
        ("s_nop 0", "s_cbranch_execz", lambda a, scc, exec_: exec_ == 0),
        ("s_nop 0", "s_cbranch_execnz", lambda a, scc, exec_: exec_ != 0),
        ("s_nop 0", "s_branch", lambda a, scc, exec_: True),
    )
):
    text = (
        (BRANCH % (label, label))
        .replace("{{", "{")
        .replace("}}", "}")
        .replace("{setup}", setup)
        .replace("{branch}", branch)
    )
    add(text, "u64", "u32", lambda a, scc, exec_, taken=taken: (1 if taken(a, scc, exec_) else 2, None), "scc", "exec_")
add(
    "s_mov_b64 exec, {0}\ns_mov_b32 {d}, 1\ns_cbranch_execz .Lempty\ns_mov_b32 {d}, 2\n"
    ".Lempty:\ns_mov_b64 exec, s[28:29]",
    "u64",
    "u32",
    lambda a: (1 if a == 0 else 2, None),
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_instruction(program: Program, index: int) -> None:
    CASES[index].run(lambda groups, buffers: program.launch(f"case{index}", groups, buffers))
