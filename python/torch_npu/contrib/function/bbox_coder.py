"""Encodes boxes as deltas from other boxes, and decodes them."""

from collections.abc import Sequence

import torch

import torch_npu

from .anchor_generator import box_dtype_check


def npu_bbox_coder_encode_yolo(bboxes: torch.Tensor, gt_bboxes: torch.Tensor, stride: torch.Tensor) -> torch.Tensor:
    """torch_npu.npu_yolo_boxes_encode of boxes [n, 4] of any type, with strides [n]."""
    _check(bboxes, gt_bboxes)
    return torch_npu.npu_yolo_boxes_encode(box_dtype_check(bboxes), box_dtype_check(gt_bboxes), stride.int())


def npu_bbox_coder_encode_xyxy2xywh(
    bboxes: torch.Tensor,
    gt_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    is_normalized: bool = False,
    normalized_scale: float = 10000.0,
) -> torch.Tensor:
    """torch_npu.npu_bounding_box_encode with lists of four means (0) and stds (1). Boxes are in pixels; with is_normalized they
    are first multiplied by normalized_scale."""
    _check(bboxes, gt_bboxes)
    bboxes, gt_bboxes = box_dtype_check(bboxes), box_dtype_check(gt_bboxes)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch_npu.npu_bounding_box_encode(bboxes, gt_bboxes, *_four(means, 0.0), *_four(stds, 1.0))


def npu_bbox_coder_decode_xywh2xyxy(
    bboxes: torch.Tensor,
    pred_bboxes: torch.Tensor,
    means: Sequence[float] | None = None,
    stds: Sequence[float] | None = None,
    max_shape: Sequence[int] | None = None,
    wh_ratio_clip: float = 0.016,
) -> torch.Tensor:
    """torch_npu.npu_bounding_box_decode with lists of four means (0) and stds (1), clipped to max_shape (9999, 9999)."""
    _check(bboxes, pred_bboxes)
    bboxes, pred_bboxes = box_dtype_check(bboxes), box_dtype_check(pred_bboxes)
    size = [9999, 9999] if max_shape is None else list(max_shape)
    return torch_npu.npu_bounding_box_decode(bboxes, pred_bboxes, *_four(means, 0.0), *_four(stds, 1.0), size, wh_ratio_clip)


def _check(a: torch.Tensor, b: torch.Tensor) -> None:
    if a.dim() != 2 or a.size(-1) != 4 or a.shape != b.shape:
        raise ValueError(f"both sets of boxes are [n, 4], not {list(a.shape)} and {list(b.shape)}")


def _four(given: Sequence[float] | None, default: float) -> list[float]:
    numbers = [default] * 4 if given is None else list(given)
    if len(numbers) != 4:
        raise ValueError(f"means and stds are four numbers each, not {len(numbers)}")
    return numbers
