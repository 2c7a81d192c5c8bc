"""The optimizers of apex: NpuFused* of torch_npu.optim, and NVIDIA's names over torch.optim.

optimizer = apex.optimizers.NpuFusedSGD(model.parameters(), lr=0.1, momentum=0.9)
"""

from typing import Any

from .fused import FusedAdagrad, FusedAdam, FusedLAMB, FusedMixedPrecisionLamb, FusedNovoGrad, FusedSGD
from .lamb import Lamb

_NPU = (
    *("NpuFusedAdadelta", "NpuFusedAdam", "NpuFusedAdamP", "NpuFusedAdamW", "NpuFusedBertAdam", "NpuFusedLamb"),
    *("NpuFusedOptimizerBase", "NpuFusedRMSprop", "NpuFusedRMSpropTF", "NpuFusedSGD"),
)

__all__ = ["FusedAdagrad", "FusedAdam", "FusedLAMB", "FusedMixedPrecisionLamb", "FusedNovoGrad", "FusedSGD", "Lamb"]
__all__ += _NPU


def __getattr__(name: str) -> Any:
    if name not in _NPU:
        raise AttributeError(f"apex.optimizers has no {name!r}: it has {', '.join(__all__)}")
    try:
        from torch_npu import optim
    except ImportError as error:
        raise ImportError(f"apex.optimizers.{name} needs torch_npu: install it, or use torch.optim on the CPU") from error
    return getattr(optim, name)


def __dir__() -> list[str]:
    return sorted(__all__)
