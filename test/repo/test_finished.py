"""A finished wheel that was changed after the build, or damaged: found, and said in one line."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from build_scripts import check, finished, record
from build_scripts.pins import read_pins
from build_scripts.repack import repack
from repo.fake_wheel import BASE, FILES, make_wheel

PINS = read_pins()
FIXTURES = Path(__file__).parent / "fixtures"
PATCHES = FIXTURES / "series" / "ok_two_patches"
OVERLAY = FIXTURES / "overlay" / "ok_new_package"
INFO = f"torch-{BASE}+cpu.flydsl{PINS.series}.dist-info"
RECORD = f"{INFO}/RECORD"
PROVENANCE = f"{INFO}/flydsl_provenance.json"
CONFIG = "torch/_inductor/config.py"
MORE_FIELDS = b"Tag: cp311-cp311-manylinux_2_28_x86_64-more\n"
Members = dict[str, bytes]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return make_wheel(tmp_path)


@pytest.fixture
def wheel(base: Path, tmp_path: Path) -> Path:
    return repack(base, tmp_path / "out", PINS, patches=PATCHES, overlay=OVERLAY).path


def problems(path: Path, base: Path | None = None) -> list[str]:
    return finished.wheel_problems(path, PINS, patches=PATCHES, overlay=OVERLAY, base=base)


def edit(path: Path, change: Callable[[Members], object], fix_record: bool = True) -> None:
    """Change members, and make RECORD true again, as somebody who wants to hide the change would."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if fix_record:
        lines = [record.line_of(name, content) for name, content in members.items() if name != RECORD]
        members[RECORD] = record.render([*lines, record.Line(RECORD, "", "")]).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def set_patched(members: Members, path: str, content: bytes) -> None:
    """The file and its hash in the provenance."""
    members[path] = content
    told = json.loads(members[PROVENANCE])
    told["patched"][path] = hashlib.sha256(content).hexdigest()
    members[PROVENANCE] = json.dumps(told, indent=1, sort_keys=True).encode() + b"\n"


def test_ok_wheel(wheel: Path, base: Path) -> None:
    assert problems(wheel) == []
    assert problems(wheel, base) == []
    edit(wheel, lambda members: None)  # rewritten, but the same
    assert problems(wheel, base) == []


def test_bad_overlay_file(wheel: Path) -> None:
    edit(wheel, lambda members: members.update({"torch/_native/flydsl/target.py": b"EVIL = 1\n"}))
    assert ["target.py differs from the overlay's file" in text for text in problems(wheel)] == [True]


def test_bad_overlay_file_missing(wheel: Path) -> None:
    edit(wheel, lambda members: members.pop("torch/_native/flydsl/target.py"))
    assert ["target.py of the overlay is missing" in text for text in problems(wheel)] == [True]


def test_bad_patched_file_beside_the_hunk(wheel: Path) -> None:
    """The hunk is still there, so the hash alone tells."""
    edit(wheel, lambda members: members.update({CONFIG: members[CONFIG] + b"evil = 1\n"}))
    assert ["has another content than when it was patched" in text for text in problems(wheel)] == [True]


def test_bad_patched_file_reverted_with_its_hash(wheel: Path) -> None:
    """The hash agrees, so that the series cannot be taken back tells."""
    edit(wheel, lambda members: set_patched(members, CONFIG, FILES[CONFIG].encode()))
    found = problems(wheel)
    assert len(found) == 1
    assert f"{CONFIG} does not hold what patches/config-add-flydsl-option.patch puts there" in found[0]


def test_bad_provenance_without_a_hash(wheel: Path) -> None:
    def forget(members: Members) -> None:
        told = json.loads(members[PROVENANCE])
        del told["patched"][CONFIG]
        members[PROVENANCE] = json.dumps(told).encode()

    edit(wheel, forget)
    assert [f"has no hash of {CONFIG}" in text for text in problems(wheel)] == [True]


def test_bad_name_without_the_local_version(wheel: Path) -> None:
    """A base's name may leave it out; a finished wheel installed like that would pass for the published one."""

    def shorten(members: Members) -> None:
        for name in [name for name in members if name.startswith(f"{INFO}/") and name != RECORD]:
            long = f"Version: {BASE}+cpu.flydsl{PINS.series}\n"
            content = members.pop(name).replace(long.encode(), f"Version: {BASE}\n".encode())
            members[name.replace(INFO, f"torch-{BASE}.dist-info")] = content
        del members[RECORD]
        lines = [record.line_of(name, content) for name, content in members.items()]
        own = f"torch-{BASE}.dist-info/RECORD"
        members[own] = record.render([*lines, record.Line(own, "", "")]).encode()

    edit(wheel, shorten, fix_record=False)
    short = wheel.rename(wheel.with_name(f"torch-{BASE}-cp311-cp311-manylinux_2_28_x86_64.whl"))
    assert ["which a finished wheel's name says too" in text for text in problems(short)] == [True]


def test_bad_patched_file_missing(wheel: Path) -> None:
    edit(wheel, lambda members: members.pop(CONFIG))
    assert any(f"{CONFIG} of the series is missing" in text for text in problems(wheel))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: set_patched(m, CONFIG, m[CONFIG] + b"evil = 1\n"), f"{CONFIG} is not what"),
        (lambda m: m.update({"torch/__init__.py": b"evil = 1\n"}), "torch/__init__.py differs from"),
        (lambda m: m.update({"torch/evil.py": b"evil = 1\n"}), "torch/evil.py is neither in"),
        (lambda m: m.pop("torch/lib/libtorch.so"), "torch/lib/libtorch.so is missing"),
        (
            lambda m: m.update({"torch/version.py": m["torch/version.py"] + b"evil = 1\n"}),
            "torch/version.py is not what",
        ),
    ],
)
def test_bad_member_that_only_the_base_tells(
    change: Callable[[Members], object], message: str, wheel: Path, base: Path
) -> None:
    edit(wheel, change)
    assert problems(wheel) == []
    assert any(message in text for text in problems(wheel, base))


def test_the_base_is_found_by_name_and_hash(
    wheel: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_BASE_WHEEL", raising=False)
    kept = tmp_path / "cache" / "base" / "x" / base.name
    kept.parent.mkdir(parents=True)
    assert finished.base_of(wheel, tmp_path / "cache") is None
    kept.write_bytes(base.read_bytes() + b"x")
    assert finished.base_of(wheel, tmp_path / "cache") is None
    kept.write_bytes(base.read_bytes())
    assert finished.base_of(wheel, tmp_path / "cache") == kept
    monkeypatch.setenv("TORCH_BASE_WHEEL", str(base))
    assert finished.base_of(wheel, tmp_path / "cache") == base


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop(RECORD), f"has no {RECORD}"),
        (lambda m: m.update({RECORD: b"\xff\xfe" + m[RECORD]}), f"{RECORD} cannot be read"),
        (lambda m: m.update({RECORD: m[RECORD] + b"x\ry,,\n"}), f"{RECORD} cannot be read"),
        (lambda m: m.pop(f"{INFO}/METADATA"), "METADATA (missing)"),
        (lambda m: m.pop("torch/version.py"), "torch/version.py (missing)"),
        (lambda m: m.update({"torch/version.py": b"__version__ = '\xff'\n"}), "versions differ"),
    ],
)
def test_bad_damaged_wheel_is_one_line(change: Callable[[Members], object], message: str, wheel: Path) -> None:
    edit(wheel, change, fix_record=False)
    assert_one_line(wheel, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.pop(f"{INFO}/WHEEL"), f"has no {INFO}/WHEEL"),
        (lambda m: m.update({f"{INFO}/WHEEL": b"Tag: x\nTag: a-b-c-d\n"}), "the WHEEL file has the tags"),
        (lambda m: m.update({f"{INFO}/WHEEL": m[f"{INFO}/WHEEL"] + MORE_FIELDS}), "the WHEEL file has the tags"),
        (lambda m: m.update({f"{INFO}/WHEEL": b""}), "the WHEEL file has the tags []"),
        (lambda m: m.pop(PROVENANCE), "not a patched wheel"),
        (lambda m: m.update({PROVENANCE: b"{"}), "flydsl_provenance.json is not JSON"),
        (lambda m: m.update({PROVENANCE: b"\xff"}), "flydsl_provenance.json is not JSON"),
        (lambda m: m.update({PROVENANCE: b"[]"}), "flydsl_provenance.json holds a list, expected an object"),
        (lambda m: m.update({PROVENANCE: b'{"base": 1, "patched": 2}'}), "differs from this repository in 'series'"),
    ],
)
def test_bad_metadata_with_a_true_record(change: Callable[[Members], object], message: str, wheel: Path) -> None:
    edit(wheel, change)
    assert_one_line(wheel, message)


def assert_one_line(wheel: Path, message: str) -> None:
    found = [text for text in problems(wheel) if message in text]
    assert len(found) == 1, problems(wheel)
    assert wheel.name in found[0]
    assert "\n" not in found[0]


@pytest.mark.parametrize("cut", [-50, 100, 0])
def test_bad_truncated_wheel(cut: int, wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel.write_bytes(wheel.read_bytes()[:cut])
    assert_one_line(wheel, "is damaged")
    assert check.main(["wheel", "--wheel", str(wheel)]) == 1
    assert "is damaged" in capsys.readouterr().err


def test_bad_compressed_bytes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo(CONFIG)
    content = bytearray(wheel.read_bytes())
    start = info.header_offset + 30 + len(CONFIG)
    content[start : start + info.compress_size] = b"\xff" * info.compress_size
    wheel.write_bytes(content)
    assert any(f"{CONFIG} cannot be read" in text for text in problems(wheel))
