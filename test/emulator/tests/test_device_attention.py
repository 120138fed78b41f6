"""Fused attention on the emulated device: the choice of a backend, values, gradients, dropout, and refusals."""

import math
import warnings
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch.backends.cuda import SDPAParams, can_use_efficient_attention, can_use_flash_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import AuxRequest, varlen_attn
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

ops = torch.ops.aten
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


def exact_attention(q, k, v, *, causal=False, mask=None, scale=None, bottom_right=False):
    """float64 output and logsumexp of [.., queries, size] and [.., keys, size]."""
    q, k, v = q.double(), k.double(), v.double()
    if k.size(-3) != q.size(-3):
        k, v = (t.repeat_interleave(q.size(-3) // t.size(-3), -3) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.size(-1)))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask.double()
    if causal:
        shift = k.size(-2) - q.size(-2) if bottom_right else 0
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(shift), -math.inf)
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1)


def inputs(b, h, sq, sk, d, dtype, kv_heads=None):
    torch.manual_seed(41)
    shapes = (b, h, sq, d), (b, kv_heads or h, sk, d), (b, kv_heads or h, sk, d)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def choice(*args, **kwargs):
    return SDPBackend(torch._fused_sdp_choice(*args, **kwargs))


class TestAttention(TestCase):
    def agree(self, actual, exact, dtype=BF16, factor=2):
        eps = torch.finfo(dtype).eps
        self.assertEqual(actual.detach().cpu().double(), exact, rtol=factor * eps, atol=factor * max(eps, 1e-6))

    @parametrize("causal", [False, True])
    @parametrize("dtype", [BF16, FP16])
    def test_flash_has_hip_s_schema(self, dtype, causal):
        q, k, v = inputs(2, 3, 40, 40, 64, dtype)
        on_device = q.cuda(), k.cuda(), v.cuda()
        out, lse, ends_q, ends_k, max_q, max_k, seed, offset, mask = ops._scaled_dot_product_flash_attention(
            *on_device, 0.0, causal, False
        )
        exact, exact_lse = exact_attention(q, k, v, causal=causal)
        self.agree(out, exact, dtype)
        self.assertEqual((out.shape, out.dtype, out.stride()), (q.shape, dtype, q.stride()))
        self.assertEqual((lse.dtype, lse.shape), (FP32, (2, 3, 40)))
        self.assertEqual(lse.cpu().double(), exact_lse, rtol=1e-6, atol=1e-6)  # of the natural logarithm
        self.assertTrue(ends_q is None and ends_k is None)
        self.assertEqual((max_q, max_k), (40, 40))
        for scalar in (seed, offset):
            self.assertEqual((scalar.dtype, scalar.shape, scalar.device.type), (torch.int64, (), "cuda"))
        self.assertEqual(mask.numel(), 0)

    @parametrize("causal", [False, True])
    @parametrize("backend", FUSED)
    def test_gradients(self, backend, causal):
        dtype = BF16
        operands = inputs(2, 2, 24, 24, 32, dtype)
        exact_leaves = [t.double().requires_grad_() for t in operands]
        exact, _ = exact_attention(*exact_leaves, causal=causal)
        grad = torch.randn_like(exact).bfloat16()
        exact.backward(grad.double())
        leaves = [t.cuda().requires_grad_() for t in operands]
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*leaves, is_causal=causal)
        out.backward(grad.cuda())
        self.agree(out, exact.detach())
        for leaf, exact_leaf in zip(leaves, exact_leaves, strict=True):
            self.agree(leaf.grad, exact_leaf.grad, factor=4)

    @parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH])
    def test_grouped_query_heads(self, backend):  # A11
        q, k, v = inputs(1, 4, 16, 16, 32, BF16, kv_heads=2)
        exact, _ = exact_attention(q, k, v)
        leaves = [t.cuda().requires_grad_() for t in (q, k, v)]
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(*leaves, enable_gqa=True)
        self.agree(out, exact, factor=6 if backend is SDPBackend.MATH else 2)
        out.sum().backward()
        self.assertEqual(leaves[1].grad.shape, k.shape)
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), self.assertRaisesRegex(RuntimeError, "No available kernel"):
            F.scaled_dot_product_attention(*leaves, enable_gqa=True)

    @parametrize("sizes", [(4, 8), (8, 4)])
    def test_causal_is_aligned_at_the_top_left(self, sizes):  # A5
        q, k, v = inputs(1, 2, *sizes, 32, FP16)
        on_device = q.cuda(), k.cuda(), v.cuda()
        self.assertEqual(choice(*on_device, is_causal=True), SDPBackend.EFFICIENT_ATTENTION)
        exact, _ = exact_attention(q, k, v, causal=True)
        self.agree(F.scaled_dot_product_attention(*on_device, is_causal=True), exact, FP16)
        turned = [t.transpose(1, 2) for t in on_device]
        out = ops._efficient_attention_forward(*turned, None, None, None, None, None, 0.0, 2)[0].transpose(1, 2)
        exact, _ = exact_attention(q, k, v, causal=True, bottom_right=True)
        self.agree(out, torch.nan_to_num(exact), FP16)  # a query that sees no key gives zeros

    @parametrize("kind", ["boolean", "additive", "broadcast"])
    def test_mask_goes_to_efficient_attention(self, kind):  # A7
        q, k, v = inputs(2, 3, 7, 7, 32, FP16)
        mask = torch.ones(2, 1, 7, 7, dtype=torch.bool)
        mask[0, :, :, :3] = False
        if kind != "boolean":
            mask = torch.zeros(2, 1, 7, 7).masked_fill(~mask, -math.inf).half()
        if kind == "broadcast":
            mask = torch.randn(1, 3, 7, 7).half()
        bias = mask.cuda()
        on_device = q.cuda(), k.cuda(), v.cuda()
        self.assertEqual(choice(*on_device, attn_mask=bias), SDPBackend.EFFICIENT_ATTENTION)
        leaves = [t.requires_grad_() for t in on_device]
        if kind == "broadcast":
            bias.requires_grad_()
        out = F.scaled_dot_product_attention(*leaves, attn_mask=bias)
        exact_leaves = [t.double().requires_grad_() for t in (q, k, v)]
        exact_mask = mask.double().requires_grad_() if kind == "broadcast" else mask
        exact, _ = exact_attention(*exact_leaves, mask=exact_mask)
        self.agree(out, exact.detach(), FP16)
        out.sum().backward()
        exact.sum().backward()
        for leaf, exact_leaf in zip(leaves, exact_leaves, strict=True):
            self.agree(leaf.grad, exact_leaf.grad, FP16, factor=4)
        if kind == "broadcast":
            self.agree(bias.grad, exact_mask.grad, FP16, factor=8)

    def test_efficient_attention_in_float32(self):
        q, k, v = inputs(1, 2, 33, 17, 20, FP32)
        out, lse, seed, offset = ops._scaled_dot_product_efficient_attention(q.cuda(), k.cuda(), v.cuda(), None, True)
        exact, exact_lse = exact_attention(q, k, v)
        self.agree(out, exact, FP32, factor=4)
        self.assertEqual(lse.cpu().double(), exact_lse, rtol=1e-6, atol=1e-6)
        self.assertEqual(lse.shape, (1, 2, 33))  # HIP does not pad it
        self.assertEqual((seed.dtype, offset.dtype), (torch.int64, torch.int64))

    def test_a_value_that_is_a_transposed_view(self):  # A1
        q, k, _ = inputs(1, 16, 62, 62, 128, BF16)
        v = torch.randn(1, 62, 16 * 128).bfloat16().view(1, 62, 16, 128).transpose(1, 2)
        exact, _ = exact_attention(q, k, v)
        self.agree(F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda()), exact)

    @parametrize("size", [512, 520])
    def test_the_largest_head(self, size):  # A4, A14
        q, k, v = inputs(1, 1, 16, 16, size, BF16)
        expected = SDPBackend.FLASH_ATTENTION if size == 512 else SDPBackend.MATH
        self.assertEqual(choice(q.cuda(), k.cuda(), v.cuda()), expected)
        exact, _ = exact_attention(q, k, v)
        self.agree(F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda()), exact, factor=6)

    def test_head_sizes_are_padded_to_8(self):
        q, k, v = inputs(1, 2, 9, 9, 12, BF16)
        exact, _ = exact_attention(q, k, v)
        self.agree(F.scaled_dot_product_attention(q.cuda(), k.cuda(), v.cuda()), exact)

    # ---- dropout -------------------------------------------------------------------------------------------------

    @parametrize("backend", FUSED)
    def test_dropout_comes_from_its_seed_and_offset(self, backend):
        q, k, v = (t.cuda() for t in inputs(2, 2, 32, 48, 16, BF16))
        with sdpa_kernel(backend):
            torch.cuda.manual_seed(7)
            first = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
            second = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
            torch.cuda.manual_seed(7)
            again = F.scaled_dot_product_attention(q, k, v, dropout_p=0.4)
        self.assertEqual(first, again)
        self.assertNotEqual(first, second)

    def test_dropped_weights_are_those_of_the_debug_mask(self):
        q, k, v = inputs(2, 2, 16, 16, 16, BF16)
        probability = 0.3
        results = ops._scaled_dot_product_flash_attention(q.cuda(), k.cuda(), v.cuda(), probability, False, True)
        out, signed = results[0].cpu().double(), results[8].cpu().double()
        kept = signed > 0
        self.assertLess(abs(kept.double().mean().item() - (1 - probability)), 0.05)
        weights = torch.softmax(q.double() @ k.double().transpose(-1, -2) / 4, -1)
        self.assertEqual(signed.abs(), weights, rtol=0.01, atol=1e-4)
        self.agree(out, weights * kept / (1 - probability) @ v.double())

    def test_gradients_see_the_same_dropout(self):
        operands = inputs(1, 2, 12, 20, 16, FP32)
        probability = 0.25
        leaves = [t.cuda().requires_grad_() for t in operands]
        out, _, seed, offset = ops._scaled_dot_product_efficient_attention(*leaves, None, True, probability)
        out.sum().backward()
        mask = torch.empty(1, 2, 12, 20, device="cuda")
        ops._fill_mem_eff_dropout_mask_(mask, probability, seed.item(), offset.item())
        exact_leaves = [t.double().requires_grad_() for t in operands]
        q, k, v = exact_leaves
        weights = torch.softmax(q @ k.transpose(-1, -2) / 4, -1) * mask.cpu().double() / (1 - probability)
        exact = weights @ v
        exact.sum().backward()
        self.agree(out, exact.detach(), FP32, factor=8)
        for leaf, exact_leaf in zip(leaves, exact_leaves, strict=True):
            self.agree(leaf.grad, exact_leaf.grad, FP32, factor=16)

    # ---- sequences of variable length ----------------------------------------------------------------------------

    @parametrize("heads", [(4, 4), (4, 2)])
    @parametrize("window", [(-1, -1), (-1, 0), (3, 0), (2, 2)])
    def test_varlen(self, window, heads):
        torch.manual_seed(43)
        lengths = [5, 1, 17, 9]
        ends = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()], dtype=torch.int32)
        q = torch.randn(sum(lengths), heads[0], 32).bfloat16()
        k, v = torch.randn(2, sum(lengths), heads[1], 32).bfloat16()
        leaves = [t.cuda().requires_grad_() for t in (q, k, v)]
        out, lse = varlen_attn(
            *leaves,
            ends.cuda(),
            ends.cuda(),
            max(lengths),
            max(lengths),
            window_size=window,
            enable_gqa=heads[0] != heads[1],
            return_aux=AuxRequest(lse=True),
        )
        self.assertEqual(lse.shape, (heads[0], sum(lengths)))
        exact_leaves = [t.double().requires_grad_() for t in (q, k, v)]
        parts = []
        for begin, end in pairwise(ends.tolist()):
            of_q, of_k, of_v = (t[begin:end].transpose(0, 1) for t in exact_leaves)
            i, j = torch.arange(end - begin)[:, None], torch.arange(end - begin)[None]
            seen = torch.ones(end - begin, end - begin, dtype=torch.bool)
            seen &= (j >= i - window[0]) if window[0] >= 0 else seen
            seen &= (j <= i + window[1]) if window[1] >= 0 else seen
            part, part_lse = exact_attention(of_q, of_k, of_v, mask=seen)
            self.assertEqual(lse[:, begin:end].cpu().double(), part_lse.detach(), rtol=1e-5, atol=1e-5)
            parts.append(part.transpose(0, 1))
        exact = torch.cat(parts)
        self.agree(out, exact.detach())
        grad = torch.randn_like(q)
        out.backward(grad.cuda())
        exact.backward(grad.double())
        for leaf, exact_leaf in zip(leaves, exact_leaves, strict=True):
            self.agree(leaf.grad, exact_leaf.grad, factor=4)

    def test_varlen_writes_into_a_tensor(self):
        q, k, v = torch.randn(3, 12, 2, 16, device="cuda").bfloat16()
        ends = torch.tensor([0, 5, 12], dtype=torch.int32, device="cuda")
        out = torch.empty_like(q)
        lse = ops._flash_attention_forward_no_dropout_inplace(out, q, k, v, ends, ends, 7, 7, 0.0, True, False)
        whole = ops._flash_attention_forward(q, k, v, ends, ends, 7, 7, 0.0, True, False)
        self.assertEqual((out, lse), (whole[0], whole[1]))

    def test_efficient_attention_of_packed_sequences(self):
        torch.manual_seed(44)
        ends = torch.tensor([0, 5, 12], dtype=torch.int32)
        q, k, v = torch.randn(3, 1, 12, 2, 16)
        out, lse, *_ = ops._efficient_attention_forward(
            q.cuda(), k.cuda(), v.cuda(), None, ends.cuda(), ends.cuda(), 7, 7, 0.0, 1, True
        )
        self.assertEqual(lse.shape, (2, 2, 7))
        for begin, end in ((0, 5), (5, 12)):
            exact, _ = exact_attention(*(t[:, begin:end].transpose(1, 2) for t in (q, k, v)), causal=True)
            self.agree(out[:, begin:end].transpose(1, 2), exact, FP32, factor=8)

    # ---- the choice ----------------------------------------------------------------------------------------------

    def test_the_order_and_the_switches(self):
        q, k, v = (t.cuda() for t in inputs(1, 2, 8, 8, 32, BF16))
        self.assertEqual(choice(q, k, v), SDPBackend.FLASH_ATTENTION)
        self.assertEqual(choice(q.float(), k.float(), v.float()), SDPBackend.EFFICIENT_ATTENTION)
        self.assertEqual(choice(q.double(), k.double(), v.double()), SDPBackend.MATH)
        self.assertEqual(choice(q[..., :30].float(), k[..., :30].float(), v[..., :30].float()), SDPBackend.MATH)
        self.assertEqual(choice(q, k, v, attn_mask=torch.zeros(8, 8, device="cuda")), SDPBackend.MATH)  # A8
        for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
            with sdpa_kernel(backend):
                self.assertEqual(choice(q, k, v), backend)
        order = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION]
        with sdpa_kernel(order, set_priority=True):
            self.assertEqual(choice(q, k, v), SDPBackend.EFFICIENT_ATTENTION)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), self.assertRaisesRegex(RuntimeError, "No available kernel"):
            choice(q, k, v)

    def test_why_not(self):
        q, k, v = (t.cuda() for t in inputs(1, 2, 8, 8, 32, BF16))
        half = torch.zeros(8, 8, device="cuda", dtype=BF16)
        flash, efficient = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
        narrow = q[..., :4], k[..., :4], v[..., :4]
        cases = (
            (flash, (q, k, v, half, 0.0, False, False), "does not support non-null attn_mask"),
            (flash, (q.float(), k.float(), v.float(), None, 0.0, False, False), "to all be of dtype: {Half, BFloat16}"),
            (flash, (q, k[:, :, :4], v[:, :, :4], None, 0.0, True, False), "seqlen_q != seqlen_k. Got seqlen_q: 8"),
            (flash, (q[0], k[0], v[0], None, 0.0, False, False), "to be 4 dimensional, but got Query dim: 3"),
            (flash, (q, k[:, :1], v[:, :1], None, 0.0, False, False), "to have the same num_heads"),
            (flash, (q[:, :, :0], k, v, None, 0.0, False, False), "do not support zero seq_len"),
            (flash, (q, k, v.mT.contiguous().mT, None, 0.0, False, False), "to have stride 1"),
            (flash, (q, k, v[..., :16], None, 0.0, False, False), "to have the same last dimension"),
            (efficient, (*narrow, None, 0.0, False, False), "divisible by 8. Got Query.size"),
            (efficient, (q, k[:, :1], v[:, :1], None, 0.0, False, True), "to have the same num_heads"),
            (efficient, (q, k, v, half.float(), 0.0, False, False), "attn_mask be boolean, or has the same datatype"),
        )
        for backend, arguments, message in cases:
            function = can_use_flash_attention if backend is flash else can_use_efficient_attention
            self.assertFalse(function(SDPAParams(*arguments)))
            *operands, mask, dropout, causal, gqa = arguments
            with warnings.catch_warnings(record=True) as caught, sdpa_kernel(backend):
                warnings.simplefilter("always")
                with self.assertRaisesRegex(RuntimeError, "No available kernel. Aborting execution."):
                    choice(*operands, mask, dropout, causal, enable_gqa=gqa)
            texts = " ".join(str(warning.message) for warning in caught)
            self.assertIn(message, texts)
            self.assertIn("Flash attention kernel not used because:", texts)
        self.assertFalse(can_use_flash_attention(SDPAParams(q.cpu(), k, v, None, 0.0, False, False), debug=True))
        self.assertTrue(can_use_flash_attention(SDPAParams(q, k, v, None, 0.1, True, False), debug=True))
        self.assertTrue(can_use_efficient_attention(SDPAParams(q, k, v, half, 0.1, False, False), debug=True))
        with sdpa_kernel(SDPBackend.MATH):
            self.assertFalse(can_use_flash_attention(SDPAParams(q, k, v, None, 0.0, False, False)))
        self.assertTrue(torch.backends.cuda.is_flash_attention_available())

    def test_compiled_calls_reach_it(self):
        q, k, v = (t.cuda() for t in inputs(1, 2, 16, 16, 32, BF16))
        compiled = torch.compile(
            lambda *args: F.scaled_dot_product_attention(*args, is_causal=True), backend="aot_eager"
        )
        self.assertEqual(compiled(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def test_refusals(self):
        q, k, v = (t.cuda() for t in inputs(1, 2, 8, 8, 32, BF16))
        ends = torch.tensor([0, 8], dtype=torch.int32, device="cuda")
        packed = [t[0].transpose(0, 1).contiguous() for t in (q, k, v)]
        tail = (ends, ends, 8, 8, 0.0, False, False)
        flash = ops._flash_attention_forward
        wide = torch.zeros(1, 1, 8, 520, device="cuda", dtype=BF16)
        for call, message in (
            (
                lambda: ops._scaled_dot_product_flash_attention(q.float(), k.float(), v.float()),
                "only support fp16 and bf16",
            ),
            (lambda: ops._scaled_dot_product_flash_attention(wide, wide, wide), "head dimension at most 512"),
            (lambda: ops._scaled_dot_product_flash_attention(q[..., :12], k[..., :12], v[..., :12]), "multiple of 8"),
            (lambda: flash(*packed, *tail, seqused_k=ends[1:]), "seqused_k must be nullopt"),
            (lambda: flash(*packed, *tail, block_table=ends[None]), "block_table_ must be nullopt"),
            (lambda: flash(*packed, *tail, alibi_slopes=ends.float()), "alibi_slopes_ must be nullopt"),
            (lambda: flash(*packed, ends.long(), ends.long(), *tail[2:]), "cu_seqlens_q must have dtype int32"),
            (lambda: flash(*packed, ends * 2, ends * 2, *tail[2:]), "cu_seqlens must not decrease and not exceed 8"),
            (lambda: flash(*packed, ends, None, *tail[2:]), "must be both set or both not set"),
            (
                lambda: flash(*packed, ends, ends, 8, 8, 0.0, False, True),
                "return_softmax is only supported when p_dropout > 0.0",
            ),
            (
                lambda: ops._efficient_attention_forward(q, k, v, None, None, None, None, None, 0.0, 0, window_size=2),
                "does not support window_size",
            ),
            (
                lambda: ops._efficient_attention_forward(q, k, v, None, None, None, None, None, 0.0, 3),
                "custom_mask_type",
            ),
            (lambda: ops._scaled_dot_product_efficient_attention(q, k[:, :1], v[:, :1], None, False), "the same heads"),
            (
                lambda: F.scaled_dot_product_attention(q, k, v, dropout_p=1.5),
                "dropout probability has to be between 0 and 1|dropout",
            ),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                call()


instantiate_parametrized_tests(TestAttention)

if __name__ == "__main__":
    run_tests()
