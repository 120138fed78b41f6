"""The core's C interface, for tools that look at code without running it. Needs neither torch nor a device."""

from __future__ import annotations

import ctypes
import functools
import os
from dataclasses import dataclass

from gfx950_emulator import rocm_tree
from gfx950_emulator.machine import DECODER_STUBS, LIBRARIES, check_library

CLASSES = ("salu", "valu", "mfma", "lds", "vmem", "smem", "branch", "other")
_DETAILS = (
    "kernarg_bytes",
    "lds_bytes",
    "scratch_bytes_per_lane",
    "vgprs",
    "agprs",
    "sgprs",
    "vgpr_spills",
    "sgpr_spills",
    "max_workgroup",
    "preloaded_dwords",
)
_ENCODINGS = ("_e32", "_e64", "_dpp", "_sdwa")


class CoreError(RuntimeError):
    """What the core said; begins with the class of the error, for example `invalid_image:`."""


@dataclass(frozen=True)
class Instruction:
    offset: int
    size: int  # bytes
    text: str
    base: str  # the mnemonic without its encoding
    encoding: str  # e32, e64, dpp, sdwa, or nothing
    klass: str  # of CLASSES; nothing when refused
    target: int  # of a branch, bytes from the kernel's start; else -1
    refusal: str  # why the core does not execute it, or nothing


@functools.cache
def library() -> ctypes.CDLL:
    path = LIBRARIES / "libgfx950_core_capi.so"
    check_library(path)
    if (decoder := rocm_tree.decoder_library()) is not None:
        os.environ.setdefault("GFX950_LIBLLVM", str(decoder))
    for stub in DECODER_STUBS:
        if (LIBRARIES / stub).exists():
            ctypes.CDLL(str(LIBRARIES / stub))
    core = ctypes.CDLL(str(path))
    core.gfx950_last_error.restype = ctypes.c_char_p
    core.gfx950_load.restype = ctypes.c_void_p
    core.gfx950_load.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    core.gfx950_unload.argtypes = [ctypes.c_void_p]
    core.gfx950_kernel_count.restype = ctypes.c_size_t
    core.gfx950_kernel_count.argtypes = [ctypes.c_void_p]
    core.gfx950_kernel_name.restype = ctypes.c_char_p
    core.gfx950_kernel_name.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    core.gfx950_kernel_details.restype = ctypes.c_size_t
    core.gfx950_examine.restype = ctypes.c_size_t
    core.gfx950_examine.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    core.gfx950_registered.restype = ctypes.c_size_t
    return core


def _error() -> CoreError:
    return CoreError((library().gfx950_last_error() or b"").decode(errors="replace"))


def registered() -> frozenset[str]:
    """The mnemonics of the core's registry; matrix instructions are not in it."""
    buffer = ctypes.create_string_buffer(1 << 17)
    if library().gfx950_registered(buffer, ctypes.c_size_t(len(buffer))) > len(buffer):
        raise CoreError("the registry's names are longer than expected")
    return frozenset(buffer.value.decode().split())


def examine(code: bytes, offset: int = 0) -> Instruction | None:
    """The instruction at `offset`; None if LLVM knows none for gfx950 there."""
    buffer = ctypes.create_string_buffer(2048)
    size = library().gfx950_examine(code, len(code), offset, buffer, len(buffer))
    if size == 0:
        if library().gfx950_last_error():
            raise _error()
        return None
    base, klass, target, text, refusal = buffer.value.decode().split("\t", 4)
    words = text.split()
    mnemonic = words[0]
    encoding = next((suffix for suffix in _ENCODINGS if mnemonic.endswith(suffix)), "")
    base = base or mnemonic.removesuffix(encoding)
    return Instruction(offset, size, text, base, encoding[1:], "" if refusal else klass, int(target), refusal)


class CodeObject:
    def __init__(self, image: bytes) -> None:
        self._handle = library().gfx950_load(image, len(image))
        if not self._handle:
            raise _error()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().gfx950_unload(self._handle)

    def kernels(self) -> list[str]:
        core = library()
        return [
            core.gfx950_kernel_name(self._handle, k).decode() for k in range(core.gfx950_kernel_count(self._handle))
        ]

    def kernel(self, name: str) -> tuple[dict[str, int], bytes]:
        """Its registers and sizes, and its code."""
        numbers = (ctypes.c_uint32 * len(_DETAILS))()
        code = ctypes.c_void_p()
        size = library().gfx950_kernel_details(
            ctypes.c_void_p(self._handle), name.encode(), numbers, ctypes.byref(code)
        )
        if size == 0 or code.value is None:
            raise _error()
        return dict(zip(_DETAILS, numbers, strict=True)), ctypes.string_at(code.value, size)

    def source(self, name: str, offset: int) -> str:
        """ "file:line" of an instruction of a kernel; nothing if the code object has no line table."""
        buffer = ctypes.create_string_buffer(8192)
        if library().gfx950_source(
            ctypes.c_void_p(self._handle), name.encode(), ctypes.c_uint64(offset), buffer, ctypes.c_size_t(len(buffer))
        ):
            raise _error()
        return buffer.value.decode(errors="replace")


def listing(code: bytes) -> list[Instruction]:
    """From the first byte to the last; four bytes that are no instruction are refused as such."""
    found = []
    offset = 0
    while offset + 4 <= len(code):
        instruction = examine(code, offset)
        if instruction is None:
            word = int.from_bytes(code[offset : offset + 4], "little")
            instruction = Instruction(offset, 4, f".long 0x{word:08x}", ".long", "", "", -1, "no instruction of gfx950")
        found.append(instruction)
        offset += instruction.size
    return found
