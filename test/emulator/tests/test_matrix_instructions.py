"""Matrix instructions from text: AGPRs, constants, modifiers, scales. Their arithmetic is checked by test_mfma.py."""

from __future__ import annotations

import numpy as np
import pytest
from core_library import CoreError, Program
from hip_device import core_only
from mfma_reference import DENSE, F8F6F4, SCALED, encode, place_inputs, place_scales, random_codes
from mfma_run import Form, execute


def run(form: Form, program: Program, name: str) -> None:
    generator = np.random.default_rng(list(str(form).encode()))
    shape = form.shape
    a = place_inputs(shape, shape.a, random_codes(shape.a, (shape.blocks, shape.m, shape.k), generator))
    b = place_inputs(shape, shape.b, random_codes(shape.b, (shape.blocks, shape.n, shape.k), generator))
    c = generator.integers(0x3F000000, 0x40000000, (shape.registers[2], 64), dtype=np.uint32)
    blocks = max(1, shape.k // 32)
    codes = [generator.integers(120, 134, (rows, blocks)) for rows in (shape.m, shape.n)]
    rows = scales = None
    if shape.mnemonic.startswith("v_mfma_scale"):
        byte_a, byte_b = form.scale_bytes
        scale_a = place_scales(shape.m, codes[0], byte_a, generator)
        scale_b = place_scales(shape.n, codes[1], byte_b, generator)
        rows, scales = (scale_a, scale_b), (scale_a, byte_a, scale_b, byte_b)
    result = form.launch(program, name, a, b, c, rows)
    given = None if form.c != "registers" else c
    modifiers = {} if shape.f8f6f4 else {"cbsz": form.cbsz, "blgp": form.blgp}
    expected = execute(shape, a, b, given, c_const=form.c_bits, abid=form.abid, scales=scales, **modifiers)
    np.testing.assert_array_equal(result, expected)


NAMED = {str(shape): shape for shape in DENSE + F8F6F4 + SCALED}
FORMS = [Form(shape) for shape in DENSE + F8F6F4]
FORMS += [Form(shape, scale_bytes=((index * 3) % 4, (index + 1) % 4)) for index, shape in enumerate(SCALED)]
for name in ("v_mfma_f32_16x16x32_bf16", "v_mfma_f32_32x32x16_f16", "v_mfma_i32_16x16x32_i8", "v_mfma_f64_16x16x4_f64"):
    for files in ("aav", "ava", "vaa", "vva"):
        FORMS.append(Form(NAMED[name], files, in_place=files[2] == "a"))
one_f64 = int(encode("f64", np.ones(1))[0])
FORMS += [
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], c="0"),
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], c="1.0", c_bits=0x3F800000),
    Form(NAMED["v_mfma_f32_32x32x16_bf16"], c="-2.0", c_bits=0xC0000000, files="vva"),
    Form(NAMED["v_mfma_i32_16x16x64_i8"], c="-7", c_bits=0xFFFFFFF9),
    Form(NAMED["v_mfma_f64_16x16x4_f64"], c="1.0", c_bits=one_f64),
    Form(NAMED["v_mfma_scale_f32_16x16x128_f8f6f4-fp8-fp4"], c="0"),
    Form(NAMED["v_mfma_f32_16x16x32_bf16"], in_place=True, exec_mask=0x00FF00FF00FF00F1),
    Form(NAMED["v_mfma_scale_f32_32x32x64_f8f6f4-fp4-fp4"], in_place=True, exec_mask=1, scale_bytes=(3, 2)),
    Form(NAMED["v_mfma_f32_16x16x4_4b_f16"], modifiers="cbsz:2 abid:3", cbsz=2, abid=3),
    Form(NAMED["v_mfma_f32_32x32x1_2b_f32"], modifiers="cbsz:1 abid:1 blgp:2", cbsz=1, abid=1, blgp=2),
    Form(NAMED["v_mfma_f32_16x16x16_f16"], modifiers="blgp:5", blgp=5),
]


@pytest.fixture(scope="module")
def program() -> Program:
    return Program([form.kernel(f"form{index}") for index, form in enumerate(FORMS)])


@pytest.mark.parametrize("index", range(len(FORMS)), ids=[str(form) for form in FORMS])
def test_form(program: Program, index: int) -> None:
    run(FORMS[index], program, f"form{index}")


@core_only
@pytest.mark.parametrize(
    ("shape", "modifiers"),
    [
        ("v_mfma_f32_16x16x4_4b_f16", "cbsz:1"),
        ("v_mfma_f32_16x16x32_bf16", "cbsz:1"),
        ("v_mfma_f32_16x16x32_bf16", "abid:1"),
    ],
)
def test_undefined_modifiers_are_refused(shape: str, modifiers: str) -> None:
    form = Form(NAMED[shape], modifiers=modifiers)
    with pytest.raises(CoreError, match=r"unsupported_instruction.*v_mfma"):
        run(form, Program([form.kernel("kernel")]), "kernel")
