"""What a torch wheel says about itself, and whether its parts agree."""

from __future__ import annotations

import email
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from build_scripts.errors import WHEEL_AGAIN, BuildError
from build_scripts.pins import Pins
from build_scripts.plain_path import path_problem
from build_scripts.third_party import InvalidVersion, InvalidWheelFilename, Version, parse_wheel_filename

PROVENANCE = "flydsl_provenance.json"
UPSTREAM_INTEGRATION = "torch/_inductor/codegen/flydsl"
_VERSION_LINE = re.compile(rb"^__version__ = '([^']+)'$", re.MULTILINE)


@dataclass(frozen=True)
class Wheel:
    path: Path
    version: Version
    # The version as torch/version.py spells it, with its local part.
    version_text: str
    # The version in the file name, the dist-info folder and METADATA. Wheels published on the package index leave the
    # local part out there: torch/version.py says 2.13.0+cu130 where the name says 2.13.0.
    name_version: str
    # "cp311-cp311-manylinux_2_28_x86_64", as in the file name.
    tags: str
    dist_info: str
    names: tuple[str, ...]


def replace_version_line(content: bytes, old: str, new: str) -> bytes:
    """torch/version.py with its one `__version__` line changed."""
    found = [match.decode("utf-8", errors="replace") for match in _VERSION_LINE.findall(content)]
    if found != [old]:
        raise BuildError(f"torch/version.py sets __version__ to {found}, expected one line with {old!r}")
    return _VERSION_LINE.sub(f"__version__ = '{new}'".encode(), content)


def version_of_module(content: bytes) -> str | None:
    match = _VERSION_LINE.search(content)
    return match[1].decode("utf-8", errors="replace") if match else None


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member's content. Raises BuildError where it is missing or damaged."""
    shown = Path(archive.filename or "the wheel").name
    try:
        return archive.read(name)
    except KeyError as error:
        raise BuildError(f"{shown} has no {name}: the wheel is damaged; {WHEEL_AGAIN}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BuildError(f"{shown}: {name} cannot be read ({error}): the wheel is damaged; {WHEEL_AGAIN}") from error


def name_problems(names: Iterable[str]) -> list[str]:
    """Names of members that an installer would write elsewhere than into its folder, or twice."""
    counts = Counter(names)
    found = [f"the wheel holds {name} {count} times" for name, count in counts.items() if count > 1]
    for name in counts:
        if problem := path_problem(name.removesuffix("/")):
            found.append(f"the member {name!r} {problem}")
    return found


def version_problems(path: Path, archive: zipfile.ZipFile) -> list[str]:
    """Disagreements between file name, dist-info folder, METADATA and torch/version.py."""
    fields = path.name.split("-")
    in_name = fields[1] if len(fields) > 1 else "(no version)"
    folders = {name.split("/")[0] for name in archive.namelist() if name.split("/")[0].endswith(".dist-info")}
    found = {"file name": in_name}
    for folder in sorted(folders):
        found[f"folder {folder}"] = folder.removesuffix(".dist-info").partition("-")[2]
    if len(folders) != 1:
        return [f"{path.name}: expected one dist-info folder, found {sorted(folders)}"]
    folder = folders.pop()
    # torch/version.py alone may add a local part.
    for member, read in ((f"{folder}/METADATA", _metadata_version), ("torch/version.py", version_of_module)):
        present = member in archive.namelist()
        found[member] = (read(read_member(archive, member)) or "(no version)") if present else "(missing)"
    in_module = found.pop("torch/version.py")
    if len(set(found.values())) == 1 and in_name in (in_module, in_module.partition("+")[0]):
        return []
    found["torch/version.py"] = in_module
    return [f"{path.name}: versions differ: " + ", ".join(f"{where} {value}" for where, value in found.items())]


def _metadata_version(content: bytes) -> str | None:
    return email.message_from_bytes(content).get("Version")


def inspect(path: Path) -> Wheel:
    """Read a torch wheel's names and version. Raises BuildError where it is not a sound torch wheel."""
    if not path.is_file():
        raise BuildError(f"there is no wheel {path}")
    try:
        name, _, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise BuildError(f"{path.name} is not a wheel's file name: {error}") from error
    if name != "torch":
        raise BuildError(f"{path.name} is a wheel of {name}, expected one of torch")
    try:
        with zipfile.ZipFile(path) as archive:
            names = tuple(archive.namelist())
            problems = [f"{path.name}: {problem}: do not install it; get it anew" for problem in name_problems(names)]
            problems += version_problems(path, archive)
            if problems:
                raise BuildError("; ".join(problems))
            version_text = version_of_module(read_member(archive, "torch/version.py"))
    except zipfile.BadZipFile as error:
        raise BuildError(f"{path} is damaged ({error}): {WHEEL_AGAIN}") from error
    try:
        full_version = Version(str(version_text))
    except InvalidVersion as error:
        raise BuildError(f"{path.name}: torch/version.py has an impossible version: {error}") from error
    _, name_version, tags = path.name.removesuffix(".whl").split("-", 2)
    info = f"torch-{name_version}.dist-info"
    return Wheel(path, full_version, str(version_text), name_version, tags, info, names)


def require_pinned_base(wheel: Wheel, pins: Pins) -> None:
    """Refuse a base that the series was not made for."""
    if is_patched(wheel.version, wheel.names):
        raise BuildError(
            f"{wheel.path.name} is already patched; pass the wheel it was made from (a torch {pins.base} as published)"
        )
    if wheel.version.public != pins.base:
        raise BuildError(
            f"{wheel.path.name} is torch {wheel.version.public}, but the series is pinned to {pins.base} "
            f"(build_scripts/pins.toml); pass a wheel of torch {pins.base}"
        )
    require_no_upstream_integration(wheel.path.name, wheel.names)
    python_tag = wheel.tags.split("-")[0]
    if pins.python_tag not in python_tag.split("."):
        raise BuildError(
            f"{wheel.path.name} is for {python_tag}, but this project is pinned to {pins.python_tag}; "
            f"pass the wheel for Python {pins.python}"
        )


def require_no_upstream_integration(shown: str, names: Iterable[str]) -> None:
    if any(name.startswith(UPSTREAM_INTEGRATION + "/") for name in names):
        raise BuildError(
            f"{shown} already holds {UPSTREAM_INTEGRATION}: this PyTorch ships a FlyDSL integration of its own; use it "
            "unpatched"
        )


def is_patched(version: Version, names: Iterable[str]) -> bool:
    local = (version.local or "").split(".")
    marked = any(part.startswith("flydsl") for part in local)
    return marked or any(name.endswith(f".dist-info/{PROVENANCE}") for name in names)
