"""`python -m gfx950_emulator disasm FILE`: the kernels of a gfx950 code object as text, and what they need."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from gfx950_emulator import core


def print_kernel(name: str, code_object: core.CodeObject, counts_only: bool) -> None:
    details, code = code_object.kernel(name)
    instructions = core.listing(code)
    print(f"kernel {name}")
    print(f"  {', '.join(f'{key} {value}' for key, value in details.items())}")
    by_class = Counter(instruction.klass or "not executable" for instruction in instructions)
    classes = [f"{key} {by_class[key]}" for key in (*core.CLASSES, "not executable") if by_class[key]]
    print(f"  {len(instructions)} instructions, {len(code)} bytes: {', '.join(classes)}")
    if counts_only:
        by_mnemonic = Counter(instruction.text.split()[0] for instruction in instructions)
        for mnemonic, count in sorted(by_mnemonic.items(), key=lambda item: (-item[1], item[0])):
            print(f"  {count:6}  {mnemonic}")
        return
    targets = {instruction.target for instruction in instructions}
    place = ""
    for instruction in instructions:
        before, place = place, code_object.source(name, instruction.offset)
        if place and place != before:
            print(f"  {place}")
        label = ">" if instruction.offset in targets else " "
        line = f"{label} {instruction.offset:06x}  {instruction.klass or '-':6}  {instruction.text}"
        if instruction.target >= 0:
            line += f"  ; to {instruction.target:06x}"
        if instruction.refusal:
            line += f"  ; not executable: {instruction.refusal}"
        print(line)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gfx950_emulator disasm", description="Disassemble a gfx950 code object or offload bundle."
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--kernel", metavar="NAME", help="this kernel alone")
    parser.add_argument("--counts", action="store_true", help="how often each mnemonic occurs, instead of the text")
    arguments = parser.parse_args(argv)
    try:
        image = arguments.file.read_bytes()
    except OSError as error:
        print(f"disasm: cannot read {arguments.file}: {error.strerror}", file=sys.stderr)
        return 1
    try:
        code_object = core.CodeObject(image)
        names = code_object.kernels()
        if arguments.kernel is not None:
            if arguments.kernel not in names:
                print(
                    f"disasm: {arguments.file} has no kernel {arguments.kernel!r}; it has {', '.join(names)}",
                    file=sys.stderr,
                )
                return 1
            names = [arguments.kernel]
        for name in names:
            print_kernel(name, code_object, arguments.counts)
    except core.CoreError as error:
        print(f"disasm: {arguments.file}: {error}", file=sys.stderr)
        return 1
    return 0
