# Owner(s): ["module: inductor"]
"""The text of generated FlyDSL modules (T0: no GPU)."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

from torch._inductor.codegen.flydsl.cache_key import template_source_hash, toolchain_key
from torch._inductor.codegen.flydsl.render import gemm_module, literal
from torch._inductor.kernel.flydsl.epilogue_expr import EpilogueInput, addmm
from torch._inductor.kernel.flydsl.gemm_config import GemmConfig, GemmSpec
from torch._native.flydsl import target
from torch.testing._internal.common_utils import TestCase, run_tests

CONFIG = GemmConfig(tile_m=128, tile_n=256, tile_k=64, stages=3, waves_m=2, waves_n=4, group_m=4)
EPILOGUE = addmm(EpilogueInput(dtype="fp32", kind="row"), alpha=0.5)
SPEC = GemmSpec(dtype="bf16", config=CONFIG, arch="gfx950", k_tail=True, b_layout="n", epilogue=EPILOGUE)


class TestModule(TestCase):
    def test_gemm(self) -> None:
        self.assertExpectedInline(
            gemm_module("flydsl_gemm", SPEC).replace(literal(SPEC), "SPEC_LITERAL"),
            """\
from torch._inductor.kernel.flydsl.epilogue_expr import Epilogue, EpilogueInput
from torch._inductor.kernel.flydsl.gemm import compile_gemm
from torch._inductor.kernel.flydsl.gemm_config import GemmConfig, GemmSpec

SPEC = SPEC_LITERAL


def flydsl_gemm_precompile():
    \"\"\"Compile, once a process, into FlyDSL's disk cache. Needs no GPU.\"\"\"
    return compile_gemm(SPEC)


def flydsl_gemm_main(*args):
    \"\"\"Launch with A [M, K], B [N, K], the output, the raw stream and the epilogue's inputs.\"\"\"
    flydsl_gemm_precompile()(*args)
""",
        )

    def test_literals_rebuild_the_spec(self) -> None:
        scope: dict[str, Any] = {}
        exec(gemm_module("flydsl_gemm", SPEC).split("\ndef ")[0], scope)
        self.assertEqual(scope["SPEC"], SPEC)

    def test_values_without_a_stable_text_are_refused(self) -> None:
        """An address in the text would make a module that no other process ever finds."""

        @dataclasses.dataclass(frozen=True)
        class Spec:
            kernel: object

        with self.assertRaisesRegex(
            TypeError, "must be None, bool, int, float, str, a tuple or a dataclass of these, not"
        ):
            literal(Spec(object()))

    def test_tuples(self) -> None:
        self.assertEqual(literal(((1, "a"), (None,), ())), "((1, 'a'), (None,), ())")


class TestKeys(TestCase):
    SCRIPT = (
        "from torch._inductor.codecache import code_hash\n"
        "from torch._inductor.codegen.flydsl.cache_key import template_source_hash, toolchain_key\n"
        "from torch._inductor.codegen.flydsl.render import gemm_module\n"
        "from torch._inductor.kernel.flydsl.epilogue_expr import Epilogue, EpilogueInput\n"
        "from torch._inductor.kernel.flydsl.gemm_config import GemmConfig, GemmSpec\n"
        f"print(code_hash(gemm_module('flydsl_gemm', {SPEC!r})), template_source_hash(), toolchain_key())\n"
    )

    def in_another_process(self, **environment: str) -> list[str]:
        env = {**os.environ, **environment}
        command = [sys.executable, "-c", self.SCRIPT]
        return subprocess.run(command, env=env, text=True, capture_output=True, check=True).stdout.split(maxsplit=2)

    def test_equal_in_every_process(self) -> None:
        first = self.in_another_process(PYTHONHASHSEED="1")
        self.assertEqual(first, self.in_another_process(PYTHONHASHSEED="2"))
        self.assertEqual(first[1], template_source_hash())

    def test_compile_options_change_the_toolchain_key(self) -> None:
        module, sources, toolchain = self.in_another_process(FLYDSL_COMPILE_OPT_LEVEL="3")
        self.assertIn("FLYDSL_COMPILE_OPT_LEVEL=3", toolchain)
        self.assertNotEqual([module, sources, toolchain], self.in_another_process())

    def test_the_toolchain_key_is_the_version(self) -> None:
        self.assertEqual(str(toolchain_key()).split(" ")[0], str(target.flydsl_version()))

    def test_every_spec_has_a_module_of_its_own(self) -> None:
        texts = {gemm_module("flydsl_gemm", SPEC)}
        for change in ({"dtype": "fp16"}, {"arch": "gfx951"}, {"k_tail": False}):
            texts.add(gemm_module("flydsl_gemm", dataclasses.replace(SPEC, **change)))
        for field in dataclasses.fields(GemmConfig):
            config = dataclasses.replace(CONFIG, **{field.name: 2 * getattr(CONFIG, field.name)})
            texts.add(gemm_module("flydsl_gemm", dataclasses.replace(SPEC, config=config)))
        self.assertEqual(len(texts), 4 + len(dataclasses.fields(GemmConfig)))


if __name__ == "__main__":
    run_tests()
