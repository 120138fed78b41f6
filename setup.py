"""Makes the patched torch wheel by driving build_scripts; nothing is compiled.

    python setup.py bdist_wheel          pip wheel . --no-deps          pip install .

The base is the wheel named by the environment variable TORCH_BASE_WHEEL, or the CPU build of the pinned version as
pip finds it; an index of its own is passed as TORCH_BASE_INDEX.
"""

import sys
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.dist_info import dist_info
from setuptools.command.egg_info import egg_info

sys.path.insert(0, str(Path(__file__).resolve().parent))  # a PEP 517 build does not run in the script's folder

from build_scripts.build_wheel import build_wheel
from build_scripts.errors import BuildError
from build_scripts.fetch import fetch
from build_scripts.layout import BUILD
from build_scripts.pins import read_pins
from build_scripts.repack import new_metadata, patched_version
from build_scripts.wheels import inspect


class EggInfo(egg_info):
    """`egg_info` under build/: beside setup.py it would pass for an installed torch to all that is run from there."""

    def initialize_options(self) -> None:
        super().initialize_options()
        BUILD.mkdir(exist_ok=True)
        self.egg_base = str(BUILD)


class RepackWheel(bdist_wheel):
    """`bdist_wheel` whose result is the repacked base."""

    def run(self) -> None:
        result = build_wheel(None, None, Path(self.dist_dir or "dist"))
        self.distribution.dist_files.append(("bdist_wheel", "any", str(result.path)))


class RepackMetadata(dist_info):
    """`dist_info` with the METADATA that the repacked wheel will have, so that pip sees its requirements."""

    dist_info_dir: str  # set by setuptools

    def finalize_options(self) -> None:
        self.base = inspect(fetch(None, None, read_pins()))
        self.distribution.metadata.version = patched_version(self.base.version, read_pins())
        super().finalize_options()

    def run(self) -> None:
        super().run()
        with zipfile.ZipFile(self.base.path) as archive:
            metadata = archive.read(f"{self.base.dist_info}/METADATA")
        version = patched_version(self.base.version, read_pins())
        (Path(self.dist_info_dir) / "METADATA").write_bytes(new_metadata(metadata, version))


if __name__ == "__main__":
    try:
        pins = read_pins()
        setup(
            name="torch",
            version=f"{pins.base}+{pins.local_suffix}",
            packages=[],
            py_modules=[],
            cmdclass={"bdist_wheel": RepackWheel, "dist_info": RepackMetadata, "egg_info": EggInfo},
        )
    except BuildError as error:
        sys.exit(f"error: {error}")
