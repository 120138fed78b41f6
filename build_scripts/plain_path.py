"""Which paths may come out of a patch or a wheel: those that stay in the folder they are joined to."""

from __future__ import annotations


def path_problem(path: str) -> str | None:
    """Why `path` could lead out of its folder, or name one file in two ways; None for a plain relative path."""
    parts = path.split("/")
    if path.startswith("/") or parts[0].endswith(":"):
        return "is an absolute path"
    if ".." in parts:
        return "leads out of its folder with '..'"
    if "" in parts or "." in parts:
        return "has an empty part or '.' in its path"
    if "\\" in path or "\0" in path:
        return "has a backslash or a zero byte in its path"
    return None
