"""Which bytes an access may touch: LDS addresses that wrap around, and the last dword of a range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from assemble import KernelText
from core_library import CoreError, Program
from memory_case import LDS_BYTES, MemoryCase, State
from test_memory import Addresses, anywhere, apart, read_lds, read_small, read_two, registers, write, write_two

# ---- a base below zero, which the offset brings back into LDS: addresses wrap around at 32 bits ----------

CASES: list[MemoryCase] = []


def add(text: str, reference: Callable[[State], None], addresses: Addresses) -> None:
    CASES.append(MemoryCase(text, reference, addresses))


def below_zero(addresses: Addresses, by: int) -> Addresses:
    return lambda generator: addresses(generator) - by


def lds_add(words: int, offset: int, returns: bool) -> Callable[[State], None]:
    def reference(state: State) -> None:
        for lane in state.lanes:
            place = state.address[lane] + offset
            old = state.load("lds", place, 4 * words)
            state.store("lds", place, 4 * words, old + state.words(lane, words))
            if returns:
                state.set_result(lane, old, words)

    return reference


for name, words in (("b32", 1), ("b64", 2), ("b96", 3), ("b128", 4)):
    size = 16 if words > 2 else 4 * words
    add(
        f"ds_read_{name} {registers(8, words)}, v20 offset:4096",
        read_lds(words, 4096),
        below_zero(apart(size, LDS_BYTES), 4096),
    )
    add(
        f"ds_write_{name} v20, {registers(24, words)} offset:96",
        write("lds", 4 * words, 96),
        below_zero(apart(size, 2048), 96),
    )
add("ds_read_u16 v8, v20 offset:88", read_small("lds", 2, False, 88), below_zero(apart(2, 128), 88))
add("ds_write_b8 v20, v24 offset:65535", write("lds", 1, 65535), below_zero(apart(1, 64), 65535))
add("ds_read2_b32 v[8:9], v20 offset0:200 offset1:255", read_two(1, 800, 1020), below_zero(apart(4, 1600), 800))
add("ds_read2_b64 v[8:11], v20 offset0:255 offset1:99", read_two(2, 2040, 792), below_zero(apart(8, 1600), 792))
add("ds_read2st64_b64 v[8:11], v20 offset0:1 offset1:4", read_two(2, 512, 2048), below_zero(apart(8, 512), 512))
add("ds_write2_b32 v20, v24, v26 offset0:1 offset1:129", write_two(1, 4, 516), below_zero(apart(4, 512), 4))
add(
    "ds_write2_b64 v20, v[24:25], v[26:27] offset0:192 offset1:64",
    write_two(2, 1536, 512),
    below_zero(apart(8, 1024), 512),
)
add("ds_add_u32 v20, v24 offset:256", lds_add(1, 256, False), below_zero(anywhere(4, 400), 256))
add("ds_add_rtn_u32 v8, v20, v24 offset:256", lds_add(1, 256, True), below_zero(apart(4, 400), 256))
add("ds_add_u64 v20, v[24:25] offset:88", lds_add(2, 88, False), below_zero(anywhere(8, 800), 88))
add("ds_add_rtn_u64 v[8:9], v20, v[24:25] offset:88", lds_add(2, 88, True), below_zero(apart(8, 800), 88))


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([case.kernel(f"case{index}") for index, case in enumerate(CASES)])


@pytest.mark.parametrize("check", ["0", "2"])
@pytest.mark.parametrize("index", range(len(CASES)), ids=[str(case) for case in CASES])
def test_wrapped_address(program: Program, index: int, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFX950_CHECK", check)
    CASES[index].run(lambda buffers: program.launch(f"case{index}", 1, buffers))


@pytest.mark.parametrize(
    ("text", "address", "first"),
    [
        ("ds_write_b64 v20, v[24:25] offset:8", -12, 2**32 - 4),
        ("ds_read2_b32 v[8:9], v20 offset0:2 offset1:1", -8, 2**32 - 4),
        ("ds_add_u32 v20, v24 offset:4", -8, 2**32 - 4),
        ("ds_read_b32 v8, v20 offset:4096", LDS_BYTES - 4096, LDS_BYTES),
    ],
)
def test_what_stays_outside_is_refused(text: str, address: int, first: int) -> None:
    case = MemoryCase(text, lambda state: None, lambda generator: np.full(64, address))
    program = Program([case.kernel("kernel")])
    with pytest.raises(CoreError, match=f"memory_fault: .* accesses LDS bytes {first} to"):
        case.run(lambda buffers: program.launch("kernel", 1, buffers))


# ---- the dword in which a range ends: read whole, written only as far as the range goes ------------------


def at_the_end(name: str, text: str) -> KernelText:
    body = f"""
s_load_dwordx2 s[2:3], s[0:1], 0x0
v_mov_b32_e32 v1, 0
v_mov_b32_e32 v2, 0x3c00
s_waitcnt lgkmcnt(0)
s_mov_b64 exec, 1
{text}
s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    return KernelText(name, body, 8)


def run_at_the_end(text: str, halves: int) -> np.ndarray:
    """The instruction on a range of that many halves, which more memory follows."""
    memory = np.full(8, 2, np.float16)
    Program([at_the_end("kernel", text)]).launch("kernel", 1, [memory[:halves]])
    return memory


@pytest.mark.parametrize("halves", [1, 3])
def test_a_packed_atomic_may_read_the_rest_of_the_last_dword(halves: int) -> None:
    offset = 2 * (halves - 1)
    memory = run_at_the_end(f"global_atomic_pk_add_f16 v1, v2, s[2:3] offset:{offset}", halves)
    np.testing.assert_array_equal(memory, np.array([2] * (halves - 1) + [3] + [2] * (8 - halves), np.float16))


@pytest.mark.parametrize(
    "text",
    [
        "global_load_dword v3, v1, s[2:3] offset:4",
        "global_load_dwordx2 v[4:5], v1, s[2:3]",
        "s_load_dword s4, s[2:3], 0x4",
        "s_load_dwordx2 s[4:5], s[2:3], 0x0",
    ],
)
def test_a_load_may_read_the_rest_of_the_last_dword(text: str) -> None:
    run_at_the_end(text, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("global_store_dword v1, v2, s[2:3] offset:4", "whose end the access crosses"),
        ("global_load_dword v3, v1, s[2:3] offset:6", "0 bytes below"),
        ("global_load_dword v3, v1, s[2:3] offset:8", "2 bytes below"),
        ("global_load_dwordx2 v[4:5], v1, s[2:3] offset:4", "whose end the access crosses"),
        ("global_load_ushort v3, v1, s[2:3] offset:6", "0 bytes below"),
        ("global_atomic_pk_add_f16 v1, v2, s[2:3] offset:8", "2 bytes below"),
        ("s_load_dword s4, s[2:3], 0x8", "2 bytes below"),
    ],
)
def test_nothing_else_leaves_its_range(text: str, message: str) -> None:
    with pytest.raises(CoreError, match=f"memory_fault.* of 6 bytes, {message}"):
        run_at_the_end(text, 3)
