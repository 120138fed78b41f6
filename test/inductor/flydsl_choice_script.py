"""Compile one mm in a process of its own and print what Inductor's caches did; run by test_flydsl_choice.py."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor import config
from torch._inductor.select_algorithm import add_feedback_saver

from reference import mm as reference


def main(argv: list[str] | None = None) -> int:
    graph_cache = os.environ["FX_GRAPH_CACHE"] == "1"
    timings: dict[str, float] = {}

    def save(found: dict[Any, float], *_: object) -> None:
        timings.update({choice.hash_key(): time for choice, time in found.items()})

    add_feedback_saver(save)
    config.max_autotune = True
    config.fx_graph_cache = graph_cache
    config.max_autotune_gemm_backends = "FLYDSL"
    config.flydsl_enable_autotuning = True
    config.test_configs.autotune_choice_desc_regex = r"^(64|32)x64x"  # two candidates are enough
    a, b_nk = (operand.cuda() for operand in reference.normal_inputs(80, 136, 1024, torch.bfloat16))
    compiled = torch.compile(lambda x, y: x @ y.T)
    compiled(a, b_nk)

    from torch._inductor.kernel.flydsl import gemm

    before = gemm.launch_count()
    result = compiled(a, b_nk)
    if reference.excess(result, a, b_nk) > 1:
        print("wrong result", file=sys.stderr)
        return 1
    print(f"benchmarked={counters['inductor']['select_algorithm_autotune']}")
    print(f"graph_hits={counters['inductor']['fxgraph_cache_hit']}")
    print(f"launches={gemm.launch_count() - before}")
    print(f"timings={json.dumps(timings, sort_keys=True)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
