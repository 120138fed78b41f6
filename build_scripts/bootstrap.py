"""Set up .venv with the patched wheel and the emulated gfx950, then run the demo.

    ./build_scripts/quickstart.sh [--base WHEEL_OR_VERSION] [--index URL] [--no-demo] [-- DEMO_ARGUMENTS]

Every step carries a stamp with the hash of its inputs and is skipped while they stay the same and what it installed is
still there; deleting .venv starts anew. Output goes to build/logs/. Standard library only: it runs before anything is
installed.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.base_choice import BASE_VARIABLE, INDEX_VARIABLE, named_file, require_cpu_build
from build_scripts.command import echo
from build_scripts.digest import named_sha256
from build_scripts.errors import BuildError, run_main
from build_scripts.layout import BUILD, REPO
from build_scripts.pins import Pins, read_pins

VENV = REPO / ".venv"
STAMPS = VENV / ".stamps"
LOGS = BUILD / "logs"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = tuple(REPO / f"requirements{suffix}.txt" for suffix in ("", "-build", "-test"))
CONSTRAINTS = REPO / "requirements-constraints.txt"
# The set-up puts about 3.3 GB into .venv, build/ and dist/, and pip and the compilers need room beside it.
NEEDED_GIGABYTES = 6.0
_HEARTBEAT_SECONDS = 10.0
_CPU_FLAGS = ("avx2", "bmi2", "f16c", "fma")
_COMPILER_PROBE = "#include <optional>\nint main() { return std::optional<int>(0).value(); }\n"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def refuse_without_compiler() -> None:
    """Raises BuildError unless the C++ compiler that CMake will take can build the emulator's kind of code."""
    named = os.environ.get("CXX")
    candidates = [named] if named else ["c++", "g++", "clang++"]
    found = next((name for name in candidates if name and shutil.which(name)), None)
    if found is None:
        raise BuildError(f"no C++ compiler (looked for {', '.join(map(str, candidates))}): install g++ or set CXX")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text(_COMPILER_PROBE)
        command = [found, "-std=c++17", "-march=x86-64-v3", str(source), "-o", str(Path(folder) / "probe")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(
            f"the C++ compiler cannot build a C++17 program for x86-64-v3: {' '.join(command)}\n"
            f"{result.stderr.strip()}\ninstall g++ 11 or clang 12, or newer, and set CXX"
        )


def refuse_unfit_machine(free_gigabytes: float, *, fresh: bool) -> None:
    """Everything that would make a later step fail, said at once and before anything is made."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise BuildError(f"Linux on x86-64 is needed, this is {platform.system()} on {platform.machine()}")
    flags = next(
        (line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), ""
    ).split()
    missing = [flag for flag in _CPU_FLAGS if flag not in flags]
    if missing:
        raise BuildError(f"the emulator is built for x86-64-v3, and this processor lacks {', '.join(missing)}")
    if fresh and (importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None):
        raise BuildError(f"{sys.executable} has no venv or ensurepip module: install it (on Debian: python3-venv)")
    if fresh and free_gigabytes < NEEDED_GIGABYTES:
        raise BuildError(f"{free_gigabytes:.1f} GB are free at {REPO}, {NEEDED_GIGABYTES:.0f} GB are needed: make room")
    if fresh:
        refuse_without_compiler()


def not_installed(wanted: Mapping[str, str]) -> list[str]:
    """Those of the packages (name to version) that .venv does not hold in that version, by the folders pip leaves."""
    folders = {
        _plain(path.name.removesuffix(".dist-info")) for path in VENV.glob("lib/python*/site-packages/*.dist-info")
    }
    return [f"{name} {version}" for name, version in wanted.items() if _plain(f"{name}-{version}") not in folders]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


@dataclass
class Steps:
    """Runs steps that are out of date, with their elapsed time and a heartbeat."""

    total: int
    done: int = 0
    ran: list[str] = field(default_factory=list)

    def run(
        self,
        name: str,
        title: str,
        inputs: str,
        commands: Sequence[Sequence[str | Path]],
        installs: Mapping[str, str] | None = None,
    ) -> bool:
        """Returns whether the commands had to run; raises BuildError where one fails or does not install `installs`."""
        self.done += 1
        stamp = STAMPS / name
        if stamp.is_file() and stamp.read_text() == inputs:
            gone = not_installed(installs or {})
            if not gone:
                return False
            say(f"no longer in .venv: {', '.join(gone)}")
        stamp.unlink(missing_ok=True)
        self.ran.append(name)
        say(f"[{self.done}/{self.total}] {title}")
        start = time.monotonic()
        LOGS.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"{name}.log"
        with log.open("w") as stream, heartbeat(title, start):
            for command in commands:
                echo(command)
                stream.write("+ " + " ".join(map(str, command)) + "\n")
                stream.flush()
                result = subprocess.run(
                    [str(part) for part in command], cwd=REPO, stdout=stream, stderr=subprocess.STDOUT, check=False
                )
                if result.returncode != 0:
                    stream.flush()
                    tail = "\n".join("  " + line for line in log.read_text(errors="replace").splitlines()[-30:])
                    raise BuildError(
                        f"{title} failed (exit status {result.returncode}):\n{tail}\nthe whole log is {log}"
                    )
        if missing := not_installed(installs or {}):
            raise BuildError(f"{title} ended well, but {VENV} lacks {', '.join(missing)}; the log is {log}")
        STAMPS.mkdir(parents=True, exist_ok=True)
        stamp.write_text(inputs)
        say(f"[{self.done}/{self.total}] {title}: done in {time.monotonic() - start:.0f} s")
        return True


@contextmanager
def heartbeat(title: str, start: float) -> Iterator[None]:
    """Say every few seconds that a long step is still going."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(_HEARTBEAT_SECONDS):
            say(f"      ... {title}, {time.monotonic() - start:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def hash_of(*roots: Path, extra: Sequence[str] = ()) -> str:
    """One hash of files and folders by their content, and of further words."""
    files = []
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            relative = path.relative_to(REPO)
            if (
                path.is_file()
                and not {"__pycache__", "build"} & set(relative.parts)
                and ".egg-info" not in str(relative)
            ):
                files.append((relative.as_posix(), path.read_bytes()))
    return named_sha256([*files, *((f"word {index}", word.encode()) for index, word in enumerate(extra))])


def base_words(base: str | None, index: str | None) -> list[str]:
    """What names the base wheel; of a file also its size and time, so that another one of that name counts."""
    asked = base or os.environ.get(BASE_VARIABLE) or ""
    path = Path(asked).expanduser()
    if asked and path.is_file():
        status = path.stat()
        return [str(path.resolve()), str(status.st_size), str(status.st_mtime_ns)]
    return [asked, index or os.environ.get(INDEX_VARIABLE) or ""]


def chosen_base(base: str | None, index: str | None, pins: Pins) -> str | None:
    """The base to pass on, checked: a file by its whole path, since the steps run in the repository's folder."""
    asked = base or os.environ.get(BASE_VARIABLE)
    require_cpu_build(asked or pins.default_base, index, pins)
    path = named_file(asked, index) if asked else None
    return str(path.resolve()) if path else asked


def pinned_lines(*paths: Path) -> dict[str, str]:
    """Name to version of the `name==version` lines of requirements files."""
    lines = [line.partition("#")[0] for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return {name.strip(): version.strip() for name, equal, version in (line.partition("==") for line in lines) if equal}


def pip_install(*args: str | Path) -> list[str | Path]:
    return [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "-c", CONSTRAINTS, *args]


def build_patched_wheel(steps: Steps, base: str | None, index: str | None) -> tuple[Path, str]:
    """The patched wheel in dist/ and the hash of what it was made from."""
    build_scripts = sorted((REPO / "build_scripts").glob("*.py"))
    sources = (REPO / "patches", REPO / "torch_overlay", REPO / "build_scripts" / "pins.toml", *build_scripts)
    inputs = hash_of(*sources, extra=base_words(base, index))
    result = STAMPS / "wheel.path"
    if not result.is_file() or not Path(result.read_text().strip()).is_file():
        (STAMPS / "wheel").unlink(missing_ok=True)
    command: list[str | Path] = [PYTHON, "-m", "build_scripts.build_wheel"]
    command += ["--base", base] if base else []
    command += ["--index", index] if index else []
    if steps.run("wheel", "building the patched wheel", inputs, [command]):
        # The script's last line is the wheel's path.
        result.write_text((LOGS / "wheel.log").read_text().splitlines()[-1])
    return Path(result.read_text().strip()), inputs


def set_up(pins: Pins, base: str | None, index: str | None) -> list[str]:
    """Make .venv what it should be; returns the names of the steps that had to run."""
    fresh = not (STAMPS / "emulator").is_file()
    refuse_unfit_machine(shutil.disk_usage(REPO).free / 1e9, fresh=fresh)
    steps = Steps(total=6)
    if not PYTHON.exists() and VENV.exists():
        shutil.rmtree(VENV)
    steps.run("venv", "making .venv", sys.version, [[sys.executable, "-m", "venv", "--clear", VENV]])

    with_files = [word for path in REQUIREMENTS for word in ("-r", str(path))]
    inputs = hash_of(*REQUIREMENTS, CONSTRAINTS)
    steps.run("tools", "installing tools", inputs, [pip_install(*with_files)], pinned_lines(*REQUIREMENTS))

    wheel, wheel_inputs = build_patched_wheel(steps, base, index)
    # First the wheel itself, whose version does not change when its content does; then whatever it requires.
    install = [pip_install("--force-reinstall", "--no-deps", wheel), pip_install(wheel)]
    steps.run("torch", f"installing {wheel.name}", wheel_inputs, install, {"torch": wheel.name.split("-")[1]})

    runtime = pins.requirements()
    title = "installing " + ", ".join(runtime)
    steps.run("runtime", title, json.dumps(runtime), [pip_install(*runtime)], pins.runtime)

    emulator = REPO / "test" / "emulator"
    sources = [path for path in sorted(emulator.iterdir()) if path.name != "tests"]
    project = tomllib.loads((emulator / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    steps.run(
        "emulator",
        "building the emulated gfx950",
        hash_of(REPO / "CMakeLists.txt", *sources, REPO / "requirements-build.txt", extra=base_words(base, index)),
        [
            pip_install("--no-build-isolation", "--no-deps", "--force-reinstall", emulator),
            [PYTHON, "-m", "pip", "check"],
        ],
        {project["name"]: project["version"]},
    )
    return steps.ran


@contextmanager
def only_one() -> Iterator[None]:
    """Two set-ups of one tree would write over each other; the second waits."""
    lock = BUILD / "set-up.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of this tree to end")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="quickstart.sh", description="Set up .venv and run the demo.")
    parser.add_argument(
        "--base", help="a wheel of the base or its version (default: $TORCH_BASE_WHEEL, then the CPU build)"
    )
    parser.add_argument("--index", metavar="URL", help=f"where pip looks for a version (default: ${INDEX_VARIABLE})")
    parser.add_argument("--no-demo", action="store_true", help="set up only")
    parser.add_argument("demo", nargs="*", metavar="DEMO_ARGUMENT", help="after --, passed to test/demo.py")
    args = parser.parse_args(argv)

    def body() -> int:
        start = time.monotonic()
        pins = read_pins()
        base = chosen_base(args.base, args.index, pins)
        with only_one():
            ran = set_up(pins, base, args.index)
        what = f"{len(ran)} steps ran: {', '.join(ran)}" if ran else "nothing to do"
        say(f"set-up: {what} ({time.monotonic() - start:.1f} s)")
        if args.no_demo:
            return 0
        command: list[str | Path] = [PYTHON, "-m", "gfx950_emulator", REPO / "test" / "demo.py", *args.demo]
        echo(command)
        return subprocess.run([str(part) for part in command], check=False).returncode

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
