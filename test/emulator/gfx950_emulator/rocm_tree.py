"""A directory laid out like a ROCm installation, with only what FlyDSL and Triton look for in one.

It holds links into installed packages, so it is made per environment, in the user's cache, at the first activation.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

_LINKER_MISSING = """#!/bin/sh
echo "gfx950 emulator: FlyDSL's last step needs a linker, which the package ziglang provides: pip install ziglang" >&2
exit 127
"""
_AGENTS = """#!/bin/sh
# One line per emulated device, as rocm_agent_enumerator prints them.
i=0
while [ "$i" -lt "${GFX950_DEVICES:-1}" ]; do echo gfx950; i=$((i + 1)); done
"""


def _find(relative: str) -> Path | None:
    """A file or directory of an installed package, found without importing the package."""
    for entry in sys.path:
        candidate = Path(entry or ".") / relative
        if candidate.exists():
            return candidate.resolve()
    return None


def decoder_library() -> Path | None:
    """AMD's LLVM with the gfx950 disassembler, from the package rocm-bindings-compiler."""
    return _find("rocm/bindings/llvm/libLLVM.so")


def _write_script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _fill(tree: Path, hip: Path, linker: Path | None, bitcode: Path | None) -> None:
    (tree / "lib").mkdir(parents=True)
    for name in ("libamdhip64.so", "libamdhip64.so.7"):
        (tree / "lib" / name).symlink_to(hip)
    script = f'#!/bin/sh\nexec "{linker}" ld.lld "$@"\n' if linker else _LINKER_MISSING
    _write_script(tree / "llvm" / "bin" / "ld.lld", script)
    _write_script(tree / "bin" / "rocm_agent_enumerator", _AGENTS)
    if bitcode:
        (tree / "amdgcn").mkdir()
        (tree / "amdgcn" / "bitcode").symlink_to(bitcode)


def _cache_root() -> Path:
    configured = os.environ.get("XDG_CACHE_HOME")
    root = Path(configured) if configured else Path.home() / ".cache"
    try:
        root.mkdir(parents=True, exist_ok=True)
        if os.access(root, os.W_OK):
            return root / "gfx950_emulator"
    except OSError:
        pass  # no home directory to write to: the temporary directory serves one user as well
    return Path(tempfile.gettempdir()) / f"gfx950_emulator-{os.getuid()}"


def ensure(hip: Path) -> Path:
    """The tree for this environment; made if it is not there."""
    linker, bitcode = _find("ziglang/zig"), _find("triton/backends/amd/lib")
    description = "\0".join(str(part) for part in (hip.resolve(), linker, bitcode, _LINKER_MISSING, _AGENTS))
    tree = _cache_root() / hashlib.sha256(description.encode()).hexdigest()[:16]
    if (tree / "lib" / "libamdhip64.so").exists():
        return tree
    tree.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=tree.parent))
    try:
        _fill(fresh, hip.resolve(), linker, bitcode)
        try:
            fresh.rename(tree)
        except OSError:  # another process was faster, or a broken tree is in the way
            if not (tree / "lib" / "libamdhip64.so").exists():
                shutil.rmtree(tree, ignore_errors=True)
                fresh.rename(tree)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return tree
