"""`python -m gfx950_emulator coverage`: every gfx950 instruction, and whether the core executes it.

The instructions are those that LLVM's disassembler knows for gfx950 (encodings.py enumerates the opcodes); whether one
is executed says the core, which is asked for every encoding. What it refuses needs a reason here, else it is a gap.
"Executed" means decoded to a handler: a few operands are refused only when they are met (core/README.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gfx950_emulator import core
from gfx950_emulator.encodings import all_encodings

# 345 mnemonics and how often they occur in 556 kernels that FlyDSL and Triton compiled for gfx950.
SURVEY = Path(__file__).parent / "surveyed_instructions.csv"

# What is refused whole, and why; the first pattern that fits counts. None of it occurs in the survey.
REFUSED = (
    (
        r"v_smfmac_i32_.*",
        "sparse products of integers, by a builtin alone; no source says how lanes hold them, see core/exec/mfma.md",
    ),
    (r"scratch_load_lds_\w+", "LDS DMA from scratch: LLVM has no pattern that makes one"),
    (
        r"ds_(wrap|mskor|cmpst|wrxchg2|wrxchg2st64|condxchg32)_\w+|ds_(append|consume)",
        "LDS atomics that LLVM makes from no operation, at most from a builtin (floats compare by ds_cmpst_b32, b64)",
    ),
    (
        r"ds_(read|write)_addtid_b32",
        "LDS addressed by the lane's number: LLVM has no pattern that makes one for compute",
    ),
    (
        r"v_(q|mq)sad_\w+|v_sat_pk_u8_i16|v_cvt_(pk|pkaccum)_u8_f32",
        "arithmetic on bytes for video, by a builtin: four sums at once, or a rounding or half that is not documented",
    ),
    (
        r"v_(mad|mac|madak|madmk)_\w+|v_\w+_legacy_\w+|v_pk_fmac_f16",
        "predecessors: LLVM makes the fused, IEEE or VOP3P instruction of the same name instead",
    ),
    (r"ds_nop|v_clrexcp", "without an effect on values, and made by no compiler"),
    (
        r"s_(buffer_)?atomic_\w+|s_(buffer_|scratch_)?store_dword\w*|s_scratch_load_dword\w*",
        "the scalar unit's own stores, scratch and atomics: LLVM makes none for gfx940 and later",
    ),
    (r"s_atc_probe\w*|s_dcache_(discard|discard_x2|inv_vol|wb_vol)", "maintenance of the scalar cache, for drivers"),
    (
        r"s_call_b64|s_cbranch_(g_fork|i_fork|join)|s_setvskip",
        "calls and forks that LLVM does not make: it calls by s_swappc_b64, which is executed",
    ),
    (
        r"s_cbranch_cdbg\w+|s_setkill|s_ttrace\w+|s_(inc|dec)perflevel|s_rfe\w+|s_endpgm_saved|s_sendmsghalt",
        "for debuggers, profilers and trap handlers",
    ),
    (r"(t?buffer)_(load|store)_format_\w+", "typed buffers, for graphics"),
    (r"v_cvt_(pk)?(accum_)?norm_\w+|v_cvt_pknorm_\w+|v_cvt_off_f32_i4|v_cube\w+", "for graphics, or by a builtin"),
    (r"v_screen_partition_4se_b32|s_wqm_\w+|s_quadmask_\w+|s_endpgm_ordered_ps_done", "for graphics"),
    (r"ds_gws_\w+", "barriers between workgroups, for drivers"),
)

_MNEMONIC = re.compile(r"\b(?:v|s|ds|global|flat|buffer|scratch|tbuffer|image|exp)_[a-z0-9_]+")
_SUFFIX = re.compile(r"_(?:e32|e64|dpp|sdwa)$")
_DPP_KIND = re.compile(r"\b(quad_perm|row_\w+|wave_\w+)\b")
_ADDRESSING = ("offen", "idxen", "lds", "gds", "sc0", "off")


@dataclass
class Entry:
    mnemonic: str
    forms: set[str] = field(default_factory=set)  # executed
    refused: dict[str, str] = field(default_factory=dict)  # form: the core's words
    reason: str = ""  # when no form is executed
    occurrences: int = 0  # in the survey
    tests: list[str] = field(default_factory=list)

    @property
    def state(self) -> str:
        if self.forms:
            return "implemented"
        return "refused" if self.reason else "gap"


def form_of(instruction: core.Instruction) -> str:
    """What distinguishes this use of a mnemonic from others: its encoding, modifiers, register files, addressing."""
    text = instruction.text
    parts = [instruction.encoding] if instruction.encoding else []
    if instruction.encoding == "dpp" and (kind := _DPP_KIND.search(text)):
        parts.append(kind[1])
    words = re.split(r"[\s,]+", text)
    parts += [word for word in words if word in _ADDRESSING]
    parts += [word.split(":")[0] for word in words if re.match(r"(op_sel|neg_lo|neg_hi|cbsz|blgp|mul|div):", word)]
    if "clamp" in words:
        parts.append("clamp")
    if "|" in text:
        parts.append("abs")
    if re.search(r"-[vs]\d", text):
        parts.append("neg")
    if re.search(r"\ba(\d|\[)", text):
        parts.append("agpr")
    return " ".join(dict.fromkeys(parts)) or "plain"


def survey() -> dict[str, int]:
    with SURVEY.open(newline="") as file:
        return {row["mnemonic"]: int(row["count"]) for row in csv.DictReader(file)}


def reason_for(entry: Entry) -> str:
    return next((reason for pattern, reason in REFUSED if re.fullmatch(pattern, entry.mnemonic)), "")


def named_in(tests: Path) -> dict[str, list[str]]:
    """Mnemonic -> the test files that name it, or whose lists of cases have it (vectors.py there says so)."""
    found: dict[str, set[str]] = {}
    for path in sorted([*tests.glob("*.py"), *tests.glob("golden/*.json")]):
        for name in set(_MNEMONIC.findall(path.read_text())):
            found.setdefault(_SUFFIX.sub("", name), set()).add(path.name)
    if (lists := tests / "vectors.py").exists():
        command = [sys.executable, str(lists), "--mnemonics"]
        done = subprocess.run(
            command, env=os.environ | {"GFX950_EMULATOR": "0"}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise core.CoreError(f"{' '.join(command)}:\n{done.stderr}")
        for name, modules in json.loads(done.stdout).items():
            found.setdefault(name, set()).update(f"{module}.py" for module in modules)
    return {name: sorted(files) for name, files in found.items()}


def collect(tests: Path | None) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for encoding in all_encodings():
        instruction = core.examine(encoding)
        if instruction is None:
            continue
        entry = entries.setdefault(instruction.base, Entry(instruction.base))
        form = form_of(instruction)
        if not instruction.refusal:
            entry.forms.add(form)
            entry.refused.pop(form, None)
        elif form not in entry.forms:
            entry.refused[form] = instruction.refusal
    for mnemonic, count in survey().items():
        entry = entries.setdefault(_SUFFIX.sub("", mnemonic), Entry(_SUFFIX.sub("", mnemonic)))
        entry.occurrences += count
    names = named_in(tests) if tests is not None else {}
    for entry in entries.values():
        entry.tests = names.get(entry.mnemonic, [])
        if not entry.forms:
            entry.reason = reason_for(entry)
    return dict(sorted(entries.items()))


def unreached(entries: dict[str, Entry]) -> list[str]:
    """Names that the core registers and LLVM prints for no encoding: misspelt, or of another architecture."""
    return sorted(name for name in core.registered() if name not in entries or not entries[name].forms)


def missing_from_survey(entries: dict[str, Entry]) -> list[str]:
    """Surveyed mnemonics, encoding suffix included, that are not executed."""
    missing = []
    for mnemonic in survey():
        entry = entries[_SUFFIX.sub("", mnemonic)]
        suffix = _SUFFIX.search(mnemonic)
        forms = entry.forms if suffix is None else {form for form in entry.forms if form.split()[0] == suffix[0][1:]}
        if not forms:
            missing.append(mnemonic)
    return missing


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gfx950_emulator coverage",
        description="Every gfx950 instruction: executed in which forms, or refused and why. Status 1 if neither, or if "
        "the core knows a name that is none of gfx950.",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON, with the core's words for refused forms")
    parser.add_argument(
        "--tests",
        type=Path,
        metavar="FOLDER",
        help="name the test files there that mention each instruction (default: test/emulator/tests, if it is here)",
    )
    arguments = parser.parse_args(argv)
    tests: Path | None = arguments.tests
    if tests is None and Path("test/emulator/tests").is_dir():
        tests = Path("test/emulator/tests")
    if tests is not None and not tests.is_dir():
        print(f"coverage: no folder {tests}", file=sys.stderr)
        return 2
    entries = collect(tests)
    states = {state: [e for e in entries.values() if e.state == state] for state in ("implemented", "refused", "gap")}
    missing, extra = missing_from_survey(entries), unreached(entries)
    summary = {
        "mnemonics": len(entries),
        **{state: len(found) for state, found in states.items()},
        "surveyed": len(survey()),
        "surveyed_missing": missing,
        "registered_but_unreached": extra,
        "named_by_tests": sum(bool(entry.tests) for entry in states["implemented"]),
    }
    failed = bool(states["gap"] or missing or extra)
    if arguments.json:
        rows = [{**asdict(e), "state": e.state, "forms": sorted(e.forms)} for e in entries.values()]
        print(json.dumps({"summary": summary, "instructions": rows}, indent=1))
        return int(failed)
    for entry in entries.values():
        if entry.state == "implemented":
            files = f"  [{', '.join(entry.tests)}]" if entry.tests else ""
            print(f"implemented  {entry.mnemonic}: {'; '.join(sorted(entry.forms))}{files}")
        else:
            print(
                f"{entry.state:11}  {entry.mnemonic}: {entry.reason or '; '.join(sorted(set(entry.refused.values())))}"
            )
    print(
        f"\n{len(entries)} mnemonics: {len(states['implemented'])} implemented, {len(states['refused'])} refused with "
        f"a reason, {len(states['gap'])} unexplained gaps"
    )
    print(
        f"{len(survey()) - len(missing)} of {len(survey())} surveyed mnemonics implemented; missing: "
        f"{', '.join(missing) or 'none'}"
    )
    if tests is not None:
        print(f"{summary['named_by_tests']} of {len(states['implemented'])} implemented are named in {tests}")
    if extra:
        print(f"registered by the core, and not instructions of gfx950 for LLVM: {', '.join(extra)}")
    return int(failed)
