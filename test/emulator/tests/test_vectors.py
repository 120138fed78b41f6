"""vectors.py counts what is there, and the README says the same."""

from __future__ import annotations

import re
from pathlib import Path

import vectors

HERE = Path(__file__).parent


def test_every_family_has_vectors_and_a_source() -> None:
    families = vectors.golden() + vectors.generated()
    assert all(family.forms > 0 and family.vectors >= family.forms and family.source for family in families)
    assert {family.name for family in vectors.golden()} == {path.stem for path in (HERE / "golden").glob("*.json")}


def test_every_list_of_cases_is_counted() -> None:
    lists = r"^from (vector|memory)_case import[^#]*^CASES\b"
    modules = {path.stem for path in HERE.glob("test_*.py") if re.search(lists, path.read_text(), re.M | re.S)}
    assert len(modules) > 9
    assert modules <= set(vectors.GENERATED)


def test_readme_counts_the_golden_vectors() -> None:
    found = re.search(r"(\d+) ALU instruction forms, ([\d,]+) vectors", (HERE / "README.md").read_text())
    assert found is not None
    golden = vectors.golden()
    assert int(found[1]) == sum(family.forms for family in golden)
    assert int(found[2].replace(",", "")) == sum(family.vectors for family in golden)
