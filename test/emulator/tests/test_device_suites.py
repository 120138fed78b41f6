"""A sample of PyTorch's device-generic suites, and what the runner makes of exceptions."""

import sys
import tempfile
from pathlib import Path

from device_process import run_python
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

SUITES = Path(__file__).resolve().parents[1] / "suites"
sys.path.insert(0, str(SUITES))
import run as runner  # noqa: E402

# Each n-th test: a few seconds for a suite, most of them for its import.
EVERY = {"autocast": 6, "inductor": 30, "modules": 30, "nn": 12, "opchecks": 120, "optimizers": 15}


class TestSuites(TestCase):
    @parametrize("suite", runner.suite_names())
    def test_sample(self, suite):
        result = run_python(str(SUITES / "run.py"), "--suite", suite, "--every", str(EVERY[suite]))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class TestExceptions(TestCase):
    def test_classification(self):
        outcomes = {
            "a": ("failed", "x"),
            "b": ("passed", ""),
            "c_float": ("passed", ""),
            "c_half": ("failed", "y"),
            "d": ("failed", "z"),
            "e": ("skipped", "w"),
        }
        exceptions = {"a": "known", "b": "was known", "c_*": "half only", "e": "w"}
        self.assertEqual(
            {name: outcome for name, (outcome, _) in runner.classify(outcomes, exceptions).items()},
            {"a": "excluded", "b": "stale", "c_float": "stale", "c_half": "excluded", "d": "failed", "e": "skipped"},
        )

    @parametrize(
        "text,refusal",
        [('[other]\n"a" = "b"', "no suite 'other'"), ('[nn]\n"a" = " "', "nn: a has no reason")],
        name_fn=lambda text, refusal: refusal.split()[-1].strip("'"),
    )
    def test_bad_file(self, text, refusal):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "exceptions.toml"
            path.write_text(text)
            with self.assertRaisesRegex(SystemExit, refusal):
                runner.load_exceptions(path)


instantiate_parametrized_tests(TestSuites)
instantiate_parametrized_tests(TestExceptions)

if __name__ == "__main__":
    run_tests()
