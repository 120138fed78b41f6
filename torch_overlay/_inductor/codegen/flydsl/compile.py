"""Compiling generated FlyDSL modules: in parallel, in worker processes, without a GPU.

A worker leaves the artifact in FlyDSL's disk cache; whoever loads the module afterwards finds it there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch._inductor.codecache import LambdaFuture, PyCodeCache
from torch._inductor.compile_worker.subproc_pool import SubprocException
from torch._inductor.runtime.compile_tasks import _worker_compile_pycodecache_kernel
from torch._native.flydsl.launch import ReadyLaunches

from .render import MAIN_SUFFIX, PRECOMPILE_SUFFIX

if TYPE_CHECKING:
    from torch._inductor.async_compile import AsyncCompile


# What a process that compiles or times for us must share with this one: where Inductor writes modules, and all that
# FlyDSL reads (cache folder, compile options, dumps).
_ENVIRONMENT_NAMES = ("TORCHINDUCTOR_CACHE_DIR",)
_ENVIRONMENT_PREFIX = "FLYDSL_"

_REASON_LENGTH = 300

# A pool whose worker died fails every job in flight, so a job is charged with the crash only if it crashes alone.
_alone = threading.Lock()


def _is_ours(name: str) -> bool:
    return name in _ENVIRONMENT_NAMES or name.startswith(_ENVIRONMENT_PREFIX)


def environment() -> dict[str, str]:
    """The part of this process's environment that compiling depends on."""
    return {name: value for name, value in os.environ.items() if _is_ours(name)}


def adopt_environment(wanted: Mapping[str, str]) -> None:
    """Make this process's environment agree with ``wanted`` in the names that ``environment`` covers.

    Names that ``wanted`` lacks are unset: workers outlive many jobs, and an update alone would keep an earlier job's
    cache folder. For worker processes only.
    """
    for name in [name for name in os.environ if _is_ours(name) and name not in wanted]:
        del os.environ[name]
    os.environ.update(wanted)


def compile_in_this_process(kernel_name: str, source: str) -> tuple[str, str, int]:
    """Write, load and compile a module. Returns its PyCodeCache key and path, and the microseconds it took."""
    return _worker_compile_pycodecache_kernel(kernel_name, source, MAIN_SUFFIX, {}, precompile_metadata={})


def compile_in_worker(kernel_name: str, source: str, wanted: Mapping[str, str]) -> tuple[str, str, int]:
    """The job that a worker runs: never touches a GPU, which is why the arch is in the source."""
    adopt_environment(wanted)
    return compile_in_this_process(kernel_name, source)


def _submit(kernel_name: str, source: str) -> Future[tuple[str, str, int]]:
    from torch._inductor.async_compile import AsyncCompile

    return AsyncCompile.process_pool().submit(compile_in_worker, kernel_name, source, environment())


def failure_reason(error: BaseException) -> str:
    """One line for the log. A worker's exception arrives as the text of its traceback, and a compiler's may hold a
    whole module, so the exception's own message is picked out and cut."""
    if isinstance(error, BrokenProcessPool):
        return "the process that compiled it died"
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SubprocException):
        # The message begins at the first line without indent after the innermost frame.
        _, _, innermost = error.details.rpartition('\n  File "')
        lines = innermost.splitlines()[1:]
        start = next((i for i, line in enumerate(lines) if line and not line[0].isspace()), None)
        text = "\n".join(lines[start:]) if start is not None else error.details
    text = " ".join(text.split())
    return text if len(text) <= _REASON_LENGTH else f"{text[:_REASON_LENGTH]}..."


class CompileJob:
    """The compile of one candidate: done once, for whoever asks first."""

    def __init__(self, kernel_name: str, source: str) -> None:
        self.kernel_name = kernel_name
        self.source = source
        self._lock = threading.Lock()
        self._future: Future[tuple[str, str, int]] | None = None
        self._finished = False
        self._error: Exception | None = None

    def start(self) -> None:
        """Hand the job to a worker process, if there are any; else ``result`` does it."""
        from torch._inductor.async_compile import AsyncCompile

        with self._lock:
            if self._future is not None or self._finished:
                return
            # At a cold start the workers are still importing torch. Waiting is quicker than compiling candidates here
            # one after the other.
            AsyncCompile.wait_pool_ready()
            if AsyncCompile.use_process_pool():
                self._future = _submit(self.kernel_name, self.source)

    def result(self) -> None:
        """Wait for the compile; raises what it raised, each time it is asked."""
        with self._lock:
            if not self._finished:
                try:
                    self._run()
                except Exception as error:  # noqa: BLE001 - whatever a compiler raises belongs to this candidate alone
                    self._error = error
                self._finished = True
                self._future = None
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        if self._future is None:
            compile_in_this_process(self.kernel_name, self.source)
            return
        try:
            self._future.result()
        except BrokenProcessPool:
            with _alone:
                _submit(self.kernel_name, self.source).result()


class CompileBatch:
    """The candidates of one problem. The first that is needed starts them all.

    Inductor calls ``precompile`` of all candidates before it times one, but not on every Python version (3.11.8 and
    older are excluded), and then they would be compiled one by one.
    """

    def __init__(self) -> None:
        self._jobs: list[CompileJob] = []

    def add(self, job: CompileJob) -> None:
        self._jobs.append(job)

    def start(self) -> None:
        for job in self._jobs:
            job.start()


def load_module(key: str, path: str, kernel_name: str, *, set_sys_modules: bool | None = None) -> ModuleType:
    module = PyCodeCache.load_by_key_path(key, path, set_sys_modules=set_sys_modules)
    for suffix in (MAIN_SUFFIX, PRECOMPILE_SUFFIX):
        if not hasattr(module, f"{kernel_name}_{suffix}"):
            raise RuntimeError(f"generated FlyDSL module {path} has no {kernel_name}_{suffix}")
    return module


class FlyDSLKernelWrapper:
    """What the generated wrapper calls as ``name.run(site, a, b, out, *epilogue_inputs, stream=raw_stream)``.

    ``site`` is equal at two calls if all but addresses is: what that decides is checked and packed at the first of them
    and not again, for the graph's guards hold for the others.
    """

    def __init__(self, kernel: Any, kernel_path: str) -> None:
        self.kernel = kernel
        self.kernel_path = kernel_path
        self._ready = ReadyLaunches()

    def run(self, site: Hashable, a: Any, b: Any, out: Any, *epilogue_inputs: Any, stream: int) -> None:
        self.kernel.launch(self._ready, site, a, b, out, stream, epilogue_inputs)


def load_kernel(kernel_name: str, key: str, path: str) -> FlyDSLKernelWrapper:
    """Load a module and make it ready, so that the first call compiles nothing: it may be under graph capture."""
    module = load_module(key, path, kernel_name)
    return FlyDSLKernelWrapper(getattr(module, f"{kernel_name}_{PRECOMPILE_SUFFIX}")(), path)


def async_compile_kernel(
    async_compile: AsyncCompile, kernel_name: str, source: str
) -> FlyDSLKernelWrapper | LambdaFuture:
    """The body of ``AsyncCompile.flydsl``."""
    if not async_compile.use_process_pool():
        key, path = PyCodeCache.write(source)
        return load_kernel(kernel_name, key, path)

    future = _submit(kernel_name, source)

    def get_result() -> FlyDSLKernelWrapper:
        try:
            key, path, _ = future.result()
        except SubprocException as error:
            raise error.with_name(kernel_name) from error
        return load_kernel(kernel_name, key, path)

    return LambdaFuture(get_result, future=future)
