"""GFX950_CHECK=1: each kind of hazard is found in a kernel that has it, and not in the same kernel repaired."""

from __future__ import annotations

import re

import hazard_kernels
import pytest
from core_library import CoreError
from hazard_kernels import FIX, HARMLESS, PAIRS, Pair, kernel, launch

SCHEDULES = ("run_to_barrier", "round_robin")


@pytest.fixture(params=SCHEDULES, autouse=True)
def schedule(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GFX950_SCHEDULE", request.param)
    monkeypatch.setenv("GFX950_CHECK", "1")
    return request.param


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_bad_is_found(pair: Pair) -> None:
    with pytest.raises(CoreError, match=rf"^hazard: .*\[({pair.kind})\]") as caught:
        launch(hazard_kernels.bad(pair))
    if pair.needs:
        caught.match(pair.needs)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_repaired_is_not(pair: Pair) -> None:
    launch(hazard_kernels.repaired(pair))


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_is_not(name: str) -> None:
    launch(kernel(HARMLESS[name]))


def test_off_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GFX950_CHECK")
    launch(kernel(PAIRS[0].text.replace(FIX, "")))


def test_message_names_both_instructions() -> None:
    pair = next(pair for pair in PAIRS if pair.name == "two_writers")
    with pytest.raises(CoreError) as caught:
        launch(kernel(pair.text.replace(FIX, "")))
    pattern = (
        r"kernel 'kernel', workgroup \(0, 0, 0\), wave ([01]), '(ds_write_b32 v[12], v8)' \(pc 0x[0-9a-f]+\): "
        r".* LDS byte \d+ \(lane \d+\), .*'(ds_write_b32 v[12], v8)' \(pc 0x[0-9a-f]+\) of wave ([01]); needs"
    )
    caught.match(pattern)
    found = re.search(pattern, str(caught.value))
    assert found is not None
    wave, text, other_text, other_wave = found.groups()
    assert wave != other_wave
    assert text != other_text


def test_uninitialised_reads_are_counted_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upper half of what the single wave reads was never written."""
    text = kernel("ds_write_b32 v1, v8\ns_waitcnt lgkmcnt(0)\nds_read2_b32 v[8:9], v1 offset0:0 offset1:64\n", waves=1)
    assert launch(text)["uninitialised_lds_reads"] == 64
    monkeypatch.setenv("GFX950_CHECK", "2")
    with pytest.raises(CoreError, match=r"hazard: .*\[uninitialised lds\] reads LDS byte 256 "):
        launch(text)
