"""Non-maximum suppression: of boxes that overlap by more than a threshold, the one with the highest score is kept."""

import torch

from ._define import check, op


@op(
    "npu_nms_v4(Tensor self, Tensor scores, Scalar max_output_size, Tensor iou_threshold, Tensor scores_threshold,"
    " bool pad_to_max_output_size=False) -> (Tensor, Tensor)"
)
def npu_nms_v4(self, scores, max_output_size, iou_threshold, scores_threshold, pad_to_max_output_size=False):
    """(indices, count) in int32: the kept boxes of [n, 4] with scores above scores_threshold, by descending score. indices has
    max_output_size elements; those after the count are 0."""
    _check(self, scores, "npu_nms_v4")
    size = int(max_output_size)
    order = scores.argsort(descending=True, stable=True)
    kept = _keep(self[order], iou_threshold) & (scores[order] > scores_threshold)
    rank = kept.cumsum(0) - 1
    count = kept.sum().clamp(max=size)
    slot = torch.where(kept & (rank < size), rank, size)
    indices = torch.zeros(size + 1, dtype=torch.int64, device=self.device).scatter(0, slot, order)[:size]
    indices = torch.where(torch.arange(size, device=self.device) < count, indices, 0)
    return indices.to(torch.int32), count.to(torch.int32)


@op("npu_nms_with_mask(Tensor input, Scalar iou_threshold) -> (Tensor, Tensor, Tensor)", called=lambda inputs, iou_threshold: ...)
def npu_nms_with_mask(input, iou_threshold):
    """(boxes, indices, mask) of input [n, >= 5], a box and a score per row: the boxes with their scores, [n, 5], 0 to n - 1 in
    int32, and 1 in uint8 for kept boxes. Boxes are processed by descending score and returned in the order of the input."""
    check(
        input.dim() == 2 and input.size(1) >= 5,
        "npu_nms_with_mask",
        f"each row of the input is a box and a score, [n, 5] or wider, not {list(input.shape)}",
    )
    order = input[:, 4].argsort(descending=True, stable=True)
    kept = _keep(input[order, :4], iou_threshold)
    mask = torch.zeros(input.size(0), dtype=torch.uint8, device=input.device).scatter(0, order, kept.to(torch.uint8))
    return input[:, :5].clone(), torch.arange(input.size(0), dtype=torch.int32, device=input.device), mask


@op(
    "npu_batch_nms(Tensor self, Tensor scores, float score_threshold, float iou_threshold, int max_size_per_class,"
    " int max_total_size, bool change_coordinate_frame=False, bool transpose_box=False) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_batch_nms(
    self,
    scores,
    score_threshold,
    iou_threshold,
    max_size_per_class,
    max_total_size,
    change_coordinate_frame=False,
    transpose_box=False,
):
    """(boxes [b, k, 4], scores [b, k], classes [b, k], count [b] in int32), k = max_total_size: the kept boxes of [b, n, 1 or
    classes, 4] with scores [b, n, classes], first per class and then over all, by descending score. Elements after the count are
    zeros."""
    name = "npu_batch_nms"
    check(not change_coordinate_frame, name, "change_coordinate_frame is not offered; scale the boxes that come back")
    if transpose_box:
        self = self.transpose(-1, -2)
    check(self.dim() == 4 and self.size(-1) == 4, name, f"boxes are [batch, n, 1 or classes, 4], not {list(self.shape)}")
    check(
        scores.dim() == 3 and self.shape[:2] == scores.shape[:2] and self.size(2) in (1, scores.size(2)),
        name,
        f"scores are [batch, n, classes] for boxes {list(self.shape)}, not {list(scores.shape)}",
    )
    batch, count, classes = scores.shape
    results = []
    for image in range(batch):
        flat_scores, flat_boxes = [], []
        for label in range(classes):
            own_boxes, own_scores = self[image, :, min(label, self.size(2) - 1)], scores[image, :, label]
            order = own_scores.argsort(descending=True, stable=True)
            own_boxes, own_scores = own_boxes[order], own_scores[order]
            kept = _keep(own_boxes, iou_threshold, own_scores > score_threshold)
            kept = kept & (kept.cumsum(0) <= max_size_per_class)
            flat_scores.append(torch.where(kept, own_scores.float(), float("-inf")))
            flat_boxes.append(own_boxes)
        flat_scores, flat_boxes = torch.cat(flat_scores), torch.cat(flat_boxes)
        best = flat_scores.argsort(descending=True, stable=True)[:max_total_size]
        found = (flat_scores[best] > float("-inf")).unsqueeze(1)
        rows = torch.cat((flat_boxes[best].float(), flat_scores[best, None], (best // count).float().unsqueeze(1)), 1)
        rows = torch.where(found, rows, 0)
        rows = torch.nn.functional.pad(rows, (0, 0, 0, max_total_size - rows.size(0)))
        results.append((rows, found.sum()))
    rows = torch.stack([rows for rows, _ in results]).to(scores.dtype)
    found = torch.stack([found for _, found in results]).to(torch.int32)
    return rows[..., :4].to(self.dtype), rows[..., 4], rows[..., 5], found


def _check(boxes, scores, operator):
    check(boxes.dim() == 2 and boxes.size(1) == 4, operator, f"boxes are [n, 4], not {list(boxes.shape)}")
    check(scores.dim() == 1 and scores.size(0) == boxes.size(0), operator, f"{boxes.size(0)} boxes need as many scores")


def _keep(boxes, threshold, allowed=None):
    """bool [n]: True for kept boxes. Boxes are ordered by descending score; their corners may be in any order."""
    boxes = boxes.float()
    low, high = torch.minimum(boxes[:, :2], boxes[:, 2:]), torch.maximum(boxes[:, :2], boxes[:, 2:])
    area = (high - low).prod(1)
    common = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0).prod(2)
    union = area[:, None] + area - common
    covers = (common > threshold * union).triu(1)
    kept = torch.ones(boxes.size(0), dtype=torch.bool, device=boxes.device) if allowed is None else allowed
    for row in range(boxes.size(0)):
        kept = kept & ~(covers[row] & kept[row])
    return kept
