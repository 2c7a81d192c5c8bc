"""Which anchors of a feature map are responsible for a box."""

import torch

import torch_npu


def box_dtype_check(box):
    """Boxes as float32, unless they are float32 or float16."""
    return box if box.dtype in (torch.float32, torch.float16) else box.float()


def npu_single_level_responsible_flags(featmap_size, gt_bboxes, stride, num_base_anchors):
    """uint8 [height * width * num_base_anchors]: 1 for the anchors of cells that hold the centre of a box [n, 4]."""
    return torch_npu.npu_anchor_response_flags(box_dtype_check(gt_bboxes), featmap_size, stride, num_base_anchors)
