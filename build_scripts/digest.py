"""Hashes that name an input of the build. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def named_sha256(items: Iterable[tuple[str, bytes]]) -> str:
    """One hash of (name, content) pairs in the order given; neither names nor contents can run into each other."""
    total = hashlib.sha256()
    for name, content in items:
        total.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return total.hexdigest()
