"""Passes over TorchScript for NPUs.

traced = torch.jit.trace(model.npu(), x, check_trace=False)
torch_npu.jit.optimize(traced)            # before its first run
"""

from .register_fusion_pattern import optimize

__all__ = ["optimize"]
