"""What the timing model wrote of each launch (core/timing/README.md documents the JSON), and its tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

# Dense peaks of an MI355X at 2.4 GHz, from AMD's data sheet.
PEAK_TFLOPS = {"bf16 and fp16": 2516.0, "fp8": 5033.0, "fp6 and fp4": 10066.0, "other": 2516.0}
PEAK_HBM_GB_PER_S = 8000.0
REASONS = {
    "wait_vm": "memory (vmcnt)",
    "wait_lgkm": "LDS, scalar memory (lgkmcnt)",
    "barrier": "barrier",
    "matrix_data": "MFMA result",
    "matrix_pipe": "matrix unit busy",
    "valu_pipe": "vector ALU busy",
    "lds_pipe": "LDS busy",
    "memory_pipe": "memory pipe busy",
    "issue": "another wave issues",
    "branch": "branch",
    "idle": "s_nop, s_sleep",
}
UNITS = {
    "mfma": "MFMA pipe",
    "valu": "vector ALU",
    "salu": "scalar ALU",
    "lds": "LDS",
    "vmem": "L1 and address unit",
    "l2": "L2",
    "mall": "Infinity Cache",
    "hbm": "HBM",
}


class ProfileError(RuntimeError):
    """The profile cannot be read, or holds nothing of what was asked for."""


@dataclass(frozen=True)
class Kernel:
    """The launches of one kernel on one grid; they are alike, so the first stands for all."""

    launches: int
    nanoseconds: float  # of all of them
    first: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.first["kernel"])


def read(path: Path) -> list[dict[str, Any]]:
    launches = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            launches.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ProfileError(f"{path}:{number} is no launch of a profile: {error}") from error
    return launches


def kernels(launches: Iterable[Mapping[str, Any]], wanted: str | None = None) -> list[Kernel]:
    """Most modelled time first. `wanted`: part of a kernel's name."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    names = set()
    for launch in launches:
        names.add(str(launch["kernel"]))
        if wanted is None or wanted in str(launch["kernel"]):
            key = json.dumps([launch["kernel"], launch["grid"], launch["block"], launch["resources"]])
            groups.setdefault(key, []).append(launch)
    if not names:
        raise ProfileError("no kernel was launched: only Triton and FlyDSL kernels run on the emulator's core")
    if not groups:
        raise ProfileError(f"no kernel has {wanted!r} in its name; launched were {', '.join(sorted(names))}")
    found = [Kernel(len(group), sum(launch["nanoseconds"] for launch in group), group[0]) for group in groups.values()]
    return sorted(found, key=lambda kernel: (-kernel.nanoseconds, kernel.name))


def peak_tflops(kernel: Mapping[str, Any]) -> tuple[str, float]:
    """The peak of what the kernel multiplies, read off its matrix instructions; the narrowest that most work uses."""
    issued: dict[str, float] = {}
    for instruction in kernel["instructions"]:
        if instruction["unit"] == "mfma":
            kind = _matrix_kind(str(instruction["text"]))
            issued[kind] = issued.get(kind, 0.0) + instruction["issues"]
    kind = max(issued, key=lambda name: issued[name]) if issued else "other"
    return kind, PEAK_TFLOPS[kind]


def _matrix_kind(text: str) -> str:
    mnemonic = text.split()[0]
    if "f8f6f4" in mnemonic:
        # cbsz and blgp name the formats: 0 and 1 have 8 bits, and one such operand makes it as slow as two.
        fields = dict(part.split(":", 1) for part in text.replace(",", " ").split() if ":" in part)
        narrow = all(int(fields.get(name, "0"), 0) >= 2 for name in ("cbsz", "blgp"))
        return "fp6 and fp4" if narrow else "fp8"
    if mnemonic.endswith(("_bf16", "_f16")) or "_bf16_1k" in mnemonic:
        return "bf16 and fp16"
    if any(part in mnemonic for part in ("fp8", "bf8", "_i8")):
        return "fp8"
    return "other"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _shape(values: Sequence[int]) -> str:
    return " x ".join(str(value) for value in values)


def overview(found: Sequence[Kernel]) -> Table:
    table = Table(title="kernels, modelled", title_justify="left")
    for column in ("kernel", "grid", "launches", "µs each", "TFLOP/s", "of peak", "HBM GB/s", "of peak"):
        table.add_column(column, justify="left" if column == "kernel" else "right", overflow="fold")
    for column in ("waves/SIMD", "limited by", "spills"):
        table.add_column(column, justify="left" if column == "limited by" else "right")
    for kernel in found:
        first = kernel.first
        memory, occupancy, resources = first["memory"], first["occupancy"], first["resources"]
        tflops, (_, peak) = first["matrix_tflops"], peak_tflops(first)
        table.add_row(
            escape(kernel.name),
            _shape(first["grid"]),
            str(kernel.launches),
            f"{kernel.nanoseconds / kernel.launches / 1e3:.2f}",
            f"{tflops:.1f}" if tflops else "-",
            _percent(tflops / peak) if tflops else "-",
            f"{memory['hbm_gb_per_s']:.0f}",
            _percent(memory["hbm_gb_per_s"] / PEAK_HBM_GB_PER_S),
            f"{occupancy['waves_per_simd']:g}",
            str(occupancy["limiter"]),
            str(resources["vgpr_spills"] + resources["sgpr_spills"]),
        )
    return table


def units(kernel: Mapping[str, Any]) -> Table:
    table = Table(title="busy, share of the compute unit's cycles", title_justify="left")
    for name in UNITS.values():
        table.add_column(name, justify="right")
    table.add_row(*(_percent(kernel["utilisation"][name]) for name in UNITS))
    return table


def stalls(kernel: Mapping[str, Any]) -> Table:
    """Where the cycles of an average wave go."""
    waves = kernel["waves"]
    per_wave = waves["stall_cycles_per_wave"]
    lifetime = waves["resident_cycles"] / max(1, waves["simulated"])
    table = Table(title=f"an average wave, {lifetime:.0f} cycles resident", title_justify="left")
    table.add_column("waits for")
    table.add_column("cycles", justify="right")
    table.add_column("share", justify="right")
    for reason, cycles in sorted(per_wave.items(), key=lambda item: -item[1]):
        if cycles > 0:
            table.add_row(REASONS.get(reason, reason), f"{cycles:.0f}", _percent(cycles / lifetime))
    rest = max(0.0, lifetime - sum(per_wave.values()))
    table.add_row("nothing: it issues", f"{rest:.0f}", _percent(rest / lifetime))
    return table


def place(instruction: Mapping[str, Any]) -> str:
    """File and line without the folder, which is in the JSON."""
    return escape(str(instruction.get("source", "")).rsplit("/", 1)[-1])


def instructions(kernel: Mapping[str, Any], top: int) -> Table:
    table = Table(title=f"instructions that stall most, the first {top}", title_justify="left")
    for column in ("at", "instruction", "source", "issues", "stall cycles", "share", "for"):
        table.add_column(column, justify="left" if column in ("instruction", "source", "for", "at") else "right")
    every = kernel["instructions"]
    total = sum(instruction["stall_cycles"] for instruction in every) or 1.0
    for instruction in sorted(every, key=lambda item: (-item["stall_cycles"], item["pc"]))[:top]:
        if instruction["stall_cycles"] <= 0:
            break
        reason = max(instruction["stalls"], key=lambda name: instruction["stalls"][name], default="")
        table.add_row(
            f"{instruction['pc']:06x}",
            escape(instruction["text"]),
            place(instruction),
            str(instruction["issues"]),
            f"{instruction['stall_cycles']:.0f}",
            _percent(instruction["stall_cycles"] / total),
            REASONS.get(reason, reason),
        )
    return table


def conflicts(kernel: Mapping[str, Any], top: int) -> Table | str:
    """LDS instructions that lose most to bank conflicts, or the sentence that there are none."""
    lds = [instruction for instruction in kernel["instructions"] if instruction.get("lds_cycles", 0) > 0]
    bad = [instruction for instruction in lds if instruction["conflict_cycles"] > 0]
    if not bad:
        return f"bank conflicts: none in {len(lds)} LDS instructions" if lds else "bank conflicts: no LDS instruction"
    lost = sum(item["conflict_cycles"] for item in bad) / sum(item["lds_cycles"] for item in lds)
    title = f"bank conflicts, in {len(bad)} of {len(lds)} LDS instructions: {_percent(lost)} of the cycles of LDS"
    table = Table(title=f"{title}, the first {top}", title_justify="left")
    for column in ("at", "instruction", "source", "LDS cycles each", "of them conflicts"):
        table.add_column(column, justify="right" if "c" in column[-9:] and column != "source" else "left")
    for instruction in sorted(bad, key=lambda item: (-item["conflict_cycles"], item["pc"]))[:top]:
        issues = instruction["issues"]
        table.add_row(
            f"{instruction['pc']:06x}",
            escape(instruction["text"]),
            place(instruction),
            f"{instruction['lds_cycles'] / issues:.1f}",
            f"{instruction['conflict_cycles'] / issues:.1f}",
        )
    return table


def show(kernel: Kernel, console: Console, top: int) -> None:
    first = kernel.first
    memory, occupancy, resources, sampling = (
        first["memory"], first["occupancy"], first["resources"], first["sampling"],
    )  # fmt: skip
    console.print()
    console.rule(escape(f"{kernel.name}, grid {_shape(first['grid'])}, block {_shape(first['block'])}"), align="left")
    kind, peak = peak_tflops(first)
    console.print(
        f"modelled {first['nanoseconds'] / 1e3:.2f} µs, {first['launch_nanoseconds'] / 1e3:.2f} of it launch; "
        f"{first['cycles']:.0f} cycles at {first['clock_ghz']:.2f} GHz"
    )
    if first["matrix_flops"]:
        share = _percent(first["matrix_tflops"] / peak)
        console.print(f"{first['matrix_tflops']:.1f} TFLOP/s of matrix instructions, {share} of {peak:.0f} ({kind})")
    hits = ", ".join(
        f"{name} {_percent(memory[key])}"
        for name, key in (("L1", "l1_hit"), ("L2", "l2_hit"), ("Infinity Cache", "mall_hit"))
    )
    share = _percent(memory["hbm_gb_per_s"] / PEAK_HBM_GB_PER_S)
    console.print(
        f"HBM {memory['hbm_gb_per_s']:.0f} GB/s, {share} of {PEAK_HBM_GB_PER_S:.0f}; "
        f"requested {memory['requested_bytes'] / 1e6:.1f} MB; hits: {hits}"
    )
    console.print(
        f"occupancy: {occupancy['workgroups_per_cu']} workgroups of {first['waves_per_workgroup']} waves on a compute "
        f"unit, {occupancy['waves_per_simd']:g} waves a SIMD, limited by {occupancy['limiter']} "
        f"(the kernel alone: {occupancy['limit_workgroups_per_cu']} workgroups, by {occupancy['kernel_limiter']})"
    )
    console.print(
        f"resources: {resources['vgprs']} VGPRs, {resources['agprs']} AGPRs, {resources['sgprs']} SGPRs, "
        f"{resources['lds_bytes']} bytes of LDS, {resources['scratch_bytes_per_lane']} of scratch a lane; "
        f"spills: {resources['vgpr_spills']} VGPRs, {resources['sgpr_spills']} SGPRs"
    )
    console.print(
        f"from {sampling['workgroups_simulated']} workgroups simulated on one compute unit and "
        f"{sampling['workgroups_replayed']} through the caches of one XCD, of {first['workgroups']}"
    )
    if not any(instruction.get("source") for instruction in first["instructions"]):
        console.print(
            "source lines: the code object has no line table; FlyDSL writes one with FLYDSL_DEBUG_ENABLE_DEBUG_INFO=1 "
            "(set here unless it was set before), HIP with -gline-tables-only, Triton unless TRITON_DISABLE_LINE_INFO=1"
        )
    console.print(units(first))
    console.print(stalls(first))
    console.print(instructions(first, top))
    console.print(conflicts(first, top))
