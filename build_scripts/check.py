"""Check the series, the bases it applies to, and a finished wheel; the cheapest first.

    python -m build_scripts.check [series] [bases] [wheel] [--wheel FILE] [--base WHEEL_OR_VERSION] [--index URL]

series  headers, trailers, file names and diffs of patches/, and the overlay's own form; needs no base
bases   the series and the overlay against the touched files of the pinned base and of the other releases in pins.toml,
        the `Drop-when` conditions, and that the patches equal their re-export
wheel   every RECORD line, the agreement of versions, the provenance, and that the overlay's and the patched files are
        what it says; every member, where the base is at hand (default: the newest wheel in dist/)

Without a word, series and bases, and wheel if there is one. Another release that cannot be downloaded is skipped with
the reason; with CI=true that is an error, since nothing else would notice that the series stopped applying to it.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from build_scripts.apply import HunkReport, Reader, apply_series
from build_scripts.checkout import make_repository
from build_scripts.errors import BuildError, run_main
from build_scripts.export import differences, export_patches
from build_scripts.fetch import add_arguments, fetch, pip_download
from build_scripts.finished import base_of, wheel_problems
from build_scripts.lay import overlay_problems, read_overlay
from build_scripts.layout import CACHE, DIST, PATCHES
from build_scripts.pins import Pins, read_pins
from build_scripts.series import DropCondition, Patch, read_series, series_problems, touched_paths
from build_scripts.third_party import Version
from build_scripts.wheels import UPSTREAM_INTEGRATION
from build_scripts.zipcopy import ZipCopier

STAGES = ("series", "bases", "wheel")
OTHER_BASE_FUZZ = 2
_NAMES = "NAMES"


@dataclass(frozen=True)
class Base:
    """What the checks read of a base: its version, the names of its files, and its Python files."""

    version: Version
    names: frozenset[str]
    read: Reader


def open_base(path: Path) -> Base:
    """A base from its wheel, or from the copy of its Python files that `python_files_of` keeps."""
    archive = zipfile.ZipFile(path)
    names = frozenset(
        archive.read(_NAMES).decode().splitlines() if _NAMES in archive.namelist() else archive.namelist()
    )
    members = frozenset(archive.namelist())

    def read(name: str) -> bytes | None:
        return archive.read(name) if name in members else None

    return Base(Version(path.name.removesuffix(".zip").split("-")[1]), names, read)


def python_files_of(version: str, pins: Pins, cache: Path = CACHE) -> Path:
    """A small zip of the Python files of torch `version`, made once; its wheel is half a gigabyte and is not kept."""
    kept = cache / "check" / f"torch-{version}.zip"
    if kept.is_file():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        wheel = pip_download(f"torch=={version}", pins, None, Path(folder))
        temporary = Path(folder) / kept.name
        with (
            wheel.open("rb") as stream,
            zipfile.ZipFile(stream) as archive,
            ZipCopier(archive, stream, temporary) as copier,
        ):
            infos = archive.infolist()
            for info in infos:
                if info.filename.endswith(".py"):
                    copier.copy(info, info.filename)
            copier.write(_NAMES, "\n".join(archive.namelist()).encode(), infos[0])
        temporary.replace(kept)
    return kept


def condition_holds(condition: DropCondition, base: Base) -> bool:
    if condition.version is not None:
        return base.version >= condition.version
    path = str(condition.path)
    if condition.text is None:
        return path in base.names or any(name.startswith(path.rstrip("/") + "/") for name in base.names)
    content = base.read(path)
    return content is not None and condition.text.encode() in content


def base_problems(
    base: Base, patches: Sequence[Patch], overlay: dict[str, bytes], fuzz: int, note: Callable[[str], None]
) -> tuple[list[str], list[HunkReport]]:
    """Everything that keeps series and overlay from fitting one base."""
    shown = f"torch {base.version}"
    if any(name.startswith(UPSTREAM_INTEGRATION + "/") for name in base.names):
        return [f"{shown} has {UPSTREAM_INTEGRATION}: an integration of its own"], []
    found = [f"{shown}: {problem}" for problem in overlay_problems(overlay, base.names)]
    for patch in patches:
        if condition_holds(patch.drop_condition, base):
            text = f"{shown}: Drop-when of patches/{patch.name} holds: drop the patch when this is the pinned base"
            if fuzz:
                note(text)
            else:
                found.append(text)
    try:
        changed, hunks = apply_series(patches, base.read, fuzz)
    except BuildError as error:
        return [*found, f"{shown}: {error}"], []
    for path, content in changed.items():
        try:
            ast.parse(content, filename=path)
        except SyntaxError as error:
            found.append(f"{shown}: {path} is not valid Python after the series: {error}")
    return found, hunks


def reexport_problems(base: Base, patches: Sequence[Patch], folder: Path = PATCHES) -> list[str]:
    """Whether the patches are exactly what exporting their commits gives, on the touched files alone."""
    with tempfile.TemporaryDirectory() as temporary:
        files = {path: content for path in touched_paths(list(patches)) if (content := base.read(path)) is not None}
        make_repository(Path(temporary), files, patches, folder, "touched files")
        return differences(export_patches(Path(temporary)), folder)


def newest_wheel(folder: Path = DIST) -> Path | None:
    wheels = sorted(folder.glob("torch-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1] if wheels else None


def check_series() -> list[str]:
    overlay = read_overlay()
    problems = series_problems()
    # Without a base, any folder outside the overlay counts as a package.
    problems += [text for text in overlay_problems(overlay, ()) if "cannot be imported" not in text]
    if not problems:
        print(f"series: {len(read_series())} patches, {len(overlay)} overlay files: well-formed")
    return problems


def check_bases(base: str | None, index: str | None, pins: Pins) -> list[str]:
    patches, overlay = read_series(), read_overlay()
    pinned = open_base(fetch(base, index, pins))
    problems, hunks = base_problems(pinned, patches, overlay, 0, print)
    if not problems:
        problems = reexport_problems(pinned, patches)
    if problems:
        return problems
    print(f"bases: torch {pinned.version}: {len(hunks)} hunks apply exactly, patches equal their export")
    for version in pins.also_checked:
        try:
            other = open_base(python_files_of(version, pins))
        except BuildError as error:
            if os.environ.get("CI") == "true":
                problems.append(f"torch {version} could not be checked, and CI=true: {error}")
            else:
                print(f"bases: torch {version}: skipped, it cannot be had here: {error}")
            continue
        found, hunks = base_problems(other, patches, overlay, OTHER_BASE_FUZZ, print)
        problems += found
        if not found:
            fuzzy = sum(hunk.fuzz > 0 for hunk in hunks)
            print(f"bases: torch {version}: {len(hunks)} hunks apply, {fuzzy} of them with fuzz")
    return problems


def check_wheel(path: Path, pins: Pins) -> list[str]:
    base = base_of(path)
    problems = wheel_problems(path, pins, base=base)
    if not problems:
        how = f"made again from {base.name}" if base else "its base is not at hand: the rest of it by RECORD alone"
        print(f"wheel: {path.name}: RECORD, versions, provenance, overlay and patched files agree; {how}")
    return problems


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the series, the bases and a finished wheel.")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"any of {', '.join(STAGES)}")
    parser.add_argument("--wheel", type=Path, help="the finished wheel (default: the newest in dist/)")
    add_arguments(parser)
    args = parser.parse_args(argv)
    unknown = [stage for stage in args.stages if stage not in STAGES]
    if unknown:
        parser.error(f"unknown stage {unknown[0]!r}, expected any of {', '.join(STAGES)}")

    def body() -> int:
        pins = read_pins()
        wheel: Path | None = args.wheel or newest_wheel()
        stages = args.stages or [stage for stage in STAGES if stage != "wheel" or wheel is not None]
        if "wheel" in stages and wheel is None:
            raise BuildError(
                "there is no wheel in dist/: build one with `.venv/bin/python -m build_scripts.build_wheel`"
            )
        for stage in (name for name in STAGES if name in stages):
            if stage == "series":
                problems = check_series()
            elif stage == "bases":
                problems = check_bases(args.base, args.index, pins)
            else:
                assert wheel is not None
                problems = check_wheel(wheel, pins)
            if problems:
                raise BuildError("\n  ".join([f"{len(problems)} problems in stage {stage}:", *problems]))
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
