"""What a benchmark says: a table, and goals that hold or do not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# Where a figure comes from; printed with every one. `modelled`: from the emulator's timing model. `measured`: on the
# machine that ran this, which says nothing about a gfx950 unless it has one.
Source = Literal["measured", "emulated", "modelled", "counted"]
_RELATIONS: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A figure and the limit it is held to."""

    name: str
    value: float
    relation: Literal["<=", ">=", "=="]
    limit: float
    unit: str
    source: Source

    @property
    def holds(self) -> bool:
        return _RELATIONS[self.relation](self.value, self.limit)  # a NaN holds nowhere


@dataclass(frozen=True, kw_only=True)
class Section:
    """One more table of a benchmark, below its first."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of one benchmark: rows of a table under `columns`, further tables, and its goals."""

    op: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal]
    sections: Sequence[Section] = field(default_factory=tuple)
    notes: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not self.goals:
            raise ValueError(f"the benchmark {self.op!r} has no goal: a figure without a limit shows nothing")
        for columns, rows in ((self.columns, self.rows), *((s.columns, s.rows) for s in self.sections)):
            for row in rows:
                if len(row) != len(columns):
                    raise ValueError(
                        f"a row of {self.op!r} has {len(row)} cells, the table has {len(columns)} columns: {row}"
                    )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "goals": [{**asdict(goal), "holds": goal.holds} for goal in self.goals]}
