"""A sample of the OpInfo sweep, and every exception of it: opinfo.py in test/emulator/suites runs the whole."""

import sys
import zlib
from dataclasses import replace
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, run_tests

import gfx950_emulator  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "suites"))

import opinfo
from opinfo_entry import Entry, Outcome, database, entries, run

# A tenth of the sweep's time; the same entries in every run.
SAMPLE = 250


class TestOpInfo(TestCase):
    def test_a_sample_is_right(self):
        exceptions = opinfo.read_exceptions()
        found = [entry for entry in entries() if not any(row.covers(entry) for row in exceptions)]
        sample = sorted(found, key=lambda entry: zlib.crc32(str(entry).encode()))[:SAMPLE]
        outcomes = {str(entry): run(entry) for entry in sample}
        wrong = {name: outcome for name, outcome in outcomes.items() if outcome.status in ("wrong", "raises")}
        self.assertEqual(wrong, {})
        right = [outcome for outcome in outcomes.values() if outcome.status == "right"]
        self.assertGreater(len(right), 0.9 * SAMPLE)
        by_shape = sum(outcome.by_shape for outcome in right)
        self.assertLess(by_shape, 0.1 * SAMPLE)  # the others were compared by value

    def test_every_exception_still_is_one(self):
        known = entries()
        for row in opinfo.read_exceptions():
            covered = [entry for entry in known if row.covers(entry)]
            self.assertNotEqual(covered, [], f"{row} covers nothing")
            statuses = {str(entry): run(entry).status for entry in covered}
            self.assertTrue(all(status in ("wrong", "raises") for status in statuses.values()), f"{row}: {statuses}")

    def test_the_share_that_is_right(self):
        known = entries()
        listed = sum(any(row.covers(entry) for row in opinfo.read_exceptions()) for entry in known)
        self.assertLess(listed / len(known), 1 - opinfo.GOAL)

    def test_it_can_fail(self):
        """A wrong value, a wrong shape and a crash are seen."""
        entry = Entry("add", "float32", "forward")
        self.assertEqual(run(entry).status, "right")
        op = database()["add"]
        function = op.op

        def on_device(change):
            return lambda *args, **kwargs: (
                change(function(*args, **kwargs)) if getattr(args[0], "is_cuda", False) else function(*args, **kwargs)
            )

        def refuse(result):
            raise RuntimeError("refused")

        try:
            for change, status in (
                (lambda result: result + 1e-2, "wrong"),
                (lambda result: result[None], "wrong"),
                (lambda result: result.double(), "wrong"),
                (refuse, "raises"),
            ):
                op.op = on_device(change)
                self.assertEqual(run(entry).status, status)
        finally:
            op.op = function

    def test_the_exceptions_file_is_held_to_the_outcomes(self):
        entry = Entry("add", "float32", "forward")
        row = opinfo.Exemption("add", "*", "forward", "bug", "a reason", "it is mended")
        right, wrong = Outcome("right", samples=1), Outcome("wrong", "off by one")
        self.assertEqual(opinfo.judge({entry: right}, []), ([], []))
        self.assertEqual(opinfo.judge({entry: wrong}, [row]), ([], []))
        self.assertEqual(opinfo.judge({entry: wrong}, [])[0], [f"{entry}: wrong: off by one"])
        self.assertEqual(len(opinfo.judge({entry: right}, [row])[1]), 1)
        self.assertFalse(replace(row, dtype="int64").covers(entry))


if __name__ == "__main__":
    run_tests()
