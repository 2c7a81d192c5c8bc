"""Pooling of regions by interpolation."""

import torch
from torch import nn

import torch_npu


class ROIAlign(nn.Module):
    """torch_npu.npu_roi_align of features [n, c, h, w] and rois [m, 5], (image, x0, y0, x1, y1), in float32; output_size is
    (height, width), sampling_ratio 0 takes as many samples as a bin has pixels."""

    def __init__(self, output_size: tuple[int, int], spatial_scale: float, sampling_ratio: int, aligned: bool = True) -> None:
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned = (
            output_size,
            spatial_scale,
            sampling_ratio,
            aligned,
        )

    def forward(self, input_tensor: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        height, width = self.output_size
        mode = 3 if self.aligned else 0
        return torch_npu.npu_roi_align(input_tensor.float(), rois, self.spatial_scale, height, width, self.sampling_ratio, mode)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, spatial_scale={self.spatial_scale}, sampling_ratio={self.sampling_ratio},"
            f" aligned={self.aligned}"
        )
