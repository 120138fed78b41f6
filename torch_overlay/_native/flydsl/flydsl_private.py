"""Every name of FlyDSL that its api_stability document does not promise, with the reason it is needed. Nowhere else.

- ``flydsl.utils.env``: FlyDSL takes the target architecture, compile-only mode and the place of its disk cache from the
  process environment alone. Changing ``os.environ`` would reach other threads and child processes (and a kernel
  launched by another thread while COMPILE_ONLY is set silently computes nothing), so the option objects are replaced,
  once, by ones that first look at a thread-local scope and else do what they did.
- ``flydsl.expr.rocdl.universal.get_rocm_arch``: the buffer descriptor's flags follow the same environment and else a
  ROCm tool, not the architecture being compiled for.
- ``flydsl.expr.rocdl.s_barrier`` and ``readfirstlane``: ``fx.barrier()`` also drains vmcnt, which would stop the
  loads that a pipeline keeps in flight; wave-uniform values have no other spelling.
- ``flydsl._mlir`` and ``fx.rocdl.permlane16_swap``, ``permlane32_swap``: no public name exchanges groups of
  lanes between registers.
- ``fx.rocdl.sched_barrier``: ends a region of the scheduling hints that ``fx.rocdl.sched_mfma`` and the like give.
- Plain addresses for a compiled launcher's pointers: the argument that ``from_c_void_p`` makes fills its slot from an
  integer as well (``PointerJitArg.__c_abi_spec__``). Making one costs 2 us, and a GEMM has eight pointers.
- ``CompiledFunction._call_state``: its dispatch fills every argument's slot by a Python function of its own at every
  call, 6 us for a GEMM, of whose arguments only the addresses and the stream change.
- ``JitFunction._mem_cache``: the artifact of a compile-only run, from which tests read the code object.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import importlib
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class _Scope:
    arch: str
    compile_only: bool
    cache_dir: Path | None


_scopes = threading.local()
_install_lock = threading.Lock()
_installed = False


def _current() -> _Scope | None:
    return getattr(_scopes, "current", None)


def _scoped(option: Any, pick: Any) -> Any:
    """A copy of an environment option that a scope of the current thread overrides where ``pick`` gives a value."""

    class Scoped(type(option)):  # type: ignore[misc]
        def __get__(self, obj: object, objtype: type | None = None) -> Any:
            scope = _current()
            if obj is not None and scope is not None:
                value = pick(scope)
                if value is not None:
                    return value
            return super().__get__(obj, objtype)

    scoped = Scoped.__new__(Scoped)
    scoped.__dict__.update(option.__dict__)
    return scoped


def _install() -> None:
    global _installed
    with _install_lock:
        if _installed:
            return
        env = importlib.import_module("flydsl.utils.env")
        universal = importlib.import_module("flydsl.expr.rocdl.universal")
        compile_options, runtime_options = type(env.compile), type(env.runtime)
        missing = [
            f"{owner.__name__}.{name}"
            for owner, name in (
                (compile_options, "arch"),
                (compile_options, "compile_only"),
                (runtime_options, "cache_dir"),
            )
            if name not in vars(owner)
        ]
        if missing or not hasattr(universal, "get_rocm_arch"):
            version = getattr(importlib.import_module("flydsl"), "__version__", "unknown")
            raise RuntimeError(
                f"flydsl {version} has no {', '.join(missing) or 'get_rocm_arch'} where this PyTorch sets the target; "
                f"install another release of flydsl or report this"
            )
        compile_options.arch = _scoped(vars(compile_options)["arch"], lambda s: s.arch)
        compile_options.compile_only = _scoped(vars(compile_options)["compile_only"], lambda s: s.compile_only)

        def cache_dir(scope: _Scope) -> str | None:
            # A directory that the user chose wins.
            return str(scope.cache_dir) if scope.cache_dir and "FLYDSL_RUNTIME_CACHE_DIR" not in os.environ else None

        runtime_options.cache_dir = _scoped(vars(runtime_options)["cache_dir"], cache_dir)
        get_rocm_arch = universal.get_rocm_arch

        def scoped_rocm_arch() -> str:
            scope = _current()
            return scope.arch if scope is not None else get_rocm_arch()

        universal.get_rocm_arch = scoped_rocm_arch  # type: ignore[attr-defined]
        _installed = True


@contextlib.contextmanager
def flydsl_scope(*, arch: str, compile_only: bool, cache_dir: Path | None) -> Iterator[None]:
    """FlyDSL calls of this thread inside compile for ``arch``, run or only compile, and cache under ``cache_dir``."""
    _install()
    before = _current()
    _scopes.current = _Scope(arch, compile_only, cache_dir)
    try:
        yield
    finally:
        _scopes.current = before


def s_barrier() -> None:
    """``s_barrier`` alone: no wait counter is drained and no memory is ordered; the caller does both."""
    import flydsl.expr as fx

    fx.rocdl.s_barrier()


def end_of_schedule() -> None:
    """The compiler moves nothing across: scheduling hints before it speak of what is before it."""
    import flydsl.expr as fx

    fx.rocdl.sched_barrier("none")


def swap_odd_and_even_rows(first: Any, second: Any) -> tuple[Any, Any]:
    """Two fp32 values of a lane with rows of 16 lanes exchanged: the first's odd rows with the second's even ones."""
    return _swapped("permlane16_swap", first, second)


def swap_halves(first: Any, second: Any) -> tuple[Any, Any]:
    """Two fp32 values of a lane with the first's upper 32 lanes and the second's lower ones exchanged."""
    return _swapped("permlane32_swap", first, second)


def _swapped(instruction: str, first: Any, second: Any) -> tuple[Any, Any]:
    import flydsl.expr as fx
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import llvm

    operands = [value.bitcast(fx.Int32).ir_value() for value in (first, second)]
    both = ir.Type.parse("!llvm.struct<(i32, i32)>")
    swapped = getattr(fx.rocdl, instruction)(both, *operands, False, False)
    first_row, second_row = (llvm.extractvalue(fx.Int32.ir_type, swapped, [half]) for half in range(2))
    return fx.Int32(first_row).bitcast(fx.Float32), fx.Int32(second_row).bitcast(fx.Float32)


def wave_uniform(value: Any) -> Any:
    """An integer that is equal in all lanes of the wave, as a scalar register."""
    import flydsl.expr as fx

    return fx.Int32(fx.rocdl.readfirstlane(fx.Int32.ir_type, value))


def compiled_ir(launcher: Any) -> str:
    """Text of the module that a ``@flyc.jit`` function, called with one set of constants, was compiled to."""
    artifacts = list(launcher._mem_cache.values())
    if len(artifacts) != 1:
        raise RuntimeError(f"expected one compiled artifact, the launcher has {len(artifacts)}")
    return str(artifacts[0].ir)


def packed_launch(compiled: Any, args: tuple[Any, ...], changing: Sequence[int]) -> Callable[..., None]:
    """A compiled launcher as a function of the arguments at the places ``changing``, which are plain addresses; the
    others are packed once, as in ``args``.

    The arguments lie in one block that a call overwrites: for one thread at a time.
    """
    state = compiled._call_state
    slots = state._spec
    place_of: dict[int, int] = {}
    for position in changing:
        types = [ctype for argument, ctype, _ in slots if argument == position]
        if types != [ctypes.c_void_p]:
            raise RuntimeError(f"argument {position} is packed as {types}, not as one address")
        place_of[position] = len(place_of)
    block = ctypes.create_string_buffer(8 * len(slots))
    packed = (ctypes.c_void_p * len(slots))()
    fixed = len(place_of)  # the changing ones come first, side by side
    for i, (argument, ctype, fill) in enumerate(slots):
        place = place_of.get(argument)
        if place is None:
            place, fixed = fixed, fixed + 1
            if ctypes.sizeof(ctype) > 8:
                raise RuntimeError(f"argument {argument} is packed as {ctype}, more than 8 bytes")
            if fill is not None:  # None is a stream that nobody passes: null
                fill(args[argument], ctype.from_buffer(block, 8 * place))
        packed[i] = ctypes.addressof(block) + 8 * place
    write = struct.Struct(f"={len(place_of)}Q").pack_into
    execute = state._func_exe

    def launch(*addresses: int) -> None:
        write(block, 0, *addresses)
        execute(packed)

    launch.keeps = compiled  # type: ignore[attr-defined] # the code that execute points into
    return launch
