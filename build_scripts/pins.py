"""Typed reader of pins.toml. Standard library only: the bootstrap reads it before anything is installed.

python -m build_scripts.pins                 print every pin
python -m build_scripts.pins --requirements  print the runtime packages as requirement lines
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.errors import BuildError, run_main
from build_scripts.layout import PINS

_RELEASE = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True, kw_only=True)
class Pins:
    project_version: str
    series: int
    base: str
    default_build: str
    also_checked: tuple[str, ...]
    python: str
    python_tag: str
    runtime: dict[str, str]

    @property
    def default_base(self) -> str:
        return f"{self.base}+{self.default_build}"

    @property
    def local_suffix(self) -> str:
        """What the patched wheel's local version ends in."""
        return f"flydsl{self.series}"

    def requirements(self) -> list[str]:
        return [f"{name}=={version}" for name, version in self.runtime.items()]


def _table(data: dict[str, Any], name: str, keys: set[str] | None, source: Path) -> dict[str, Any]:
    table = data.get(name)
    if not isinstance(table, dict):
        raise BuildError(f"{source}: the table [{name}] is missing")
    if keys is not None and set(table) != keys:
        raise BuildError(f"{source}: [{name}] has the keys {sorted(table)}, expected {sorted(keys)}")
    return table


def _release(value: object, where: str, source: Path) -> str:
    if not isinstance(value, str) or not _RELEASE.fullmatch(value):
        raise BuildError(f"{source}: {where} is {value!r}, expected a release number such as '1.2.3'")
    return value


def read_pins(source: Path = PINS) -> Pins:
    try:
        data = tomllib.loads(source.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BuildError(f"{source} is not valid TOML: {error}") from error
    extra = set(data) - {"project", "base", "runtime"}
    if extra:
        raise BuildError(f"{source}: unknown tables {sorted(extra)}")
    project = _table(data, "project", {"version", "series"}, source)
    base = _table(data, "base", {"version", "default_build", "also_checked", "python", "python_tag"}, source)
    runtime = _table(data, "runtime", None, source)
    series = project["series"]
    if not isinstance(series, int) or isinstance(series, bool) or series < 1:
        raise BuildError(f"{source}: project.series is {series!r}, expected an integer of at least 1")
    python = _release(base["python"], "base.python", source)
    python_tag = "cp" + python.replace(".", "")
    if base["python_tag"] != python_tag:
        raise BuildError(f"{source}: base.python_tag is {base['python_tag']!r}, but Python {python} has {python_tag!r}")
    if not isinstance(base["default_build"], str) or not re.fullmatch(r"[a-z0-9.]+", base["default_build"]):
        raise BuildError(
            f"{source}: base.default_build is {base['default_build']!r}, expected a local version like 'cpu'"
        )
    also_checked = base["also_checked"]
    if not isinstance(also_checked, list):
        raise BuildError(f"{source}: base.also_checked is {also_checked!r}, expected a list of releases")
    return Pins(
        project_version=_release(project["version"], "project.version", source),
        series=series,
        base=_release(base["version"], "base.version", source),
        default_build=base["default_build"],
        also_checked=tuple(_release(item, "base.also_checked", source) for item in also_checked),
        python=python,
        python_tag=python_tag,
        runtime={name: _release(version, f"runtime.{name}", source) for name, version in runtime.items()},
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the versions this project is pinned to.")
    parser.add_argument("--requirements", action="store_true", help="only the runtime packages, as requirement lines")
    args = parser.parse_args(argv)

    def body() -> int:
        pins = read_pins()
        if args.requirements:
            print("\n".join(pins.requirements()))
            return 0
        print(f"project {pins.project_version}, series {pins.series}")
        print(f"base torch {pins.base} for Python {pins.python}, by default its {pins.default_build} build")
        print(f"also checked: {', '.join(pins.also_checked)}")
        for requirement in pins.requirements():
            print(requirement)
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
