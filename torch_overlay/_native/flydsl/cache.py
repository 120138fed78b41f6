"""In-process cache of compiled kernels, by explicit keys.

A key is a tuple of plain values: it is equal in every process, and never holds an object whose text is its address.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


def _canonical(value: object) -> str:
    # bool before int: True and 1 are different keys.
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, tuple):
        return "(" + ",".join(_canonical(item) for item in value) + ")"
    raise TypeError(
        f"a cache key holds None, bool, int, float, str, bytes and tuples, not {type(value).__name__}: {value!r}"
    )


def key_digest(key: tuple[object, ...]) -> str:
    """A short name for a key, the same in every process."""
    return hashlib.sha256(_canonical(key).encode()).hexdigest()[:32]


def source_digest(paths: Iterable[Path]) -> str:
    """Digest of source files by name and content: in a key, so that no disk cache serves an edited kernel."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        data = path.read_bytes()
        digest.update(f"{path.name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:32]


@dataclasses.dataclass(frozen=True)
class CacheInfo:
    hits: int
    misses: int
    size: int


class KernelCache(Generic[T]):
    """Builds each key's value once. Threads that want the same key wait for one build; other keys build meanwhile.

    A build that raises leaves nothing behind: the next caller tries again.
    """

    def __init__(self) -> None:
        self._values: dict[Hashable, T] = {}
        self._locks: dict[Hashable, threading.Lock] = {}
        self._lock = threading.Lock()
        self._hits = 0
        self._misses = 0

    def get_or_build(self, key: tuple[object, ...], build: Callable[[], T]) -> T:
        value = self._values.get(key)  # no lock on the warm path: a dict read is atomic
        if value is not None:
            self._hits += 1
            return value
        _canonical(key)
        with self._lock:
            key_lock = self._locks.setdefault(key, threading.Lock())
        with key_lock:
            value = self._values.get(key)
            if value is not None:
                self._hits += 1
                return value
            self._misses += 1
            value = build()
            with self._lock:
                self._values[key] = value
            return value

    def peek(self, key: tuple[object, ...]) -> T | None:
        """The key's value if it has been built; counts nothing."""
        return self._values.get(key)

    def values(self) -> list[T]:
        """What has been built so far."""
        with self._lock:
            return list(self._values.values())

    def info(self) -> CacheInfo:
        return CacheInfo(self._hits, self._misses, len(self._values))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._locks.clear()
            self._hits = self._misses = 0
