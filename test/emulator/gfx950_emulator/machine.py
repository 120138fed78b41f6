"""The host side of the emulated machine: checks, a ROCm-like directory, and the libraries that must be loaded first."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

from gfx950_emulator import rocm_tree, watches
from gfx950_emulator.errors import EmulatorError

LIBRARIES = Path(__file__).parent / "lib"
HIP_LIBRARY = LIBRARIES / "libamdhip64.so.7"
DEVICE_LIBRARY = LIBRARIES / "libgfx950_torch_device.so"
DECODER_STUBS = ("librocm_sysdeps_z.so.1", "librocm_sysdeps_zstd.so.1")

_CPU_FLAGS = ("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
_FOREIGN_DEVICES = ("libtorch_hip.so", "libtorch_cuda.so", "libtorch_xpu.so")


def check_processor(cpuinfo: str | None = None) -> None:
    """The libraries are built for x86-64-v3; on less they would die of an illegal instruction."""
    text = Path("/proc/cpuinfo").read_text() if cpuinfo is None else cpuinfo
    flags: set[str] = set()
    for line in text.splitlines():
        if line.startswith("flags"):
            flags = set(line.split(":", 1)[1].split())
            break
    missing = [flag for flag in _CPU_FLAGS if flag not in flags]
    if missing:
        raise EmulatorError(
            f"the gfx950 emulator needs an x86-64-v3 processor (AVX2, FMA, F16C); this one lacks {', '.join(missing)}"
        )


def check_torch() -> None:
    """The device library fits one release of torch, and a CPU build of it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return  # the import itself says so
    for name in _FOREIGN_DEVICES:
        if (Path(spec.origin).parent / "lib" / name).exists():
            raise EmulatorError(
                f"the installed torch has a device of its own ({name}); the emulated gfx950 needs a CPU build. Use "
                "another virtual environment, or run without the emulator"
            )
    version = torch_version(Path(spec.origin).parent)
    built_for = built_for_torch()
    if version.split("+")[0] != built_for:
        raise EmulatorError(
            f"this gfx950-emulator was built for torch {built_for}, and torch {version} is installed: rebuild it with "
            "`pip install --no-build-isolation test/emulator`, or install that torch"
        )


def torch_version(package: Path) -> str:
    """What torch.__version__ will be. The distribution's metadata say the same, and take longer to read."""
    file = package / "version.py"
    match = re.search(r"^__version__ = '([^']*)'", file.read_text() if file.exists() else "", re.MULTILINE)
    if match is None:
        raise EmulatorError(f"{package} does not look like an installed PyTorch: no __version__ in its version.py")
    return match[1]


def build_id(library: Path) -> str:
    """The linker's hash of a library's content, in hexadecimal. It stands in the first page."""
    with library.open("rb") as file:
        head = file.read(4096)
    start = head.find(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0")  # sizes of the name and of a SHA-1, the type, the name
    if start < 0:
        raise EmulatorError(f"{library} has no build id: build the package again, with a linker that knows --build-id")
    return head[start + 16 : start + 36].hex()


def built_for_torch() -> str:
    return (LIBRARIES / "torch_release.txt").read_text().strip()


def check_real_rocm() -> None:
    """Two HIP runtimes in one process mean that FlyDSL and torch talk to different ones."""
    maps = Path("/proc/self/maps").read_text()
    for line in maps.splitlines():
        path = line.split(maxsplit=5)[-1]
        if "libamdhip64" in path and not (Path(path).exists() and Path(path).samefile(HIP_LIBRARY)):
            raise EmulatorError(
                f"a real HIP runtime is loaded already ({path}): start a fresh process for the emulated gfx950"
            )
    if Path("/dev/kfd").exists():
        print(
            "gfx950 emulator: this machine has an AMD GPU (/dev/kfd); the emulated gfx950 hides it from this process",
            file=sys.stderr,
        )


@functools.cache
def hip_library() -> ctypes.CDLL:
    """The emulated HIP runtime. Loaded by its full path before anybody asks for libamdhip64.so.7 by name."""
    return ctypes.CDLL(str(HIP_LIBRARY))


def check_environment() -> None:
    """The variables that every launch reads: better refused now than by the first kernel."""
    check = hip_library().gfx950_check_environment
    check.restype = ctypes.c_char_p
    if (problem := check()) is not None:
        raise EmulatorError(problem.decode())


def check_library(path: Path) -> None:
    """Native code lies beside the installed package, not beside its sources."""
    if path.exists():
        return
    if ((sources := LIBRARIES.parents[1]) / "pyproject.toml").exists():
        raise EmulatorError(
            f"Python found the package's sources in {sources} before the installed package, because it looks in the "
            "current folder and in PYTHONPATH first: start it in another folder"
        )
    raise EmulatorError(
        f"{path.name} is missing: install the package with `pip install --no-build-isolation test/emulator`"
    )


@functools.cache
def _set_up_once() -> None:
    check_processor()
    check_library(HIP_LIBRARY)
    check_torch()
    check_real_rocm()
    tree = rocm_tree.ensure(HIP_LIBRARY)
    os.environ["ROCM_PATH"] = str(tree)
    os.environ["TRITON_LIBHIP_PATH"] = str(tree / "lib" / "libamdhip64.so")
    entries = os.environ.get("PATH", "").split(os.pathsep)
    if str(tree / "bin") not in entries:
        os.environ["PATH"] = os.pathsep.join([str(tree / "bin"), *entries])
    # Inductor's static launcher is part of libtorch_python in GPU builds only; Triton's own launcher does the same.
    os.environ.setdefault("TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER", "0")
    if (decoder := rocm_tree.decoder_library()) is not None:
        os.environ.setdefault("GFX950_LIBLLVM", str(decoder))
    for stub in DECODER_STUBS:
        if (LIBRARIES / stub).exists():
            ctypes.CDLL(str(LIBRARIES / stub))
    check_environment()
    watches.report_at_exit()


def set_up(_: ModuleType | None = None) -> None:
    """Idempotent; raises EmulatorError when the emulated machine cannot exist here."""
    _set_up_once()


def before_torch(_: ModuleType | None = None) -> None:
    set_up()


def before_flydsl(_: ModuleType | None = None) -> None:
    set_up()


@functools.cache
def device_library() -> ctypes.CDLL:
    """The torch device. Its static registrations must run before torch._C initialises, which caches the CUDA hooks."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise EmulatorError("torch is not installed")
    ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "libtorch_cpu.so"))
    try:
        library = ctypes.CDLL(str(DEVICE_LIBRARY))
    except OSError as error:
        raise EmulatorError(
            f"this gfx950-emulator was built against another ABI than that of the torch in {Path(spec.origin).parent} "
            f"({error}): rebuild it for this torch with `pip install --no-build-isolation test/emulator`"
        ) from error
    if library.gfx950_torch_register_cpu_kernels() < 0:
        library.gfx950_torch_error.restype = ctypes.c_char_p
        raise EmulatorError(library.gfx950_torch_error().decode())
    return library


def load_device_library(_: ModuleType | None = None) -> None:
    device_library()
