"""Compile a FlyDSL launcher for an explicit architecture without a GPU, and launch it on a raw stream.

Compiling leaves the artifact in FlyDSL's disk cache, so that another process only loads it; FlyDSL locks that cache
between processes and replaces files atomically. Tracing is serialised in a process: FlyDSL keeps the kernel being
traced in a process-wide variable. Parallel compilation is a matter of processes, which is how Inductor's compile
workers do it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

from .flydsl_private import compiled_ir, flydsl_scope, packed_launch

_tracing = threading.RLock()


def linker_missing_reason() -> str | None:
    """Why FlyDSL's last step fails: it calls the linker of a ROCm installation, and reports only that it failed."""
    root = next(
        (os.environ[name] for name in ("ROCM_PATH", "ROCM_ROOT", "ROCM_HOME") if os.environ.get(name)), "/opt/rocm"
    )
    linker = Path(root, "llvm", "bin", "ld.lld")
    if linker.is_file():
        return None
    return (
        f"FlyDSL links with {linker}, which does not exist; install ROCm or set ROCM_PATH to where llvm/bin/ld.lld is"
    )


class ReadyLaunches(threading.local):
    """Launches of one thread whose arguments are packed but for addresses and stream, by what stands for the shapes."""

    def __init__(self) -> None:
        self.launches: dict[Hashable, Callable[..., None]] = {}


class FlyDSLKernel:
    """One compiled kernel. ``make_launcher`` returns a fresh ``@flyc.jit`` function of the same code each time.

    Arguments are plain numbers, also addresses. ``typed_args`` makes of them what FlyDSL has to see to compile; a
    compiled launcher takes the numbers themselves (flydsl_private says why that is sound), which costs a fraction.

    A launcher's code object lives on the device that was current when it was first launched, so each device gets a
    launcher of its own; from the second on they come out of the disk cache.
    """

    def __init__(
        self,
        *,
        name: str,
        make_launcher: Callable[[], Any],
        example_args: tuple[Any, ...],
        arch: str,
        cache_dir: Path | None,
        typed_args: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
    ) -> None:
        self.name = name
        self.arch = arch
        self.launches = 0  # launches that returned, over all devices: lets a test prove that the kernel ran
        self._make_launcher = make_launcher
        self._cache_dir = cache_dir
        self._typed_args = typed_args
        self._launcher = self._compile(example_args)
        self._spare: Any = self._launcher
        self._loaded: dict[int, Callable[..., None]] = {}
        self._lock = threading.Lock()

    def _compile(self, example_args: tuple[Any, ...]) -> Any:
        import flydsl.compiler as flyc

        with _tracing, flydsl_scope(arch=self.arch, compile_only=True, cache_dir=self._cache_dir):
            launcher = self._make_launcher()
            try:
                flyc.compile(launcher, *self._typed_args(example_args))
            except Exception as error:  # whatever FlyDSL raises when its linker is missing; anything else goes on
                reason = linker_missing_reason()
                if reason is None:
                    raise
                raise RuntimeError(f"{self.name} could not be compiled: {reason}") from error
        return launcher

    def compiled_ir(self) -> str:
        """Text of the lowered module with its code object."""
        return compiled_ir(self._launcher)

    def is_loaded(self, device_index: int) -> bool:
        """Whether a launch on the device would load nothing, as inside graph capture it must not."""
        return device_index in self._loaded

    def launch(self, device_index: int, *args: Any) -> None:
        """Launch on ``device_index``, which must be the current device. The last argument is the raw stream."""
        loaded = self._loaded.get(device_index)
        if loaded is None:
            self._first_launch(device_index, args)
        else:
            loaded(*args)
        self.launches += 1

    def bound(self, device_index: int, args: tuple[Any, ...], changing: Sequence[int]) -> Callable[..., None] | None:
        """``launch`` as a function of the arguments at the places ``changing`` alone, which are plain addresses: the
        others are packed here and never again. None before the first launch on this device.

        For the thread that asks. Does not count launches.
        """
        loaded = self._loaded.get(device_index)
        return None if loaded is None else packed_launch(loaded, args, changing)

    def _first_launch(self, device_index: int, args: tuple[Any, ...]) -> None:
        import flydsl.compiler as flyc

        if os.environ.get("COMPILE_ONLY", "").lower() in ("1", "true", "yes", "on"):
            raise RuntimeError(
                f"COMPILE_ONLY={os.environ['COMPILE_ONLY']} is set, so FlyDSL would return without computing anything; "
                f"unset it to run {self.name}"
            )
        with self._lock:
            loaded = self._loaded.get(device_index)
            if loaded is not None:
                loaded(*args)
                return
            with _tracing, flydsl_scope(arch=self.arch, compile_only=False, cache_dir=self._cache_dir):
                launcher, self._spare = self._spare or self._make_launcher(), None
                # flyc.compile with live arguments launches once and returns the callable for all further launches.
                loaded = flyc.compile(launcher, *self._typed_args(args))
            if loaded is None:
                raise RuntimeError(f"FlyDSL returned no callable for {self.name}: it did not run")
            self._loaded[device_index] = loaded
