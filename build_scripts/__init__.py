"""Builds the patched PyTorch wheel from a base wheel, the patch series and the overlay."""
