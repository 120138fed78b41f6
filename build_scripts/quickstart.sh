#!/usr/bin/env bash
# One command from a clean clone to the demo on the emulated gfx950; build_scripts/bootstrap.py does the work.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
wanted=$(sed -n 's/^python = "\(.*\)"$/\1/p' "$here/pins.toml")
python=${PYTHON:-$(command -v "python$wanted" || command -v python3 || true)}
found=$("${python:-python3}" -c 'import sys; print("%d.%d" % sys.version_info[:2])' || true)
if [ "$found" != "$wanted" ]; then
  echo "error: Python $wanted is needed, found '${python:-no python3}' with version '${found:-none}'." \
    "Install it, or name it: PYTHON=/path/to/python$wanted $0" >&2
  exit 1
fi
exec "$python" "$here/bootstrap.py" "$@"
