"""PyTorch's lists of what autocast does with operators on CUDA: each runs in the listed type, bit for bit."""

from __future__ import annotations

import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

# name of the list -> the type that its operators run in, the module they are in
LISTS = {
    "torch_fp16": (torch.float16, torch),
    "torch_fp32": (torch.float32, torch),
    "torch_need_autocast_promote": (torch.float32, torch),
    "torch_expect_builtin_promote": (torch.float32, torch),
    "nn_fp16": (torch.float16, torch._C._nn),
    "nn_fp32": (torch.float32, torch._C._nn),
    "linalg_fp16": (torch.float16, torch._C._linalg),
    "methods_fp16": (torch.float16, None),
    "methods_fp32": (torch.float32, None),
    "methods_expect_builtin_promote": (torch.float32, None),
}
CASES = [(name, i) for name in LISTS for i in range(len(getattr(AutocastTestLists("cpu"), name)))]


class TestAutocastLists(TestAutocast):
    @parametrize("name,number", CASES, name_fn=lambda name, number: f"{name}_{number}")
    def test_runs_in_the_listed_type(self, device, name, number):
        torch.manual_seed(0)
        case = getattr(AutocastTestLists(torch.device(device)), name)[number]
        run_as, module = LISTS[name]
        op, args, third = (*case, None)[:3]
        keywords = {}
        if name == "torch_fp16" and third:
            self.skipTest("PyTorch's list excludes it on ROCm, or has no arguments for it")
        elif name.endswith("builtin_promote"):
            keywords["out_type"] = third
        elif third is not None:
            keywords["add_kwargs"] = third
        self._run_autocast_outofplace(op, args, run_as, "cuda", module=module, amp_dtype=torch.float16, **keywords)


instantiate_device_type_tests(TestAutocastLists, globals(), only_for="cuda")
