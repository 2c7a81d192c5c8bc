"""Overlaps of boxes, by their old names; torch_npu has each as an operator."""

import torch_npu

from .anchor_generator import box_dtype_check


def npu_iou(boxes1, boxes2, mode="ptiou", is_normalized=False, normalized_scale=100.0):
    """[n, m]: the overlaps of boxes1 [n, 4] with boxes2 [m, 4] over their unions; both modes, iou and ptiou, are the same."""
    if mode not in ("iou", "ptiou"):
        raise ValueError(f"mode is iou or ptiou, not {mode}")
    return torch_npu.npu_iou(box_dtype_check(boxes2), box_dtype_check(boxes1))


npu_ptiou = npu_iou


def npu_giou(boxes1, boxes2, is_permuted=True):
    """[n, 1]: torch_npu.npu_giou of boxes (x, y, width, height), [n, 4], without is_permuted [4, n]."""
    boxes = [box_dtype_check(boxes1), box_dtype_check(boxes2)]
    return torch_npu.npu_giou(*(b.t() if is_permuted else b for b in boxes), trans=True)


def npu_diou(boxes1, boxes2, trans=True, is_cross=False, mode=0):
    """[1, n]: torch_npu.npu_diou of boxes [4, n]."""
    return torch_npu.npu_diou(boxes1, boxes2, trans, is_cross, mode)


def npu_ciou(boxes1, boxes2, trans=True, is_cross=False, mode=0):
    """[1, n]: torch_npu.npu_ciou of boxes [4, n]."""
    return torch_npu.npu_ciou(boxes1, boxes2, trans, is_cross, mode, True)
