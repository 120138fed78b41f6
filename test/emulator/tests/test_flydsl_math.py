"""FlyDSL's math functions on the emulated device against float64: exact where they are exact, else within a bound."""

from collections.abc import Callable
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np
import pytest
import torch
from flydsl.expr import math as fx_math

COUNT = 256
SMALL = 2.0**-23  # of float32: a last place of 1

Emit = Callable[[Any, Any, Any], Any]
Reference = Callable[..., np.ndarray]


def erf(x: np.ndarray) -> np.ndarray:
    return torch.erf(torch.from_numpy(x)).numpy()


def erfc(x: np.ndarray) -> np.ndarray:
    return torch.erfc(torch.from_numpy(x)).numpy()


def unary(name: str) -> Emit:
    return lambda x, y, z: getattr(fx, name)(x)


def truth(name: str) -> Emit:
    return lambda x, y, z: getattr(fx, name)(x).select(fx.Float32(1), fx.Float32(0))


def half_away(x: np.ndarray) -> np.ndarray:
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


# name -> (emitted, float64 reference, interval of the arguments, relative bound in last places, 0: exact). Those of
# one instruction are within about 1, those that FlyDSL expands into several lose more.
FUNCTIONS: dict[str, tuple[Emit, Reference, tuple[float, float], float]] = {
    "absf": (unary("absf"), np.abs, (-9, 9), 0),
    "ceil": (unary("ceil"), np.ceil, (-9, 9), 0),
    "floor": (unary("floor"), np.floor, (-9, 9), 0),
    "trunc": (unary("trunc"), np.trunc, (-9, 9), 0),
    "round": (unary("round"), half_away, (-9, 9), 0),
    "roundeven": (unary("roundeven"), np.rint, (-9, 9), 0),
    "exp": (unary("exp"), np.exp, (-20, 20), 4),
    "exp2": (unary("exp2"), np.exp2, (-20, 20), 2),
    "expm1": (unary("expm1"), np.expm1, (0.5, 9), 4),
    "log": (unary("log"), np.log, (2, 1000), 4),
    "log2": (unary("log2"), np.log2, (2, 1000), 2),
    "log10": (unary("log10"), np.log10, (2, 1000), 4),
    "log1p": (unary("log1p"), np.log1p, (1, 1000), 4),
    "sqrt": (unary("sqrt"), np.sqrt, (0, 1000), 1),
    "rsqrt": (unary("rsqrt"), lambda x: x**-0.5, (0.001, 1000), 2),
    "cbrt": (unary("cbrt"), np.cbrt, (0.01, 1000), 4),
    "sin": (unary("sin"), np.sin, (0.1, 3), 4),
    "cos": (unary("cos"), np.cos, (-1.4, 1.4), 4),
    "asinh": (unary("asinh"), np.arcsinh, (0.5, 9), 4),
    "acosh": (unary("acosh"), np.arccosh, (1.5, 9), 4),
    "atanh": (unary("atanh"), np.arctanh, (0.2, 0.9), 8),
    "erf": (unary("erf"), erf, (0.05, 3), 4),
    "erfc": (unary("erfc"), erfc, (-2, 2), 8),
    "sincos": (
        lambda x, y, z: fx.sincos(x)[0] * 2.0 + fx.sincos(x)[1],
        lambda x: 2 * np.sin(x) + np.cos(x),
        (0, 1.5),
        4,
    ),
    "powf": (lambda x, y, z: fx.powf(x, y), np.power, (0.1, 9), 40),
    "fpowi": (lambda x, y, z: fx.fpowi(x, fx.Int32(3)), lambda x: x**3, (-9, 9), 4),
    "copysign": (lambda x, y, z: fx.copysign(x, y), np.copysign, (-9, 9), 0),
    "clampf": (lambda x, y, z: fx.clampf(x, fx.Float32(-2), fx.Float32(3)), lambda x: np.clip(x, -2, 3), (-9, 9), 0),
    "fma": (lambda x, y, z: fx.fma(x, y, z), lambda x, y, z: x * y + z, (0.1, 9), 0.51),
    "isnan": (truth("isnan"), np.isnan, (-9, 9), 0),
    "isfinite": (truth("isfinite"), np.isfinite, (-9, 9), 0),
}
SPECIALS = {"isnan", "isfinite", "absf", "ceil", "floor", "trunc", "roundeven"}  # also of zeros, infinities and NaN

INTEGERS = {"absi", "ctlz", "cttz", "ctpop"}  # in test_flydsl_atoms.py

NO_FUNCTION = 'FlyDSL 0.3.4 calls a library that it does not link ("no libcall available") and its result is undefined'
NO_RULE = "FlyDSL 0.3.4 has no lowering for it"
LEFT_OUT = dict.fromkeys(("tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atan2"), NO_FUNCTION) | dict.fromkeys(
    ("ipowi", "isinf", "isnormal"), NO_RULE
)


def test_every_function_has_a_test_or_a_reason() -> None:
    assert set(fx_math.__all__) == set(FUNCTIONS) | INTEGERS | set(LEFT_OUT)


@flyc.kernel(name="math_function")
def math_kernel(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str]):
    i = fx.thread_idx.x
    target[i] = FUNCTIONS[key][0](x[i], y[i], z[i])


@flyc.jit
def launch_math(x: fx.Tensor, y: fx.Tensor, z: fx.Tensor, target: fx.Tensor, key: fx.Constexpr[str], stream: fx.Stream):
    math_kernel(x, y, z, target, key).launch(grid=(1, 1, 1), block=(COUNT, 1, 1), stream=stream)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    _, reference, (low, high), bound = FUNCTIONS[name]
    generator = np.random.default_rng(34)
    arguments = [generator.uniform(low, high, COUNT).astype(np.float32) for _ in range(3)]
    if name in SPECIALS:
        arguments[0][:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 1e-40]
    target = torch.zeros(COUNT, device="cuda")
    launch_math(*(torch.from_numpy(x).cuda() for x in arguments), target, name, torch.cuda.current_stream())
    count = reference.__code__.co_argcount if hasattr(reference, "__code__") else reference.nin
    expected = reference(*(x.astype(np.float64) for x in arguments[:count]))
    result = target.cpu().numpy()
    if bound == 0:
        np.testing.assert_array_equal(result, expected.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected.astype(np.float32)))
    else:
        np.testing.assert_allclose(result, expected, rtol=bound * SMALL, atol=0)
