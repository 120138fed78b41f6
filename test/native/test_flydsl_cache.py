# Owner(s): ["module: rocm"]
"""T0: keys that are equal across processes, and one build per key."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from torch._native.flydsl.cache import KernelCache, key_digest, source_digest
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

KEY = ("gemm_nt", "gfx950", 0, True, 1.5, None, ("bf16", 128, b"x"))


def in_threads(*functions):
    """Run all at once; their results, or the first exception."""
    results, errors = [None] * len(functions), []

    def run(index, function):
        try:
            results[index] = function()
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    if errors:
        raise errors[0]
    return results


@instantiate_parametrized_tests
class TestKeys(TestCase):
    def test_digest_is_equal_in_another_process(self):
        program = f"from torch._native.flydsl.cache import key_digest; print(key_digest({KEY!r}))"
        digests = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            for seed in ("1", "2")
        }
        self.assertEqual(digests, {key_digest(KEY)})

    @parametrize(
        "left, right",
        [
            ((1,), (True,)),
            ((1,), (1.0,)),
            (("1",), (1,)),
            ((1, 2), ((1, 2),)),
            (("a", "b"), ("a,b",)),
            ((0,), (None,)),
            (("x",), (b"x",)),
        ],
    )
    def test_different_keys_have_different_digests(self, left, right):
        self.assertNotEqual(key_digest(left), key_digest(right))

    @parametrize("value", [object(), [1], {"a": 1}, int, lambda: 0], name_fn=lambda value: type(value).__name__)
    def test_a_key_holds_only_plain_values(self, value):
        with self.assertRaisesRegex(TypeError, "a cache key holds"):
            key_digest(("kernel", (value,)))

    def test_source_digest_sees_content_and_name(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = Path(folder, "a.py"), Path(folder, "b.py")
            first.write_text("1")
            second.write_text("2")
            before = source_digest([first, second])
            self.assertEqual(before, source_digest([second, first]))
            second.write_text("3")
            self.assertNotEqual(before, source_digest([first, second]))
            first.write_text("2")
            second.write_text("1")
            self.assertNotEqual(before, source_digest([first, second]))


class TestKernelCache(TestCase):
    def test_one_build_for_threads_with_one_key(self):
        cache, builds, inside = KernelCache(), [], threading.Event()

        def build():
            builds.append(1)
            inside.wait(0.2)  # long enough for the other threads to arrive
            return object()

        values = in_threads(*[lambda: cache.get_or_build(KEY, build)] * 4)
        self.assertEqual(len(builds), 1)
        self.assertEqual(len({id(value) for value in values}), 1)
        self.assertEqual((cache.info().misses, cache.info().hits, cache.info().size), (1, 3, 1))

    def test_two_keys_build_at_the_same_time(self):
        cache = KernelCache()
        # Each build waits for the other one: with a lock for all keys this times out.
        meeting = threading.Barrier(2, timeout=10)

        def build():
            meeting.wait()
            return object()

        first, second = in_threads(lambda: cache.get_or_build(("a",), build), lambda: cache.get_or_build(("b",), build))
        self.assertIsNot(first, second)

    def test_failed_build_is_tried_again(self):
        cache = KernelCache()

        def fail():
            raise RuntimeError("no compiler")

        with self.assertRaisesRegex(RuntimeError, "no compiler"):
            cache.get_or_build(KEY, fail)
        self.assertEqual(cache.get_or_build(KEY, lambda: "built"), "built")

    def test_values_are_what_was_built(self):
        cache = KernelCache()
        self.assertEqual(cache.values(), [])
        cache.get_or_build(KEY, lambda: "first")
        cache.get_or_build(KEY, lambda: "never")
        self.assertEqual(cache.values(), ["first"])

    def test_clear(self):
        cache = KernelCache()
        cache.get_or_build(KEY, lambda: "first")
        cache.clear()
        self.assertEqual(cache.get_or_build(KEY, lambda: "second"), "second")

    def test_object_in_a_key_is_refused_before_the_build(self):
        with self.assertRaisesRegex(TypeError, "not object"):
            KernelCache().get_or_build((object(),), lambda: self.fail("built"))


if __name__ == "__main__":
    run_tests()
