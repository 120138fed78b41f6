"""Compiled kernels on the emulated device: Triton's and FlyDSL's own launch paths, torch.compile and its autotuning."""

import ctypes

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
import torch._inductor.config as inductor_config
import triton
import triton.language as tl
import triton.testing
from device_process import run_emulated
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

import gfx950_emulator
from gfx950_emulator import benchmarking, hip


@triton.jit
def add_kernel(x, y, out, count, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    inside = index < count
    tl.store(out + index, tl.load(x + index, mask=inside) + tl.load(y + index, mask=inside), mask=inside)


@triton.jit
def product_kernel(a, b, out, k, block: tl.constexpr):
    """One block x block tile of A[block, k] @ B[k, block], all row-major."""
    row, column = tl.arange(0, block), tl.arange(0, block)
    total = tl.zeros((block, block), tl.float32)
    for first in range(0, k, block):
        inner = first + tl.arange(0, block)
        left = tl.load(a + row[:, None] * k + inner[None, :])
        right = tl.load(b + inner[:, None] * block + column[None, :])
        total += tl.dot(left, right)
    tl.store(out + row[:, None] * block + column[None, :], total)


@triton.jit
def stray_kernel(out, offset):
    tl.store(out + offset, 1.0)


@flyc.kernel(name="scale_and_add")
def scale_and_add(a: fx.Tensor, b: fx.Tensor, out: fx.Tensor, factor: fx.Float32, block: fx.Constexpr[int]):
    i = fx.block_idx.x * block + fx.thread_idx.x
    out[i] = a[i] * factor + b[i]


@flyc.jit
def launch_scale_and_add(
    a: fx.Tensor,
    b: fx.Tensor,
    out: fx.Tensor,
    factor: fx.Float32,
    count: fx.Int32,
    block: fx.Constexpr[int],
    stream: fx.Stream,
):
    scale_and_add(a, b, out, factor, block).launch(grid=(count // block, 1, 1), block=(block, 1, 1), stream=stream)


def times_launched(prefix):
    return sum(count for name, count in gfx950_emulator.launch_counts().items() if name.startswith(prefix))


class TestTriton(TestCase):
    def test_pointwise_with_a_tail(self):
        x, y = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
        out = torch.full((1024,), float("nan"), device="cuda")
        before = times_launched("add_kernel")
        add_kernel[(4,)](x, y, out, 1000, block=256)
        self.assertEqual(out[:1000].cpu(), x.cpu() + y.cpu(), atol=0, rtol=0)
        self.assertTrue(out[1000:].isnan().all().item())
        self.assertEqual(times_launched("add_kernel") - before, 1)

    def test_counts_by_class(self):
        x = torch.randn(1024, device="cuda")
        out = torch.empty_like(x)
        gfx950_emulator.reset_launches()
        for _ in range(3):
            add_kernel[(4,)](x, x, out, 1024, block=256, num_warps=2)
        (counts,) = (entry for name, entry in gfx950_emulator.launches().items() if name == "add_kernel")
        classes = ("salu", "valu", "mfma", "lds", "vmem", "smem", "branch", "other")
        self.assertEqual(sum(counts[name] for name in classes), counts["wave_instructions"])
        self.assertEqual((counts["launches"], counts["workgroups"], counts["waves"]), (3, 12, 24))
        self.assertEqual(counts["mfma"], 0)
        self.assertGreaterEqual(counts["vmem"], 3 * 24)  # two loads and a store of each wave
        self.assertEqual(counts["bytes_stored"], 3 * 4096)

    @parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
    def test_product(self, dtype):
        a, b = torch.randn(64, 256, dtype=dtype), torch.randn(256, 64, dtype=dtype)
        out = torch.empty(64, 64, device="cuda")
        product_kernel[(1,)](a.cuda(), b.cuda(), out, 256, block=64)
        # Products of the inputs are exact or rounded once in fp32, and so is each of the 256 sums.
        exact = a.double() @ b.double()
        bound = 256 * 2.0**-24 * (a.double().abs() @ b.double().abs())
        self.assertTrue(((out.cpu().double() - exact).abs() <= bound).all().item())

    def test_host_tensor_is_refused(self):
        with self.assertRaisesRegex(ValueError, "cpu tensor"):
            add_kernel[(1,)](torch.ones(4), torch.ones(4), torch.ones(4), 4, block=4)

    def test_stray_store_is_raised_by_the_next_synchronisation_and_only_there(self):
        out = torch.zeros(4, device="cuda")
        stray_kernel[(1,)](out, 1 << 28)
        with self.assertRaisesRegex(torch.AcceleratorError, "hipErrorIllegalAddress: kernel stray_kernel: "):
            torch.cuda.synchronize()
        self.assertEqual(out.sum().item(), 0)
        stray_kernel[(1,)](out, 1 << 28)
        with self.assertRaisesRegex(torch.AcceleratorError, "stray_kernel"):
            out + 1

    def test_a_launch_beyond_the_limits_is_refused_at_once(self):
        out = torch.zeros(4, device="cuda")
        compiled = stray_kernel.warmup(out, 0, grid=(1,))
        compiled._init_handles()
        function, zero = ctypes.c_void_p(compiled.function), ctypes.c_uint64(0)
        arguments = (ctypes.c_void_p * 8)(*[ctypes.addressof(zero)] * 8)
        grid, block = (1, 1, 1), (4096, 1, 1)
        code = hip.runtime().hipModuleLaunchKernel(function, *grid, *block, 0, None, arguments, None)
        self.assertEqual(code, 9)  # hipErrorInvalidConfiguration
        with self.assertRaisesRegex(torch.AcceleratorError, "hipErrorInvalidConfiguration: kernel stray_kernel"):
            torch.cuda.synchronize()

    def test_do_bench_is_exact(self):
        x = torch.randn(4096, device="cuda")
        out = torch.empty_like(x)
        before = times_launched("add_kernel")
        times = [triton.testing.do_bench(lambda: add_kernel[(16,)](x, x, out, 4096, block=256)) for _ in range(3)]
        self.assertEqual(times_launched("add_kernel") - before, 3)
        self.assertEqual(len(set(times)), 1)
        self.assertGreater(times[0], 0)


class TestFlyDSL(TestCase):
    def test_launch_on_torch_tensors(self):
        a, b = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
        out = torch.empty_like(a)
        before = times_launched("scale_and_add")
        launch_scale_and_add(a, b, out, 3.0, 1024, 128, stream=torch.cuda.current_stream())
        self.assertEqual(out.cpu(), a.cpu() * 3 + b.cpu(), atol=1e-6, rtol=1e-6)
        self.assertEqual(times_launched("scale_and_add") - before, 1)

    def test_architecture_is_found_as_on_hardware(self):
        code = "import flydsl.runtime.device as device; print(device.get_rocm_arch(), device.get_rocm_device_count())"
        result = run_emulated(code, env={"GFX950_DEVICES": "2"})
        self.assertEqual(result.stdout.split(), ["gfx950", "2"], result.stderr)

    def test_a_failure_that_flydsl_ignores_reaches_torch(self):
        a, out = torch.randn(128, device="cuda"), torch.empty(128, device="cuda")
        far_beyond = 1 << 28  # elements: outside every allocation
        launch_scale_and_add(a, a, out, 1.0, far_beyond, 1024, stream=torch.cuda.current_stream())
        with self.assertRaisesRegex(torch.AcceleratorError, "kernel scale_and_add: "):
            torch.cuda.synchronize()
        torch.cuda.synchronize()


class TestCompile(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def test_pointwise_and_reduction(self):
        def function(x, y):
            return torch.nn.functional.gelu(x * 2 + y).sum(-1)

        x, y = torch.randn(33, 300, device="cuda"), torch.randn(300, device="cuda")
        before = times_launched("triton_")
        actual = torch.compile(function)(x, y)
        self.assertEqual(actual.cpu(), function(x.cpu(), y.cpu()), atol=1e-4, rtol=1e-5)
        self.assertGreater(times_launched("triton_"), before)

    @parametrize("in_subprocess", [False, True])
    def test_max_autotune_product(self, in_subprocess):
        a = torch.randn(128, 256, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(192, 256, device="cuda", dtype=torch.bfloat16)
        settings = {
            "max_autotune": True,
            "max_autotune_gemm_backends": "TRITON",
            "test_configs.max_mm_configs": 2,
            "autotune_in_subproc": in_subprocess,
            "force_disable_caches": True,
        }
        before = times_launched("triton_")
        with inductor_config.patch(settings):
            actual = torch.compile(lambda a, b: a @ b.t())(a, b)
        exact = a.cpu().double() @ b.cpu().double().t()
        # fp32 sums of 256 exact products, rounded once to bf16
        bound = 2.0**-8 * exact.abs() + 256 * 2.0**-24 * (a.cpu().double().abs() @ b.cpu().double().abs().t())
        self.assertTrue(((actual.cpu().double() - exact).abs() <= bound).all().item())
        self.assertGreater(times_launched("triton_"), before)

    def test_inductor_benchmarks_read_the_virtual_clock(self):
        from torch._inductor.runtime.benchmarking import benchmarker

        x = torch.randn(1 << 16, device="cuda")
        once = benchmarking.run_once(lambda: x + 1)
        self.assertEqual(once, (7000 + 2 * x.nbytes / 7200) * 1e-6, atol=1e-9, rtol=1e-6)
        for device_type in ("cuda", "hip"):
            self.assertEqual(
                benchmarker.benchmark(lambda: x + 1, device=device_type, is_vetted_benchmarking=True), once
            )
        self.assertEqual(benchmarker.benchmark_gpu(lambda: x + 1), once)


instantiate_parametrized_tests(TestTriton)
instantiate_parametrized_tests(TestCompile)

if __name__ == "__main__":
    run_tests()
