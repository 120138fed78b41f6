"""Kernels as Triton compiles them, with one wait, barrier or s_nop taken away: found by the checker, or harmless here.

Harmless is a wait that finds nothing outstanding beyond what it leaves, by a count over a trace of the launch, which
knows nothing of the checker. All else that the launch executes must be found.
"""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import triton_kernels as kernels
from core_library import CoreError
from test_core_triton import compiled
from triton_kernels import Compiled

from gfx950_emulator import core

NOP, WAIT = struct.pack("<I", 0xBF800000), 0xBF8C
VM_MASK, LGKM_MASK = 0xC00F, 0x0F00


def softmax(rng: np.random.Generator) -> tuple[Compiled, list[Any]]:
    signature = {"x": "*fp32", "y": "*fp32", "columns": "i32", "stride": "i32"}
    x = rng.standard_normal((1, 1000)).astype(np.float32)
    kernel = compiled(kernels.softmax, signature, ("x", "y"), block=1024, num_warps=4)
    return kernel, [x, np.zeros_like(x), 1000, 1000]


def sort(rng: np.random.Generator) -> tuple[Compiled, list[Any]]:
    x = rng.standard_normal((1, 256)).astype(np.float32)
    return compiled(kernels.sort_rows, {"x": "*fp32", "y": "*fp32"}, columns=256), [x, np.zeros_like(x)]


def scaled_product(rng: np.random.Generator) -> tuple[Compiled, list[Any]]:
    signature = {"a": "*fp8e4nv", "b": "*u8", "a_scale": "*u8", "b_scale": "*u8", "c": "*fp32"}
    m, n, k = 64, 32, 256
    kernel = compiled(kernels.mx_matmul, signature, ("a", "b"), m=m, n=n, k=k, kind_a="e4m3", kind_b="e2m1")
    a = rng.standard_normal((m, k)).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    a_scale, b_scale = (rng.integers(120, 134, (rows, k // 32)).astype(np.uint8) for rows in (m, n))
    b = rng.integers(0, 256, (k // 2, n)).astype(np.uint8)
    return kernel, [a, a_scale, b, b_scale, np.zeros((m, n), np.float32)]


def product(rng: np.random.Generator) -> tuple[Compiled, list[Any]]:
    strides = ["m", "n", "k", "sam", "sak", "sbk", "sbn", "scm"]
    signature = dict.fromkeys(["a", "b", "c"], "*fp16") | dict.fromkeys(strides, "i32")
    options = {"bm": 64, "bn": 64, "bk": 32, "num_warps": 4, "num_stages": 2}
    kernel = compiled(kernels.matmul, signature, ("a", "b", "c", "sam"), **options)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    return kernel, [a, b, np.zeros((64, 64), np.float16), 64, 64, 128, 128, 1, 64, 1, 64]


@dataclass(frozen=True)
class Removal:
    kind: str
    offset: int
    code: bytes  # in place of what is there
    counter: str = ""  # of a wait
    left: int = 0  # how many the wait leaves outstanding


def removals(code: bytes) -> Iterator[Removal]:
    instructions = core.listing(code)
    for this, behind in pairwise(instructions):
        word = struct.unpack_from("<I", code, this.offset)[0]
        vm, lgkm = word & 15 | word >> 10 & 48, word >> 8 & 15
        if word >> 16 == WAIT:
            if vm < 63:
                yield Removal("wait", this.offset, struct.pack("<I", word | VM_MASK), "vm", vm)
                one_more = word & ~VM_MASK | (vm + 1) & 15 | (vm + 1 & 48) << 10
                yield Removal("wait for one less", this.offset, struct.pack("<I", one_more), "vm", vm)
            if lgkm < 15:
                yield Removal("wait", this.offset, struct.pack("<I", word | LGKM_MASK), "lgkm", lgkm)
        elif this.text == "s_barrier":
            yield Removal("barrier", this.offset, NOP)
        elif this.base == "s_nop":  # moved behind the instruction that it was for
            end = behind.offset + behind.size
            yield Removal("s_nop", this.offset, code[behind.offset : end] + code[this.offset : behind.offset])


def outstanding_at_waits(trace: str) -> tuple[set[int], dict[tuple[int, str], int]]:
    """Offsets that were executed; the most that was outstanding when a wait was met, by its offset and counter."""
    executed, most = set(), defaultdict[tuple[int, str], int](int)
    counts = defaultdict[tuple[str, str], int](int)  # by wave and counter
    for wave, place, text in re.findall(r"^wave (\d+) +0x([0-9a-f]+) +(.*)$", trace, re.MULTILINE):
        offset = int(place, 16)
        executed.add(offset)
        if text.startswith(("ds_", "s_load_", "s_buffer_load")):
            counts[wave, "lgkm"] += 1
        elif text.startswith(("global_", "buffer_", "scratch_")):
            counts[wave, "vm"] += 1
        elif text.startswith("s_waitcnt"):
            for counter, left in re.findall(r"(vm|lgkm)cnt\((\d+)\)", text):
                most[offset, counter] = max(most[offset, counter], counts[wave, counter])
                counts[wave, counter] = min(counts[wave, counter], int(left))
    return executed, most


def error_of(kernel: Compiled, arguments: list[Any]) -> str:
    try:
        kernel.launch((1,), *arguments)
    except CoreError as error:
        return str(error)
    return "none"


@pytest.mark.parametrize("make", [softmax, sort, scaled_product, product], ids=lambda make: make.__name__)
def test_every_removal_is_found_or_harmless(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, arguments = make(np.random.default_rng(0))
    monkeypatch.setenv("GFX950_CHECK", "1")
    trace = tmp_path / "trace"
    with monkeypatch.context() as traced:
        traced.setenv("GFX950_TRACE", kernel.name)
        traced.setenv("GFX950_TRACE_FILE", str(trace))
        kernel.launch((1,), *arguments)  # whole, it has no hazard
    executed, most = outstanding_at_waits(trace.read_text())
    code = core.CodeObject(kernel.image).kernel(kernel.name)[1]
    start = kernel.image.index(code)

    found, harmless = Counter[str](), 0
    for removal in removals(code):
        if removal.offset not in executed:
            continue
        if removal.counter and most[removal.offset, removal.counter] <= removal.left:
            harmless += 1
            continue
        at = start + removal.offset
        image = kernel.image[:at] + removal.code + kernel.image[at + len(removal.code) :]
        assert error_of(kernel.with_image(image), arguments).startswith("hazard: "), removal
        found[removal.kind] += 1
    assert found["wait"] > 8
    assert found["barrier"] > 3
    assert harmless < found["wait"]
