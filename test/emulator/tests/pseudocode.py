"""Evaluates AMD's instruction pseudocode, as far as the ALU instructions use it.

The text is what the ISA document prints for each instruction (the package tinygrad carries it as
tinygrad/runtime/autogen/amd/cdna/str_pcode.py). Only make_golden.py uses this.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from lane_math import fma16, fma32

FLOAT = {16: np.float16, 32: np.float32, 64: np.float64}


class Unsupported(Exception):
    """The pseudocode uses something that this evaluator does not know."""


@dataclass(frozen=True)
class Value:
    kind: str  # "int" (exact, of any size), "float", "zero" (+0.0 or -0.0 as written, which == tells apart)
    width: int
    number: Any

    def bits(self) -> int:
        if self.kind == "int":
            return int(self.number)
        return int(FLOAT[self.width](self.number).view(f"u{self.width // 8}"))

    def true(self) -> bool:
        return bool(self.number)


def integer(number: int, width: int = 64) -> Value:
    return Value("int", width, int(number))


def real(number: Any, width: int) -> Value:
    return Value("float", width, FLOAT[width](number))


def viewed(bits: int, type_name: str) -> Value:
    """Bits as `u32`, `i16`, `f32`, `b64`, ..."""
    kind, width = type_name[0], int(type_name[1:])
    bits &= (1 << width) - 1
    if kind == "f":
        return Value("float", width, np.array([bits], np.uint64).astype(f"u{width // 8}").view(FLOAT[width])[0])
    if kind == "i" and bits >> (width - 1):
        bits -= 1 << width
    return integer(bits, width)


TOKEN = re.compile(
    r"\s*(//[^\n]*|\d+'[0-9][0-9A-Fa-fx.]*[UF]?|\d+'[FUIB]|0x[0-9a-fA-F]+(?:ULL|LL|U)?|\d+\.\d+F?|\d+(?:ULL|LL|U|F)?"
    r"|[A-Za-z_]\w*|\*\*|<<|>>|<=|>=|==|!=|<>|&&|\|\||\+=|-=|[-+*/%&|^~!<>=?:;,.(){}\[\]])"
)
LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!=", "<>"], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"]]
LEVELS += [["*", "/", "%"], ["**"]]


def tokens_of(text: str) -> list[str]:
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise Unsupported(text[position : position + 20])
        if not match[1].startswith("//"):
            found.append(match[1])
        position = match.end()
    return found


class Break(Exception):
    pass


class Machine:
    """One lane. `registers` maps S0, S1, S2, D0, SCC, VCC, laneId, ... to bits."""

    def __init__(self, text: str, registers: dict[str, int], constants: dict[str, int]) -> None:
        self.tokens, self.at = tokens_of(text), 0
        self.registers: dict[str, int | Value] = dict(registers)
        self.constants = constants
        self.live = True

    # ---- statements --------------------------------------------------------------------------------------

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if expected is not None and token != expected:
            raise Unsupported(f"{token!r} where {expected!r} belongs")
        self.at += 1
        return token

    def run(self) -> dict[str, int | Value]:
        self.block(())
        if self.at != len(self.tokens):
            raise Unsupported(self.peek())
        return self.registers

    def block(self, ends: tuple[str, ...]) -> None:
        while self.peek() and self.peek() not in ends:
            self.statement()

    def statement(self) -> None:
        token = self.peek()
        if token == ";":
            self.take()
        elif token == "if":
            self.conditional()
        elif token == "for":
            self.loop()
        elif token == "declare":
            while self.peek() not in (";", ""):
                self.take()
        elif token == "break":
            self.take()
            if self.live:
                raise Break
        else:
            self.assignment()

    def conditional(self) -> None:
        outer, done = self.live, False
        self.take("if")
        while True:
            condition = self.expression().true() if outer and not done else self.skipped_expression()
            self.take("then")
            self.live = outer and not done and condition
            done = done or condition
            self.block(("elsif", "else", "endif"))
            ending = self.take()
            if ending == "elsif":
                continue
            if ending == "else":
                self.live = outer and not done
                self.block(("endif",))
                self.take("endif")
            break
        self.live = outer

    def skipped_expression(self) -> bool:
        live, self.live = self.live, False
        self.expression()
        self.live = live
        return False

    def loop(self) -> None:
        self.take("for")
        name = self.take()
        self.take("in")
        first = int(self.expression().number)
        self.take(":")
        last = int(self.expression().number)
        self.take("do")
        start, outer = self.at, self.live
        for index in range(first, last + 1):
            self.at = start
            self.registers[name] = integer(index)
            try:
                self.block(("endfor",))
            except Break:
                self.live = False
                self.at = start
                self.block(("endfor",))  # over the rest of the body
                self.live = outer
                break
        self.live = outer
        self.take("endfor")

    def assignment(self) -> None:
        if self.peek() == "{":
            self.take()
            targets = [self.target()]
            while self.peek() == ",":
                self.take()
                targets.append(self.target())
            self.take("}")
        else:
            targets = [self.target()]
        operator = self.take()
        value = self.expression()
        if operator in ("+=", "-="):
            value = self.arithmetic(operator[0], self.read_target(targets[0]), value)
        elif operator != "=":
            raise Unsupported(operator)
        if not self.live:
            return
        if len(targets) == 1:
            self.write(targets[0], value)
        else:
            bits = value.bits()
            for target in reversed(targets):
                width = int(target[1][1:])
                self.write(target, integer(bits & ((1 << width) - 1), width))
                bits >>= width

    Target = tuple[str, str, tuple[int, int] | None]

    def target(self) -> Target:
        name, type_name, part = self.take(), "", None
        while self.peek() in (".", "["):
            if self.take() == ".":
                type_name = self.take()
            else:
                high = int(self.expression().number)
                low = high
                if self.peek() == ":":
                    self.take()
                    low = int(self.expression().number)
                self.take("]")
                part = (high, low)
        return name, type_name, part

    def read_target(self, target: Target) -> Value:
        value = self.registers[target[0]]
        if isinstance(value, Value):
            return value
        return viewed(value, target[1] or "u32")

    def write(self, target: Target, value: Value) -> None:
        name, type_name, part = target
        if part is None:
            if name in self.constants.get("__outputs__", ()):  # type: ignore[operator]
                self.registers[name] = self.shaped(value, type_name).bits() if type_name else value.bits()
            else:
                self.registers[name] = self.shaped(value, type_name) if type_name else value
            return
        high, low = part
        old = self.registers.get(name, 0)
        old_bits = old.bits() if isinstance(old, Value) else old
        width = high - low + 1
        if type_name and type_name[0] == "f" and width > 1:
            value = self.shaped(value, type_name)
        mask = ((1 << width) - 1) << low
        self.registers[name] = old_bits & ~mask | (value.bits() << low & mask)

    @staticmethod
    def shaped(value: Value, type_name: str) -> Value:
        kind, width = type_name[0], int(type_name[1:])
        if kind == "f":
            return real(value.number, width) if value.kind == "float" else viewed(value.bits(), type_name)
        return viewed(value.bits(), type_name)

    # ---- expressions -------------------------------------------------------------------------------------

    def expression(self) -> Value:
        condition = self.level(0)
        if self.peek() != "?":
            return condition
        self.take()
        first = self.expression()
        self.take(":")
        second = self.expression()
        return first if condition.true() else second

    def level(self, depth: int) -> Value:
        if depth == len(LEVELS):
            return self.unary()
        left = self.level(depth + 1)
        while self.peek() in LEVELS[depth]:
            operator = self.take()
            left = self.arithmetic(operator, left, self.level(depth + 1))
        return left

    def arithmetic(self, operator: str, a: Value, b: Value) -> Value:
        if operator == "==" and "zero" in (a.kind, b.kind):
            return integer(a.number == b.number and bool(np.signbit(a.number)) == bool(np.signbit(b.number)), 1)
        a, b = (Value("float", x.width, x.number) if x.kind == "zero" else x for x in (a, b))
        comparisons: dict[str, Callable[[Any, Any], bool]] = {
            "==": lambda x, y: x == y,
            "!=": lambda x, y: x != y,
            "<>": lambda x, y: x < y or x > y,
            "<": lambda x, y: x < y,
            "<=": lambda x, y: x <= y,
            ">": lambda x, y: x > y,
            ">=": lambda x, y: x >= y,
            "&&": lambda x, y: bool(x) and bool(y),
            "||": lambda x, y: bool(x) or bool(y),
        }
        if operator in comparisons:
            return integer(comparisons[operator](a.number, b.number), 1)
        if a.kind == "float" or b.kind == "float":
            width = max(value.width for value in (a, b) if value.kind == "float")
            x, y = (FLOAT[width](value.number) for value in (a, b))
            with np.errstate(all="ignore"):
                result = {
                    "+": x + y,
                    "-": x - y,
                    "*": x * y,
                    "/": x / y if operator == "/" else 0,
                    "**": x**y if operator == "**" else 0,
                }
            return real(result[operator], width)
        width, x, y = max(a.width, b.width), int(a.number), int(b.number)
        if operator in ("<<", ">>"):
            number = x << y if operator == "<<" else (x & (1 << a.width) - 1 if x >= 0 else x) >> y
            return integer(number & (1 << a.width) - 1 if operator == "<<" and x >= 0 else number, a.width)
        operations = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}
        if operator not in operations:
            raise Unsupported(operator)
        return integer(operations[operator], width)

    def unary(self) -> Value:
        token = self.peek()
        if token in ("-", "+", "!", "~"):
            self.take()
            value = self.unary()
            if token in "+-" and value.kind == "float" and value.number == 0:
                return Value("zero", value.width, FLOAT[value.width](-0.0 if token == "-" else 0.0))
            if token == "!":
                return integer(not value.true(), 1)
            if token == "~":
                return integer(~int(value.number) & (1 << value.width) - 1, value.width)
            return Value(value.kind, value.width, -value.number if token == "-" else value.number)
        return self.postfix(self.primary())

    def postfix(self, value: Value | int) -> Value:
        """An int is the raw bits of a register."""
        while self.peek() in (".", "["):
            bits = value if isinstance(value, int) else value.bits()
            if self.take() == ".":
                value = viewed(bits, self.take())
                continue
            high = int(self.expression().number)
            if self.peek() == ":":
                self.take()
                low = int(self.expression().number)
                self.take("]")
                width = abs(high - low) + 1
                field = bits >> min(high, low) & (1 << width) - 1
                if high < low:
                    field = int(f"{field:0{width}b}"[::-1], 2)
                value = integer(field, width)
            else:
                self.take("]")
                value = integer(bits >> high & 1, 1)
        return integer(value, 64) if isinstance(value, int) else value

    def primary(self) -> Value | int:
        token = self.take()
        if token == "(":
            value = self.expression()
            self.take(")")
            return value
        if token == "{":
            parts = [self.expression()]
            while self.peek() == ",":
                self.take()
                parts.append(self.expression())
            self.take("}")
            bits = width = 0
            for part in parts:
                bits, width = bits << part.width | part.bits() & (1 << part.width) - 1, width + part.width
            return integer(bits, width)
        if match := re.fullmatch(r"(\d+)'([FUIB])", token):
            self.take("(")
            value = self.expression()
            self.take(")")
            return self.cast(value, int(match[1]), match[2])
        if match := re.fullmatch(r"(\d+)'(.+)", token):
            width, number = int(match[1]), match[2].rstrip("UF")
            return real(float(number), width) if "." in number else integer(int(number, 0), width)
        if re.fullmatch(r"0x[0-9a-fA-F]+(ULL|LL|U)?", token):
            digits = re.sub(r"[UL]+$", "", token)
            return integer(int(digits, 16), 64 if "LL" in token else 32)
        if re.fullmatch(r"\d+\.\d+F?|\d+F", token):
            return real(float(token.rstrip("F")), 32 if token.endswith("F") else 64)
        if re.fullmatch(r"\d+(ULL|LL|U)?", token):
            return integer(int(token.rstrip("UL")), 64 if "LL" in token else 32)
        if self.peek() == "(":
            return self.call(token)
        if token == "INF":
            return real(math.inf, 64)
        if token in self.registers:
            return self.registers[token]
        if token in self.constants:
            return self.constants[token]
        if token == "WAVE_MODE":
            self.take(".")
            if self.take() == "IEEE":
                return integer(1, 1)
        raise Unsupported(token)

    @staticmethod
    def cast(value: Value, width: int, kind: str) -> Value:
        if kind == "F":
            if value.kind == "int" and width in FLOAT and value.width >= 16:
                return viewed(value.bits(), f"f{width}")
            if value.kind == "float" and _signalling(value).true():  # numpy would make it quiet
                return viewed({16: 0x7D00, 32: 0x7FA00000, 64: 0x7FF4000000000000}[width], f"f{width}")
            return real(value.number, width)
        number = int(value.number) if value.kind == "int" else value.bits()
        if kind == "I":
            number &= (1 << width) - 1
            return integer(number - (1 << width) if number >> (width - 1) else number, width)
        return integer(number & (1 << width) - 1, width)

    def call(self, name: str) -> Value:
        self.take("(")
        arguments = [self.expression()]
        while self.peek() == ",":
            self.take()
            arguments.append(self.expression())
        self.take(")")
        if name not in FUNCTIONS:
            raise Unsupported(f"{name}()")
        with np.errstate(all="ignore"):
            return FUNCTIONS[name](*arguments)


def _exponent(x: Value) -> Value:
    return integer(x.bits() >> {16: 10, 32: 23, 64: 52}[x.width] & {16: 31, 32: 255, 64: 2047}[x.width], 32)


def _signalling(x: Value) -> Value:
    quiet = {16: 1 << 9, 32: 1 << 22, 64: 1 << 51}[x.width]
    return integer(bool(np.isnan(x.number)) and not x.bits() & quiet, 1)


def _limited(x: Value, low: int, high: int) -> int:
    if np.isnan(x.number):
        return 0
    return int(
        min(max(math.trunc(float(x.number)) if np.isfinite(x.number) else (high if x.number > 0 else low), low), high)
    )


def _fma(a: Value, b: Value, c: Value) -> Value:
    function = {16: fma16, 32: fma32}.get(a.width)
    if function is None:
        raise Unsupported("fma of f64")
    kind = FLOAT[a.width]
    return real(function(*(np.array([x.number], kind) for x in (a, b, c)))[0], a.width)


def _extended(x: Value, bits: Value) -> Value:
    count = int(bits.number)
    if count == 0:
        return integer(0)
    field = x.bits() & (1 << count) - 1
    return integer(field - (1 << count) if field >> (count - 1) else field)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "isNAN": lambda x: integer(bool(np.isnan(x.number)), 1),
    "isSignalNAN": _signalling,
    "isQuietNAN": lambda x: integer(bool(np.isnan(x.number)) and not _signalling(x).true(), 1),
    "cvtToQuietNAN": lambda x: real(np.nan, x.width),
    "isEven": lambda x: integer(float(x.number) % 2 == 0, 1),
    "abs": lambda x: Value(x.kind, x.width, abs(x.number)),
    "sign": lambda x: integer(bool(np.signbit(x.number)), 1),
    "exponent": _exponent,
    "floor": lambda x: real(np.floor(x.number), x.width),
    "fract": lambda x: real(x.number - np.floor(x.number), x.width),
    "trunc": lambda x: real(np.trunc(x.number), x.width),
    "fma": _fma,
    "signext": lambda x: x,
    "signext_from_bit": _extended,
    "f32_to_i32": lambda x: integer(_limited(x, -(1 << 31), (1 << 31) - 1), 32),
    "f32_to_u32": lambda x: integer(_limited(x, 0, (1 << 32) - 1), 32),
    "i32_to_f32": lambda x: real(np.int32(x.number), 32),
    "u32_to_f32": lambda x: real(np.uint32(x.number), 32),
    "f32_to_f16": lambda x: real(x.number, 16),
    "f16_to_f32": lambda x: real(x.number, 32),
    "v_max_i32": lambda x, y: integer(max(x.number, y.number), 32),
    "v_min_i32": lambda x, y: integer(min(x.number, y.number), 32),
    "ldexp": lambda x, y: real(math.ldexp(float(x.number), int(y.number)), x.width),
}
