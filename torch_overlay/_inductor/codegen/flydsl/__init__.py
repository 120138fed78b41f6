"""FLYDSL: a choice type of Inductor's GEMM autotuning whose candidates are FlyDSL kernels for gfx950.

=======================================  ===================================================================
module                                   job
=======================================  ===================================================================
``lowering``                             what the base's lowerings call
``gate``                                 whether a problem may use FlyDSL, and the reason if not
``problem``                              from nodes to the kernel's terms; guards where sizes are symbolic
``template``                             the template, its configurations, and the candidate (``ChoiceCaller``)
``render``                               the source of a generated kernel module
``compile``                              compiling a module in a worker; what ``async_compile.flydsl`` returns
``benchmark_request``                    timing a candidate, in this process or in the autotuner's subprocess
``iteration``, ``epilogue_trace``        pointwise nodes as an epilogue of the kernel
``fusion``                               whether nodes may be fused into a product, and whether that is faster
``buffer``, ``scheduling``               the winner in the graph, and the call in the generated wrapper
``cache_key``                            what the autotuning and graph caches must know about FlyDSL
=======================================  ===================================================================

Nothing here imports flydsl: only a generated module does, when it is compiled or called.
"""
