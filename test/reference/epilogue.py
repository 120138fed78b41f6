"""An epilogue's program in float64, and how far a kernel that computes it in fp32 may be from that.

The bound follows the rounding of the accumulator through the program by evaluating it at both ends of the
accumulator's error: right for the monotone and smooth operators there are, with room for one that turns in between.
What fp32 arithmetic adds is ``STEP_UNIT`` of the largest intermediate value per step, and the last rounding one unit of
the output. Where a ``to`` step may round the other way, the difference between the two ends holds that as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch._inductor.kernel.flydsl.epilogue_expr import Epilogue

from reference import mm

# Four units of fp32 a step: its operators are within a few of the last place.
STEP_UNIT = 2.0**-21

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
_HALF_SUBNORMAL = {torch.bfloat16: 2.0**-134, torch.float16: 2.0**-25, torch.float32: 2.0**-150}

_OPS: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "eq": torch.eq,
    "ne": torch.ne,
    "where": torch.where,
}


def evaluate(
    epilogue: Epilogue, accumulator: torch.Tensor, inputs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(result, largest magnitude of any value on the way), in float64. Inputs must broadcast to the accumulator."""
    done: list[torch.Tensor] = []
    largest = torch.zeros_like(accumulator)
    for op, *args in epilogue.steps:
        if op == "acc":
            value = accumulator
        elif op == "input":
            value = inputs[int(args[0])].detach().cpu().double()
        elif op == "const":
            value = torch.tensor(float(args[0]), dtype=torch.float32).double()
        elif op == "to":
            value = done[int(args[0])].to(_DTYPES[str(args[1])]).double()
        else:
            value = _OPS[str(op)](*(done[int(arg)] for arg in args))
        value = value.expand(accumulator.shape)
        if value.dtype != torch.bool:
            largest = torch.maximum(largest, torch.nan_to_num(value.abs(), nan=0.0, posinf=0.0))
        done.append(value)
    return done[-1], largest


def result_and_bound(
    epilogue: Epilogue,
    exact: torch.Tensor,
    error: torch.Tensor,
    inputs: Sequence[torch.Tensor],
    out_dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The float64 result for a float64 product ``exact``, and each element's bound if its accumulator is off by up to
    ``error``."""
    result, largest = evaluate(epilogue, exact, inputs)
    spread = torch.zeros_like(result)
    for end in (exact - error, exact + error):
        spread = torch.maximum(spread, (evaluate(epilogue, end, inputs)[0] - result).abs())
    inner = 2 * spread + len(epilogue.steps) * STEP_UNIT * largest
    return result, inner + _UNIT[out_dtype] * (result.abs() + inner) + _HALF_SUBNORMAL[out_dtype]


def excess(
    actual: torch.Tensor, epilogue: Epilogue, a: torch.Tensor, b_nk: torch.Tensor, inputs: Sequence[torch.Tensor]
) -> float:
    """The largest error in units of its bound: at most 1 for a correct result, inf if an element alone is NaN."""
    exact, error = mm.product_and_accumulation_error(a, b_nk)
    result, bound = result_and_bound(epilogue, exact, error, inputs, actual.dtype)
    ratio = (actual.detach().cpu().double() - result).abs() / bound
    return float(torch.nan_to_num(ratio, nan=float("inf")).max())
