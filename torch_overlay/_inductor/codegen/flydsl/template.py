"""The FLYDSL template of the GEMM operators: the configurations it offers, and the candidate that one becomes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Sequence
from typing import Any

import torch
from torch._inductor import config, ir
from torch._inductor.autotune_process import TensorMeta
from torch._inductor.codegen.common import KernelTemplate
from torch._inductor.ir import Buffer, ChoiceCaller, Layout, TensorBox
from torch._inductor.kernel.flydsl import gemm_config
from torch._inductor.kernel_inputs import KernelInputs
from torch._inductor.template_heuristics.gemm import GemmMaxAutotuneTemplateConfigHeuristics
from torch._inductor.template_heuristics.registry import register_template_heuristic
from torch._inductor.utils import do_bench_using_profiling, use_aten_gemm_kernels
from torch._inductor.virtualized import V
from torch._native.flydsl import target

from .benchmark_request import FlyDSLBenchmarkRequest, meta_of
from .buffer import FlyDSLTemplateBuffer
from .cache_key import template_source_hash, toolchain_key
from .compile import CompileBatch, CompileJob, failure_reason
from .gate import call_of, device_index, log
from .lowering import BACKEND
from .problem import gemm_call
from .render import gemm_module
from .scaled_problem import Call

# The entry points of a candidate's module. Not the candidate's own name, which counts up within a process: the module's
# text, and with it its hash, must be the same in the next process.
_CANDIDATE_KERNEL = "flydsl_gemm"

OPERATORS = ("mm", "addmm", "bmm", "baddbmm")


def _flexible(node: Any) -> Any | None:
    """The buffer behind ``node`` if its strides may still change."""
    while isinstance(node, ir.MutableBox):
        node = node.data
    if isinstance(node.get_layout(), ir.FlexibleLayout) and not isinstance(node, ir.ReinterpretView):
        return node
    return None


def _hold_strides(node: Any) -> None:
    """Rely on a flexible input's present strides, as Triton's templates do.

    With ATen among the choices the strides are only noted, and the scheduler falls back to ATen if another user of the
    buffer needs others; without, they are frozen now.
    """
    buffer = _flexible(node)
    if buffer is None:
        return
    if use_aten_gemm_kernels():
        wanted = buffer.get_layout().get_fixed_layout_without_freezing()
        V.graph.buffer_layout_constraints.setdefault(buffer.get_name(), wanted)
    else:
        buffer.freeze_layout()


class FlyDSLGemmCaller(ChoiceCaller):
    """One FlyDSL kernel as a candidate for one GEMM.

    A candidate that cannot be compiled or run is dropped with one warning that names it, never the whole compile.
    """

    def __init__(
        self,
        name: str,
        input_nodes: list[Buffer],
        layout: Layout,
        call: Call,
        gemm: Any,
        arch: str,
        batch: CompileBatch,
    ) -> None:
        self.spec = call.spec(gemm, arch)
        super().__init__(name, input_nodes, layout, description=f"{gemm.name} {call.formats} {arch}")
        self.call = call
        self.config = gemm
        self.arch = arch
        source = gemm_module(_CANDIDATE_KERNEL, self.spec)
        self.bmreq = FlyDSLBenchmarkRequest(
            _CANDIDATE_KERNEL,
            [meta_of(view) for view in call.views],
            TensorMeta.from_irnodes(layout),  # type: ignore[arg-type]
            source,
            [node.get_name() for node in input_nodes],
        )
        self._job = CompileJob(_CANDIDATE_KERNEL, source)
        self._batch = batch
        self._batch.add(self._job)

    def __str__(self) -> str:
        return f"FlyDSLGemmCaller({self.name}, {self.description})"

    def _drop(self, doing: str, error: Exception) -> None:
        why = failure_reason(error)
        log.warning("%s candidate %s (%s) dropped: %s failed: %s", BACKEND, self.name, self.description, doing, why)
        log.debug("%s", self.name, exc_info=error)
        self.mark_failed()

    def precompile(self) -> None:
        if self.failed:
            return
        try:
            self._batch.start()
            self._job.result()
        except Exception as error:  # noqa: BLE001 - a compiler can raise anything; the warning says what
            self._drop("compiling", error)

    def benchmark(self, *args: torch.Tensor, out: torch.Tensor) -> float:
        self.precompile()
        if self.failed:
            return float("inf")
        try:
            views = self.bmreq.graph_views(args)
            if config.profile_bandwidth_with_do_bench_using_profiling and not self._benchmark_with_cudagraphs:
                return do_bench_using_profiling(self.bmreq.make_run_fn(*views, out=out))
            self.bmreq.benchmark_with_cudagraphs = self._benchmark_with_cudagraphs
            milliseconds = self.bmreq.benchmark(*views, out=out)
        except Exception as error:  # noqa: BLE001 - so can a launch
            self._drop("running", error)
            return float("inf")
        self.call.record(self.config, self.arch, milliseconds)
        return milliseconds

    def freeze_inputs(self) -> None:
        """Settle the strides that the kernel counts on."""
        for node in self.input_nodes:
            flexible = _flexible(node)
            if flexible is not None:
                flexible.freeze_layout()

    def output_node(self) -> TensorBox:
        self.freeze_inputs()
        buffer = FlyDSLTemplateBuffer(self.layout, self.input_nodes, self.call, self.config, self.arch)
        if "ktc" in self.annotations:
            buffer.annotations["ktc"] = self.annotations["ktc"]
        return TensorBox.create(buffer)

    def call_name(self) -> str:
        return self.name

    def to_callable(self) -> Any:
        return self.bmreq.make_run_fn

    def hash_key(self) -> str:
        """Equal in every process. The module's hash covers the configuration and the arch; the first fields are for
        whoever reads the cache file."""
        return "-".join(
            (
                _CANDIDATE_KERNEL,
                self.arch,
                self.config.name,
                f"flydsl {toolchain_key()}",
                template_source_hash(),
                self.bmreq.module_cache_key,
            )
        )

    def info_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "backend": BACKEND,
            "config": self.config.name,
            "dtype": self.call.formats,
            "arch": self.arch,
            "flydsl": target.flydsl_version(),
        }

    def autoheuristic_id(self) -> str:
        return f"type=flydsl_config={self.config.name}"


class FlyDSLGemmTemplate(KernelTemplate):
    """Makes a candidate from the fields of a ``GemmConfig``."""

    index_counter = itertools.count()
    config_type: Any = gemm_config.GemmConfig

    def call_of(self, input_nodes: list[Buffer], layout: Layout, alpha: float, beta: float) -> Call | str:
        *addend, mat1, mat2 = input_nodes
        return gemm_call(layout, mat1, mat2, *addend, alpha=alpha, beta=beta)

    @property
    def src_hash(self) -> str:
        return template_source_hash()

    def generate(  # type: ignore[override]
        self,
        *,
        input_nodes: list[Buffer],
        layout: Layout,
        batch: CompileBatch | None = None,
        alpha: float = 1,
        beta: float = 1,
        **config_fields: Any,
    ) -> ChoiceCaller:
        call = self.call_of(input_nodes, layout, alpha, beta)
        if isinstance(call, str):
            raise NotImplementedError(call)
        gemm = self.config_type(**config_fields)
        reason = call.config_unsupported_reason(gemm)
        if reason is not None:
            raise NotImplementedError(f"{gemm.name}: {reason}")
        for node in input_nodes:
            _hold_strides(node)
        return FlyDSLGemmCaller(
            f"{self.name}_{next(self.index_counter)}",
            input_nodes,
            layout,
            call,
            gemm,
            target.device_arch(device_index(layout.device)),
            CompileBatch() if batch is None else batch,
        )


flydsl_gemm_template = FlyDSLGemmTemplate("flydsl_gemm")


class FlyDSLGemmConfigHeuristics(GemmMaxAutotuneTemplateConfigHeuristics):
    """One configuration by rule, or with ``config.flydsl_enable_autotuning`` the list to search.

    Configurations travel as plain fields, so that lookup tables and other choices handlers can write them down.
    """

    def _get_template_configs_impl(
        self, kernel_inputs: KernelInputs, op_name: str
    ) -> Generator[dict[str, Any], None, None]:
        call = call_of(op_name, kernel_inputs, kernel_inputs.output_layout(flexible=False))
        if isinstance(call, str):
            return
        if config.flydsl_enable_autotuning:
            candidates: Sequence[Any] = call.configs(exhaustive=config.max_autotune_gemm_search_space == "EXHAUSTIVE")
        else:
            by_rule = call.config_by_rule()
            candidates = [] if by_rule is None else [by_rule]
        for gemm in candidates:
            yield dataclasses.asdict(gemm)

    def get_extra_kwargs(self, kernel_inputs: KernelInputs, op_name: str) -> dict[str, Any]:
        scalars = {}
        if op_name in ("addmm", "baddbmm"):
            scalars = {name: kernel_inputs.get_scalar(name) for name in ("alpha", "beta")}
        return {"batch": CompileBatch(), **scalars}


for _operator in OPERATORS:
    register_template_heuristic(flydsl_gemm_template.uid, "cuda", op_name=_operator)(FlyDSLGemmConfigHeuristics)
