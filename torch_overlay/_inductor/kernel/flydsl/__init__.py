"""FlyDSL kernels of the GEMM family and their configurations.

``gemm_config`` is data and rules and needs no flydsl. ``gemm`` is the kernel; it imports flydsl, so import it at first
use.
"""
