"""A torch wheel of a few files, so that the tools are tested in milliseconds."""

from __future__ import annotations

import zipfile
from pathlib import Path

from build_scripts import record
from build_scripts.pins import read_pins

BASE = read_pins().base

CONFIG = "".join(f"option_{number} = {number}\n" for number in range(1, 31))
FILES = {
    "torch/__init__.py": "from .version import __version__\n",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/codegen/__init__.py": "",
    "torch/_inductor/config.py": CONFIG,
    "torch/_native/__init__.py": "def load():\n    return 1\n",
    "torch/lib/libtorch.so": "\x7fELF not really " * 64,
}


def make_wheel(
    folder: Path,
    version: str = f"{BASE}+cpu",
    *,
    tags: str = "cp311-cp311-manylinux_2_28_x86_64",
    more: dict[str, str] | None = None,
    module_version: str | None = None,
    metadata_version: str | None = None,
) -> Path:
    """Write a wheel whose parts agree unless a test asks for a disagreement."""
    info = f"torch-{version}.dist-info"
    members = {
        **FILES,
        "torch/version.py": f"__version__ = '{module_version or version}'\ncuda = None\n",
        **(more or {}),
        f"{info}/METADATA": f"Metadata-Version: 2.4\nName: torch\nVersion: {metadata_version or version}\n"
        "Requires-Dist: filelock\n\nVersion: this line is the description's\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in [tags]),
    }
    path = folder / f"torch-{version}-{tags}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        lines = []
        for name, text in members.items():
            entry = zipfile.ZipInfo(name, (2026, 7, 3, 22, 22, 54))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, text)
            lines.append(record.line_of(name, text.encode()))
        lines.append(record.Line(f"{info}/RECORD", "", ""))
        archive.writestr(f"{info}/RECORD", record.render(lines))
    return path
