"""The source of a generated FlyDSL kernel module.

A module holds the kernel's compile-time parameters as literals and two entries. M, N, K and the strides are read from
the tensors at the call, so problems that share a configuration share a module. The text depends on the parameters
alone: it is equal in every process, and so is its hash.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch._inductor.kernel.flydsl.gemm_config import GemmSpec
from torch._inductor.kernel.flydsl.scaled_gemm_config import ScaledGemmSpec

MAIN_SUFFIX = "main"
PRECOMPILE_SUFFIX = "precompile"

_GEMM_MODULE = '''\
from torch._inductor.kernel.flydsl.epilogue_expr import Epilogue, EpilogueInput
from torch._inductor.kernel.flydsl.gemm import compile_gemm
from torch._inductor.kernel.flydsl.gemm_config import GemmConfig, GemmSpec

SPEC = {spec}


def {name}_precompile():
    """Compile, once a process, into FlyDSL's disk cache. Needs no GPU."""
    return compile_gemm(SPEC)


def {name}_main(*args):
    """Launch with A [M, K], B [N, K], the output, the raw stream and the epilogue's inputs."""
    {name}_precompile()(*args)
'''

_SCALED_MODULE = '''\
from torch._inductor.codegen.flydsl.scaled_entry import ScaledEntry
from torch._inductor.kernel.flydsl.epilogue_expr import Epilogue, EpilogueInput
from torch._inductor.kernel.flydsl.scaled_gemm import compile_scaled_gemm
from torch._inductor.kernel.flydsl.scaled_gemm_config import ScaledGemmConfig, ScaledGemmSpec

SPEC = {spec}


def {name}_precompile():
    """Compile, once a process, into FlyDSL's disk cache. Needs no GPU."""
    return ScaledEntry(compile_scaled_gemm(SPEC))


def {name}_main(*args):
    """Launch with A [M, K], B [N, K], the output, the raw stream, both scales and the epilogue's inputs."""
    {name}_precompile()(*args)
'''


def literal(value: Any, indent: int = 0) -> str:
    """``value`` as Python source that rebuilds it.

    Only plain values and dataclasses of them: the repr of anything else may hold an address, and a module whose text
    differs between processes is never found in a cache.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pad = " " * (indent + 4)
        lines = [
            f"{pad}{field.name}={literal(getattr(value, field.name), indent + 4)},\n"
            for field in dataclasses.fields(value)
            if field.init
        ]
        return f"{type(value).__name__}(\n{''.join(lines)}{' ' * indent})"
    if isinstance(value, tuple):
        items = ", ".join(literal(item, indent) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    raise TypeError(
        f"a FlyDSL kernel parameter must be None, bool, int, float, str, a tuple or a dataclass of these, "
        f"not {type(value).__name__}: {value!r}"
    )


def gemm_module(name: str, spec: GemmSpec | ScaledGemmSpec) -> str:
    """The module of one kernel of the GEMM family."""
    text = _SCALED_MODULE if isinstance(spec, ScaledGemmSpec) else _GEMM_MODULE
    return text.format(name=name, spec=literal(spec))
