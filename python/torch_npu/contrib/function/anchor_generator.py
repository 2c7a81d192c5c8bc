"""The anchors of a feature map that are responsible for a box."""

from collections.abc import Sequence

import torch

import torch_npu


def box_dtype_check(box: torch.Tensor) -> torch.Tensor:
    """Boxes as float32, unless they are float32 or float16."""
    return box if box.dtype in (torch.float32, torch.float16) else box.float()


def npu_single_level_responsible_flags(
    featmap_size: Sequence[int], gt_bboxes: torch.Tensor, stride: Sequence[int], num_base_anchors: int
) -> torch.Tensor:
    """uint8 [height * width * num_base_anchors]: 1 for the anchors of cells that contain the centre of a box [n, 4]."""
    return torch_npu.npu_anchor_response_flags(box_dtype_check(gt_bboxes), featmap_size, stride, num_base_anchors)
