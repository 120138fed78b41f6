"""FlyDSL kernels of the GEMM family and their configurations.

=======================================  =====================================================================
module                                   job
=======================================  =====================================================================
``gemm_config``, ``epilogue_expr``       what a GEMM and its epilogue may be, configurations, the rule: no flydsl
``gemm_arguments``                       from tensors to the problem they pose: no flydsl
``gemm``                                 the contract, compiling and calling
``gemm_kernel``, ``gemm_numbers``        the kernel, and what a launch is told
``scaled_gemm*``, ``scaled_layout``      the same with 8- and 4-bit operands and scales; config, arguments: no flydsl
``scaled_pipeline``                      part: block scales on their way to the matrix cores, the scaled MFMA
``schedule``                             part: when a wave loads, reads and multiplies on its way along K
``pipeline``, ``lds_layout``             parts: loads, fragments and waits of LDS stages; where chunks lie
``epilogue``                             part: from accumulators through an epilogue's program to C
``shared_tile``                          part: workgroups that share a tile along K
``workgroup_order``                      part: which tile a workgroup computes
=======================================  =====================================================================

What says "no flydsl" above can be imported without it; import the rest at first use.
"""
