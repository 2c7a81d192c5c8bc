"""Overlaps of boxes under their old names; torch_npu has an operator for each."""

import torch

import torch_npu

from .anchor_generator import box_dtype_check


def npu_iou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, mode: str = "ptiou", is_normalized: bool = False, normalized_scale: float = 100.0
) -> torch.Tensor:
    """[n, m]: the IoU of boxes1 [n, 4] with boxes2 [m, 4]. The modes iou and ptiou are the same."""
    if mode not in ("iou", "ptiou"):
        raise ValueError(f"mode is iou or ptiou, not {mode}")
    return torch_npu.npu_iou(box_dtype_check(boxes2), box_dtype_check(boxes1))


npu_ptiou = npu_iou


def npu_giou(boxes1: torch.Tensor, boxes2: torch.Tensor, is_permuted: bool = True) -> torch.Tensor:
    """[n, 1]: torch_npu.npu_giou of boxes (x, y, width, height). They are [n, 4], or [4, n] with is_permuted=False."""
    boxes = [box_dtype_check(boxes1), box_dtype_check(boxes2)]
    return torch_npu.npu_giou(*(b.t() if is_permuted else b for b in boxes), trans=True)


def npu_diou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """[1, n]: torch_npu.npu_diou of boxes [4, n]."""
    return torch_npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(
    boxes1: torch.Tensor, boxes2: torch.Tensor, trans: bool = True, is_cross: bool = False, mode: int = 0
) -> torch.Tensor:
    """[1, n]: torch_npu.npu_ciou of boxes [4, n]."""
    return torch_npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)
