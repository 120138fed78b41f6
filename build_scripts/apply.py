"""Apply the series to files of a base.

    python -m build_scripts.apply --target DIR [--fuzz N]

DIR holds `torch/`. Positions may shift, as with `git apply`; context must match exactly, unless --fuzz N lets up to N
lines at the outside of a hunk's context differ, as `patch -F N` does. Everything is applied in memory first: when a
hunk fails, nothing is written.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from build_scripts.errors import BuildError, run_main
from build_scripts.layout import PATCHES
from build_scripts.plain_path import path_problem
from build_scripts.series import Patch, read_series, require_sound
from build_scripts.third_party import Hunk, Line

# Reads a file of the base by its path in the wheel ("torch/..."); None if there is no such file.
Reader = Callable[[str], bytes | None]
_COLUMN = 76


@dataclass(frozen=True)
class HunkReport:
    """Where a hunk went in: how many lines off its stated position, and with how much fuzz."""

    patch: str
    path: str
    hunk: int
    line: int
    offset: int
    fuzz: int

    def __str__(self) -> str:
        moved = f", offset {self.offset:+d}" if self.offset else ""
        fuzzy = f", fuzz {self.fuzz}" if self.fuzz else ""
        return f"patches/{self.patch}: hunk {self.hunk} of {self.path} at line {self.line}{moved}{fuzzy}"


def _context_around(hunk: Hunk) -> tuple[int, int]:
    """How many context lines lead and trail the hunk."""
    kinds = [line.is_context for line in hunk]
    leading = kinds.index(False) if False in kinds else len(kinds)
    trailing = kinds[::-1].index(False) if False in kinds else 0
    return leading, trailing


def _find(lines: Sequence[str], wanted: Sequence[str], guess: int, allowed: range) -> int | None:
    """The allowed position nearest to `guess` at which `wanted` stands in `lines`."""
    for position in sorted(allowed, key=lambda position: (abs(position - guess), -position)):
        if lines[position : position + len(wanted)] == wanted:
            return position
    return None


def _columns(want: str, found: str) -> tuple[str, str]:
    """Both lines as the table shows them: a difference that a plain print hides is spelled out and moved into view."""
    plain = [text.rstrip("\n").expandtabs() for text in (want, found)]
    if want == found or plain[0][:_COLUMN].rstrip() != plain[1][:_COLUMN].rstrip():
        return plain[0][:_COLUMN], plain[1][:_COLUMN]
    # White space at the end, a carriage return, no newline at the end of the file, or a place beyond the column.
    left, right = repr(want), repr(found)
    first = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, first - _COLUMN // 2) if max(len(left), len(right)) > _COLUMN else 0
    return left[start : start + _COLUMN], right[start : start + _COLUMN]


def _failure(
    patch: str, path: str, number: int, wanted: Sequence[str], lines: Sequence[str], guess: int, fuzz: int
) -> str:
    """The expected and found lines side by side, at the place of the file that is most like the hunk."""

    def likeness(position: int) -> tuple[int, int]:
        found = lines[position : position + len(wanted)]
        equal = sum(a == b for a, b in zip(wanted, found, strict=False))
        return equal, -abs(position - guess)

    place = max(range(max(1, len(lines) - len(wanted) + 1)), key=likeness)
    rows = []
    for index, want in enumerate(wanted):
        found = lines[place + index] if place + index < len(lines) else "<end of file>\n"
        mark = " " if found == want else "!"
        left, right = _columns(want, found)
        rows.append(f"  {place + index + 1:>6} {mark} {left:<{_COLUMN}} | {right}".rstrip())
    heading = f"  {'line':>6}   {'expected':<{_COLUMN}} | found"
    return (
        f"patches/{patch}: hunk {number} of {path} does not apply (fuzz {fuzz}, whole file searched)\n"
        + "\n".join([heading, *rows])
        + "\nnothing was written; rebase the series in a checkout of this base (patches/README.md) and export it"
    )


def apply_hunks(patch: str, path: str, text: str, hunks: Sequence[Hunk], fuzz: int) -> tuple[str, list[HunkReport]]:
    """Apply one file's hunks in order. Raises BuildError with both sides of the first hunk that does not fit."""
    lines = list(io.StringIO(text))  # lines end in \n alone, as in the diff: a form feed is part of a line
    reports = []
    shift = 0  # lines added so far, and how far the last hunk was off
    done = 0  # the line after the last hunk; hunks are in order
    for number, hunk in enumerate(hunks, start=1):
        before = [line.value for line in hunk if line.is_context or line.is_removed]
        after = [line.value for line in hunk if line.is_context or line.is_added]
        leading, trailing = _context_around(hunk)
        stated = max(hunk.source_start - 1, 0)
        context = max(leading, trailing)
        for level in range(fuzz + 1):
            # As in patch(1): fuzz first eats the longer side, and a hunk at a file's edge keeps its anchor until both
            # sides are even; lines dropped at the head must still lie within the file. Without fuzz, as in git: the
            # first line of a file, and a hunk with nothing after it, are anchors.
            skip_head = max(0, level + leading - context)
            skip_tail = max(0, level + trailing - context)
            if skip_head > leading or skip_tail > trailing:
                continue
            wanted = before[skip_head : len(before) - skip_tail]
            start, end = max(skip_head, done), len(lines) - len(wanted)
            at_start = hunk.source_start <= 1 if fuzz == 0 else level + leading < context
            at_end = trailing == 0 if fuzz == 0 else level + trailing < context
            allowed = range(end if at_end else start, (start if at_start else end) + 1)
            position = _find(lines, wanted, stated + shift + skip_head, allowed)
            if position is not None:
                break
        else:
            raise BuildError(_failure(patch, path, number, before, lines, stated + shift, fuzz))
        replacement = after[skip_head : len(after) - skip_tail]
        lines[position : position + len(wanted)] = replacement
        offset = position - (stated + shift + skip_head)
        shift += offset + len(replacement) - len(wanted)
        done = position + len(replacement)
        reports.append(HunkReport(patch, path, number, position + 1, offset, level))
    return "".join(lines), reports


def apply_series(patches: Sequence[Patch], read: Reader, fuzz: int = 0) -> tuple[dict[str, bytes], list[HunkReport]]:
    """The new contents of every file that the series touches; the base itself is left alone."""
    require_sound(patches)
    changed: dict[str, bytes] = {}
    reports: list[HunkReport] = []
    for patch in patches:
        for file in patch.files:
            content = changed.get(file.path)
            if content is None:
                content = read(file.path)
            if content is None:
                raise BuildError(
                    f"patches/{patch.name}: the base has no {file.path}; a new file belongs in torch_overlay/"
                )
            try:
                before = content.decode("utf-8")
            except UnicodeDecodeError as error:
                raise BuildError(f"patches/{patch.name}: {file.path} of the base is not UTF-8: {error}") from error
            text, hunk_reports = apply_hunks(patch.name, file.path, before, list(file), fuzz)
            changed[file.path] = text.encode("utf-8")
            reports += hunk_reports
    return changed, reports


def _reversed_hunk(hunk: Hunk) -> Hunk:
    """The hunk that takes this one back."""
    back = Hunk(hunk.target_start, hunk.target_length, hunk.source_start, hunk.source_length)
    for line in hunk:
        back.append(Line(line.value, {"+": "-", "-": "+"}.get(line.line_type, line.line_type)))
    return back


def unapplied_problems(patches: Sequence[Patch], read: Reader) -> list[str]:
    """What keeps the series from being taken back, the last patch first: files that do not hold its result."""
    contents: dict[str, bytes | None] = {}
    found = []
    for patch in reversed(patches):
        for file in reversed(patch.files):
            content = contents.get(file.path) or read(file.path)
            try:
                if content is None:
                    raise BuildError("missing")
                hunks = [_reversed_hunk(hunk) for hunk in file]
                text, _ = apply_hunks(patch.name, file.path, content.decode("utf-8"), hunks, 0)
                contents[file.path] = text.encode("utf-8")
            except (BuildError, UnicodeDecodeError):
                found.append(f"{file.path} does not hold what patches/{patch.name} puts there")
    return found


def directory_reader(root: Path) -> Reader:
    def read(path: str) -> bytes | None:
        file = root / path
        return file.read_bytes() if file.is_file() else None

    return read


def write_files(root: Path, files: dict[str, bytes]) -> None:
    """Put the files in place only once every one of them has been written beside its target.

    A path that leads out of `root` is refused, and nothing is written.
    """
    for path in files:
        if problem := path_problem(path):
            raise BuildError(f"{path} {problem}; expected a path below {root}, nothing was written")
    staged = []
    try:
        for path, content in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(target.name + ".flydsl-new")
            staged.append((temporary, target))
            temporary.write_bytes(content)
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
        for temporary, target in staged:
            temporary.replace(target)
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Apply the patch series to a directory that holds torch/.")
    parser.add_argument("--target", type=Path, required=True, help="the directory that holds torch/")
    parser.add_argument(
        "--fuzz", type=int, default=0, help="context lines that may differ at a hunk's outside (default 0)"
    )
    parser.add_argument("--patches", type=Path, default=PATCHES, help="the folder with the series (default: patches/)")
    args = parser.parse_args(argv)

    def body() -> int:
        if not (args.target / "torch").is_dir():
            raise BuildError(f"{args.target} holds no torch/ folder")
        changed, reports = apply_series(read_series(args.patches), directory_reader(args.target), args.fuzz)
        write_files(args.target, changed)
        for report in reports:
            print(report)
        print(f"{len(reports)} hunks in {len(changed)} files applied")
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
