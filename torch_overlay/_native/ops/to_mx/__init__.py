"""Quantisation to OCP Microscaling formats: the operator behind ``torch.nn.microscaling``."""
