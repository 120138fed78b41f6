"""CUDA graphs on the emulated device: capture, replay, pools, random numbers, refusals, Inductor's graph trees."""

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from test_device_kernels import launch_scale_and_add
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

import gfx950_emulator


@triton.jit
def double_into(x, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x + i) * 2)


def captured(body, **keywords):
    graph = torch.cuda.CUDAGraph()
    # torch.cuda.graph leaves its stream current when the end of the capture raises.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, **keywords):
        result = body()
    return graph, result


class TestCapture(TestCase):
    def test_a_capture_runs_nothing_and_a_replay_everything(self):
        x, total = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")

        def body():
            y = x * 2
            for _ in range(10):
                y = y + 1
            total.add_(y)
            return y

        before = gfx950_emulator.clock_ns()
        graph, y = captured(body)
        self.assertEqual(gfx950_emulator.clock_ns(), before)
        self.assertEqual(total.cpu(), torch.zeros(8))
        before = gfx950_emulator.clock_ns()
        graph.replay()
        eager = gfx950_emulator.clock_ns() - before
        self.assertGreater(eager, 12 * 7000)
        self.assertEqual((y.cpu(), total.cpu()), (torch.full((8,), 12.0), torch.full((8,), 12.0)))
        x.fill_(5)
        graph.replay()
        self.assertEqual((y.cpu(), total.cpu()), (torch.full((8,), 20.0), torch.full((8,), 32.0)))

    def test_triton_kernels_are_recorded(self):
        x = torch.arange(64.0, device="cuda")
        double_into[(1,)](x, torch.empty_like(x), 64)  # compiled before the capture
        gfx950_emulator.reset_launches()

        def body():
            out = torch.empty_like(x)
            double_into[(1,)](x + 1, out, 64)
            return out.sum()

        graph, total = captured(body)
        self.assertNotIn("double_into", gfx950_emulator.launch_counts())
        for start in (0.0, 3.0):
            x.copy_(torch.arange(64.0) + start)
            graph.replay()
            self.assertEqual(total.item(), ((torch.arange(64.0) + start + 1) * 2).sum().item())
        self.assertEqual(gfx950_emulator.launch_counts()["double_into"], 2)

    def test_flydsl_kernels_are_recorded(self):
        x, out = torch.arange(256.0, device="cuda"), torch.zeros(256, device="cuda")

        def body():
            launch_scale_and_add(x, x, out, 2.0, 256, 64, stream=torch.cuda.current_stream())

        body()  # compiled before the capture
        out.zero_()
        gfx950_emulator.reset_launches()
        graph, _ = captured(body)
        self.assertEqual((gfx950_emulator.launch_counts(), out.sum().item()), ({}, 0))
        for start in (0.0, 5.0):
            x.copy_(torch.arange(256.0) + start)
            graph.replay()
            self.assertEqual(out.cpu(), (torch.arange(256.0) + start) * 3)
        self.assertEqual(sum(gfx950_emulator.launch_counts().values()), 2)

    def test_every_kind_of_result(self):
        """Views, several results, out arguments, lists, running statistics that no schema calls written."""
        x = torch.randn(4, 3, 5, device="cuda")
        norm = torch.nn.BatchNorm1d(3).cuda()
        out = torch.empty(4, 5, device="cuda")
        many = [torch.zeros(3, device="cuda"), torch.zeros(2, device="cuda")]

        def body():
            values, indices = x.transpose(1, 2).max(dim=2)
            torch.sum(x, dim=1, out=out)
            torch._foreach_add_(many, 1.5)
            parts = torch._foreach_mul(many, 2.0)
            return values, indices, norm(x), parts, torch.nn.functional.conv1d(x, x[:3])

        graph, (values, indices, normal, parts, product) = captured(body)
        self.assertEqual(norm.num_batches_tracked.item(), 0)
        self.assertEqual(norm.running_mean.cpu(), torch.zeros(3))
        reference = torch.nn.BatchNorm1d(3)
        for repeat in (1, 2):
            x.copy_(torch.randn(4, 3, 5))
            graph.replay()
            host = x.cpu()
            self.assertEqual((values.cpu(), indices.cpu()), tuple(host.transpose(1, 2).max(dim=2)))
            self.assertEqual(out.cpu(), host.sum(1))
            self.assertEqual(normal.cpu(), reference(host))
            self.assertEqual(norm.running_mean.cpu(), reference.running_mean)
            self.assertEqual(parts[1].cpu(), torch.full((2,), 3.0 * repeat))
            self.assertEqual(product.cpu(), F.conv1d(host, host[:3]))

    def test_fused_cells_and_typed_products(self):
        """Kernels of the device's own: these record themselves."""
        lstm = torch.nn.LSTM(4, 6).cuda()
        x, half = torch.randn(3, 2, 4, device="cuda"), torch.randn(8, 8, device="cuda", dtype=torch.bfloat16)
        graph, (hidden, product) = captured(lambda: (lstm(x)[0], torch.mm(half, half, out_dtype=torch.float32)))
        x.copy_(torch.randn(3, 2, 4))
        half.copy_(torch.randn(8, 8))
        graph.replay()
        self.assertEqual(hidden, lstm(x)[0])
        self.assertEqual(product, torch.mm(half, half, out_dtype=torch.float32))

    @parametrize("name", ["mx_fp8", "mx_fp4", "tensorwise", "grouped", "sdpa", "sdpa_backward", "rms_norm", "int4"])
    def test_operators_of_the_device_alone(self, name):
        torch.manual_seed(12)
        x = torch.randn(2, 32, 256, device="cuda", dtype=torch.bfloat16)
        scales = torch.randint(120, 130, (32, 8), dtype=torch.uint8, device="cuda").view(torch.float8_e8m0fnu)

        def mx(kind):
            a, b = (part.to(torch.uint8 if kind == torch.float4_e2m1fn_x2 else kind).view(kind) for part in x)
            blocks = scales.repeat(1, 2) if kind == torch.float4_e2m1fn_x2 else scales
            recipe = F.ScalingType.BlockWise1x32
            plain = F.SwizzleType.NO_SWIZZLE
            return F.scaled_mm(a, b.t(), blocks, recipe, blocks, recipe, plain, plain, output_dtype=torch.bfloat16)

        def tensorwise():
            one = torch.full((), 0.5, device="cuda")
            a, b = (part.to(torch.float8_e4m3fn) for part in x)
            return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)

        ends = torch.tensor([5, 5, 32], dtype=torch.int32, device="cuda")

        def grouped():
            return F.grouped_mm(x[0], x.repeat(2, 1, 1)[:3].transpose(1, 2), offs=ends)

        def attend():
            q = x.view(2, 32, 4, 64).transpose(1, 2)
            return F.scaled_dot_product_attention(q, q, q, is_causal=True)

        def backward():
            q = x.view(2, 32, 4, 64).transpose(1, 2).detach().requires_grad_()
            return torch.autograd.grad(F.scaled_dot_product_attention(q, q, q).sum(), q)[0]

        def int4():
            packed = torch._convert_weight_to_int4pack(x[0].to(torch.uint8)[:, :64].contiguous(), 4)
            return torch._weight_int4pack_mm(
                x[1, :, :128].contiguous(), packed, 32, x.view(4, 32, 128)[..., :2].contiguous()
            )

        body = {
            "mx_fp8": lambda: mx(torch.float8_e4m3fn),
            "mx_fp4": lambda: mx(torch.float4_e2m1fn_x2),
            "tensorwise": tensorwise,
            "grouped": grouped,
            "sdpa": attend,
            "sdpa_backward": backward,
            "rms_norm": lambda: F.rms_norm(x, (256,)),
            "int4": int4,
        }[name]
        graph, result = captured(body)
        x.copy_(torch.randn_like(x))
        graph.replay()
        first = result.clone()
        self.assertEqual(first, body())
        x.add_(3)
        graph.replay()
        self.assertEqual(result, body())
        self.assertNotEqual(result, first)

    def test_training_step(self):
        """Forward, backward and optimizer in one graph, as in PyTorch's documentation."""
        torch.manual_seed(0)
        models = [torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        model, eager = models[0].cuda(), models[1]
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, eager)]
        x, target = torch.randn(4, 6, device="cuda"), torch.randn(4, 2, device="cuda")
        batches = [(torch.randn(4, 6), torch.randn(4, 2)) for _ in range(6)]

        def step(network, optimizer, x, target):
            optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(network(x), target)
            loss.backward()
            optimizer.step()
            return loss

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for first, second in batches[:3]:
                x.copy_(first)
                target.copy_(second)
                step(model, optimizers[0], x, target)
        torch.cuda.current_stream().wait_stream(side)
        graph, loss = captured(lambda: step(model, optimizers[0], x, target))
        for first, second in batches[3:]:
            x.copy_(first)
            target.copy_(second)
            graph.replay()
        expected = [step(eager, optimizers[1], *batch) for batch in batches]
        self.assertEqual(loss.cpu(), expected[-1])
        for of_graph, of_host in zip(model.parameters(), eager.parameters(), strict=True):
            self.assertEqual(of_graph.cpu(), of_host)

    def test_make_graphed_callables(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
        plain = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).cuda()
        plain.load_state_dict(model.state_dict())
        graphed = torch.cuda.make_graphed_callables(model, (torch.randn(4, 6, device="cuda", requires_grad=True),))
        for _ in range(3):
            x = torch.randn(4, 6, device="cuda", requires_grad=True)
            y = x.detach().clone().requires_grad_()
            for network, leaf in ((graphed, x), (plain, y)):
                network.zero_grad()
                network(leaf).square().sum().backward()
            self.assertEqual(x.grad, y.grad)
            for first, second in zip(model.parameters(), plain.parameters(), strict=True):
                self.assertEqual(first.grad, second.grad)

    def test_streams_fork_and_join(self):
        x, side = torch.ones(4, device="cuda"), torch.cuda.Stream()

        def body():
            y = x + 1
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                self.assertTrue(torch.cuda.is_current_stream_capturing())
                z = y * 3
            torch.cuda.current_stream().wait_stream(side)
            return z + y

        graph, z = captured(body)
        graph.replay()
        self.assertEqual(z.cpu(), torch.full((4,), 8.0))

        def unjoined():
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x.add_(1)

        with self.assertRaisesRegex(RuntimeError, "first stream does not wait for"):
            captured(unjoined)
        self.assertFalse(torch.cuda.is_current_stream_capturing())

    def test_a_graph_in_a_graph(self):
        x = torch.ones(4, device="cuda")
        inner, _ = captured(lambda: x.mul_(2))
        outer, _ = captured(lambda: (x.add_(1), inner.replay(), x.add_(10)))
        outer.replay()
        self.assertEqual(x.cpu(), torch.full((4,), 14.0))

    def test_kept_graphs_and_dumps(self):
        x = torch.ones(4, device="cuda")
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        with torch.cuda.graph(graph):
            x.add_(1)
        self.assertNotEqual(graph.raw_cuda_graph(), 0)
        with tempfile.TemporaryDirectory() as folder:
            graph.debug_dump(str(Path(folder) / "graph.dot"))
            self.assertIn("aten::add", (Path(folder) / "graph.dot").read_text())
        graph.instantiate()
        graph.replay()
        self.assertEqual(x.cpu(), torch.full((4,), 2.0))
        with self.assertWarnsRegex(UserWarning, "CUDA Graph is empty"):
            captured(lambda: x.view(2, 2))

    def test_freed_inputs_are_an_error(self):
        inputs = [torch.ones(4, device="cuda")]
        graph, _ = captured(lambda: inputs[0] + 1)
        inputs.clear()
        with self.assertRaisesRegex(torch.AcceleratorError, "aten::add.* works on memory that was freed"):
            graph.replay()


class TestForbidden(TestCase):
    """What PyTorch refuses while a stream captures. The capture is broken then, and the device goes on."""

    @parametrize(
        "call",
        ["item", "cpu", "to_device", "nonzero", "synchronize", "stream", "elapsed", "masked_select", "pinned_waits"],
    )
    def test_refused(self, call):
        x, host = torch.ones(4, device="cuda"), torch.ones(4)
        pinned = host.pin_memory()
        calls = {
            "item": (lambda: x.sum().item(), "operation not permitted when stream is capturing"),
            "cpu": (lambda: x.cpu(), "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
            "to_device": (lambda: host.cuda(), "Cannot copy between CPU and CUDA tensors during CUDA graph capture"),
            "nonzero": (lambda: x.nonzero(), "operation not permitted when stream is capturing"),
            "masked_select": (lambda: x[x > 0], "operation not permitted when stream is capturing"),
            "synchronize": (lambda: torch.cuda.synchronize(), "operation not permitted when stream is capturing"),
            "stream": (lambda: torch.cuda.current_stream().synchronize(), "operation not permitted when stream"),
            "elapsed": (self.elapsed, "captures"),
            "pinned_waits": (lambda: x.copy_(pinned), "operation not permitted when stream is capturing"),
        }
        function, message = calls[call]
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, message):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                graph.capture_begin()
                try:
                    function()
                finally:
                    try:
                        graph.capture_end()
                    except RuntimeError as error:
                        self.assertIn("previous error during capture", str(error))
        graph.reset()
        self.assertFalse(torch.cuda.is_current_stream_capturing())
        self.assertEqual((x + 1).cpu(), torch.full((4,), 2.0))

    @staticmethod
    def elapsed():
        start = torch.cuda.Event(enable_timing=True)
        start.record()
        start.elapsed_time(start)

    def test_pinned_copies_are_recorded(self):
        x, pinned = torch.zeros(4, device="cuda"), torch.ones(4).pin_memory()
        back = torch.zeros(4).pin_memory()
        graph, _ = captured(lambda: (x.copy_(pinned, non_blocking=True), back.copy_(x * 2, non_blocking=True)))
        pinned.fill_(3)
        graph.replay()
        self.assertEqual(back, torch.full((4,), 6.0))

    def test_wrong_order(self):
        graph = torch.cuda.CUDAGraph()
        with self.assertRaisesRegex(RuntimeError, "replay without a preceding successful capture"):
            graph.replay()
        with self.assertRaisesRegex(RuntimeError, "must be captured on a non-default stream"):
            graph.capture_begin()
        graph, _ = captured(lambda: torch.ones(1, device="cuda") + 1)
        with (
            self.assertRaisesRegex(RuntimeError, "already owns a captured graph"),
            torch.cuda.stream(torch.cuda.Stream()),
        ):
            graph.capture_begin()


class TestRandomNumbers(TestCase):
    def test_replays_continue_the_sequence(self):
        torch.cuda.manual_seed(5)
        expected = [torch.rand(4, device="cuda") for _ in range(4)]
        torch.cuda.manual_seed(5)
        graph, (first, second) = captured(lambda: (torch.rand(4, device="cuda"), torch.rand(4, device="cuda")))
        self.assertEqual(torch.cuda.default_generators[0].get_offset(), 0)  # a capture draws nothing
        for pair in (expected[:2], expected[2:]):
            graph.replay()
            self.assertEqual([first, second], pair)
        torch.cuda.manual_seed(5)
        graph.replay()
        self.assertEqual(first, expected[0])

    def test_generators_of_their_own_must_be_registered(self):
        generator = torch.Generator("cuda")
        generator.manual_seed(7)
        expected = torch.rand(4, device="cuda", generator=generator)
        generator.manual_seed(7)
        with self.assertRaisesRegex(RuntimeError, "generator not in capture mode"):
            captured(lambda: torch.rand(4, device="cuda", generator=generator))
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        with torch.cuda.graph(graph):
            drawn = torch.rand(4, device="cuda", generator=generator)
        graph.replay()
        self.assertEqual(drawn, expected)
        self.assertEqual(generator.get_offset(), 4)

    def test_seeds_stay_while_capturing(self):
        torch.cuda.manual_seed(3)
        for call, message in (
            (lambda: torch.cuda.manual_seed(4), "only if new seed is the same"),
            (torch.cuda.initial_seed, "Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture"),
            (
                torch.cuda.default_generators[0].get_offset,
                "Cannot call CUDAGeneratorImpl::get_offset during CUDA graph",
            ),
        ):
            with self.assertRaisesRegex(RuntimeError, message):
                captured(call)


class TestPools(TestCase):
    def test_a_graph_keeps_its_memory(self):
        before, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        graph, y = captured(lambda: (torch.ones(4096, device="cuda") * 2) + 1)
        graph.replay()
        self.assertEqual(torch.cuda.memory_allocated() - before, 4096 * 4)
        held = torch.cuda.memory_reserved() - reserved
        self.assertIn(
            held - 2 * 4096 * 4, (0, 512)
        )  # and a block that the graph works in, with a number of a kernel's own
        del y
        torch.cuda.empty_cache()
        self.assertEqual(torch.cuda.memory_reserved() - reserved, held)
        graph.replay()
        del graph
        self.assertEqual((torch.cuda.memory_allocated(), torch.cuda.memory_reserved()), (before, reserved))

    def test_graphs_share_a_pool(self):
        pool = torch.cuda.graph_pool_handle()
        first, y = captured(lambda: torch.ones(1024, device="cuda") * 2, pool=pool)
        self.assertEqual(first.pool(), pool)
        reserved = torch.cuda.memory_reserved()
        second, z = captured(lambda: (y + 1) * 2, pool=pool)
        self.assertEqual(torch.cuda.memory_reserved() - reserved, 1024 * 4)  # one block is the first graph's own
        first.replay()
        second.replay()
        self.assertEqual(z.cpu(), torch.full((1024,), 6.0))

    def test_what_a_reused_block_held_is_there_for_the_first_replay(self):
        pool = torch.cuda.graph_pool_handle()
        holder = [captured(lambda: torch.zeros(1024, device="cuda") + 1, pool=pool)[0]]
        stream = torch.cuda.Stream()
        device, torch_c = torch.cuda.current_device(), torch._C
        torch_c._cuda_beginAllocateCurrentThreadToPool(device, pool)
        x = torch.arange(1024.0, device="cuda")
        torch_c._cuda_endAllocateToPool(device, pool)
        torch_c._cuda_releasePool(device, pool)
        held = [x]
        del x

        def body():
            y = held[0] * 2
            held.clear()  # the graph may reuse its block now
            return torch.full((1024,), 5.0, device="cuda"), y

        graph, (five, y) = captured(body, pool=pool, stream=stream)
        holder.append(graph)
        graph.replay()
        self.assertEqual((five.cpu(), y.cpu()), (torch.full((1024,), 5.0), torch.arange(1024.0) * 2))

    def test_mem_pool(self):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            x = torch.ones(2048, device="cuda")
        address = x.data_ptr()
        self.assertEqual([segment["address"] for segment in pool.snapshot()], [address])
        del x
        with torch.cuda.use_mem_pool(pool):
            y = torch.ones(2048, device="cuda")
        self.assertEqual(y.data_ptr(), address)


class TestCompiled(TestCase):
    """mode="reduce-overhead": Inductor's graph trees, with their own checks of the pool switched on."""

    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        patch = {"triton.slow_path_cudagraph_asserts": True, "triton.fast_path_cudagraph_asserts": True}
        self.config = torch._inductor.config.patch(patch | {"compile_threads": 1})
        self.config.__enter__()
        self.addCleanup(self.config.__exit__, None, None, None)

    def recordings(self):
        from torch._inductor.cudagraph_trees import get_container

        manager = get_container(0).tree_manager
        return manager.new_graph_id().id if manager else 0

    def test_forward(self):
        @torch.compile(mode="reduce-overhead")
        def function(x, w):
            return torch.relu(x @ w) + x.sum()

        w = torch.randn(16, 16, device="cuda")
        for _ in range(4):
            x = torch.randn(16, 16, device="cuda")
            self.assertEqual(function(x, w), torch.relu(x @ w) + x.sum())
        self.assertEqual(self.recordings(), 1)

    def test_training_with_dropout(self):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)).cuda()
        plain = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.GELU(), torch.nn.Linear(16, 2)).cuda()
        plain.load_state_dict(model.state_dict())
        compiled = torch.compile(model, mode="reduce-overhead")
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, plain)]
        for _ in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(4, 6, device="cuda")
            losses = []
            for network, optimizer in zip((compiled, plain), optimizers, strict=True):
                optimizer.zero_grad()
                loss = network(x).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            self.assertEqual(*losses)
        drop = torch.compile(lambda x: F.dropout(x, 0.5), mode="reduce-overhead")
        masks = []
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            masks.append(drop(torch.ones(256, device="cuda")).clone())
        self.assertEqual(len({tuple(mask.tolist()) for mask in masks}), 4)  # each replay draws anew

    def test_two_graphs_with_a_break_and_a_mutation(self):
        state = torch.zeros(8, device="cuda")

        @torch.compile(mode="reduce-overhead")
        def function(x):
            y = x + 1
            torch._dynamo.graph_break()
            state.add_(y)
            return y * 2

        total = torch.zeros(8)
        for i in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            self.assertEqual(function(torch.full((8,), float(i), device="cuda")).cpu(), torch.full((8,), (i + 1) * 2.0))
            total += i + 1
            self.assertEqual(state.cpu(), total)

    def test_max_autotune(self):
        @torch.compile(mode="max-autotune")
        def function(x, w):
            return torch.relu(x @ w)

        w = torch.randn(32, 32, device="cuda", dtype=torch.bfloat16)
        with torch._inductor.config.patch(max_autotune_gemm_backends="ATEN"):
            for _ in range(3):
                x = torch.randn(32, 32, device="cuda", dtype=torch.bfloat16)
                self.assertEqual(function(x, w), torch.relu(x @ w), atol=0.1, rtol=2e-2)
        self.assertEqual(self.recordings(), 1)

    def test_stale_output_is_an_error(self):
        function = torch.compile(lambda x: x * 2 + 1, mode="reduce-overhead")
        for _ in range(2):  # a warm-up and a recording
            torch.compiler.cudagraph_mark_step_begin()
            out = function(torch.ones(8, device="cuda"))
        torch.compiler.cudagraph_mark_step_begin()
        function(torch.ones(8, device="cuda"))
        with self.assertRaisesRegex(RuntimeError, "overwritten by a subsequent run"):
            out + 1


instantiate_parametrized_tests(TestCapture)
instantiate_parametrized_tests(TestForbidden)

if __name__ == "__main__":
    run_tests()
