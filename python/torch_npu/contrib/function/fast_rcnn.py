"""Overlaps and detections of Faster R-CNN and Mask R-CNN, with or without the classes of detectron2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import torch_npu

from .iou import npu_iou


def pairwise_iou(boxes1: Any, boxes2: Any) -> torch.Tensor:
    """[n, m]: the IoU of n boxes with m boxes (x0, y0, x1, y1). Both are tensors [n, 4] or Boxes of detectron2."""
    first, second = (getattr(boxes, "tensor", boxes) for boxes in (boxes1, boxes2))
    for boxes in (first, second):
        if not isinstance(boxes, torch.Tensor) or boxes.dim() != 2 or boxes.size(1) != 4:
            given = list(boxes.shape) if isinstance(boxes, torch.Tensor) else type(boxes).__name__
            raise ValueError(f"pairwise_iou: boxes are [n, 4] or Boxes, not {given}")
    return npu_iou(first, second)


@dataclass
class Detections:
    """The detections of one image, where detectron2 is not installed."""

    image_size: tuple[int, int]
    pred_boxes: torch.Tensor
    scores: torch.Tensor
    pred_classes: torch.Tensor

    def __len__(self) -> int:
        return self.scores.size(0)


def fast_rcnn_inference_single_image(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    image_shape: Sequence[int],
    score_thresh: float,
    nms_thresh: float,
    topk_per_image: int,
) -> tuple[Any, torch.Tensor]:
    """(detections, indices): the boxes [n, 4] or [n, classes * 4] with scores [n, classes + 1], the last one for the background,
    clipped to image_shape (height, width): those above score_thresh, without those that overlap a better one of their class by
    more than nms_thresh, by descending score, at most topk_per_image (all if negative).

    detections are Instances of detectron2 if it is installed, else an object with the same fields pred_boxes, scores and
    pred_classes. indices are the rows of the input that they come from. Rows that are not finite are left out. The number of
    detections is read back."""
    name = "fast_rcnn_inference_single_image"
    classes = scores.size(1) - 1 if scores.dim() == 2 else 0
    if classes < 1 or boxes.dim() != 2 or boxes.size(0) != scores.size(0) or boxes.size(1) not in (4, 4 * classes):
        raise ValueError(
            f"{name}: scores are [n, classes + 1] and boxes [n, 4] or [n, classes * 4], not {list(scores.shape)} and"
            f" {list(boxes.shape)}"
        )
    height, width = image_shape
    finite = (boxes.isfinite().all(1) & scores.isfinite().all(1)).unsqueeze(1)
    limits = boxes.new_tensor([width, height, width, height])
    boxes = torch.where(finite, boxes, 0).view(boxes.size(0), -1, 4).clamp(min=0).minimum(limits)
    scores = torch.where(finite, scores[:, :-1], -1.0)
    place = (scores > score_thresh).nonzero()
    row, label = place.unbind(1)
    own_boxes, own_scores = boxes[row, label if boxes.size(1) > 1 else 0], scores[row, label]
    kept = _keep_by_class(own_boxes, own_scores, label, nms_thresh)
    if topk_per_image >= 0:
        kept = kept[:topk_per_image]
    return _detections(image_shape, own_boxes[kept], own_scores[kept], label[kept]), row[kept]


def _keep_by_class(boxes: torch.Tensor, scores: torch.Tensor, label: torch.Tensor, threshold: float) -> torch.Tensor:
    """The indices of the kept boxes by descending score. Boxes of different classes are moved apart, so that they do not
    overlap."""
    if boxes.size(0) == 0:
        return torch.empty(0, dtype=torch.int64, device=boxes.device)
    apart = boxes.float() + (label * (boxes.max() + 1)).float().unsqueeze(1)
    limits = torch.tensor([threshold, float("-inf")], device=boxes.device)
    indices, count = torch_npu.npu_nms_v4(apart, scores.float(), boxes.size(0), limits[0], limits[1])
    return indices[: int(count)].long()


def _detections(image_shape: Sequence[int], boxes: torch.Tensor, scores: torch.Tensor, label: torch.Tensor) -> Any:
    try:
        from detectron2.structures import Boxes, Instances  # type: ignore[import-not-found]
    except ImportError:
        return Detections((image_shape[0], image_shape[1]), boxes, scores, label)
    found = Instances(tuple(image_shape))
    found.pred_boxes, found.scores, found.pred_classes = Boxes(boxes), scores, label
    return found
