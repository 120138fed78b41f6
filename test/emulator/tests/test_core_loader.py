"""Code objects that are whole, cut short, altered or for another target: a clear error or a load, never a crash."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from assemble import KernelText, assemble
from core_library import CodeObject, CoreError
from numeric_library import numeric

BODY = """
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_and_b32 v0, 63, v0
v_lshlrev_b32 v1, 2, v0
s_waitcnt lgkmcnt(0)
global_store_dword v1, v0, s[2:3]
s_endpgm
"""
MACHINE_OFFSET, FLAGS_OFFSET = 18, 48
GFX942 = 0x4C


@cache
def image() -> bytes:
    return assemble([KernelText("lanes", BODY, 8)])


def with_bytes(offset: int, value: bytes) -> bytes:
    data = bytearray(image())
    data[offset : offset + len(value)] = value
    return bytes(data)


def run(code: CodeObject) -> np.ndarray:
    out = np.zeros(64, np.int32)
    code.launch("lanes", (1, 1, 1), (64, 1, 1), [out])
    return out


def test_loads_and_runs() -> None:
    np.testing.assert_array_equal(run(CodeObject(image())), np.arange(64))


def bundle(entries: list[tuple[str, bytes]]) -> bytes:
    header_size = 24 + 8 + sum(24 + len(triple) for triple, _ in entries)
    header, body = bytearray(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries))), bytearray()
    for triple, data in entries:
        header += struct.pack("<QQQ", header_size + len(body), len(data), len(triple)) + triple.encode()
        body += data
    return bytes(header + body)


def test_bundle_gives_its_gfx950_entry() -> None:
    data = bundle(
        [
            ("host-x86_64-unknown-linux-gnu", b""),
            ("hip-amdgcn-amd-amdhsa--gfx942", b"not read"),
            ("hip-amdgcn-amd-amdhsa--gfx950:sramecc+:xnack-", image()),
        ]
    )
    np.testing.assert_array_equal(run(CodeObject(data)), np.arange(64))
    size = numeric().gfx950_image_size
    size.restype = ctypes.c_size_t
    assert size(data) == len(data)
    assert size(image()) == len(image())


def test_bundle_without_gfx950_names_what_it_has() -> None:
    with pytest.raises(CoreError, match=r"unsupported_target: .*hip-amdgcn-amd-amdhsa--gfx942"):
        CodeObject(bundle([("hip-amdgcn-amd-amdhsa--gfx942", image())]))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "invalid_image"),
        (b"\x7fELF", "invalid_image"),
        (b"nothing of the kind" * 8, "no ELF magic"),
        (b"CCOB" + bytes(60), "compressed"),
    ],
    ids=["empty", "magic", "text", "compressed"],
)
def test_not_a_code_object(data: bytes, message: str) -> None:
    with pytest.raises(CoreError, match=message):
        CodeObject(data)


def test_other_targets_are_refused() -> None:
    flags = struct.unpack_from("<I", image(), FLAGS_OFFSET)[0]
    other = with_bytes(FLAGS_OFFSET, struct.pack("<I", flags & ~0xFF | GFX942))
    with pytest.raises(CoreError, match=r"unsupported_target: .*expected gfx950"):
        CodeObject(other)
    with pytest.raises(CoreError, match=r"unsupported_target: .*expected AMDGPU"):
        CodeObject(with_bytes(MACHINE_OFFSET, struct.pack("<H", 62)))


def test_every_prefix_is_refused() -> None:
    whole = image()
    # Behind the section headers nothing is needed; every shorter prefix lacks something.
    for size in range(0, len(whole) - 1, 37):
        with pytest.raises(CoreError, match="invalid_image"):
            CodeObject(whole[:size])


def refusal(data: bytes) -> str:
    """What the core said about it, empty if it ran."""
    try:
        run(CodeObject(data))
    except CoreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(4))
def test_altered_bytes_never_crash(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_TIMEOUT", "1")
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(150):
        data = bytearray(image())
        for _ in range(rng.integers(1, 6)):
            data[rng.integers(len(data))] = rng.integers(256)
        error = refusal(bytes(data))
        refused += error.startswith(("invalid_image", "unsupported_target"))
        assert not error.startswith("internal")
    assert refused > 0


HEADER_BYTES = 0x500  # file, program and the first section headers, the notes


def altered_headers(count: int) -> Iterator[bytes]:
    rng = np.random.default_rng(256)
    for index in range(count):
        data = bytearray(image())
        for _ in range(rng.choice([1, 2, 4])):
            place = rng.integers(HEADER_BYTES if index % 2 else 64)
            data[place] = rng.choice([0, 0xFF, 0x7F, 0x80, rng.integers(256)])
        yield bytes(data)


def test_a_size_found_from_damaged_headers_is_readable() -> None:
    """A module is loaded without its size: what its headers claim is looked at no further than memory goes."""
    size = numeric().gfx950_image_size
    size.restype = ctypes.c_size_t
    refused = 0
    for data in altered_headers(300):
        buffer = ctypes.create_string_buffer(data, len(data))
        claimed = size(buffer)
        refused += claimed == 0
        if 0 < claimed < 1 << 24:
            assert not refusal(ctypes.string_at(buffer, claimed)).startswith("internal")
    assert refused > 50


def test_segments_that_ask_for_too_much_memory() -> None:
    program_headers = struct.unpack_from("<Q", image(), 32)[0]
    for header in range(program_headers, program_headers + 56 * 3, 56):
        if struct.unpack_from("<I", image(), header)[0] == 1:  # PT_LOAD
            with pytest.raises(CoreError, match=r"invalid_image: .* bytes to load; the limit is 1 GiB"):
                CodeObject(with_bytes(header + 40, struct.pack("<Q", 3 << 30)))
            return
    raise AssertionError("no segment found")


def test_unknown_kernel() -> None:
    with pytest.raises(CoreError, match="no kernel named 'other'"):
        CodeObject(image()).launch("other", (1, 1, 1), (64, 1, 1), [])


@pytest.mark.parametrize(
    ("grid", "block", "lds", "message"),
    [
        ((1, 1, 1), (1025, 1, 1), 0, "1025 work-items; the limit is 1024"),
        ((1, 1, 1), (0, 1, 1), 0, "empty block"),
        ((0, 1, 1), (64, 1, 1), 0, "empty grid"),
        ((1, 1, 1), (64, 1, 1), 160 * 1024 + 1, "bytes of LDS"),
    ],
    ids=["block", "empty-block", "grid", "lds"],
)
def test_launch_limits(grid: tuple[int, int, int], block: tuple[int, int, int], lds: int, message: str) -> None:
    with pytest.raises(CoreError, match=f"invalid_launch: kernel 'lanes': .*{message}"):
        CodeObject(image()).launch("lanes", grid, block, [np.zeros(64, np.int32)], lds)


def test_missing_arguments() -> None:
    with pytest.raises(
        CoreError, match="invalid_launch: kernel 'lanes' takes 8 bytes of arguments, the launch gives 0"
    ):
        CodeObject(image()).launch("lanes", (1, 1, 1), (64, 1, 1), [])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v_mqsad_pk_u16_u8 v[2:3], v[4:5], v6, v[8:9]", "'v_mqsad_pk_u16_u8 .*not modelled"),
        ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0", "'s_setreg_imm32_b32 .*not modelled"),
        ("v_mul_u32_u24_e64 v1, v2, v3 clamp", "clamp"),
        (".long 0xffffffff", "no instruction"),
    ],
    ids=["sad", "setreg", "clamp", "bytes"],
)
def test_unknown_instructions_are_refused_at_decode(line: str, message: str) -> None:
    code = CodeObject(
        assemble([KernelText("bad", f"s_cbranch_execz behind\ns_endpgm\nbehind:\n{line}\ns_endpgm\n", 0)])
    )
    # The branch is not taken: refused before anything runs.
    with pytest.raises(CoreError, match=f"unsupported_instruction: kernel 'bad', pc 0x8.*{message}"):
        code.launch("bad", (1, 1, 1), (64, 1, 1), [])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GFX950_SCHEDULE", "random", "run_to_barrier, round_robin or random:SEED"),
        ("GFX950_CHECK", "yes", "0 or 1"),
        ("GFX950_THREADS", "-1", "0 .*to 1024"),
        ("GFX950_TIMEOUT", "soon", "seconds above 0"),
        ("GFX950_TIMEOUT", "0", "seconds above 0"),
        ("GFX950_TIMEOUT", "nan", "seconds above 0"),
        ("GFX950_TIMEOUT", "inf", "seconds above 0, up to 1e9"),
        ("GFX950_TIMEOUT", "1e10", "seconds above 0, up to 1e9"),
    ],
)
def test_bad_environment_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(CoreError, match=f"invalid_launch: {name}='{value}': expected {message}"):
        run(CodeObject(image()))
