"""The patched wheel: versions, RECORD, provenance, equal bytes, and that a refusal writes nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import zipfile
from pathlib import Path

import pytest
from packaging.utils import parse_wheel_filename

from build_scripts import digest, finished, record, repack
from build_scripts.errors import BuildError
from build_scripts.pins import read_pins
from build_scripts.wheels import replace_version_line
from repo.fake_wheel import BASE, FILES, make_wheel

PINS = read_pins()
FIXTURES = Path(__file__).parent / "fixtures"
PATCHES = FIXTURES / "series" / "ok_two_patches"
OVERLAY = FIXTURES / "overlay" / "ok_new_package"


def make_patched(base: Path, out: Path, patches: Path = PATCHES, overlay: Path = OVERLAY) -> repack.Repacked:
    return repack.repack(base, out, PINS, patches=patches, overlay=overlay)


def problems_of(path: Path) -> list[str]:
    return finished.wheel_problems(path, PINS, patches=PATCHES, overlay=OVERLAY)


@pytest.fixture
def patched(tmp_path: Path) -> Path:
    return make_patched(make_wheel(tmp_path), tmp_path / "out").path


@pytest.mark.parametrize(
    ("base", "version"),
    [
        (f"{BASE}+cpu", f"{BASE}+cpu.flydsl{PINS.series}"),
        (f"{BASE}+rocm7.1", f"{BASE}+rocm7.1.flydsl{PINS.series}"),
        (BASE, f"{BASE}+flydsl{PINS.series}"),
    ],
)
def test_versions_agree(base: str, version: str, tmp_path: Path) -> None:
    path = make_patched(make_wheel(tmp_path, base), tmp_path / "out").path
    assert path.name == f"torch-{version}-cp311-cp311-manylinux_2_28_x86_64.whl"
    assert str(parse_wheel_filename(path.name)[1]) == version
    with zipfile.ZipFile(path) as archive:
        info = f"torch-{version}.dist-info"
        assert {name.split("/")[0] for name in archive.namelist()} == {"torch", info}
        metadata = archive.read(f"{info}/METADATA").decode()
        assert f"\nVersion: {version}\n" in metadata
        assert metadata.endswith("\nVersion: this line is the description's\n")
        assert archive.read("torch/version.py").decode() == f"__version__ = '{version}'\ncuda = None\n"
    assert problems_of(path) == []


def test_the_local_version_that_only_torch_knows(tmp_path: Path) -> None:
    """As published on the package index: 2.13.0 by its name and METADATA, 2.13.0+cu130 by torch/version.py."""
    base = make_wheel(tmp_path, BASE, module_version=f"{BASE}+cu130")
    result = make_patched(base, tmp_path / "out")
    version = f"{BASE}+cu130.flydsl{PINS.series}"
    assert result.version == version
    assert result.path.name == f"torch-{version}-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(result.path) as archive:
        assert {name.split("/")[0] for name in archive.namelist()} == {"torch", f"torch-{version}.dist-info"}
        assert f"\nVersion: {version}\n" in archive.read(f"torch-{version}.dist-info/METADATA").decode()
        assert archive.read("torch/version.py").decode().startswith(f"__version__ = '{version}'\n")
        told = json.loads(archive.read(f"torch-{version}.dist-info/flydsl_provenance.json"))
    assert told["base"]["version"] == f"{BASE}+cu130"
    assert problems_of(result.path) == []


def test_contents(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    path = make_patched(base, tmp_path / "out").path
    with zipfile.ZipFile(base) as before, zipfile.ZipFile(path) as after:
        config = before.read("torch/_inductor/config.py").decode()
        wanted = config.replace("option_10 = 10\n", "option_10 = 10\nflydsl_option = True\n")
        assert after.read("torch/_inductor/config.py").decode() == wanted
        assert after.read("torch/_native/flydsl/target.py") == b'ARCH = "gfx950"\n'
        assert "torch/_native/flydsl/README.md" not in after.namelist()
        # What does not change is byte for byte the same, and keeps its mode and date.
        library = "torch/lib/libtorch.so"
        assert after.read(library) == before.read(library)
        assert after.getinfo(library).external_attr == before.getinfo(library).external_attr
        assert stat.S_IMODE(after.getinfo(library).external_attr >> 16) == 0o755
        assert after.getinfo(library).date_time == before.getinfo(library).date_time
        assert after.namelist()[-1].endswith(".dist-info/RECORD")
        assert after.testzip() is None


def test_provenance(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    result = make_patched(base, tmp_path / "out")
    with zipfile.ZipFile(result.path) as archive:
        told = json.loads(archive.read(f"torch-{result.version}.dist-info/flydsl_provenance.json"))
    assert told["base"] == {"file": base.name, "version": f"{BASE}+cpu", "sha256": digest.file_sha256(base)}
    assert told["project_version"] == PINS.project_version
    assert told["series"]["patches"] == ["config-add-flydsl-option.patch", "native-load-the-flydsl-operators.patch"]
    assert told["overlay"]["files"] == [
        "torch/_inductor/codegen/flydsl_template.jinja",
        "torch/_native/flydsl/__init__.py",
        "torch/_native/flydsl/target.py",
    ]
    with zipfile.ZipFile(result.path) as archive:
        hashes = {path: hashlib.sha256(archive.read(path)).hexdigest() for path in told["patched"]}
    assert told["patched"] == hashes
    assert list(hashes) == ["torch/_inductor/config.py", "torch/_native/__init__.py"]


def test_same_inputs_same_bytes(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    first = make_patched(base, tmp_path / "first").path
    second = make_patched(base, tmp_path / "second").path
    assert first.read_bytes() == second.read_bytes()


def test_the_hashes_name_their_inputs(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    fewer = tmp_path / "patches"
    shutil.copytree(PATCHES, fewer)
    (fewer / "native-load-the-flydsl-operators.patch").unlink()
    (fewer / "series").write_text("config-add-flydsl-option.patch\n")
    other = make_patched(base, tmp_path / "one", patches=fewer).path
    problems = problems_of(other)
    assert len(problems) == 1
    assert "differs from this repository in 'series'" in problems[0]


def refused(base: Path, out: Path, **parts: Path) -> str:
    with pytest.raises(BuildError) as error:
        make_patched(base, out, **parts)
    assert not out.exists() or list(out.iterdir()) == []
    return str(error.value)


def test_refusals_write_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    base = make_wheel(tmp_path)
    assert "is already patched" in refused(make_patched(base, tmp_path / "first").path, out)
    assert "pinned to" in refused(make_wheel(tmp_path, "2.12.1+cpu"), out)
    own = make_wheel(tmp_path, f"{BASE}+own", more={"torch/_inductor/codegen/flydsl/__init__.py": ""})
    assert "ships a FlyDSL integration of its own" in refused(own, out)
    assert "the base has torch/_inductor/config.py too" in refused(
        base, out, overlay=FIXTURES / "overlay" / "bad_path_in_base"
    )
    other = make_wheel(tmp_path, f"{BASE}+other", more={"torch/_native/__init__.py": "def load():\n    return 2\n"})
    assert "hunk 1 of torch/_native/__init__.py does not apply" in refused(other, out)


@pytest.mark.parametrize("name", sorted(path.name for path in (FIXTURES / "series").glob("bad_*")))
def test_a_series_that_the_check_refuses_is_not_repacked(name: str, tmp_path: Path) -> None:
    series = FIXTURES / "series" / name
    # Files that these patches would fit are there, so that only the series' own check stands in the way.
    base = make_wheel(tmp_path, more={"setup/config.py": FILES["torch/_inductor/config.py"]})
    assert (series / "README.md").read_text().strip() in refused(base, tmp_path / "out", patches=series)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("../evil.py", "the member '../evil.py' leads out of its folder with '..'"),
        ("torch/../../evil.py", "the member 'torch/../../evil.py' leads out of its folder"),
        ("/abs.py", "the member '/abs.py' is an absolute path"),
        ("torch\\evil.py", "has a backslash"),
        ("torch/./evil.py", "has an empty part or '.'"),
    ],
)
def test_a_base_with_a_name_that_leads_out_is_refused(member: str, message: str, tmp_path: Path) -> None:
    base = make_wheel(tmp_path, more={member: "x = 1\n"})
    assert message in refused(base, tmp_path / "out")
    # The check of a finished wheel says so too, and so does reading RECORD alone.
    assert any(message in text for text in problems_of(base))
    with zipfile.ZipFile(base) as archive:
        assert any(message in text for text in record.problems(archive, f"torch-{BASE}+cpu.dist-info/RECORD"))


@pytest.mark.parametrize("below", ["", "folder"])
def test_out_that_is_a_file_is_refused(below: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(BuildError, match="is or lies under a file: name a folder"):
        make_patched(make_wheel(tmp_path), tmp_path / "out" / below)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_base_whose_record_is_short_is_refused(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    rewrite(base, f"torch-{BASE}+cpu.dist-info/RECORD", lambda text: text.split("\n", 1)[1])
    assert "does not list torch/__init__.py: the wheel is damaged" in refused(base, tmp_path / "out")


def test_a_base_that_ends_early_is_refused(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    with zipfile.ZipFile(base) as archive:
        offset = archive.getinfo("torch/lib/libtorch.so").header_offset
    damaged = bytearray(base.read_bytes())
    damaged[offset : offset + 4] = b"\0\0\0\0"
    base.write_bytes(damaged)
    assert "no local header of torch/lib/libtorch.so" in refused(base, tmp_path / "out")


def rewrite(path: Path, member: str, change: object) -> None:
    """Change one member of a wheel and nothing else, as an edit after the build would."""
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in members:
            text = change(content.decode()).encode() if info.filename == member else content  # type: ignore[operator]
            archive.writestr(info, text)


def test_record_problems_are_found(patched: Path) -> None:
    info = f"torch-{BASE}+cpu.flydsl{PINS.series}.dist-info"
    original = patched.read_bytes()

    def after(member: str, change: object) -> list[str]:
        patched.write_bytes(original)
        rewrite(patched, member, change)
        return problems_of(patched)

    assert any("torch/__init__.py" in text for text in after("torch/__init__.py", lambda text: text + "x = 1\n"))
    assert any("torch/__init__.py" in text for text in after("torch/__init__.py", lambda text: text.upper()))
    entry = f"{info}/RECORD"
    assert any("does not list" in text for text in after(entry, lambda text: text.split("\n", 1)[1]))
    assert any("2 times" in text for text in after(entry, lambda text: text.split("\n", 1)[0] + "\n" + text))
    assert any("does not hold" in text for text in after(entry, lambda text: text + "torch/gone.py,sha256=x,1\n"))
    assert any(
        "gives itself" in text for text in after(entry, lambda text: text.replace("RECORD,,", "RECORD,sha256=x,1"))
    )


def test_version_problems_are_found(patched: Path) -> None:
    info = f"torch-{BASE}+cpu.flydsl{PINS.series}.dist-info"
    rewrite(patched, f"{info}/METADATA", lambda text: text.replace(f".flydsl{PINS.series}\n", "\n", 1))
    assert any("versions differ" in text for text in problems_of(patched))


def test_a_renamed_wheel_is_found(patched: Path) -> None:
    other = patched.with_name(patched.name.replace(".flydsl", ".flydsl9"))
    patched.rename(other)
    assert any("versions differ" in text for text in problems_of(other))


def test_a_wheel_tag_that_differs_is_found(patched: Path) -> None:
    other = patched.with_name(patched.name.replace("manylinux_2_28", "manylinux_2_34"))
    patched.rename(other)
    assert any("the WHEEL file has the tags" in text for text in problems_of(other))


def test_an_unpatched_wheel_is_no_finished_wheel(tmp_path: Path) -> None:
    assert any("not a patched wheel" in text for text in problems_of(make_wheel(tmp_path)))


def test_only_one_version_line_is_rewritten() -> None:
    assert (
        repack.new_metadata(b"Name: torch\nVersion: 1\n\nVersion: 2\n", "3")
        == b"Name: torch\nVersion: 3\n\nVersion: 2\n"
    )
    with pytest.raises(BuildError, match="METADATA has 0 lines 'Version:', expected one"):
        repack.new_metadata(b"Name: torch\n\n", "3")
    assert replace_version_line(b"x = 1\n__version__ = '1'\n", "1", "2") == b"x = 1\n__version__ = '2'\n"
    with pytest.raises(BuildError, match=r"sets __version__ to \['1', '2'\], expected one line with '1'"):
        replace_version_line(b"__version__ = '1'\n__version__ = '2'\n", "1", "3")


def test_record_lines_of_unchanged_members_are_kept(tmp_path: Path) -> None:
    base = make_wheel(tmp_path)
    path = make_patched(base, tmp_path / "out").path
    lines = {}
    for wheel in (base, path):
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/RECORD"))
            lines[wheel] = {line.path: line for line in record.parse(archive.read(name).decode())}
    untouched = set(FILES) - {"torch/_inductor/config.py", "torch/_native/__init__.py"}
    assert {name: lines[base][name] for name in untouched} == {name: lines[path][name] for name in untouched}
