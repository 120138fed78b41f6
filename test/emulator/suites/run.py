"""Runs PyTorch's device-generic tests on the emulated device and prints what runs.

    python test/emulator/suites/run.py [--suite NAME ...] [--every N] [--json FILE]

Each suite is a module suite_<name>.py beside this file, run in a process of its own. exceptions.toml names the tests
that fail and why: they are counted as excluded, and one that passes is an error, as is a failure that the file does not
name. --every N runs each N-th test, a sample that is the same every time.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import time
import tomllib
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OUTCOMES = ("passed", "skipped", "excluded", "failed", "stale")


def suite_names() -> list[str]:
    return sorted(path.stem.removeprefix("suite_") for path in HERE.glob("suite_*.py"))


def load_exceptions(path: Path = HERE / "exceptions.toml") -> dict[str, dict[str, str]]:
    """Suite -> pattern of test names -> reason."""
    parsed = tomllib.loads(path.read_text())
    for suite, reasons in parsed.items():
        if suite not in suite_names():
            raise SystemExit(f"exceptions.toml: there is no suite {suite!r}; there are {', '.join(suite_names())}")
        for pattern, reason in reasons.items():
            if not reason.strip():
                raise SystemExit(f"exceptions.toml: {suite}: {pattern} has no reason")
    return parsed


class Recorder(unittest.TestResult):
    """Outcome and first line of the reason, by test."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def _note(self, test: Any, outcome: str, reason: str = "") -> None:
        name = test.id().split(".")[-1] if hasattr(test, "id") else str(test)
        if self.outcomes.get(name, ("passed", ""))[0] == "passed":  # the first failing part of a test decides
            self.outcomes[name] = (outcome, reason)

    def addSuccess(self, test: Any) -> None:
        self._note(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:
        self._note(test, "skipped", reason.split("\n")[0])

    def _failed(self, test: Any, error: Any) -> None:
        self._note(test, "failed", f"{error[0].__name__}: {str(error[1]).strip()}"[:600])

    def addError(self, test: Any, err: Any) -> None:
        self._failed(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._failed(test, err)

    def addExpectedFailure(self, test: Any, error: Any) -> None:
        self._note(test, "skipped", "PyTorch expects it to fail")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note(test, "failed", "PyTorch expects it to fail, and it passes")

    def addSubTest(self, test: Any, subtest: Any, error: Any) -> None:
        if error is not None:
            self._note(test, "failed", f"{subtest._subDescription()} {error[0].__name__}: {error[1]}"[:600])


def flatten(suite: unittest.TestSuite) -> list[Any]:
    tests: list[Any] = []
    for part in suite:
        tests += flatten(part) if isinstance(part, unittest.TestSuite) else [part]
    return tests


def classify(outcomes: dict[str, tuple[str, str]], exceptions: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What the exceptions make of outcomes: a failure that they name is excluded, and stale if it passes."""
    result: dict[str, tuple[str, str]] = {}
    for name, (outcome, reason) in outcomes.items():
        pattern = next((p for p in exceptions if fnmatch.fnmatchcase(name, p)), None)
        if pattern is not None and outcome == "failed":
            result[name] = ("excluded", exceptions[pattern])
        elif pattern is not None and outcome == "passed":
            result[name] = ("stale", f"passes, but exceptions.toml says: {exceptions[pattern]}")
        else:
            result[name] = (outcome, reason)
    return result


def run_here(suite: str, every: int) -> dict[str, Any]:
    """Runs a suite in this process, which has the device."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    tests = sorted(flatten(unittest.defaultTestLoader.loadTestsFromName(f"suite_{suite}")), key=lambda test: test.id())
    recorder = Recorder()
    start = time.monotonic()
    for test in tests[::every]:
        test.run(recorder)
    outcomes = classify(recorder.outcomes, load_exceptions().get(suite, {}))
    for pattern in load_exceptions().get(suite, {}) if every == 1 else ():
        if not any(fnmatch.fnmatchcase(name, pattern) for name in recorder.outcomes):
            outcomes[pattern] = ("stale", "exceptions.toml names a test that does not exist")
    return {"outcomes": outcomes, "seconds": time.monotonic() - start, "tests": len(tests)}


def run_suite(suite: str, every: int) -> dict[str, Any]:
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "gfx950_emulator",
        str(Path(__file__)),
        "--inside",
        suite,
        "--every",
        str(every),
    ]
    environment = os.environ | {"PYTORCH_TEST_WITH_ROCM": "1", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in result.stdout.splitlines() if line.startswith('{"outcomes"')]
    if not lines:
        raise SystemExit(f"suite {suite} ended with status {result.returncode}:\n{result.stderr[-4000:]}")
    parsed: dict[str, Any] = json.loads(lines[-1])
    return parsed


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run PyTorch's device-generic tests on the emulated device.")
    parser.add_argument("--suite", action="append", choices=suite_names(), help="only this one; may be repeated")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="run each N-th test")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every outcome there")
    parser.add_argument("--inside", choices=suite_names(), help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.every < 1:
        parser.error("--every: a number from 1")
    if args.inside:
        result = run_here(args.inside, args.every)
        sys.stdout.flush()
        print("\n" + json.dumps(result), flush=True)  # whatever a test has printed before
        return 0
    load_exceptions()
    everything: dict[str, Any] = {}
    header = f"{'suite':<12}" + "".join(f"{name:>10}" for name in OUTCOMES) + f"{'of':>8}{'seconds':>9}"
    print(header, flush=True)
    bad = 0
    for suite in args.suite or suite_names():
        everything[suite] = result = run_suite(suite, args.every)
        counts = Counter(outcome for outcome, _ in result["outcomes"].values())
        row = f"{suite:<12}" + "".join(f"{counts[name]:>10}" for name in OUTCOMES)
        print(f"{row}{result['tests']:>8}{result['seconds']:>9.1f}", flush=True)
        for name, (outcome, reason) in result["outcomes"].items():
            if outcome in ("failed", "stale"):
                bad += 1
                print(f"  {outcome}: {name}: {reason}", file=sys.stderr, flush=True)
    print(
        "passed: values agree. skipped: by PyTorch's own decorators. excluded: named in exceptions.toml with a reason."
    )
    if args.json:
        args.json.write_text(json.dumps(everything, indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
