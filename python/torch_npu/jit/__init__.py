"""Passes over TorchScript for NPUs: `optimize(torch.jit.trace(model.npu(), x))`."""

from .register_fusion_pattern import optimize

__all__ = ["optimize"]
