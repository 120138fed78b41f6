"""Build the patched wheel: fetch the base, apply the series, lay the overlay, repack.

    python -m build_scripts.build_wheel [--base WHEEL_OR_VERSION] [--index URL] [--out DIR]

Prints the wheel's path as its last line. A fetched base is kept under build/cache/.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.errors import BuildError, run_main
from build_scripts.fetch import add_arguments, fetch
from build_scripts.layout import DIST
from build_scripts.pins import read_pins
from build_scripts.repack import Repacked, repack


def require_folder(out: Path) -> None:
    """Refuse, before anything is fetched, an output folder that cannot be made or written to. Leaves nothing behind."""
    nearest = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        reason = "is not a folder" if not nearest.is_dir() else f"cannot be written to ({error.strerror})"
        raise BuildError(f"--out {out}: {nearest} {reason}; name a folder for the wheel") from error


def build_wheel(base: str | None, index: str | None, out: Path) -> Repacked:
    pins = read_pins()
    require_folder(out)
    wheel = fetch(base, index, pins)
    start = time.monotonic()
    result = repack(wheel, out, pins)
    seconds = time.monotonic() - start
    size = result.path.stat().st_size / 1e6
    print(f"base: {wheel.name}", file=sys.stderr)
    print(f"series {pins.series}: {len(result.hunks)} hunks; overlay: {result.overlay_files} files", file=sys.stderr)
    for hunk in result.hunks:
        if hunk.offset or hunk.fuzz:
            print(f"  {hunk}", file=sys.stderr)
    print(f"repacked {size:.0f} MB in {seconds:.1f} s", file=sys.stderr)
    return result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the patched PyTorch wheel.")
    add_arguments(parser)
    parser.add_argument("--out", type=Path, default=DIST, help="the folder for the wheel (default: dist/)")
    args = parser.parse_args(argv)

    def body() -> int:
        print(build_wheel(args.base, args.index, args.out).path)
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
