"""Every encoding that a gfx950 instruction can have, filled in with several choices of operands.

Layouts: AMD Instinct CDNA4 ISA, chapter "Microcode Formats". Opcode fields are enumerated whole; LLVM's disassembler
says which values are instructions of gfx950 and what they are called, so that no list of names is kept here. Compared
once with the CDNA enumerations of tinygrad 0.14.0: they have no instruction more but two for xf32, which gfx950
dropped, and s_set_valu_coexec_mode.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import product

_V = 256  # in a nine-bit source, vector registers begin here
_ZERO = 128  # the inline constant 0
_ONE = struct.unpack("<I", struct.pack("<f", 1.0))[0]  # a literal, where an instruction must have one
_DPP, _SDWA = 0xFA, 0xF9  # in place of a source: another word follows
# Immediates that some instruction wants: nothing, an interrupt, XCC_ID to read, MODE.FP16_OVFL to write.
_IMMEDIATES = (0, 1, 20 | 31 << 11, 1 | 23 << 6)
# quad_perm, row_shl, row_shr, row_ror, wave_shl, wave_rol, wave_shr, wave_ror, row_mirror, row_half_mirror, row_bcast,
# row_newbcast
_DPP_CONTROLS = (0xB1, 0x101, 0x111, 0x121, 0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143, 0x150)


def _words(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


def _scalar() -> Iterator[bytes]:
    for op, source in product(range(256), (16, _ZERO)):
        yield _words(0b101111101 << 23 | 8 << 16 | op << 8 | source, _ONE)  # SOP1
    for op in range(128):
        yield _words(0b10 << 30 | op << 23 | 8 << 16 | 24 << 8 | 16, _ONE)  # SOP2
        yield _words(0b101111110 << 23 | op << 16 | 24 << 8 | 16)  # SOPC
        for immediate in _IMMEDIATES:
            yield _words(0b101111111 << 23 | op << 16 | immediate)  # SOPP
    for op, immediate in product(range(32), _IMMEDIATES):
        yield _words(0b1011 << 28 | op << 23 | 8 << 16 | immediate, _ONE)  # SOPK
    for op, data, immediate, by_register in product(range(256), (16, 4), (1, 0), (0, 1)):
        word = 0b110000 << 26 | op << 18 | immediate << 17 | by_register << 14 | data << 6 | 4
        yield _words(word, 20 << 25)  # SMEM


def _vector() -> Iterator[bytes]:
    first = {"VOP1": range(256), "VOP2": range(62), "VOPC": range(256)}
    for name, ops in first.items():
        for op in ops:
            word = {
                "VOP1": 0b0111111 << 25 | 8 << 17 | op << 9,
                "VOP2": op << 25 | 8 << 17 | 16 << 9,
                "VOPC": 0b0111110 << 25 | op << 17 | 16 << 9,
            }[name]
            for source in (_V + 24, 24, _ZERO):
                yield _words(word | source, _ONE)
            for control, bound in product(_DPP_CONTROLS, (0, 1)):
                yield _words(word | _DPP, 0xFF << 24 | bound << 19 | control << 8 | 24)
            # Fields of operands that an instruction does not have must be 0.
            selectors = 24 if name == "VOP1" else 4 << 24 | 24
            # VOPC has a scalar destination where the others select a part of the result.
            for result, source in product((0,) if name == "VOPC" else (0, 6 << 8, 5 << 8 | 2 << 11), (0, 5, 6)):
                yield _words(word | _SDWA, selectors | result | source << 16)
            if name == "VOP1":
                yield _words(0b0111111 << 25 | op << 9)


def _vop3() -> Iterator[bytes]:
    sources = list(product((_V + 24, 24), (_V + 32, 32), (_V + 40, 40, _ZERO)))
    #            plain, clamp, absolute, op_sel, negated, scaled result
    modifiers = ((0, 0), (1 << 15, 0), (1 << 8, 0), (1 << 11, 0), (0, 1 << 29), (0, 1 << 27))
    for op in range(1024):
        for a, b, c in sources:
            yield _words(0b110100 << 26 | op << 16 | 8, c << 18 | b << 9 | a)
        for low, high in modifiers[1:]:
            yield _words(0b110100 << 26 | op << 16 | low | 8, high | (_V + 40) << 18 | (_V + 32) << 9 | _V + 24)


def _vop3p() -> Iterator[bytes]:
    both_high = (1 << 14, 3 << 27)
    for op in range(128):
        base = 0b110100111 << 23 | op << 16 | 64
        for (low, high), c in product(((0, 0), both_high), (_V + 64, _ZERO)):
            yield _words(base | low, high | c << 18 | (_V + 48) << 9 | _V + 32)
        # packed: clamp, op_sel, neg_hi, neg_lo
        for low, high in ((1 << 15, 0), (1 << 11, 0), (1 << 8, 0), (0, 1 << 29)):
            yield _words(base | both_high[0] | low, both_high[1] | high | (_V + 64) << 18 | (_V + 48) << 9 | _V + 32)
        # matrix: accumulation registers, formats of A and B
        for low, high in ((1 << 15, 0), (1 << 15, 3 << 27), (0, 3 << 27), (0, 1 << 27)):
            yield _words(base | low, high | (_V + 64) << 18 | (_V + 48) << 9 | _V + 32)
        for a, b in product(range(5), repeat=2):
            product_words = (base | a << 8, b << 29 | (_V + 64) << 18 | (_V + 48) << 9 | _V + 32)
            yield _words(*product_words)
            if op in (0x2D, 0x2E):  # with a word pair of block scales before them
                scales = 0xD3AC0000, (_V + 9) << 9 | _V + 8
                yield _words(*scales, base | 1 << 11 | a << 8, *product_words[1:])


def _memory() -> Iterator[bytes]:
    result, data = (0, 32 << 24), (0, 16 << 8, 24 << 16 | 16 << 8)
    for op, gds, address, to, stored in product(range(256), (0, 1), (0, 8), result, data):
        for agpr in (0, 1):
            yield _words(0b110110 << 26 | gds << 16 | op << 17 | agpr << 25, to | stored | address)  # DS
    for op, segment, returns, by_vector in product(range(128), range(3), (0, 1), (0, 1)):
        for base in (0x7F, 8) if segment else (0,):
            word = 0b110111 << 26 | op << 18 | returns << 16 | segment << 14 | by_vector << 13
            yield _words(word, 32 << 24 | base << 16 | 16 << 8 | 8)  # FLAT, SCRATCH, GLOBAL
    for op, lds, returns, offen, idxen in product(range(128), (0, 1), (0, 1), (0, 1), (0, 1)):
        word = 0b111000 << 26 | op << 18 | lds << 16 | returns << 14 | idxen << 13 | offen << 12
        yield _words(word, _ZERO << 24 | 2 << 16 | 16 << 8 | 8)  # MUBUF
    for op, offen in product(range(16), (0, 1)):
        word = 0b111010 << 26 | 4 << 23 | 4 << 19 | op << 15 | offen << 12
        yield _words(word, _ZERO << 24 | 2 << 16 | 16 << 8 | 8)  # MTBUF
    for op in range(128):
        yield _words(0b111100 << 26 | op << 18 | 15 << 8, 4 << 16 | 16 << 8 | 8)  # MIMG


def all_encodings() -> Iterator[bytes]:
    yield from _scalar()
    yield from _vector()
    yield from _vop3()
    yield from _vop3p()
    yield from _memory()
