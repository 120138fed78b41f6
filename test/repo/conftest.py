"""The real wheels, where test/run.sh has set them up."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_scripts.check import newest_wheel
from build_scripts.fetch import fetch
from build_scripts.pins import read_pins


@pytest.fixture(scope="session")
def base_wheel() -> Path:
    return fetch(None, None, read_pins())


@pytest.fixture(scope="session")
def built_wheel() -> Path:
    wheel = newest_wheel()
    if wheel is None:
        pytest.fail("dist/ holds no patched wheel: run test/run.sh, which builds it")
    return wheel
