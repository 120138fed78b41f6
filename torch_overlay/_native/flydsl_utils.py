"""FlyDSL as a DSL of ``torch._native``, beside ``triton_utils`` and ``cutedsl_utils``.

``torch.backends.python_native.flydsl`` is its switch. An operator's override is a *plan*: for a call it gives the
kernel that would compute it, or the reason why there is none, in which case the base's kernel runs as if this module
did not exist. ``explain`` asks for the reason, ``TORCH_LOGS=native_dsl`` logs each once.

Kernels are compiled at the first call that wants them, once a key, while calls of other keys go on; never inside graph
capture, where a call of a kernel that is not ready runs the base's. ``prewarm`` compiles before. A kernel that does not
compile is reported once, and its calls run the base's from then on.

Importing this imports neither flydsl nor a kernel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch._vendor.packaging.version import Version

from .common_utils import check_native_jit_disabled
from .dsl_registry import DSLModuleProtocol, dsl_registry
from .flydsl import target
from .flydsl.cache import KernelCache
from .registry import _filter_state
from .registry import deregister_op_overrides as _deregister_op_overrides
from .registry import register_op_override as _register_op_override

DSL_NAME = "flydsl"
DISPATCH_KEY = "CUDA"

log = logging.getLogger("torch._native.flydsl.eager")


# ---- what the registry of DSLs asks for ------------------------------------------------------------------------------


def runtime_available() -> bool:
    return target.unavailable_reason() is None


def runtime_version() -> Version | None:
    version = target.flydsl_version()
    return Version(version) if version is not None and runtime_available() else None


def register_op_override(
    lib_symbol: str,
    op_symbol: str,
    dispatch_key: str,
    cond: Callable[..., bool] | None,
    impl: Callable[..., Any],
    *,
    allow_multiple_override: bool = False,
    unconditional_override: bool = False,
) -> None:
    """As the other DSLs': does nothing where FlyDSL cannot run."""
    if _disabled_reason() is not None:
        return
    _register_op_override(
        DSL_NAME,
        lib_symbol,
        op_symbol,
        dispatch_key,
        cond,
        impl,
        allow_multiple_override=allow_multiple_override,
        unconditional_override=unconditional_override,
    )


def deregister_op_overrides() -> None:
    _deregister_op_overrides(disable_dsl_names=DSL_NAME)


# ---- overrides -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Plan:
    """How FlyDSL computes one call.

    ``key`` names the compiled kernel in plain values, ``build`` compiles it (its ``kernel`` is a ``FlyDSLKernel``), and
    ``run(built, *args, **kwargs)`` computes the call on ``device_index``, the device of its tensors.
    """

    key: tuple[object, ...]
    device_index: int
    build: Callable[[], Any]
    run: Callable[..., Any]


# Of a call's arguments: cheap, for every call of the operator pays it, and total. It may see fake tensors.
Planner = Callable[..., "Plan | str"]

_planners: dict[str, Planner] = {}
_aside = threading.local()
_aside_lock = threading.Lock()
_asides = 0  # threads that asked for the base's kernels: others then need not look whether they did
_kernels: KernelCache[Any] = KernelCache()
_failures: dict[tuple[object, ...], str] = {}


def override(op_symbol: str, planner: Planner) -> None:
    """Put FlyDSL in front of ``aten::op_symbol`` (``name`` or ``name.overload``) on GPUs."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{op_symbol}", DISPATCH_KEY):
        log.info("aten::%s has no kernel at %s to fall back to; not overridden", op_symbol, DISPATCH_KEY)
        return

    declined: Any = None

    def cond(*args: Any, **kwargs: Any) -> bool:
        nonlocal declined
        if _asides and hasattr(_aside, "active"):
            return False
        plan = planner(*args, **kwargs)
        if plan is declined:  # a call that does not match pays for this function: no more than it must
            return False
        reason = plan if type(plan) is str else _not_ready_reason(cast(Plan, plan))
        if reason is None:
            return True
        if type(plan) is str:
            declined = plan
        if log.isEnabledFor(logging.INFO):
            _log_once(f"aten::{op_symbol}: {reason}")
        return False

    def impl(*args: Any, **kwargs: Any) -> Any:
        plan = planner(*args, **kwargs)
        if isinstance(plan, str):
            # By torch.ops._native, whose caller has asked no condition: in a graph of native_decomp_table().
            raise RuntimeError(f"FlyDSL cannot compute this call of aten::{op_symbol}: {plan}")
        return plan.run(_kernels.get_or_build(plan.key, plan.build), *args, **kwargs)

    _planners[op_symbol] = planner
    register_op_override("aten", op_symbol, DISPATCH_KEY, cond, impl)


@contextlib.contextmanager
def base_kernels() -> Iterator[None]:
    """Calls of this thread run the base's kernels: for who wants to time or compare with those."""
    global _asides
    if hasattr(_aside, "active"):
        yield
        return
    with _aside_lock:
        _asides += 1
    _aside.active = True
    try:
        yield
    finally:
        del _aside.active
        with _aside_lock:
            _asides -= 1


@functools.lru_cache(maxsize=1024)
def _log_once(message: str) -> None:
    log.info("%s", message)


def _not_ready_reason(plan: Plan) -> str | None:
    """Why the plan's kernel cannot be launched now. Compiles it if it may."""
    built = _kernels.peek(plan.key)
    if built is not None and built.kernel.is_loaded(plan.device_index):
        return None
    if torch.cuda.is_current_stream_capturing():
        return "the kernel is not loaded, and a graph is being captured: call the operator or prewarm it before"
    return None if built is not None else _build(plan)


def _build(plan: Plan) -> str | None:
    """Compile the plan's kernel; the reason if that fails, then and ever after."""
    failure = _failures.get(plan.key)
    if failure is not None:
        return failure
    started = time.perf_counter()
    try:
        _kernels.get_or_build(plan.key, plan.build)
    except Exception as error:
        failure = f"the kernel could not be compiled: {type(error).__name__}: {error}"
        if _failures.setdefault(plan.key, failure) is failure:
            log.warning("FlyDSL: %s; the base's kernel runs instead", failure, exc_info=error)
    seconds = time.perf_counter() - started
    event = {"dsl": DSL_NAME, "key": repr(plan.key), "seconds": round(seconds, 3), "failure": failure}
    torch._logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "flydsl_compile", "encoding": "json"},
        payload_fn=lambda: json.dumps(event),
    )
    return failure


# ---- what users ask --------------------------------------------------------------------------------------------------


def operators() -> tuple[str, ...]:
    """The operators that FlyDSL overrides in this process."""
    return tuple(sorted(_planners))


def _symbol(op: Any) -> str:
    """``name`` or ``name.overload`` from that, an ``OpOverload``, a packet, or a function like ``torch._scaled_mm``."""
    if isinstance(op, torch._ops.OpOverload):
        name, overload = op._schema.name.removeprefix("aten::"), op._overloadname
        return name if overload == "default" else f"{name}.{overload}"
    name = op if isinstance(op, str) else str(getattr(op, "__name__", op))
    return name.removeprefix("aten::").removeprefix("aten.").removesuffix(".default")


def _disabled_reason() -> str | None:
    if check_native_jit_disabled():
        return "TORCH_DISABLE_NATIVE_JIT=1 is set"
    return target.unavailable_reason()


def explain(op: Any, *args: Any, **kwargs: Any) -> str | None:
    """Why this call of ``op`` runs the base's kernel; None if FlyDSL computes it.

    Compiles and launches nothing. ``op`` is an operator or its name, ``"_scaled_mm_v2"``; the arguments are its own.
    """
    reason = _disabled_reason()
    if reason is not None:
        return reason
    symbol = _symbol(op)
    planner = _planners.get(symbol)
    if planner is None:
        return f"FlyDSL does not override aten::{symbol}; it does {', '.join(operators()) or 'nothing here'}"
    if DSL_NAME in _filter_state._dsl_names:
        return "torch.backends.python_native.flydsl is disabled"
    if symbol in _filter_state._op_symbols or DISPATCH_KEY in _filter_state._dispatch_keys:
        return f"overrides of aten::{symbol} or of {DISPATCH_KEY} are disabled in torch.backends.python_native"
    plan = planner(*args, **kwargs)
    if isinstance(plan, str):
        return plan
    built = _kernels.peek(plan.key)
    if (built is None or not built.kernel.is_loaded(plan.device_index)) and torch.cuda.is_current_stream_capturing():
        return _not_ready_reason(plan)
    return _failures.get(plan.key)


def prewarm(op: Any, *args: Any, **kwargs: Any) -> str | None:
    """Compile what this call of ``op`` needs, and launch nothing; the reason if FlyDSL does not compute it.

    The tensors may be fake ones. What is compiled lies in FlyDSL's disk cache for the next process.
    """
    reason = explain(op, *args, **kwargs)
    if reason is not None:
        return reason
    return _build(cast(Plan, _planners[_symbol(op)](*args, **kwargs)))


def register_operators() -> None:
    """Register the overrides of all operators that have one. ``torch._native`` calls it before it installs them."""
    if _disabled_reason() is None:
        from .ops.scaled_mm import flydsl_impl as scaled_mm

        scaled_mm.register()


dsl_registry.register_dsl(DSL_NAME, cast(DSLModuleProtocol, sys.modules[__name__]))
