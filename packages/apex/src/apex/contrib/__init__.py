"""Additions to apex: combined tensors and a cross entropy."""
