"""Modelled times as the torch device's users see them: reports, timing-only launches, benchmarks."""

from __future__ import annotations

import gfx950_emulator  # isort: skip  (before torch)

import torch
import triton
import triton.language as tl
from torch.testing._internal.common_utils import TestCase, run_tests

from gfx950_emulator import benchmarking, hip


@triton.jit
def timed_add(x, y, out, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))


@triton.jit
def ticket(counter, out):
    """An atomic's result decides whether a block stores."""
    if tl.atomic_add(counter, 1) == 0:
        tl.store(out, 1)


class TestTiming(TestCase):
    def setUp(self):
        super().setUp()
        self.x, self.y = (torch.ones(1 << 16, device="cuda") for _ in range(2))
        self.out = torch.zeros_like(self.x)

    def run_add(self):
        timed_add[(64,)](self.x, self.y, self.out, 1024)

    def test_a_timing_only_launch_advances_the_clock_alone(self):
        self.run_add()
        self.assertEqual(self.out, self.x + self.y)
        self.out.zero_()
        gfx950_emulator.reset_launches()
        clock = gfx950_emulator.clock_ns()
        with gfx950_emulator.timing_only():
            self.run_add()
        self.assertGreater(gfx950_emulator.clock_ns() - clock, 7000)
        self.assertEqual(self.out, torch.zeros_like(self.out))
        self.assertEqual(gfx950_emulator.launch_counts(), {})
        self.assertEqual(gfx950_emulator.report("timed_add")["workgroups"], 64)
        self.run_add()
        self.assertEqual(self.out, self.x + self.y)

    def test_the_clock_advances_by_what_the_report_says(self):
        clock = gfx950_emulator.clock_ns()
        self.run_add()
        taken = gfx950_emulator.clock_ns() - clock
        report = gfx950_emulator.report("timed_add")
        self.assertEqual(report["nanoseconds"], taken, atol=1e-2, rtol=0)
        # Two arrays read, one written.
        self.assertEqual(report["memory"]["requested_bytes"], 3 * self.x.nbytes)
        self.assertIsNone(gfx950_emulator.report("no such kernel"))

    def test_benchmarks_do_not_compute_the_output(self):
        self.out.fill_(5)
        milliseconds = benchmarking.run_once(self.run_add)
        self.assertEqual(self.out, torch.full_like(self.out, 5))
        clock = gfx950_emulator.clock_ns()
        self.run_add()
        self.assertEqual(milliseconds * 1e6, gfx950_emulator.clock_ns() - clock, atol=1e-2, rtol=1e-9)

    def test_what_an_atomic_decides_runs_in_a_benchmark_and_is_refused_otherwise(self):
        counter, out = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
        with self.assertRaises((RuntimeError, SystemError)), gfx950_emulator.timing_only():
            ticket[(4,)](counter, out)
        self.assertIn(b"cannot be timed without running it", hip.runtime().gfx950_last_error())
        self.assertEqual(counter.item(), 0)
        benchmarking.run_once(lambda: ticket[(4,)](counter, out))
        self.assertEqual((counter.item(), out.item()), (4, 1))

    def test_parameters_name_their_source(self):
        for name, entry in gfx950_emulator.timing_parameters().items():
            self.assertEqual(entry["value"], entry["default"], msg=name)
            self.assertGreater(len(entry["source"]), 3, msg=name)


if __name__ == "__main__":
    run_tests()
