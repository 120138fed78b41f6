"""torch.compile on the device: generated Triton kernels against the same operators run one by one, without FlyDSL."""

from __future__ import annotations

import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, parametrize

import gfx950_emulator

# Operators of the database that Inductor lowers itself: a pointwise, reduction, indexing or scatter kernel for each.
LOWERED = """abs add addcmul amax amin any argmax atan2 bitwise_and cat ceil clamp constant_pad_nd copysign cos cummax
    cumsum div eq erf exp flip floor fmod gather ge hypot index_add index_put index_select isnan lerp log1p
    logical_and logsumexp lt masked_fill max.reduction_with_dim mean min.binary mul nn.functional.avg_pool2d
    nn.functional.embedding nn.functional.gelu nn.functional.hardswish nn.functional.layer_norm
    nn.functional.leaky_relu nn.functional.max_pool2d nn.functional.relu nn.functional.silu
    nn.functional.softplus pow prod reciprocal remainder repeat roll round rsqrt scatter_add sigmoid sign
    softmax sort sqrt std sub sum tan tanh tril true_divide unfold var var_mean where zeros_like""".split()
DATABASE = [op for op in op_db if op.full_name in LOWERED and not op.variant_test_name.startswith("unbiased")]


class TestInductor(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        self.patch = inductor_config.patch(compile_threads=1, fx_graph_cache=False)
        self.patch.__enter__()
        self.addCleanup(self.patch.__exit__, None, None, None)

    def compiled_matches(self, function, *arguments, kernels=1, **tolerance):
        gfx950_emulator.reset_launches()
        actual = torch.compile(function, fullgraph=True)(*arguments)
        launched = sum(count for name, count in gfx950_emulator.launch_counts().items() if name.startswith("triton"))
        self.assertGreaterEqual(launched, kernels, gfx950_emulator.launch_counts())
        self.assertEqual(actual, function(*arguments), **tolerance)

    @ops(DATABASE, allowed_dtypes=[torch.float32])
    def test_database(self, device, dtype, op):
        """The largest sample of each, its gradient too where it has one."""
        sample = max(op.sample_inputs(device, dtype), key=lambda s: getattr(s.input, "numel", lambda: 0)())
        self.compiled_matches(lambda *a: op.op(*a, **sample.kwargs), sample.input, *sample.args, kernels=0)

    @parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    @parametrize("dynamic", [False, True])
    def test_pointwise_chain(self, device, dtype, dynamic):
        torch._dynamo.config.assume_static_by_default = not dynamic
        for size in (33, 4000):
            x, y = torch.randn(size, device=device, dtype=dtype), torch.randn(size, device=device, dtype=dtype)
            self.compiled_matches(
                lambda a, b: torch.sigmoid(a) * b + torch.where(a > 0, b, -a), x, y, atol=2e-2, rtol=2e-2
            )
        torch._dynamo.config.assume_static_by_default = True

    @parametrize("shape,dim", [((64, 1000), 1), ((1000, 64), 0), ((7, 9, 300), (0, 2)), ((5000,), 0)])
    def test_reductions(self, device, shape, dim):
        x = torch.randn(shape, device=device)
        self.compiled_matches(lambda a: (a.sum(dim), a.amax(dim), a.var(dim)), x, atol=1e-3, rtol=1e-4)

    def test_softmax_and_norms(self, device):
        x, w = torch.randn(32, 500, device=device), torch.randn(500, device=device)
        self.compiled_matches(lambda a, b: F.layer_norm(F.softmax(a, -1), (500,), b), x, w, atol=1e-4, rtol=1e-4)

    @parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_matmul_template(self, device, dtype):
        a, b = (torch.randn(64, 64, device=device, dtype=dtype) for _ in range(2))
        with inductor_config.patch(max_autotune=True, max_autotune_gemm_backends="TRITON"):
            self.compiled_matches(lambda x, y: torch.relu(x @ y), a, b, atol=5e-2, rtol=2e-2)

    def test_training_step(self, device):
        model = torch.nn.Sequential(
            torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
        )
        model.to(device)
        x = torch.randn(16, 32, device=device)
        expected = torch.autograd.grad(model(x).square().sum(), model.parameters())
        actual = torch.autograd.grad(torch.compile(model)(x).square().sum(), model.parameters())
        self.assertEqual(actual, expected, atol=1e-4, rtol=1e-4)

    @parametrize("kind", ["causal", "bias", "window"])
    def test_flex_attention(self, device, kind):
        q, k, v = (torch.randn(1, 2, 128, 64, device=device, dtype=torch.float16) for _ in range(3))
        masks = {"causal": lambda b, h, i, j: i >= j, "window": lambda b, h, i, j: (i - j).abs() < 16}
        mask = create_block_mask(masks[kind], None, None, 128, 128, device=device) if kind in masks else None
        score = (lambda s, b, h, i, j: s + (i - j) * 0.1) if kind == "bias" else None

        def attend(q, k, v):
            return flex_attention(q, k, v, score_mod=score, block_mask=mask)

        gfx950_emulator.reset_launches()
        actual = torch.compile(attend, fullgraph=True)(q, k, v)
        self.assertTrue(any("flex" in name for name in gfx950_emulator.launch_counts()))
        self.assertEqual(actual, attend(q, k, v), atol=5e-3, rtol=5e-3)

    def test_graph_trees(self, device):
        function = torch.compile(lambda x, y: (x @ y).relu().sum(0), mode="reduce-overhead")
        for _ in range(4):
            x, y = torch.randn(8, 16, device=device), torch.randn(16, 4, device=device)
            self.assertEqual(function(x, y), (x @ y).relu().sum(0))


instantiate_device_type_tests(TestInductor, globals(), only_for="cuda")
