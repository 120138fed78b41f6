"""The patched wheel as it is installed here."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import sysconfig

from packaging.utils import canonicalize_name

from build_scripts.lay import read_overlay
from build_scripts.layout import REPO
from build_scripts.pins import read_pins


def in_a_new_process(code: str) -> str:
    # -I: no PYTHONPATH and no folder of this repository on sys.path; and torch as it is without the emulator.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GFX950_")}
    command = [sys.executable, "-I", "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return result.stdout.strip()


def test_import_torch_does_not_import_flydsl() -> None:
    assert importlib.metadata.version("flydsl")  # it could be imported
    code = "import sys, torch; print([name for name in sys.modules if name.split('.')[0] == 'flydsl'])"
    assert in_a_new_process(code) == "[]"


def test_import_torch_does_not_import_the_inductor_part() -> None:
    code = "import sys, torch; print([name for name in sys.modules if name.startswith('torch._inductor')])"
    assert in_a_new_process(code) == "[]"


def test_versions_agree() -> None:
    version = importlib.metadata.version("torch")
    assert version.endswith(read_pins().local_suffix)
    assert in_a_new_process("import torch; print(torch.__version__)") == version


def test_provenance_is_installed() -> None:
    text = importlib.metadata.distribution("torch").read_text("flydsl_provenance.json")
    assert text is not None
    assert json.loads(text)["base"]["version"].startswith(read_pins().base)


def test_the_overlay_is_installed() -> None:
    distribution = importlib.metadata.distribution("torch")
    files = {str(path) for path in distribution.files or []}
    assert set(read_overlay()) <= files


def test_everything_installed_is_pinned() -> None:
    pinned = set()
    for path in REPO.glob("requirements*.txt"):
        lines = [line for line in path.read_text().splitlines() if "==" in line]
        pinned |= {(canonicalize_name(name), version) for name, version in (line.split("==") for line in lines)}
    pinned |= {(canonicalize_name(name), version) for name, version in read_pins().runtime.items()}
    ours = {"pip", "torch", "gfx950-emulator"}
    # Only the environment's own folder: setuptools puts the packages it bundles on sys.path.
    distributions = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    installed = {(canonicalize_name(each.name), each.version) for each in distributions}
    assert {each for each in installed if each[0] not in ours} - pinned == set()
