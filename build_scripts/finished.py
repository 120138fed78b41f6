"""What is wrong with a finished wheel: RECORD, versions, tags, and whether it holds what its provenance says."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from pathlib import Path

from build_scripts import record
from build_scripts.apply import unapplied_problems
from build_scripts.base_choice import BASE_VARIABLE
from build_scripts.digest import file_sha256
from build_scripts.errors import BuildError
from build_scripts.lay import read_overlay
from build_scripts.layout import CACHE, OVERLAY, PATCHES
from build_scripts.pins import Pins
from build_scripts.repack import final_name, new_contents, source_provenance
from build_scripts.series import read_series
from build_scripts.wheels import PROVENANCE, Wheel, inspect, is_patched, read_member

_AGAIN = "build the wheel again (.venv/bin/python -m build_scripts.build_wheel)"


def _tag_problems(wheel: Wheel, archive: zipfile.ZipFile) -> list[str]:
    text = read_member(archive, f"{wheel.dist_info}/WHEEL").decode("utf-8", errors="replace")
    tags = [line.removeprefix("Tag: ") for line in text.splitlines() if line.startswith("Tag: ")]
    columns = [tag.split("-") for tag in tags]
    told = ["+".join(sorted(set(column))) for column in zip(*columns, strict=False)]
    if any(len(column) != 3 for column in columns) or told != [
        "+".join(sorted(column.split("."))) for column in wheel.tags.split("-")
    ]:
        return [f"the WHEEL file has the tags {tags}: {_AGAIN}"]
    return []


def _told(wheel: Wheel, archive: zipfile.ZipFile) -> dict[str, object]:
    content = read_member(archive, f"{wheel.dist_info}/{PROVENANCE}")
    try:
        told = json.loads(content)
    except ValueError as error:
        raise BuildError(f"{PROVENANCE} is not JSON ({error}): {_AGAIN}") from error
    if not isinstance(told, dict):
        raise BuildError(f"{PROVENANCE} holds a {type(told).__name__}, expected an object: {_AGAIN}")
    return told


def _table(told: dict[str, object], key: str) -> dict[str, object]:
    value = told.get(key)
    return value if isinstance(value, dict) else {}


def _content_problems(archive: zipfile.ZipFile, told: dict[str, object], patches: Path, overlay: Path) -> list[str]:
    """Overlay files byte by byte; patched files by the hash that repacking noted, and by taking the series back."""
    names = set(archive.namelist())
    found = []
    for path, content in read_overlay(overlay).items():
        if path not in names:
            found.append(f"{path} of the overlay is missing: {_AGAIN}")
        elif read_member(archive, path) != content:
            found.append(f"{path} differs from the overlay's file: {_AGAIN}")
    series = read_series(patches)
    noted = _table(told, "patched")
    touched = {path for patch in series for path in patch.paths}
    for path in sorted(touched | set(noted)):
        if path not in names:
            found.append(f"{path} of the series is missing: {_AGAIN}")
        elif path not in noted:
            found.append(f"{PROVENANCE} has no hash of {path}, which the series touches: {_AGAIN}")
        elif hashlib.sha256(read_member(archive, path)).hexdigest() != noted[path]:
            found.append(f"{path} has another content than when it was patched: its hash is not in {PROVENANCE}")
    return found + unapplied_problems(series, lambda path: read_member(archive, path) if path in names else None)


def base_of(path: Path, cache: Path = CACHE) -> Path | None:
    """The base of a patched wheel, if it is the wheel in TORCH_BASE_WHEEL or one that was fetched before."""
    try:
        wheel = inspect(path)
        with zipfile.ZipFile(path) as archive:
            base = _table(_told(wheel, archive), "base")
    except BuildError:
        return None  # wheel_problems says why
    given = os.environ.get(BASE_VARIABLE, "")
    candidates = [Path(given).expanduser()] if given.endswith(".whl") else []
    candidates += sorted((cache / "base").glob("*/*.whl"))
    for candidate in candidates:
        if candidate.name == base.get("file") and candidate.is_file() and file_sha256(candidate) == base.get("sha256"):
            return candidate
    return None


def _base_problems(
    archive: zipfile.ZipFile, base: Path, version: str, pins: Pins, patches: Path, overlay: Path
) -> list[str]:
    """Every member against what repacking this base gives, without writing it."""
    wheel = inspect(base)
    with zipfile.ZipFile(base) as before:
        contents, _, _ = new_contents(wheel, before, version, pins, patches, overlay)
        kept = {
            final_name(wheel, version, info.filename): (info.CRC, info.file_size)
            for info in before.infolist()
            if info.filename not in contents and info.filename != f"{wheel.dist_info}/RECORD"
        }
    changed = {final_name(wheel, version, name): content for name, content in contents.items()}
    record_name = final_name(wheel, version, f"{wheel.dist_info}/RECORD")
    members = {info.filename: (info.CRC, info.file_size) for info in archive.infolist()}
    shown = base.name
    found = [f"{name} is missing, {shown} and this repository give it" for name in {*kept, *changed} - set(members)]
    for name, member in members.items():
        if name in changed:
            if read_member(archive, name) != changed[name]:
                found.append(f"{name} is not what {shown}, the series and the overlay give: {_AGAIN}")
        elif name in kept:
            if member != kept[name]:
                found.append(f"{name} differs from {shown}, and no patch touches it: {_AGAIN}")
        elif name != record_name:
            found.append(f"{name} is neither in {shown} nor in the overlay: {_AGAIN}")
    return sorted(found)


def wheel_problems(
    path: Path, pins: Pins, *, patches: Path = PATCHES, overlay: Path = OVERLAY, base: Path | None = None
) -> list[str]:
    """Everything wrong with a finished wheel. With `base`, what it was made from, every member is computed again."""
    try:
        wheel = inspect(path)
        with zipfile.ZipFile(path) as archive:
            return [f"{path.name}: {problem}" for problem in _problems(wheel, archive, pins, patches, overlay, base)]
    except BuildError as error:
        text = str(error)
        return [text if path.name in text else f"{path.name}: {text}"]


def _problems(
    wheel: Wheel, archive: zipfile.ZipFile, pins: Pins, patches: Path, overlay: Path, base: Path | None
) -> list[str]:
    found = record.problems(archive, f"{wheel.dist_info}/RECORD")
    if not is_patched(wheel.version, ()) or f"{wheel.dist_info}/{PROVENANCE}" not in wheel.names:
        return [*found, f"not a patched wheel: no {PROVENANCE}, or no flydsl in its local version"]
    found += _tag_problems(wheel, archive)
    told = _told(wheel, archive)
    expected = {"format": 1, "project_version": pins.project_version, **source_provenance(patches, overlay)}
    differing = [key for key, value in expected.items() if told.get(key) != value]
    found += [f"{PROVENANCE} differs from this repository in {key!r}: {_AGAIN}" for key in differing]
    version = _table(told, "base").get("version")
    if wheel.name_version != wheel.version_text:
        found.append(f"torch/version.py says {wheel.version_text}, which a finished wheel's name says too: {_AGAIN}")
    if wheel.version_text not in (f"{version}.{pins.local_suffix}", f"{version}+{pins.local_suffix}"):
        found.append(f"{PROVENANCE} names the base {version}, which does not give this version: {_AGAIN}")
    if differing:
        return found  # made from another series or overlay: comparing the contents with this one would say no more
    found += _content_problems(archive, told, patches, overlay)
    if not found and base is not None:
        found += _base_problems(archive, base, wheel.version_text, pins, patches, overlay)
    return found
