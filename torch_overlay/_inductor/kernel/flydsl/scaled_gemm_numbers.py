"""What a launch of the scaled GEMM is told beside its addresses. No postponed annotations: FlyDSL reads the types."""

import flydsl.expr as fx


@fx.struct
class ScaledNumbers:
    """Sizes; strides of A and B in units of two bytes, of block scales in dwords, of C and the epilogue's inputs in
    elements. ``k_a`` and ``k_b`` are K in units of two bytes, ``k_scales`` in dwords of scales."""

    m: fx.Int32
    n: fx.Int32
    k: fx.Int32
    k_a: fx.Int32
    k_b: fx.Int32
    k_scales: fx.Int32
    lda: fx.Int32
    ldb: fx.Int32
    ldc: fx.Int32
    scales_a: fx.Int32
    scales_b: fx.Int32
    row0: fx.Int32
    row1: fx.Int32
    row2: fx.Int32
    row3: fx.Int32


NUMBERS = len(ScaledNumbers.__annotations__)
