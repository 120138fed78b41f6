"""ATen on the emulated device: values against the CPU, and what a device promises beyond values."""

import copy

import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

import gfx950_emulator


class TestTensors(TestCase):
    def test_identity(self):
        self.assertTrue(torch.cuda.is_available())
        self.assertIsNotNone(torch.version.hip)
        properties = torch.cuda.get_device_properties(0)
        self.assertEqual(properties.gcnArchName, "gfx950:sramecc+:xnack-")
        self.assertEqual((properties.major, properties.minor), (9, 5))
        self.assertEqual(properties.multi_processor_count, 256)
        self.assertEqual(properties.warp_size, 64)
        self.assertEqual(properties.shared_memory_per_block, 160 * 1024)
        self.assertEqual(properties.total_memory, 288 * 2**30)

    def test_factories_and_transfers(self):
        x = torch.arange(12, device="cuda", dtype=torch.float32).reshape(3, 4)
        self.assertEqual(x.device, torch.device("cuda", 0))
        self.assertEqual(x.cpu(), torch.arange(12.0).reshape(3, 4))
        self.assertEqual(x.to(torch.bfloat16).cpu(), torch.arange(12.0).reshape(3, 4).to(torch.bfloat16))
        self.assertEqual(x.t().contiguous().cuda().cpu(), torch.arange(12.0).reshape(3, 4).t())
        self.assertEqual(torch.UntypedStorage(10, device="cuda").device.type, "cuda")

    def test_views_share_their_bytes(self):
        x = torch.ones(6, 6, device="cuda")
        view = x[1:3, ::2].t()
        self.assertIs(view._base, x)
        view.mul_(0)
        self.assertEqual(x.sum().item(), 30)
        x.t_()
        self.assertEqual(x.stride(), (1, 6))

    def test_out_and_resize_reach_the_device_tensor(self):
        out = torch.empty(0, device="cuda")
        torch.add(torch.ones(3, 3, device="cuda"), 1, out=out)
        self.assertEqual(out.cpu(), torch.full((3, 3), 2.0))
        out.resize_(5, 5)
        self.assertEqual(out.untyped_storage().nbytes(), 100)
        self.assertEqual(out.flatten()[:9].cpu(), torch.full((9,), 2.0))
        other = torch.zeros(4, device="cuda")
        out.set_(other)
        other.fill_(7)
        self.assertEqual(out.cpu(), torch.full((4,), 7.0))

    def test_outputs_are_device_memory(self):
        before = torch.cuda.memory_allocated()
        x = torch.ones(1024, device="cuda")
        y = torch.topk(x * 2, 8).values
        # As torch's own allocator counts: whole granules of 512 bytes.
        self.assertEqual(torch.cuda.memory_allocated() - before, 1024 * 4 + 512)
        del x, y
        self.assertEqual(torch.cuda.memory_allocated(), before)
        torch.cuda.reset_peak_memory_stats()
        self.assertEqual(torch.cuda.max_memory_allocated(), before)

    def test_complex_conjugate(self):
        x = torch.randn(5, dtype=torch.complex64)
        y = x.cuda()
        self.assertEqual((y.conj() * y).cpu(), x.conj() * x)
        self.assertTrue(y.conj().is_conj())

    @parametrize("operation", ["add", "matmul", "cat"])
    def test_mixing_devices_is_refused(self, operation):
        device, host = torch.ones(4, 4, device="cuda"), torch.ones(4, 4)
        with self.assertRaisesRegex(RuntimeError, "same device"):
            if operation == "cat":
                torch.cat([device, host])
            else:
                getattr(torch, operation)(device, host)
        self.assertEqual((device + torch.tensor(1.0)).sum().item(), 32)  # a number may come from the host

    def test_indices_and_values_from_elsewhere(self):
        device, host = torch.arange(4.0, device="cuda"), torch.arange(4.0)
        on_device, on_host = torch.tensor([1, 2], device="cuda"), torch.tensor([1, 2])
        ones = torch.ones(2)
        calls = {
            "index": lambda x, i, v: x[i],
            "index_put_": lambda x, i, v: x.index_put_((i,), v),
            "index_put": lambda x, i, v: x.index_put((i,), v, accumulate=True),
            "set item": lambda x, i, v: x.__setitem__(i, v),
        }
        of_indices = r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)"
        of_values = "same device, but found at least two devices, cuda:0 and cpu!"
        for name, call in calls.items():
            with self.subTest(call=name):
                with self.assertRaisesRegex(RuntimeError, of_indices):
                    call(host, on_device, ones)
                call(device, on_host, ones.cuda())  # indices may come from the host, and one value
                call(device, on_device, torch.tensor(3.0))
                if name != "index":
                    with self.assertRaisesRegex(RuntimeError, of_values):
                        call(device, on_device, ones)
        self.assertEqual(host, torch.arange(4.0))
        self.assertEqual(device.tolist(), [0.0, 3.0, 3.0, 3.0])

    def test_random_numbers_follow_the_device_seed(self):
        torch.cuda.manual_seed(3)
        first = torch.rand(8, device="cuda")
        state = torch.cuda.get_rng_state()
        second = torch.rand(8, device="cuda")
        torch.cuda.set_rng_state(state)
        self.assertEqual(second, torch.rand(8, device="cuda"))
        self.assertNotEqual(first, second)
        host = torch.get_rng_state()
        F.dropout(torch.ones(100, device="cuda"))
        self.assertEqual(host, torch.get_rng_state())  # the host's sequence is untouched
        generator = torch.Generator(device="cuda").manual_seed(5)
        drawn = torch.randn(4, generator=generator, device="cuda")
        self.assertEqual(drawn, torch.randn(4, generator=generator.manual_seed(5), device="cuda"))

    def test_pinned_memory(self):
        pinned = torch.ones(4).pin_memory()
        self.assertTrue(pinned.is_pinned())
        self.assertFalse(torch.ones(4).is_pinned())
        self.assertEqual(pinned.cuda(non_blocking=True).cpu(), torch.ones(4))

    def test_out_of_memory(self):
        with self.assertRaisesRegex(torch.OutOfMemoryError, "GFX950_MEMORY_LIMIT"):
            torch.empty(1 << 45, device="cuda")


class TestOverrides(TestCase):
    def test_an_override_captures_the_device_kernel_and_falls_back_to_it(self):
        # What torch._native does; the ops that it overrides have no kernel of their own here but the fallback.
        captured = torch.library.get_kernel("aten::topk", "CUDA")
        calls = []

        def router(keys, *args, **kwargs):
            calls.append(args[0].device.type)
            return captured.call_boxed(keys, *args, **kwargs)

        x = torch.randn(4, 16, device="cuda")
        with torch.library._scoped_library("aten", "IMPL") as library:
            library.impl("topk", router, "CUDA", with_keyset=True)
            values, indices = torch.topk(x, 3)
        expected = torch.topk(x.cpu(), 3)
        self.assertEqual((values.cpu(), indices.cpu()), (expected.values, expected.indices))
        self.assertEqual(calls, ["cuda"])
        torch.topk(x, 3)
        self.assertEqual(calls, ["cuda"])

    def test_an_operator_that_only_a_real_device_has_says_so(self):
        query = torch.ones(1, 1, 4, 8, device="cuda", dtype=torch.float16)
        with self.assertRaisesRegex(NotImplementedError, "cudnn_attention' on the emulated gfx950: ATen has no CPU"):
            torch.ops.aten._scaled_dot_product_cudnn_attention(query, query, query, None, False)


class TestTraining(TestCase):
    def test_gradients_and_step_match_the_cpu(self):
        torch.manual_seed(1)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 16, 10),
            torch.nn.LayerNorm(10),
        )
        on_device = copy.deepcopy(net).cuda()
        x, target = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
        F.cross_entropy(net(x), target).backward()
        F.cross_entropy(on_device(x.cuda()), target.cuda()).backward()
        for parameters in (net.parameters(), on_device.parameters()):
            torch.optim.AdamW(parameters, lr=0.1).step()
        for expected, actual in zip(net.parameters(), on_device.parameters(), strict=True):
            self.assertEqual(actual.grad.cpu(), expected.grad)
            self.assertEqual(actual.cpu(), expected)

    def test_attention_matches_the_cpu(self):
        query = torch.randn(1, 2, 16, 32)
        expected = F.scaled_dot_product_attention(query, query, query, is_causal=True)
        on_device = query.cuda()
        actual = F.scaled_dot_product_attention(on_device, on_device, on_device, is_causal=True)
        self.assertEqual(actual.cpu(), expected, atol=1e-5, rtol=1e-5)


class TestClock(TestCase):
    def test_events_read_the_virtual_clock(self):
        x = torch.randn(512, 512, device="cuda")
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        clock = gfx950_emulator.clock_ns()
        begin.record()
        x + x
        end.record()
        torch.cuda.synchronize()
        expected = 7000 + 3 * x.nbytes / 7200  # device/README.md
        self.assertEqual(gfx950_emulator.clock_ns() - clock, expected, atol=1e-3, rtol=0)  # whole picoseconds
        self.assertEqual(begin.elapsed_time(end), expected * 1e-6, atol=1e-9, rtol=1e-6)

    def test_views_cost_nothing_and_a_product_costs_its_flops(self):
        x = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
        clock = gfx950_emulator.clock_ns()
        x.t()[1:, ::2].unsqueeze(0)
        self.assertEqual(gfx950_emulator.clock_ns(), clock)
        x @ x
        # A tile of 64 x 64 on every compute unit, whose operands take longer to reach it than its products.
        expected = 5482 + (64 + 64) * 1024 * 2 / 46.2
        self.assertEqual(gfx950_emulator.clock_ns() - clock, expected, atol=1, rtol=1e-6)

    def test_streams(self):
        stream = torch.cuda.Stream()
        self.assertNotEqual(stream, torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.assertEqual(torch.cuda.current_stream(), stream)
            x = torch.ones(3, device="cuda") * 2
        torch.cuda.current_stream().wait_stream(stream)
        x.record_stream(stream)
        self.assertEqual(x.sum().item(), 6)
        self.assertEqual(torch.cuda.current_stream(), torch.cuda.default_stream())


instantiate_parametrized_tests(TestTensors)

if __name__ == "__main__":
    run_tests()
