"""Which base is asked for, a file or a version. Standard library only: the bootstrap asks before it installs."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from build_scripts.errors import WHEEL_AGAIN, BuildError
from build_scripts.pins import Pins

BASE_VARIABLE = "TORCH_BASE_WHEEL"
INDEX_VARIABLE = "TORCH_BASE_INDEX"
_VERSION = re.compile(r"(?P<public>\d+(\.\w+)*)(\+(?P<local>[A-Za-z0-9.]+))?")
_VERSION_LINE = re.compile(r"^__version__ = '([^'+]*)", re.MULTILINE)
# torch/version.py: `cuda: Optional[str] = '13.0'` in a CUDA build, `= None` in any other.
_DEVICE_LINE = re.compile(r"^(cuda|hip|rocm|xpu)\b[^=\n]*= *'([^']+)'", re.MULTILINE)


def named_file(asked: str, index: str | None) -> Path | None:
    """The wheel that `asked` is the path of; None where it is a version. Raises BuildError where it is no file."""
    path = Path(asked).expanduser()
    is_path = asked.endswith(".whl") or "/" in asked or (path.is_dir() and not _VERSION.fullmatch(asked))
    if not is_path:
        return None
    if index:
        raise BuildError(f"--index {index} goes with a version, but the base is the file {asked}")
    if path.is_dir():
        raise BuildError(f"the base {asked} is a directory; pass the path of a wheel's file, torch-....whl")
    if not path.is_file():
        raise BuildError(f"there is no wheel {path}")
    return path


def require_pinned_version(asked: str, pins: Pins) -> str:
    """The local part of a version of the pinned release, or an empty text."""
    match = _VERSION.fullmatch(asked)
    if match is None:
        raise BuildError(f"--base {asked!r} is neither a wheel's path nor a version such as {pins.default_base}")
    if match["public"] != pins.base:
        raise BuildError(
            f"--base {asked}: the series is pinned to {pins.base} (build_scripts/pins.toml); pass a build of torch "
            f"{pins.base}"
        )
    return match["local"] or ""


def require_cpu_build(asked: str, index: str | None, pins: Pins) -> None:
    """Refuse, before anything is fetched or installed, a base beside which the emulated gfx950 cannot run."""
    path = named_file(asked, index)
    if path is None:
        local = require_pinned_version(asked, pins)
        device = "" if local.startswith("cpu") else f"the build {local!r}" if local else "whatever build pip prefers"
    else:
        device = _device_of(path, pins)
    if device:
        raise BuildError(
            f"the base {asked} is {device}, but the emulated gfx950 that is set up beside it needs a CPU build: pass "
            f"--base {pins.default_base}, or a wheel of that build with --base FILE or {BASE_VARIABLE}=FILE. To patch "
            f"this one without installing it, set up with the CPU build, then run `.venv/bin/python -m "
            f"build_scripts.build_wheel --base {asked}`"
        )


def _device_of(path: Path, pins: Pins) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read("torch/version.py").decode("utf-8", errors="replace")
    except zipfile.BadZipFile as error:
        raise BuildError(f"{path} is damaged ({error}): {WHEEL_AGAIN}") from error
    except KeyError as error:
        raise BuildError(f"{path} is no wheel of torch: it has no torch/version.py") from error
    version = _VERSION_LINE.search(text)
    if version is None or version[1] != pins.base:
        raise BuildError(
            f"{path.name} is torch {version[1] if version else '(no version)'}, but the series is pinned to "
            f"{pins.base} (build_scripts/pins.toml); pass a wheel of torch {pins.base}"
        )
    found = _DEVICE_LINE.search(text)
    return f"a build for {found[1]} {found[2]}" if found else ""
