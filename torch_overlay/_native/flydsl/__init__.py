"""FlyDSL for PyTorch: which releases and GPUs it runs on, how its kernels are cached, compiled and launched.

Importing this package, or its ``target`` and ``cache`` modules, imports neither flydsl nor a GPU runtime.
``launch`` imports flydsl at first use of a kernel.
"""
