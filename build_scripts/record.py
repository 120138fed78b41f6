"""A wheel's RECORD: one line per member with its hash and size."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections import Counter
from collections.abc import Iterable
from typing import IO, NamedTuple

_BLOCK = 1 << 20


class Line(NamedTuple):
    path: str
    digest: str  # "sha256=..." or empty
    size: str


def parse(text: str) -> list[Line]:
    return [
        Line(*row) if len(row) == 3 else Line(row[0], "malformed", "") for row in csv.reader(io.StringIO(text)) if row
    ]


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
    lines = parse(archive.read(record).decode("utf-8"))
    listed = Counter(line.path for line in lines)
    found = [f"{record} lists {path} {count} times" for path, count in listed.items() if count > 1]
    members = Counter(info.filename for info in archive.infolist() if not info.is_dir())
    found += [f"the wheel holds {name} {count} times" for name, count in members.items() if count > 1]
    found += [f"{record} does not list {name}" for name in members if name not in listed]
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
            except zipfile.BadZipFile as error:
                found.append(f"{line.path} cannot be read: {error}")
                continue
            if actual != line:
                found.append(
                    f"{line.path}: {record} says {line.digest} and {line.size} bytes, "
                    f"the content has {actual.digest} and {actual.size} bytes"
                )
    return found
