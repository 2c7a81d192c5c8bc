"""Boxes as distances from other boxes, and back."""

import torch_npu

from .anchor_generator import box_dtype_check


def npu_bbox_coder_encode_yolo(bboxes, gt_bboxes, stride):
    """torch_npu.npu_yolo_boxes_encode of boxes [n, 4] of any type, with strides [n]."""
    _check(bboxes, gt_bboxes)
    return torch_npu.npu_yolo_boxes_encode(box_dtype_check(bboxes), box_dtype_check(gt_bboxes), stride.int())


def npu_bbox_coder_encode_xyxy2xywh(bboxes, gt_bboxes, means=None, stds=None, is_normalized=False, normalized_scale=10000.0):
    """torch_npu.npu_bounding_box_encode with lists of four means (0) and stds (1). Its boxes count in pixels: those that are
    normalised to 1 are multiplied by normalized_scale before."""
    _check(bboxes, gt_bboxes)
    bboxes, gt_bboxes = box_dtype_check(bboxes), box_dtype_check(gt_bboxes)
    if is_normalized:
        bboxes, gt_bboxes = bboxes * normalized_scale, gt_bboxes * normalized_scale
    return torch_npu.npu_bounding_box_encode(bboxes, gt_bboxes, *_four(means, 0.0), *_four(stds, 1.0))


def npu_bbox_coder_decode_xywh2xyxy(bboxes, pred_bboxes, means=None, stds=None, max_shape=None, wh_ratio_clip=0.016):
    """torch_npu.npu_bounding_box_decode with lists of four means (0) and stds (1), inside of max_shape (9999, 9999)."""
    _check(bboxes, pred_bboxes)
    bboxes, pred_bboxes = box_dtype_check(bboxes), box_dtype_check(pred_bboxes)
    size = [9999, 9999] if max_shape is None else list(max_shape)
    return torch_npu.npu_bounding_box_decode(bboxes, pred_bboxes, *_four(means, 0.0), *_four(stds, 1.0), size, wh_ratio_clip)


def _check(a, b):
    if a.dim() != 2 or a.size(-1) != 4 or a.shape != b.shape:
        raise ValueError(f"both sets of boxes are [n, 4], not {list(a.shape)} and {list(b.shape)}")


def _four(given, default):
    numbers = [default] * 4 if given is None else list(given)
    if len(numbers) != 4:
        raise ValueError(f"means and stds are four numbers each, not {len(numbers)}")
    return numbers
