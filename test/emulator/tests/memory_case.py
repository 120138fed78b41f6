"""One memory instruction run by one wave: the kernel for it, and memory as the reference sees it.

The kernel fills 8 KiB of LDS, loads the operands, runs the text under EXEC and stores the results and the LDS. The text
finds:

    v20          address or offset of the lane      s[12:13]  address of the test's global memory
    v[24:27]     data                               s[16:19]  raw buffer of it, with the case's num_records
    v[8:11]      old and new result                 s20       a scalar offset
    v[22:23]     s[12:13] + v20                     m0        the case's value
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from assemble import KernelText

LDS_BYTES = 8192
MEMORY_BYTES = 16384
SCALAR_OFFSET = 48
EVERY_LANE, SOME_LANES = 0xFFFFFFFFFFFFFFFF, 0xF0F3A5A5123455AB


@dataclass
class State:
    """What the reference reads and changes. result[lane] holds four dwords."""

    memory: bytearray
    lds: bytearray
    address: list[int]
    data: list[list[int]]
    result: list[list[int]]
    lanes: list[int]  # those that EXEC enables
    records: int

    def load(self, space: str, address: int, size: int) -> int:
        store = self.lds if space == "lds" else self.memory
        if space == "lds":
            address &= 0xFFFFFFFF  # address plus offset wraps around
        if not 0 <= address <= len(store) - size:
            raise IndexError(f"{space} address {address}")
        return int.from_bytes(store[address : address + size], "little")

    def store(self, space: str, address: int, size: int, value: int) -> None:
        store = self.lds if space == "lds" else self.memory
        if space == "lds":
            address &= 0xFFFFFFFF  # address plus offset wraps around
        if not 0 <= address <= len(store) - size:
            raise IndexError(f"{space} address {address}")
        store[address : address + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def words(self, lane: int, count: int, first: int = 0) -> int:
        return sum(self.data[lane][first + word] << (32 * word) for word in range(count))

    def set_result(self, lane: int, value: int, count: int, first: int = 0) -> None:
        for word in range(count):
            self.result[lane][first + word] = value >> (32 * word) & 0xFFFFFFFF


@dataclass(frozen=True)
class MemoryCase:
    text: str
    reference: Callable[[State], None]
    addresses: Callable[[np.random.Generator], np.ndarray]  # 64 of them
    records: int = MEMORY_BYTES
    m0: int = 0
    data: Callable[[np.random.Generator], np.ndarray] | None = None  # [64, 4]
    scratch: int = 0
    memory_type: np.dtype | None = None  # fill memory with numbers of this type instead of random bytes
    masks: tuple[int, ...] = (EVERY_LANE, SOME_LANES, 1)  # EXEC

    def __str__(self) -> str:
        return self.text.replace("\n", "; ")

    def kernel(self, name: str) -> KernelText:
        lines = [
            "s_load_dwordx8 s[24:31], s[0:1], 0x0",  # operands, results, memory, LDS before
            "s_load_dwordx2 s[32:33], s[0:1], 0x20",  # LDS after
            "v_lshlrev_b32_e32 v1, 2, v0",
            "v_lshlrev_b32_e32 v2, 4, v0",
            "s_waitcnt lgkmcnt(0)",
            "s_load_dwordx4 s[36:39], s[24:25], 0x900",  # EXEC, num_records
        ]
        for block in range(LDS_BYTES // 1024):
            lines += [
                f"v_add_u32_e32 v3, {block * 1024:#x}, v2",
                "global_load_dwordx4 v[4:7], v3, s[30:31]",
                "s_waitcnt vmcnt(0)",
                "ds_write_b128 v3, v[4:7]",
            ]
        for row, register in enumerate([20, 24, 25, 26, 27, 8, 9, 10, 11]):
            lines.append(f"global_load_dword v{register}, v1, s[24:25] offset:{row * 256}")
        lines += [
            "s_waitcnt vmcnt(0) lgkmcnt(0)",
            "s_mov_b64 s[12:13], s[28:29]",
            "s_mov_b64 s[16:17], s[28:29]",
            "s_mov_b32 s18, s38",
            "s_mov_b32 s19, 0x00027000",
            f"s_mov_b32 s20, {SCALAR_OFFSET}",
            f"s_mov_b32 m0, {self.m0:#x}",
            "v_mov_b32_e32 v22, s12",
            "v_mov_b32_e32 v23, s13",
            "v_add_co_u32_e32 v22, vcc, v22, v20",
            "s_nop 1",  # VCC to a carry input
            "v_addc_co_u32_e32 v23, vcc, 0, v23, vcc",
            "s_mov_b64 exec, s[36:37]",
            self.text,
            "s_waitcnt vmcnt(0) lgkmcnt(0)",
            "s_mov_b64 exec, -1",
        ]
        for row, register in enumerate([8, 9, 10, 11]):
            lines.append(f"global_store_dword v1, v{register}, s[26:27] offset:{row * 256}")
        for block in range(LDS_BYTES // 1024):
            lines += [
                f"v_add_u32_e32 v3, {block * 1024:#x}, v2",
                "ds_read_b128 v[4:7], v3",
                "s_waitcnt lgkmcnt(0)",
                "global_store_dwordx4 v3, v[4:7], s[32:33]",
            ]
        return KernelText(name, "\n".join(lines), 40, vgprs=48, lds=LDS_BYTES, scratch=self.scratch)

    def run(self, launch: Callable[[list[np.ndarray]], object]) -> None:
        for seed, mask in enumerate(self.masks):
            self.run_once(launch, np.random.default_rng(seed), mask)

    def run_once(self, launch: Callable[[list[np.ndarray]], object], generator: np.random.Generator, mask: int) -> None:
        address = self.addresses(generator).astype(np.uint32)
        data = generator.integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
        if self.data is not None:
            data = self.data(generator).astype(np.uint32)
        old = generator.integers(0, 1 << 32, (64, 4), dtype=np.uint64).astype(np.uint32)
        memory = generator.integers(0, 256, MEMORY_BYTES, dtype=np.uint16).astype(np.uint8)
        if self.memory_type is not None:
            numbers = generator.standard_normal(MEMORY_BYTES // self.memory_type.itemsize)
            memory = numbers.astype(self.memory_type).view(np.uint8)
        lds = generator.integers(0, 256, LDS_BYTES, dtype=np.uint16).astype(np.uint8)
        operands = np.zeros(0x940 // 4, np.uint32)
        operands[:576] = np.concatenate([address[None], data.T, old.T]).reshape(-1)
        operands[0x900 // 4 :][:3] = mask & 0xFFFFFFFF, mask >> 32, self.records
        results, lds_after = np.zeros((4, 64), np.uint32), np.zeros(LDS_BYTES, np.uint8)

        lanes = [lane for lane in range(64) if mask >> lane & 1]
        state = State(
            bytearray(memory), bytearray(lds), address.tolist(), data.tolist(), old.tolist(), lanes, self.records
        )
        launch([operands, results, memory, lds, lds_after])
        self.reference(state)
        expected = np.array(state.result, np.uint32)
        bad = np.argwhere(expected != results.T)
        assert not bad.size, (
            f"{self}: EXEC {mask:#x}, {len(bad)} result dwords differ, first lane {bad[0][0]} dword {bad[0][1]}: "
            f"{results.T[tuple(bad[0])]:#x}, not {expected[tuple(bad[0])]:#x} (address {address[bad[0][0]]:#x})"
        )
        for space, ours, theirs in (("memory", memory, state.memory), ("LDS", lds_after, state.lds)):
            differ = np.flatnonzero(ours != np.frombuffer(bytes(theirs), np.uint8))
            assert not differ.size, (
                f"{self}: EXEC {mask:#x}, {len(differ)} bytes of {space} differ, first at {differ[0]:#x}: "
                f"{ours[differ[0]]:#x}, not {theirs[differ[0]]:#x}"
            )
