"""One entry of the OpInfo sweep: an operator of PyTorch's own database, on the emulated device and on the CPU.

An entry is an operator, a dtype and a direction (forward, backward, or out=). Its samples are made on the device, moved
to the CPU, and run on both; shapes, dtypes, layouts and values must agree.
"""

from __future__ import annotations

import gc
import signal
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16, "int64": torch.int64}
DIRECTIONS = ("forward", "backward", "out")
# Relative and absolute. Most operators run the very same kernel; the device's own kernels round once where the CPU's
# round several times, and random order of sums is what remains.
TOLERANCES = {
    torch.float32: (1e-4, 1e-4),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float16: (5e-3, 5e-3),
    torch.complex64: (1e-4, 1e-4),
    torch.complex32: (5e-3, 5e-3),
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
}
# What they return is memory that nobody wrote.
UNINITIALISED = frozenset(
    (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    )
)
SECONDS = 120  # of the processor, for an entry


@dataclass(frozen=True)
class Entry:
    op: str  # with its variant: linalg.svd, or nn.functional.pad.constant
    dtype: str
    direction: str

    def __str__(self) -> str:
        return f"{self.op}|{self.dtype}|{self.direction}"


@dataclass(frozen=True)
class Outcome:
    status: str  # right, wrong, raises, not_run
    detail: str = ""
    samples: int = 0
    by_shape: bool = False  # random or uninitialised: only shapes and dtypes were compared


def name_of(op: OpInfo) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def database() -> dict[str, OpInfo]:
    return {name_of(op): op for op in op_db}


def entries() -> list[Entry]:
    """Everything that the database says runs on both devices, in a fixed order."""
    found = []
    for name, op in sorted(database().items()):
        for dtype_name, dtype in DTYPES.items():
            if dtype not in op.supported_dtypes("cuda") or dtype not in op.supported_dtypes("cpu"):
                continue
            found.append(Entry(name, dtype_name, "forward"))
            if (
                op.supports_autograd
                and dtype in op.supported_backward_dtypes("cuda")
                and dtype in op.supported_backward_dtypes("cpu")
            ):
                found.append(Entry(name, dtype_name, "backward"))
            if op.supports_out:
                found.append(Entry(name, dtype_name, "out"))
    return found


class _TimeUpError(Exception):
    pass


def _time_up(_signal: int, _frame: types.FrameType | None) -> None:
    raise _TimeUpError(f"more than {SECONDS} s of the processor")


def _tensor_to_cpu(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """With the same strides, and over the whole storage: as_strided looks beyond a view, and inputs may overlap."""
    if tensor.layout != torch.strided:
        return tensor.cpu()
    storage = tensor.untyped_storage()
    host = storages.setdefault(storage._cdata, storage.cpu())
    moved = torch.empty(0, dtype=tensor.dtype).set_(host, tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        moved = torch._conj(moved)
    return torch._neg_view(moved) if tensor.is_neg() else moved


def _to_cpu(value: Any) -> Any:
    storages: dict[int, torch.UntypedStorage] = {}

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return _tensor_to_cpu(leaf.detach(), storages).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if isinstance(leaf, str) and leaf.startswith("cuda"):
            return "cpu"
        if isinstance(leaf, torch.Generator):
            return torch.Generator("cpu").manual_seed(leaf.initial_seed())
        return leaf

    return tree_map(move, value)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _compare(actual: Any, expected: Any, by_shape: bool) -> str:
    """What differs, or nothing."""
    left, right = tree_leaves(actual), tree_leaves(expected)
    if len(left) != len(right):
        return f"{len(left)} results, {len(right)} on the CPU"
    for index, (a, b) in enumerate(zip(left, right, strict=True)):
        if not isinstance(b, torch.Tensor):
            if isinstance(b, (int, bool, str, torch.dtype, type(None))) and a != b and not by_shape:
                return f"result {index}: {a}, {b} on the CPU"
            if isinstance(b, float) and not by_shape:
                torch.testing.assert_close(a, b, equal_nan=True)
            continue
        if not isinstance(a, torch.Tensor):
            return f"result {index}: {type(a).__name__}, a tensor on the CPU"
        if a.shape != b.shape or a.dtype != b.dtype or a.layout != b.layout:
            return (
                f"result {index}: {a.dtype} {list(a.shape)} {a.layout}, {b.dtype} {list(b.shape)} {b.layout} on the CPU"
            )
        if by_shape:
            continue
        rtol, atol = TOLERANCES.get(b.dtype, (0.0, 0.0))
        if b.is_quantized:
            a, b = a.int_repr(), b.int_repr()
        try:
            torch.testing.assert_close(a.cpu(), b, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return f"result {index}: " + " ".join(str(error).split())[:300]
    return ""


def _call(op: OpInfo, sample: SampleInput) -> Any:
    return op(sample.input, *sample.args, **sample.kwargs)


def _gradients(op: OpInfo, sample: SampleInput) -> Any:
    results = sample.output_process_fn_grad(_call(op, sample))
    outputs = [leaf for leaf in _tensors(results) if leaf.requires_grad]
    leaves = [leaf for leaf in _tensors((sample.input, sample.args, sample.kwargs)) if leaf.requires_grad]
    if not outputs or not leaves:
        return []
    cotangents = []
    for output in outputs:
        # The same on both devices, of every sign, and exact in every dtype.
        ramp = (torch.arange(output.numel()) % 7 - 3).to(output.dtype) * 0.5
        cotangents.append(ramp.reshape(output.shape).to(output.device))
    return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)


def _into_out(op: OpInfo, sample: SampleInput) -> Any:
    """Into tensors of the right size, and into empty ones: what out= was given must be what comes back."""
    with torch.no_grad():
        plain = _call(op, sample)
        several = isinstance(plain, (tuple, list))
        wanted = list(plain) if several else [plain]
        if not all(isinstance(one, torch.Tensor) for one in wanted):
            return plain
        results = []
        empty = [torch.empty(0, dtype=one.dtype, device=one.device) for one in wanted]
        for outs in ([torch.zeros_like(one) for one in wanted], empty):
            returned = op(sample.input, *sample.args, **sample.kwargs, out=tuple(outs) if several else outs[0])
            given = list(returned) if several else [returned]
            if any(a is not b for a, b in zip(given, outs, strict=True)):
                raise AssertionError("out= returned another tensor than it was given")
            results.append(outs)
        return results


def _samples(op: OpInfo, dtype: torch.dtype, gradients: bool) -> Iterator[SampleInput]:
    torch.manual_seed(20)
    yield from op.sample_inputs("cuda", dtype, requires_grad=gradients)


def _check_sample(op: OpInfo, sample: SampleInput, call: Callable[[OpInfo, SampleInput], Any]) -> Outcome:
    """The CPU says what an operator may be asked."""
    on_cpu, args, kwargs = _to_cpu((sample.input, sample.args, sample.kwargs))
    process = sample.output_process_fn_grad
    twin = SampleInput(on_cpu, args=args, kwargs=kwargs, output_process_fn_grad=process)
    try:
        torch.manual_seed(1)
        expected = call(op, twin)
    except _TimeUpError:
        raise
    except Exception as error:  # noqa: BLE001  # any operator's any error
        return Outcome("not_run", f"the CPU: {type(error).__name__}: {_short(error)}")
    by_shape = op.name.split(".")[-1] in UNINITIALISED
    try:
        torch.manual_seed(1)
        actual = call(op, sample)
        difference = _compare(actual, expected, by_shape)
        if difference and not by_shape and _is_random(op, twin, call, expected):
            by_shape, difference = True, _compare(actual, expected, True)
    except _TimeUpError:
        raise
    except Exception as error:  # noqa: BLE001  # what the device raises is the outcome
        return Outcome("raises", f"{type(error).__name__}: {_short(error)}")
    if difference:
        return Outcome("wrong", difference)
    return Outcome("right", by_shape=by_shape)


def _is_random(op: OpInfo, twin: SampleInput, call: Callable[[OpInfo, SampleInput], Any], first: Any) -> bool:
    """Whether the CPU's result differs under other seeds; the database's functions seed themselves."""
    first = tree_map(lambda leaf: leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf, first)
    seed = torch.manual_seed
    for step in range(1, 21):  # few results, few draws: most seeds may agree
        with mock.patch("torch.manual_seed", lambda value, step=step: seed(value + step)):
            torch.manual_seed(1)
            if _compare(call(op, twin), first, False):
                return True
    return False


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def run(entry: Entry) -> Outcome:
    op = database()[entry.op]
    call = {"forward": _call, "backward": _gradients, "out": _into_out}[entry.direction]
    previous = signal.signal(signal.SIGPROF, _time_up)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    right, by_shape, refused = 0, False, Outcome("not_run", "no sample")
    try:
        for sample in _samples(op, DTYPES[entry.dtype], entry.direction == "backward"):
            outcome = _check_sample(op, sample, call)
            if outcome.status == "right":
                right += 1
                by_shape = by_shape or outcome.by_shape
            elif outcome.status == "not_run":
                refused = outcome
            else:
                return outcome
    except _TimeUpError as error:
        return Outcome("raises", str(error))
    except Exception as error:  # noqa: BLE001  # the samples are made on the device
        return Outcome("raises", f"samples: {type(error).__name__}: {_short(error)}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        gc.collect(0)
    return Outcome("right", samples=right, by_shape=by_shape) if right else refused
