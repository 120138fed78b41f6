"""Zeros in device memory that kernels count in and leave as zeros: workgroups of a launch agree by them who is last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

_FEWEST = 4096  # so that most kernels find enough of them

# Of a device and stream, the largest last. None is ever freed: a kernel that has not run yet may count in it.
_of: dict[tuple[torch.device, int], list[torch.Tensor]] = {}


def counters(count: int, device: torch.device, stream: int) -> torch.Tensor:
    """At least ``count`` of them, as int32, for a kernel on the raw ``stream``: the kernels of a stream run one after
    the other, so they share them.

    A graph may replay on any stream, beside anything, so it gets its own, zeroed whenever it is replayed.
    """
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(count, dtype=torch.int32, device=device)
    found = _of.setdefault((device, stream), [])
    if not found or found[-1].numel() < count:
        size = max(count, 2 * found[-1].numel() if found else _FEWEST)
        # In a thread of its own: a graph's warm-up sends this thread's allocations to a pool that must not keep any.
        with ThreadPoolExecutor(1) as thread:
            found.append(thread.submit(_zeros, size, device).result())
    return found[-1]


def _zeros(count: int, device: torch.device) -> torch.Tensor:
    zeros = torch.zeros(count, dtype=torch.int32, device=device)
    torch.cuda.synchronize(device)  # the kernels that count may be on any stream
    return zeros
