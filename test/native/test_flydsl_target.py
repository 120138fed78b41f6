# Owner(s): ["module: rocm"]
"""T0: which FlyDSL releases and GPUs are accepted, and why others are not."""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from unittest import mock

import torch
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests


def fake_package(folder: Path, version: str, *, compiled_part: bool = True) -> Path:
    """A flydsl that fails when it is imported, and its metadata."""
    package = folder / "flydsl"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('flydsl must not be imported to learn about it')\n")
    if compiled_part:
        (package / "_mlir").mkdir()
    info = folder / f"flydsl-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: flydsl\nVersion: {version}\n")
    return folder


def reason_with_path(folder: Path) -> str:
    """package_unsupported_reason() of a fresh process that finds ``folder`` first."""
    program = (
        "import sys; from torch._native.flydsl import target; print(target.package_unsupported_reason());"
        "assert 'flydsl' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
    return result.stdout.strip()


@instantiate_parametrized_tests
class TestTarget(TestCase):
    @parametrize("version", ["0.3.0", "0.3.4", "0.3.4.1", "0.3.99", "0.3.4+local"])
    def test_accepted_release(self, version):
        self.assertIsNone(target.release_unsupported_reason(version))

    @parametrize(
        "version, word",
        [
            ("0.2.9", "too old"),
            ("0.1.5", "too old"),
            ("0.4.0", "too new"),
            ("0.5.0", "too new"),
            ("1.0", "too new"),
            ("0.3.3.dev887", "prerelease"),
            ("0.4.0.dev963", "prerelease"),
            ("0.3.5rc1", "prerelease"),
            ("nightly", "no version number"),
        ],
    )
    def test_refused_release(self, version, word):
        reason = target.release_unsupported_reason(version)
        self.assertIn(word, reason)
        self.assertIn(version, reason)
        self.assertIn(target.FLYDSL_RELEASES, reason)

    def test_kernel_that_needs_more_says_so(self):
        reason = target.release_unsupported_reason("0.3.0", at_least="0.3.4")
        self.assertIn("too old", reason)
        self.assertIn(">=0.3.4,<0.4", reason)

    def test_missing(self):
        with (
            mock.patch.object(target.importlib.util, "find_spec", return_value=None),
            mock.patch.object(
                target.importlib.metadata, "version", side_effect=importlib.metadata.PackageNotFoundError("flydsl")
            ),
        ):
            self.assertIsNone(target.flydsl_version())
            self.assertIn("flydsl is not installed", target.package_unsupported_reason())

    @parametrize(
        "version, compiled_part, words",
        [
            ("0.3.1", True, "None"),
            ("0.2.0", True, "too old"),
            ("0.4.0", True, "too new"),
            ("0.3.1", False, "lacks its compiled part _mlir"),
        ],
    )
    def test_package_is_judged_without_importing_it(self, version, compiled_part, words):
        with tempfile.TemporaryDirectory() as folder:
            fake_package(Path(folder), version, compiled_part=compiled_part)
            self.assertIn(words, reason_with_path(Path(folder)))

    def test_package_without_metadata(self):
        # Not as a package on disk: where flydsl is installed, a fake one without metadata would borrow the real one's.
        spec = types.SimpleNamespace(origin="somewhere/flydsl/__init__.py", submodule_search_locations=[])
        with (
            mock.patch.object(target.importlib.util, "find_spec", return_value=spec),
            mock.patch.object(target, "flydsl_version", return_value=None),
        ):
            self.assertIn("no installed metadata", target.package_unsupported_reason())

    def test_not_a_rocm_build(self):
        target.unavailable_reason.cache_clear()
        self.addCleanup(target.unavailable_reason.cache_clear)
        with mock.patch.object(torch.version, "hip", None):
            self.assertIn("not a ROCm build", target.unavailable_reason())

    def test_import_torch_does_not_import_flydsl(self):
        program = (
            "import sys, torch, torch._native.flydsl.target, torch._native.flydsl.cache, torch._native.flydsl.launch;"
            "print([name for name in sys.modules if name.split('.')[0] == 'flydsl'])"
        )
        result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        self.assertEqual(result.stdout.strip(), "[]")

    @parametrize("name", ["gfx950:sramecc+:xnack-", "gfx950", "GFX950:xnack-"])
    def test_arch_comes_from_the_device_without_suffix(self, name):
        properties = types.SimpleNamespace(gcnArchName=name)
        # Neither the environment nor a ROCm tool has a say.
        with (
            mock.patch.object(torch.cuda, "get_device_properties", return_value=properties),
            mock.patch.dict(
                os.environ, {"FLYDSL_GPU_ARCH": "gfx942", "HSA_OVERRIDE_GFX_VERSION": "11.0.0", "PATH": ""}
            ),
        ):
            self.assertEqual(target.device_arch(0), "gfx950")

    def test_device_without_arch_name(self):
        with (
            mock.patch.object(torch.cuda, "get_device_properties", return_value=types.SimpleNamespace()),
            self.assertRaisesRegex(RuntimeError, "cuda:1 reports no gcnArchName"),
        ):
            target.device_arch(1)

    def test_other_arch_is_named(self):
        self.assertIsNone(target.arch_unsupported_reason("gfx950"))
        self.assertIn("gfx942", target.arch_unsupported_reason("gfx942"))

    def test_read_phases_cover_half_a_wave_once(self):
        lanes = [lane for phase in target.DS_READ_B128_PHASES for lane in phase]
        self.assertEqual(sorted(lanes), list(range(target.WAVE_SIZE // 2)))


if __name__ == "__main__":
    run_tests()
