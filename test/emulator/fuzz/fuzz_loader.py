"""Feeds damaged code objects to the core's loader, built with AddressSanitizer and UndefinedBehaviorSanitizer.

    python test/emulator/fuzz/fuzz_loader.py SECONDS [--inputs N] [--seed N] [--build FOLDER]

Prints how many inputs of which kind were loaded or refused. A finding of a sanitizer, or a hang, ends it with status 1
and leaves the input in FOLDER/finding.bin. Needs a C++17 compiler with both sanitizers (CXX, else c++) and ziglang, to
assemble the undamaged code objects; with triton installed, one of its kernels is among them.
"""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parent / "core"
sys.path.insert(0, str(HERE.parent / "tests"))

from assemble import KernelText, assemble, assemble_source, metadata_of, source_of  # noqa: E402

SOURCES = (
    HERE / "loader.cpp",
    CORE / "loader/bundle.cpp",
    CORE / "loader/elf.cpp",
    CORE / "loader/lines.cpp",
    CORE / "loader/msgpack.cpp",
    CORE / "loader/readable.cpp",
    CORE / "machine/code_object.cpp",
    CORE / "machine/kernel.cpp",
    CORE / "memory/memory.cpp",
    CORE / "timing/record.cpp",
)
FLAGS = (
    "-std=c++17 -O1 -g -march=x86-64-v3 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
).split()
# One object may ask for 1 GiB to load; the sanitizer's allocator gives a quarter, and the loader says so.
ASAN_OPTIONS = "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=1:alloc_dealloc_mismatch=0"
UNLIMITED = 1 << 62


def compiled(build: Path) -> Path:
    """The program; what is older than its source or a header is built again."""
    program = build / "loader"
    headers = max(path.stat().st_mtime for path in CORE.rglob("*.h"))
    compiler = os.environ.get("CXX", "c++")

    def one(source: Path) -> Path:
        target = build / f"{source.stem}.o"
        if target.exists() and target.stat().st_mtime > max(headers, source.stat().st_mtime):
            return target
        include = [f"-I{CORE}", f"-I{CORE / 'include'}"]
        subprocess.run([compiler, *FLAGS, *include, "-c", str(source), "-o", str(target)], check=True)
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(one, SOURCES))
    subprocess.run([compiler, *FLAGS, *map(str, objects), "-o", str(program), "-lpthread", "-ldl"], check=True)
    return program


def bundle(code_object: bytes) -> bytes:
    """A clang offload bundle with an empty host part."""
    names = (b"host-x86_64-unknown-linux-gnu-", b"hipv4-amdgcn-amd-amdhsa--gfx950")
    sizes = (0, len(code_object))
    at = 4096
    header = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names))
    for name, size in zip(names, sizes, strict=True):
        header += struct.pack("<QQQ", at, size, len(name)) + name
    return header.ljust(at, b"\0") + code_object


def with_lines(kernel: KernelText) -> bytes:
    """The assembler's own line table, of DWARF 5."""
    lines = "".join(f".loc 0 {k + 1}\n{line}\n" for k, line in enumerate(kernel.body.splitlines()))
    body = KernelText(kernel.name, lines, kernel.kernarg_size)
    return assemble_source(
        f'.file 0 "/folder" "kernel.s"\n{source_of(body)}\n.amdgpu_metadata\n---\n'
        "amdhsa.target: amdgcn-amd-amdhsa--gfx950\namdhsa.version: [ 1, 2 ]\namdhsa.kernels:\n"
        f"{metadata_of(body)}...\n.end_amdgpu_metadata\n"
    )


def triton_kernel() -> bytes | None:
    try:
        import triton_kernels as kernels
        from triton.compiler import ASTSource, compile
    except ImportError:
        return None
    signature = {"x": "*fp32", "y": "*fp32", "block": "constexpr"}
    source = ASTSource(kernels.copy_unmasked, signature, {(2,): 256})
    code: bytes = compile(source, target=kernels.TARGET).asm["hsaco"]
    return code


def seeds(folder: Path) -> list[Path]:
    load, store = "s_load_dwordx2 s[4:5], s[0:1], 0x0", "global_store_dword v1, v1, s[4:5]"
    body = "\n".join([load, "v_mov_b32_e32 v1, 0", "s_waitcnt lgkmcnt(0)", store])
    plain = assemble([KernelText("first", body, 16), KernelText("second", body, 8, lds=1024)])
    images = {"plain": plain, "bundle": bundle(plain), "lines": with_lines(KernelText("lines", body, 8))}
    if (compiled_by_triton := triton_kernel()) is not None:
        images["triton"] = compiled_by_triton
    paths = []
    for name, image in images.items():
        paths.append(folder / f"{name}.hsaco")
        paths[-1].write_bytes(image)
    return paths


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fuzz the loader of code objects with ASan and UBSan.")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--inputs", type=int, default=UNLIMITED, help="stop after so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--build", type=Path, default=Path("build/fuzz"), help="default: build/fuzz")
    arguments = parser.parse_args(argv)
    build: Path = arguments.build.resolve()
    build.mkdir(parents=True, exist_ok=True)
    program, paths = compiled(build), seeds(build)
    command = [str(program), str(arguments.seconds), str(arguments.inputs), str(arguments.seed), *map(str, paths)]
    print("+", *command, flush=True)
    try:
        done = subprocess.run(
            command,
            env=os.environ | {"ASAN_OPTIONS": ASAN_OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"},
            cwd=build,
            capture_output=True,
            text=True,
            check=False,
            timeout=arguments.seconds + 120,
        )
    except subprocess.TimeoutExpired:
        print(f"a finding: seed {arguments.seed} hangs", file=sys.stderr)
        return 1
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    seconds = inputs = 0.0
    for line in done.stdout.splitlines():
        kind, outcome, count = line.split("\t")
        if kind == "seconds":
            seconds, inputs = float(outcome), int(count)
        else:
            rows[kind][outcome] += int(count)
    outcomes = sorted({outcome for counts in rows.values() for outcome in counts})
    print(f"{'kind':24}" + "".join(f"{outcome:>18}" for outcome in outcomes))
    for kind, counts in sorted(rows.items()):
        print(f"{kind:24}" + "".join(f"{counts[outcome]:18,}" for outcome in outcomes))
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        print(f"a finding; the input, if there is one, is {build / 'finding.bin'}")
        return 1
    print(f"{inputs:,.0f} inputs from {len(paths)} code objects in {seconds:.0f} s, seed {arguments.seed}: no finding")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
