"""Export the commits of a base checkout as the patch series.

    python -m build_scripts.export DIR [--check]

DIR was made by `python -m build_scripts.checkout DIR`. Every commit after the tag `base` becomes patches/<slug>.patch,
and patches/series lists them in order. The bytes depend on the commits alone. With --check nothing is written; a
difference is an error.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from build_scripts.errors import BuildError, run_main
from build_scripts.gitrepo import BASE_TAG, git
from build_scripts.layout import PATCHES
from build_scripts.series import parse_patch, patch_problems, read_order, slug_of

# Every option that could change a byte is stated, so that git's defaults of another version or user do not matter.
_FORMAT = [
    "format-patch",
    "--stdout",
    "-1",
    "--zero-commit",
    "--no-signature",
    "--no-numbered",
    "--no-thread",
    "--no-stat",
    "--no-attach",
    "--no-renames",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-indent-heuristic",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--subject-prefix=PATCH",
    "--no-encode-email-headers",
]


def export_patches(folder: Path) -> dict[str, str]:
    """File name to text, in order, of every commit after the tag `base`."""
    status = git(folder, "status", "--porcelain").decode()
    if status:
        raise BuildError(f"{folder} has uncommitted changes:\n{status.rstrip()}\ncommit them first")
    commits = git(folder, "rev-list", "--reverse", "--topo-order", f"{BASE_TAG}..HEAD").decode().split()
    if git(folder, "rev-list", "--merges", f"{BASE_TAG}..HEAD").strip():
        raise BuildError(f"{folder} has merge commits after the tag `{BASE_TAG}`; a series is linear: rebase")
    exported: dict[str, str] = {}
    for commit in commits:
        subject = git(folder, "show", "--no-patch", "--format=%s", commit).decode().strip()
        name = slug_of(subject) + ".patch"
        if name in exported:
            raise BuildError(f"two commits in {folder} have the subject slug {name!r}; reword one of them")
        exported[name] = git(folder, *_FORMAT, commit).decode("utf-8")
    return exported


def series_text(previous: str, names: list[str]) -> str:
    """The text of patches/series: its comment lines are kept at the top."""
    comments = [line for line in previous.splitlines() if line.startswith("#")]
    return "".join(line + "\n" for line in comments + names)


def differences(exported: dict[str, str], patches: Path) -> list[str]:
    """How the folder of patches differs from an export."""
    problems = []
    if list(exported) != read_order(patches):
        problems.append(f"patches/series lists {read_order(patches)}, the export gives {list(exported)}")
    for name, text in exported.items():
        path = patches / name
        if not path.is_file():
            problems.append(f"patches/{name} is missing")
        elif path.read_bytes() != text.encode():
            problems.append(f"patches/{name} is not what the export of its commit gives: it was edited by hand")
    return problems


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Export the commits of a base checkout as the patch series.")
    parser.add_argument("folder", type=Path, help="the checkout")
    parser.add_argument("--check", action="store_true", help="compare with patches/ and write nothing")
    args = parser.parse_args(argv)

    def body() -> int:
        exported = export_patches(args.folder)
        if args.check:
            problems = differences(exported, PATCHES)
            if problems:
                raise BuildError("\n  ".join(["the series differs from its export:", *problems]))
            print(f"{len(exported)} patches equal their export")
            return 0
        problems = [problem for name, text in exported.items() for problem in patch_problems(parse_patch(name, text))]
        if problems:
            raise BuildError("\n  ".join(["nothing was written; reword or split the commits:", *problems]))
        series = PATCHES / "series"
        order = series_text(series.read_text(encoding="utf-8") if series.exists() else "", list(exported))
        for path in sorted(PATCHES.glob("*.patch")):
            if path.name not in exported:
                path.unlink()
                print(f"removed patches/{path.name}")
        for name, text in exported.items():
            path = PATCHES / name
            if not path.exists() or path.read_bytes() != text.encode():
                path.write_bytes(text.encode())
                print(f"wrote patches/{name}")
        series.write_text(order, encoding="utf-8")
        print(f"patches/series: {len(exported)} patches")
        return 0

    return run_main(body)


if __name__ == "__main__":
    sys.exit(main())
