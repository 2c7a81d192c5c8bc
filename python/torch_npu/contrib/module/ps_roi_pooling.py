"""Position-sensitive pooling of regions."""

import torch
from torch import nn

import torch_npu


class PSROIPool(nn.Module):
    """torch_npu.npu_ps_roi_pooling; pooled_height and pooled_width are group_size."""

    def __init__(
        self,
        pooled_height: int = 7,
        pooled_width: int = 7,
        spatial_scale: float = 0.0625,
        group_size: int = 7,
        output_dim: int = 22,
    ) -> None:
        super().__init__()
        if not pooled_height == pooled_width == group_size:
            raise ValueError(
                f"pooled_height and pooled_width are group_size {group_size}, not {pooled_height} and {pooled_width}"
            )
        self.spatial_scale, self.group_size, self.output_dim = spatial_scale, group_size, output_dim

    def forward(self, features: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_ps_roi_pooling(features, rois, self.spatial_scale, self.group_size, self.output_dim)

    def extra_repr(self) -> str:
        return f"spatial_scale={self.spatial_scale}, group_size={self.group_size}, output_dim={self.output_dim}"
