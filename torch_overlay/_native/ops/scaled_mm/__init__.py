"""FlyDSL in front of ``aten::_scaled_mm`` and ``aten::_scaled_mm_v2`` on GPUs, both also with ``out=``."""
