"""What autotuning found, on disk, for eager calls of the same sizes: they take a configuration and time nothing.

A file for each kind of product: its sizes, formats and output type, the arch, the FlyDSL release and the kernels'
sources. It holds the fastest configuration that was timed and its milliseconds. Written whole or not at all; a file
that says nothing valid is as good as none.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from torch._inductor.runtime.cache_dir_utils import cache_dir
from torch._native.flydsl import target
from torch._native.flydsl.cache import key_digest, source_digest

from .scaled_gemm_config import ScaledGemmConfig, ScaledGemmProblem, config_unsupported_reason


@functools.cache
def _sources() -> str:
    return source_digest(Path(__file__).parent.glob("*.py"))


def _key(problem: ScaledGemmProblem, arch: str) -> tuple[object, ...]:
    p = problem
    kind = (p.m, p.n, p.k, p.a_format, p.b_format, p.out_dtype, p.recipe)
    return ("scaled_gemm", *kind, arch, target.flydsl_version(), _sources())


def _path(problem: ScaledGemmProblem, arch: str) -> Path:
    return Path(cache_dir()) / "flydsl" / "tuned" / f"{key_digest(_key(problem, arch))}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        return {"config": ScaledGemmConfig(**found["config"]), "milliseconds": float(found["milliseconds"])}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def record(problem: ScaledGemmProblem, arch: str, config: ScaledGemmConfig, milliseconds: float) -> None:
    """Remember a timing if it is the best so far."""
    path = _path(problem, arch)
    best = _read(path)
    if best and best["config"] != config and best["milliseconds"] <= milliseconds:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "w") as file:
        json.dump({"config": dataclasses.asdict(config), "milliseconds": milliseconds}, file)
    Path(name).replace(path)


def tuned_config(problem: ScaledGemmProblem, arch: str) -> ScaledGemmConfig | None:
    """The fastest configuration that was ever timed for such a product and computes this one; None if there is none."""
    config = _read(_path(problem, arch)).get("config")
    if config is None or config_unsupported_reason(problem, config) is not None:
        return None
    return config
