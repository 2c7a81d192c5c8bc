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
    own_scores = scores.transpose(1, 2).reshape(batch * classes, count)  # a row per image and class
    own_scores, order = own_scores.sort(dim=-1, descending=True, stable=True)
    allowed = own_scores > score_threshold
    if _has_values(allowed):  # the boxes above the threshold come first; the others need no work
        most = max(int(allowed.sum(-1).max()) if allowed.numel() else 0, 1)
        own_scores, order, allowed = own_scores[:, :most], order[:, :most], allowed[:, :most]
    rows = torch.arange(batch * classes, device=scores.device).unsqueeze(1)
    label = rows % classes if self.size(2) > 1 else torch.zeros_like(rows)
    own_boxes = self[rows // classes, order, label]
    kept = _keep_in_parts(own_boxes, iou_threshold, allowed)
    kept = kept & (kept.cumsum(-1) <= max_size_per_class)
    flat_scores = torch.where(kept, own_scores.float(), float("-inf")).view(batch, -1)
    best = flat_scores.argsort(dim=-1, descending=True, stable=True)[:, :max_total_size]
    best_scores = flat_scores.gather(1, best).unsqueeze(-1)
    found = best_scores > float("-inf")
    best_boxes = own_boxes.reshape(batch, -1, 4).gather(1, best.unsqueeze(-1).expand(-1, -1, 4)).float()
    best_classes = (best // order.size(1)).float().unsqueeze(-1)
    result = torch.where(found, torch.cat((best_boxes, best_scores, best_classes), -1), 0)
    result = torch.nn.functional.pad(result, (0, 0, 0, max_total_size - result.size(1))).to(scores.dtype)
    return result[..., :4].to(self.dtype), result[..., 4], result[..., 5], found.sum((1, 2)).to(torch.int32)


def _check(boxes, scores, operator):
    check(boxes.dim() == 2 and boxes.size(1) == 4, operator, f"boxes are [n, 4], not {list(boxes.shape)}")
    check(scores.dim() == 1 and scores.size(0) == boxes.size(0), operator, f"{boxes.size(0)} boxes need as many scores")


_PART = 1 << 22  # pairs of boxes that are compared at a time


def _keep_in_parts(boxes, threshold, allowed):
    """_keep of boxes [rows, n, 4], for some rows at a time, so that memory does not grow with their number."""
    size = max(1, _PART // max(boxes.size(1) ** 2, 1))
    parts = [_keep(boxes[i : i + size], threshold, allowed[i : i + size]) for i in range(0, boxes.size(0), size)]
    return torch.cat(parts) if parts else allowed


def _keep(boxes, threshold, allowed=None):
    """bool [..., n]: True for kept boxes of [..., n, 4]. Boxes are ordered by descending score; their corners may be in any
    order. The number of rounds is read back."""
    covers = _covers(boxes, threshold)
    if allowed is None:
        allowed = torch.ones(boxes.shape[:-1], dtype=torch.bool, device=boxes.device)
    if not _has_values(boxes):
        kept = allowed
        for row in range(boxes.size(-2)):
            kept = kept & ~(covers[..., row, :] & kept[..., row, None])
        return kept
    # A box is kept if no kept box before it covers it. In each round at least one more box is decided for good, and so are all
    # of them once a round changes nothing.
    weight = covers.float()
    kept = allowed.float()
    limit = allowed.float().unsqueeze(-2)
    while True:
        last = kept
        for _ in range(_ROUNDS):
            kept = (limit > kept.unsqueeze(-2) @ weight).squeeze(-2).float()
        if torch.equal(kept, last):
            return kept.bool()


_ROUNDS = 3  # between two looks at the result


def _covers(boxes, threshold):
    """bool [..., n, n]: the box of the row overlaps that of the column, a later one, by more than the threshold."""
    boxes = boxes.float()
    low, high = torch.minimum(boxes[..., :2], boxes[..., 2:]), torch.maximum(boxes[..., :2], boxes[..., 2:])
    area = (high - low).prod(-1)
    sides = []
    for near, far in zip(low.unbind(-1), high.unbind(-1), strict=True):
        side = torch.minimum(far.unsqueeze(-1), far.unsqueeze(-2))
        sides.append(side.sub_(torch.maximum(near.unsqueeze(-1), near.unsqueeze(-2))).clamp_(min=0))
    common = sides[0].mul_(sides[1])
    union = (area.unsqueeze(-1) + area.unsqueeze(-2)).sub_(common)
    return (common > union.mul_(threshold)).triu(1)


def _has_values(x):
    return x.device.type != "meta" and not torch.compiler.is_compiling()
