"""A meta path finder that runs our code around the import of a few modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

# module -> functions of this package, by "module:function", loaded only when the module is imported
BEFORE: dict[str, str] = {
    "torch": "machine:before_torch",
    "torch._C": "machine:load_device_library",
    "triton": "machine:set_up",
    "flydsl": "machine:before_flydsl",
}
AFTER: dict[str, str] = {
    "torch.version": "torch_version:install",
    "torch._C": "torch_c:install",
    "torch.backends": "torch_sdpa:install",
    "torch.cuda": "torch_cuda:install",
    "torch.distributed.distributed_c10d": "collectives:install",
    "torch.storage": "torch_storage:install",
    "torch._inductor.runtime.benchmarking": "benchmarking:install_inductor",
    "torch._inductor.select_algorithm": "autotuning:install",
    "triton.testing": "benchmarking:install_triton",
}


def _resolve(name: str) -> Callable[[ModuleType | None], None]:
    module, function = name.split(":")
    resolved: Callable[[ModuleType | None], None] = getattr(
        importlib.import_module(f"gfx950_emulator.{module}"), function
    )
    return resolved


class HookFinder:
    """Finds the hooked modules where Python's own finder does, and wraps their execution.

    It does not derive from importlib.abc.MetaPathFinder, whose import costs more than all of this package's start.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        before, after = BEFORE.get(fullname), AFTER.get(fullname)
        if before is None and after is None:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        create, execute = loader.create_module, loader.exec_module

        def create_module(spec: ModuleSpec) -> ModuleType | None:
            if before is not None:
                _resolve(before)(None)
            return create(spec)

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if after is not None:
                _resolve(after)(module)

        # On the instance: the loader keeps its type, so that inspect and importlib.resources work as ever.
        loader.create_module = create_module  # type: ignore[method-assign]
        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    sys.meta_path.insert(0, HookFinder())
