#!/usr/bin/env bash
# Set up where needed, then lint, types, checks of the series and the wheel, and the tests. Arguments go to test/run.py:
# `test/run.sh test/repo -k series` runs those tests alone, `test/run.sh --only lint` one stage.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
./build_scripts/quickstart.sh --no-demo
exec .venv/bin/python test/run.py "$@"
