"""A short run of the loader's fuzzer; test/emulator/fuzz/fuzz_loader.py SECONDS is the long one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).parents[1] / "fuzz" / "fuzz_loader.py"


def test_short_run(tmp_path: Path) -> None:
    command = [sys.executable, str(FUZZER), "60", "--inputs", "3000", "--build", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"3,000 inputs from [34] code objects .*: no finding", done.stdout), done.stdout
    for kind in ("header fields", "bytes of a section", "size by headers alone"):
        row = re.search(rf"^{kind}(.*)$", done.stdout, re.MULTILINE)
        assert row is not None, done.stdout
        assert sum(int(number.replace(",", "")) for number in row[1].split()) > 50
