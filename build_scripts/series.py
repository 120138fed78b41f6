"""The patch series: its order, each patch's header, trailers and diff, and what is wrong with it on its own."""

from __future__ import annotations

import email
import email.policy
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a file
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from build_scripts.digest import named_sha256
from build_scripts.errors import BuildError
from build_scripts.layout import PATCHES
from build_scripts.plain_path import path_problem
from build_scripts.third_party import InvalidVersion, PatchedFile, PatchSet, UnidiffParseError, Version

ZERO_COMMIT_LINE = "From " + "0" * 40 + " Mon Sep 17 00:00:00 2001"
TRAILERS = ("Why-a-patch", "Forwarded", "Drop-when")
WHY_A_PATCH = ("extends a list", "hooks a call site", "build", "fixes the base")
# A patch is a hook; more new lines than this in one place belong in the overlay.
MAX_ADDED_LINES_PER_HUNK = 40
_SLUG_LENGTH = 60
_TRAILER = re.compile(r"([A-Z][A-Za-z-]*): (.+)")
_BASE_HAS = re.compile(r'base has (?:"(?P<text>[^"]+)" in )?(?P<path>torch/\S+)')
_BASE_VERSION = re.compile(r"base version >= (?P<version>\S+)")


def slug_of(subject: str) -> str:
    """The file name (without suffix) that a patch with this subject has."""
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")
    if len(slug) <= _SLUG_LENGTH:
        return slug
    return slug[: _SLUG_LENGTH + 1].rpartition("-")[0] or slug[:_SLUG_LENGTH]


@dataclass(frozen=True)
class DropCondition:
    """A `Drop-when` trailer: the state of a base in which the patch is no longer wanted."""

    path: str | None = None
    text: str | None = None
    version: Version | None = None

    @staticmethod
    def parse(value: str) -> DropCondition:
        if match := _BASE_HAS.fullmatch(value):
            return DropCondition(path=match["path"], text=match["text"])
        if match := _BASE_VERSION.fullmatch(value):
            try:
                return DropCondition(version=Version(match["version"]))
            except InvalidVersion as error:
                raise BuildError(f"Drop-when: {value!r} names no version: {error}") from error
        raise BuildError(
            f"Drop-when: {value!r} is not a condition a script can check; write one of: base has torch/PATH | "
            'base has "TEXT" in torch/PATH | base version >= X.Y'
        )


@dataclass(frozen=True)
class Patch:
    name: str
    text: str
    subject: str
    message: str
    trailers: tuple[tuple[str, str], ...]
    files: tuple[PatchedFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    @property
    def drop_condition(self) -> DropCondition:
        return DropCondition.parse(dict(self.trailers)["Drop-when"])


def _split_trailers(body: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The message above the trailers, and the trailers of the last paragraph."""
    head, _, last = body.rstrip("\n").rpartition("\n\n")
    matches = [_TRAILER.fullmatch(line) for line in last.split("\n")]
    if all(matches):
        return head, tuple((match[1], match[2]) for match in matches if match)
    return body, ()


def parse_patch(name: str, text: str) -> Patch:
    """Read one file made by `export`. Raises BuildError where it cannot be read at all."""
    if "\r" in text:
        line = text[: text.index("\r")].count("\n") + 1
        raise BuildError(
            f"patches/{name} has a carriage return (CRLF line end?) in line {line}, and a patch is read byte for byte: "
            "export it again where git does not convert line ends"
        )
    head, separator, diff = text.partition("\ndiff --git ")
    if not separator:
        raise BuildError(f"patches/{name} holds no diff: commit the change in a checkout and export it")
    mail = head.split("\n", 1)[1] if head.startswith("From ") and "\n" in head else head
    message = email.message_from_string(mail, policy=email.policy.default)
    subject = str(message["subject"] or "").removeprefix("[PATCH]").strip()
    body = message.get_payload()
    if not isinstance(body, str):
        raise BuildError(f"patches/{name} is a multi-part mail, expected a plain patch: export it again")
    body = body.rstrip("\n").removesuffix("---").rstrip("\n")
    above, trailers = _split_trailers("\n\n" + body)
    try:
        files = tuple(PatchSet.from_string("diff --git " + diff))
    except UnidiffParseError as error:
        raise BuildError(f"patches/{name} is not a unified diff: {error}; export it again") from error
    return Patch(name, text, subject, above.strip(), trailers, files)


def read_order(folder: Path = PATCHES) -> list[str]:
    """The file names that `series` lists, in order."""
    series = folder / "series"
    if not series.is_file():
        raise BuildError(f"{series} is missing; it lists the patches in order, one file name a line")
    return [line for line in series.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def _read_patch(folder: Path, name: str) -> Patch:
    """Bytes are decoded without touching line ends: the hash in the provenance is that of the file."""
    if problem := _name_problem(name):
        raise BuildError(problem)
    path = folder / name
    if not path.is_file():
        raise BuildError(f"patches/series lists {name!r}, but there is no such file in patches/")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise BuildError(f"patches/{name} is not UTF-8 ({error}): export it again") from error
    return parse_patch(name, text)


def _name_problem(name: str) -> str | None:
    if "/" in name or path_problem(name):
        return f"patches/series lists {name!r}, expected the plain name of a file in patches/"
    return None


def read_unchecked(folder: Path = PATCHES) -> list[Patch]:
    """The series as it is, for the checkout in which a faulty patch is put right."""
    return [_read_patch(folder, name) for name in read_order(folder)]


def read_series(folder: Path = PATCHES) -> list[Patch]:
    """The series, for everything that applies it or speaks of it. Raises BuildError with all that is wrong with it."""
    problems = series_problems(folder)
    if problems:
        raise BuildError("\n  ".join(["the series cannot be used:", *problems]))
    return read_unchecked(folder)


def series_sha256(patches: list[Patch]) -> str:
    return named_sha256((patch.name, patch.text.encode()) for patch in patches)


def touched_paths(patches: list[Patch]) -> list[str]:
    return sorted({path for patch in patches for path in patch.paths})


def _header_problems(patch: Patch) -> list[str]:
    problems = []
    lines = patch.text.split("\n")
    if lines[0] != ZERO_COMMIT_LINE:
        problems.append(f"the first line is {lines[0]!r}, expected {ZERO_COMMIT_LINE!r}")
    for field in ("From: ", "Date: ", "Subject: [PATCH] "):
        if not any(line.startswith(field) for line in lines[1:8]):
            problems.append(f"the header has no line that starts with {field!r}")
    if patch.name != slug_of(patch.subject) + ".patch":
        problems.append(
            f"the file name should be the slug of its subject: {slug_of(patch.subject)}.patch (series holds the order)"
        )
    if not patch.message:
        problems.append("the message is empty; it says why, and why the overlay cannot do it")
    names = [name for name, _ in patch.trailers]
    for wanted in TRAILERS:
        if names.count(wanted) != 1:
            problems.append(
                f"expected exactly one trailer {wanted!r} in the last paragraph, found {names.count(wanted)}"
            )
    values = dict(patch.trailers)
    why = values.get("Why-a-patch")
    if why is not None and why not in WHY_A_PATCH:
        problems.append(f"Why-a-patch is {why!r}, expected one of: {' | '.join(WHY_A_PATCH)}")
    forwarded = values.get("Forwarded")
    if forwarded is not None and forwarded not in ("no", "not-needed") and not re.fullmatch(r"https://\S+", forwarded):
        problems.append(f"Forwarded is {forwarded!r}, expected no, not-needed or a link")
    if "Drop-when" in values:
        try:
            DropCondition.parse(values["Drop-when"])
        except BuildError as error:
            problems.append(str(error))
    return problems


def _diff_problems(patch: Patch) -> list[str]:
    problems = []
    if re.search(r"^(GIT binary patch|Binary files )", patch.text, re.MULTILINE):
        problems.append("it holds a binary change; only text files can be patched")
    if re.search(r"^(old|new) mode ", patch.text, re.MULTILINE):
        problems.append("it changes a file's mode, which a wheel does not take from a patch")
    for file in patch.files:
        if problem := path_problem(file.path):
            problems.append(f"{file.path} {problem}; a patch edits files under torch/")
        elif not file.path.startswith("torch/"):
            problems.append(f"{file.path} is not under torch/")
        if file.is_added_file:
            problems.append(f"{file.path} is a new file; a new file belongs in torch_overlay/")
        if file.is_removed_file or file.is_rename:
            problems.append(f"{file.path} is removed or renamed; a patch only edits files of the base")
        for number, hunk in enumerate(file, start=1):
            where = f"hunk {number} of {file.path}"
            if hunk.added > MAX_ADDED_LINES_PER_HUNK:
                problems.append(
                    f"{where} adds {hunk.added} lines, the limit is {MAX_ADDED_LINES_PER_HUNK}: "
                    "move the behaviour to torch_overlay/ and keep the hook"
                )
            for line in hunk:
                if line.line_type == "\\":
                    problems.append(f"{where} touches a file end without a newline, which is not supported")
                if line.is_added and line.value.rstrip("\n") != line.value.rstrip():
                    problems.append(f"{where} adds trailing whitespace: {line.value.rstrip()!r}")
    if not problems and not (patch.files and all(len(file) > 0 for file in patch.files)):
        problems.append("it holds a diff without a hunk")
    return problems


def patch_problems(patch: Patch) -> list[str]:
    """Everything wrong with one patch, without looking at a base."""
    return [f"patches/{patch.name}: {text}" for text in _header_problems(patch) + _diff_problems(patch)]


def require_sound(patches: Iterable[Patch]) -> None:
    """Raise BuildError where a patch breaks a rule; whoever applies a patch asks this, however it was read."""
    problems = [problem for patch in patches for problem in patch_problems(patch)]
    if problems:
        raise BuildError("\n  ".join(["the series cannot be used:", *problems]))


def series_problems(folder: Path = PATCHES) -> list[str]:
    """Everything wrong with the folder of patches, without looking at a base."""
    problems = []
    order = read_order(folder)
    if not order:
        problems.append("patches/series lists no patch; without hooks nothing would call the overlay")
    for name in sorted({name for name in order if order.count(name) > 1}):
        problems.append(f"patches/series lists {name} {order.count(name)} times")
    for path in sorted(folder.iterdir()):
        if path.name not in order and path.name not in ("series", "README.md"):
            problems.append(f"patches/{path.name} is not listed in patches/series")
    for name in dict.fromkeys(order):
        try:
            problems += patch_problems(_read_patch(folder, name))
        except BuildError as error:
            problems.append(str(error))
    return problems
