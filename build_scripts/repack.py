"""Make the patched wheel from a base wheel, the series and the overlay.

    python -m build_scripts.repack WHEEL --out DIR

Python files change, compiled ones are copied as they are. The wheel gets a local version of its own (2.13.0+cpu becomes
2.13.0+cpu.flydsl1, 2.13.0 becomes 2.13.0+flydsl1), and file name, METADATA, dist-info folder and torch/version.py agree
on it. The same inputs give the same bytes. `flydsl_provenance.json` in the dist-info folder says what it was made from,
with a hash of every patched file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from build_scripts import record
from build_scripts.apply import HunkReport, apply_series
from build_scripts.digest import file_sha256
from build_scripts.errors import WHEEL_AGAIN, BuildError, run_main
from build_scripts.lay import check_overlay, overlay_sha256, read_overlay
from build_scripts.layout import DIST, OVERLAY, PATCHES
from build_scripts.pins import Pins, read_pins
from build_scripts.series import read_series, series_sha256
from build_scripts.third_party import Version
from build_scripts.wheels import (
    PROVENANCE,
    Wheel,
    inspect,
    read_member,
    replace_version_line,
    require_pinned_base,
)
from build_scripts.zipcopy import ZipCopier

_METADATA_VERSION = re.compile(rb"^Version: .*$", re.MULTILINE)
_VERSION_MODULE = "torch/version.py"


@dataclass(frozen=True)
class Repacked:
    path: Path
    version: str
    hunks: list[HunkReport]
    overlay_files: int


def patched_version(base: Version, pins: Pins) -> str:
    local = f"{base.local}.{pins.local_suffix}" if base.local else pins.local_suffix
    return f"{base.public}+{local}"


def wheel_file_name(wheel: Wheel, version: str) -> str:
    return f"torch-{version}-{wheel.tags}.whl"


def final_name(wheel: Wheel, version: str, name: str) -> str:
    """A member's name in the patched wheel: the .dist-info folder, and .data where there is one, carry the version."""
    prefix = f"torch-{wheel.name_version}."
    return f"torch-{version}.{name.removeprefix(prefix)}" if name.startswith(prefix) else name


def provenance(wheel: Wheel, pins: Pins, patches: Path, overlay: Path, patched: dict[str, bytes]) -> dict[str, object]:
    """What a patched wheel was made from, and the hashes of its patched files; `check` computes it again."""
    return {
        "format": 1,
        "project_version": pins.project_version,
        "base": {"file": wheel.path.name, "version": wheel.version_text, "sha256": file_sha256(wheel.path)},
        **source_provenance(patches, overlay),
        "patched": {path: hashlib.sha256(content).hexdigest() for path, content in patched.items()},
    }


def source_provenance(patches: Path, overlay: Path) -> dict[str, object]:
    """The part that depends on this repository alone."""
    series = read_series(patches)
    files = read_overlay(overlay)
    return {
        "series": {"sha256": series_sha256(series), "patches": [patch.name for patch in series]},
        "overlay": {"sha256": overlay_sha256(files), "files": list(files)},
    }


def new_metadata(content: bytes, version: str) -> bytes:
    """METADATA with another version; the header ends at the first empty line."""
    header, separator, rest = content.partition(b"\n\n")
    header, count = _METADATA_VERSION.subn(f"Version: {version}".encode(), header)
    if count != 1:
        raise BuildError(f"METADATA has {count} lines 'Version:', expected one")
    return header + separator + rest


def new_contents(
    wheel: Wheel, archive: zipfile.ZipFile, version: str, pins: Pins, patches: Path, overlay: Path
) -> tuple[dict[str, bytes], list[HunkReport], int]:
    """New content by the member's name in the base, or by its final name where the base has no such member."""
    names = set(wheel.names)

    def read(path: str) -> bytes | None:
        return read_member(archive, path) if path in names else None

    patched, hunks = apply_series(read_series(patches), read)
    contents = dict(patched)
    if _VERSION_MODULE in contents:
        raise BuildError(f"the series touches {_VERSION_MODULE}, which repacking rewrites")
    files = read_overlay(overlay)
    check_overlay(files, names)
    contents |= files
    contents[_VERSION_MODULE] = replace_version_line(read_member(archive, _VERSION_MODULE), wheel.version_text, version)
    metadata = f"{wheel.dist_info}/METADATA"
    contents[metadata] = new_metadata(read_member(archive, metadata), version)
    text = json.dumps(provenance(wheel, pins, patches, overlay, patched), indent=1, sort_keys=True) + "\n"
    contents[f"{wheel.dist_info}/{PROVENANCE}"] = text.encode()
    return contents, hunks, len(files)


def repack(base: Path, out: Path, pins: Pins, *, patches: Path = PATCHES, overlay: Path = OVERLAY) -> Repacked:
    """Write the patched wheel into `out`. Nothing is written there unless all of it succeeds."""
    wheel = inspect(base)
    require_pinned_base(wheel, pins)
    version = patched_version(wheel.version, pins)
    record_name = f"{wheel.dist_info}/RECORD"

    def final(name: str) -> str:
        return final_name(wheel, version, name)

    target = out / wheel_file_name(wheel, version)
    temporary = out / (target.name + ".partial")
    with base.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        contents, hunks, overlay_files = new_contents(wheel, archive, version, pins, patches, overlay)
        unchanged = {
            line.path: line
            for line in record.read(archive, record_name)
            if line.path not in contents and line.path != record_name
        }
        known = {*unchanged, *contents, record_name}
        missing = [name for name in wheel.names if not name.endswith("/") and name not in known]
        if missing:
            raise BuildError(
                f"{base.name}: RECORD does not list {', '.join(missing[:3])}: the wheel is damaged; {WHEEL_AGAIN}"
            )
        template = archive.getinfo(f"{wheel.dist_info}/METADATA")
        lines = []
        try:
            out.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise BuildError(f"--out {out} is or lies under a file: name a folder for the wheel") from error
        try:
            with ZipCopier(archive, stream, temporary) as copier:
                for info in archive.infolist():
                    name = info.filename
                    if name == record_name:
                        continue
                    if name in contents:
                        copier.write(final(name), contents[name], info)
                        lines.append(record.line_of(final(name), contents.pop(name)))
                    else:
                        copier.copy(info, final(name))
                        if name in unchanged:
                            lines.append(unchanged[name]._replace(path=final(name)))
                for name, content in contents.items():
                    copier.write(final(name), content, template)
                    lines.append(record.line_of(final(name), content))
                lines.append(record.Line(final(record_name), "", ""))
                copier.write(final(record_name), record.render(lines).encode(), template)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    return Repacked(target, version, hunks, overlay_files)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Make the patched wheel from a base wheel on disk.")
    parser.add_argument("wheel", type=Path, help="the base wheel")
    parser.add_argument("--out", type=Path, default=DIST, help="the folder for the patched wheel (default: dist/)")
    args = parser.parse_args(argv)

    def body() -> int:
        print(repack(args.wheel, args.out, read_pins()).path)
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
