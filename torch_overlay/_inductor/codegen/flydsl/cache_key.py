"""What Inductor's caches must know about FlyDSL, so that an upgrade of it or of our kernels re-tunes.

The arch is already in the caches' system information (``gcnArchName``), and ``config.flydsl_enable_autotuning`` is in
the FX graph key like every Inductor option.
"""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from torch._native.flydsl import target

# FlyDSL reads its compile options from these at every compile (optimisation level, backend, external LLVM).
_COMPILE_OPTION_PREFIX = "FLYDSL_COMPILE_"

# Whose change can change a generated kernel or its time. torch_key covers them for the FX graph cache; the autotuning
# cache outlives a rebuild of torch and so needs them in each choice's hash.
_SOURCE_FOLDERS = ("_inductor/codegen/flydsl", "_inductor/kernel/flydsl", "_native/flydsl")


def compile_options() -> tuple[str, ...]:
    """FlyDSL's compile options as ``NAME=value``, sorted. Empty unless the user set some."""
    return tuple(sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_COMPILE_OPTION_PREFIX)))


def toolchain_key() -> str | None:
    """FlyDSL's version and compile options in one string, or None if FlyDSL is not installed.

    Goes into ``CacheBase.get_system``, which names the folder of the local autotuning cache and is part of every FX
    graph key. With None the caches' keys are those of a PyTorch without FlyDSL.
    """
    version = target.flydsl_version()
    if version is None:
        return None
    return " ".join((version, *compile_options()))


@functools.lru_cache(maxsize=1)
def template_source_hash() -> str:
    """A hash of our own sources that a FlyDSL candidate is made from."""
    root = Path(__file__).resolve().parents[3]
    hasher = hashlib.sha256()
    for folder in _SOURCE_FOLDERS:
        for path in sorted((root / folder).glob("*.py")):
            hasher.update(f"{folder}/{path.name}\0".encode())
            hasher.update(path.read_bytes())
    return hasher.hexdigest()[:16]
