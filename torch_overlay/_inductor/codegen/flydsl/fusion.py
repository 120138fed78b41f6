"""Whether pointwise nodes become the epilogue of a FlyDSL product: may it be fused, and is it faster fused.

A kernel stores one tensor. An activation in training has two results, its own and what the backward reads (the product,
or a mask): the product then has users that are not fused, so it is stored and the activation is a kernel behind it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from torch._inductor import config, ir
from torch._inductor.scheduler import BaseSchedulerNode, FusionResult, Scheduler, WhyNoFuse

from .benchmark_request import FlyDSLBenchmarkRequest, meta_of
from .buffer import FlyDSLTemplateBuffer
from .compile import CompileJob, failure_reason
from .epilogue_trace import NotFusible, Traced, trace
from .gate import log, log_once
from .lowering import BACKEND
from .render import gemm_module
from .scaled_problem import Call

_FUSED_KERNEL = "flydsl_gemm_fused"


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The FlyDSL kernel that computes a template node: its output's buffer, and how."""

    product: Any
    call: Call
    config: Any  # of the kernel's family
    arch: str


def chosen(node: BaseSchedulerNode) -> Chosen | None:
    """The FlyDSL kernel of a scheduler node that holds a template; None if another backend computes it.

    A ``MultiTemplateBuffer`` is ours once a fused FlyDSL kernel won, which ``multi_template_fusion`` notes on it.
    """
    template = node.get_template_node()
    if isinstance(template, FlyDSLTemplateBuffer):
        return Chosen(template, template.call, template.config, template.arch)
    caller = getattr(template, "flydsl_caller", None)
    return None if caller is None else Chosen(template, caller.call, caller.config, caller.arch)


def _epilogue_nodes(node: BaseSchedulerNode) -> list[BaseSchedulerNode]:
    return [each for each in node.get_nodes() if not each.is_template()]


def traced_epilogue(kernel: Chosen, nodes: Sequence[BaseSchedulerNode]) -> Traced:
    """The kernel with these nodes as its epilogue. Raises NotFusible with the reason if that cannot be."""
    traced = trace(kernel.product, kernel.call, nodes)
    reason = traced.call.config_unsupported_reason(kernel.config)
    if reason is not None:
        raise NotFusible(f"{kernel.config.name}: {reason}")
    return traced


def can_fuse_epilogue(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether ``node2`` can be computed by the FlyDSL kernel of ``node1``."""
    why = WhyNoFuse(node1, node2)
    kernel = chosen(node1)
    if kernel is None or node2.is_template():
        why("a FlyDSL template has no prologue")
        return False
    try:
        traced_epilogue(kernel, [*_epilogue_nodes(node1), *node2.get_nodes()])
    except NotFusible as error:
        why("%s", str(error))
        log_once(logging.INFO, f"{BACKEND}: {node2.get_name()} is not fused into {node1.get_name()}: {error}")
        return False
    return True


# ---- measured --------------------------------------------------------------------------------------------------------

_asking = threading.local()


@contextlib.contextmanager
def _base_decides() -> Iterator[None]:
    """The scheduler's own decision is asked for: our hook in it stands aside."""
    _asking.active = True
    try:
        yield
    finally:
        _asking.active = False


def _fused_milliseconds(fusible: Sequence[tuple[Any, Traced]]) -> list[float]:
    """Times of candidates with their epilogues fused; inf, with a warning, where one cannot be compiled or run."""
    requests, jobs, times = [], [], []
    for caller, traced in fusible:
        source = gemm_module(_FUSED_KERNEL, traced.call.spec(caller.config, caller.arch))
        inputs = [meta_of(view) for view in traced.call.views]
        names = [str(meta.name) for meta in inputs]
        requests.append(FlyDSLBenchmarkRequest(_FUSED_KERNEL, inputs, meta_of(traced.out), source, names))
        jobs.append(CompileJob(_FUSED_KERNEL, source))
    for job in jobs:
        job.start()
    for (caller, _), request, job in zip(fusible, requests, jobs, strict=True):
        try:
            job.result()
            times.append(request.benchmark())
        except Exception as error:  # noqa: BLE001 - a compiler or a launch can raise anything; the warning says what
            log.warning("%s candidate %s dropped with its epilogue: %s", BACKEND, caller.name, failure_reason(error))
            log.debug("%s", caller.name, exc_info=error)
            times.append(float("inf"))
    return times


def _fused_by_base(scheduler: Scheduler, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether the scheduler fuses the nodes with a Triton template."""
    with _base_decides():
        decision = scheduler.speedup_by_fusion(node1, node2)
        return bool(decision.should_fuse if decision.callable_fn is None else decision.callable_fn())


def multi_template_fusion(scheduler: Scheduler, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> Any:
    """The scheduler's ``speedup_by_fusion`` where FlyDSL candidates can take the epilogue; None where it goes on alone.

    Three are compared: the fastest choice with the epilogue as a kernel of its own, the fastest fused Triton template
    (which the scheduler finds), and the fastest fused FlyDSL kernels.
    """
    multi = node1.get_template_node()
    if getattr(_asking, "active", False) or not isinstance(multi, ir.MultiTemplateBuffer) or node2.is_template():
        return None
    # The scheduler fuses in rounds and asks again about what stayed apart.
    asked = vars(multi).setdefault("flydsl_asked", set())
    pair = (node1.get_name(), node2.get_name())
    if pair in asked:
        return FusionResult.fuse(False)
    from .template import FlyDSLGemmCaller

    previous = getattr(multi, "flydsl_caller", None)
    callers = [c for c in multi.choices if isinstance(c, FlyDSLGemmCaller) and previous in (None, c)]
    if not callers or not config.benchmark_epilogue_fusion or scheduler._has_layout_conflict_for_template(multi):
        return None
    nodes = [*_epilogue_nodes(node1), *node2.get_nodes()]
    if previous is None and len(nodes) > len(node2.get_nodes()):
        return None  # a Triton template took the first epilogue
    timings = multi.choice_timings()
    ours = sorted((timings[c], index, c) for index, c in enumerate(callers) if c in timings and not c.failed)
    apart = min(timings.values()) + scheduler.benchmark_fused_nodes(node2.get_nodes())[0]
    fusible = []
    for time, _, caller in ours[: config.max_epilogue_benchmarked_choices]:
        if time >= apart:
            break
        try:
            fusible.append((caller, traced_epilogue(Chosen(multi, caller.call, caller.config, caller.arch), nodes)))
        except NotFusible as error:
            log_once(logging.INFO, f"{BACKEND}: {node2.get_name()} is not fused into {multi.get_name()}: {error}")
    if not fusible:
        return None

    fused_by_base, limit = False, apart
    if previous is None:
        fused_by_base = _fused_by_base(scheduler, node1, node2)
        if fused_by_base:
            limit = min([limit, *multi.choice_timings().values()])
    best, index = min((time, i) for i, time in enumerate(_fused_milliseconds(fusible)))
    log.debug("%s: fused %.4f ms, otherwise %.4f ms", multi.get_name(), best, limit)
    if best >= limit:
        if not fused_by_base:
            asked.add(pair)
        return FusionResult.fuse(fused_by_base)
    caller = fusible[index][0]
    caller.freeze_inputs()
    multi.flydsl_caller = caller  # type: ignore[attr-defined]
    multi.make_kernel_render = None
    multi._choice_timings[None] = {caller: best}
    return FusionResult.fuse(True)
