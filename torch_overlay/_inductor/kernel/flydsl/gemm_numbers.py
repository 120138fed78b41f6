"""What a launch of the GEMM kernel is told beside its addresses. No postponed annotations: FlyDSL reads the types."""

import flydsl.expr as fx


@fx.struct
class Numbers:
    """Sizes, and strides in elements: of the operands, C and the epilogue's inputs."""

    m: fx.Int32
    n: fx.Int32
    k: fx.Int32
    lda: fx.Int32
    ldb: fx.Int32
    ldc: fx.Int32
    stride_a: fx.Int64
    stride_b: fx.Int64
    stride_c: fx.Int64
    row0: fx.Int32
    row1: fx.Int32
    row2: fx.Int32
    row3: fx.Int32
    batch0: fx.Int64
    batch1: fx.Int64
    batch2: fx.Int64
    batch3: fx.Int64
    batch: fx.Int32


NUMBERS = len(Numbers.__annotations__)
