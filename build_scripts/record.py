"""A wheel's RECORD: one line per member with its hash and size."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO, NamedTuple

from build_scripts.errors import WHEEL_AGAIN, BuildError
from build_scripts.wheels import name_problems, read_member

_BLOCK = 1 << 20


class Line(NamedTuple):
    path: str
    digest: str  # "sha256=..." or empty
    size: str


def parse(text: str) -> list[Line]:
    return [
        Line(*row) if len(row) == 3 else Line(row[0], "malformed", "") for row in csv.reader(io.StringIO(text)) if row
    ]


def read(archive: zipfile.ZipFile, record: str) -> list[Line]:
    """The lines of the wheel's member `record`. Raises BuildError where there is none, or it is no RECORD."""
    try:
        return parse(read_member(archive, record).decode("utf-8"))
    except (UnicodeDecodeError, csv.Error) as error:
        shown = Path(archive.filename or "the wheel").name
        raise BuildError(f"{shown}: {record} cannot be read ({error}): the wheel is damaged; {WHEEL_AGAIN}") from error


def render(lines: Iterable[Line]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


def _digest_text(raw: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def line_of(path: str, content: bytes) -> Line:
    return Line(path, _digest_text(hashlib.sha256(content).digest()), str(len(content)))


def _line_of_stream(path: str, stream: IO[bytes]) -> Line:
    digest = hashlib.sha256()
    size = 0
    while block := stream.read(_BLOCK):
        digest.update(block)
        size += len(block)
    return Line(path, _digest_text(digest.digest()), str(size))


def problems(archive: zipfile.ZipFile, record: str) -> list[str]:
    """Every line of `record` that is not true, and every member that it does not list. Reads the whole wheel."""
    lines = read(archive, record)
    listed = Counter(line.path for line in lines)
    found = [f"{record} lists {path} {count} times" for path, count in listed.items() if count > 1]
    members = {info.filename for info in archive.infolist() if not info.is_dir()}
    found += name_problems(archive.namelist())
    found += [f"{record} does not list {name}" for name in sorted(members - set(listed))]
    for line in lines:
        if line.path not in members:
            found.append(f"{record} lists {line.path}, which the wheel does not hold")
        elif line.path == record:
            if line.digest or line.size:
                found.append(f"{record} gives itself a hash or a size")
        else:
            try:
                with archive.open(line.path) as stream:
                    actual = _line_of_stream(line.path, stream)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                found.append(f"{line.path} cannot be read: {error}")
                continue
            if actual != line:
                found.append(
                    f"{line.path}: {record} says {line.digest} and {line.size} bytes, "
                    f"the content has {actual.digest} and {actual.size} bytes"
                )
    return found
