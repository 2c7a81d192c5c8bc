"""Non-maximum suppression of boxes of several classes."""

import torch

import torch_npu


def npu_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(boxes with scores [max_num, 5], classes [max_num]) in float16: the kept boxes of [n, 4] or [n, classes * 4] with scores
    [n, classes + 1], the last one for the background. Elements after the kept boxes are zeros."""
    batched = [None if given is None else given.unsqueeze(0) for given in (multi_bboxes, multi_scores, score_factors)]
    boxes, classes = npu_batched_multiclass_nms(batched[0], batched[1], score_thr, nms_thr, max_num, batched[2])
    return boxes[0], classes[0]


def npu_batched_multiclass_nms(
    multi_bboxes: torch.Tensor,
    multi_scores: torch.Tensor,
    score_thr: float = 0.05,
    nms_thr: float = 0.45,
    max_num: int = 50,
    score_factors: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(boxes with scores [b, max_num, 5], classes [b, max_num]): npu_multiclass_nms of each image of a batch."""
    if max_num <= 0:
        raise ValueError(f"max_num says how many boxes are given back, so it is 1 or more, not {max_num}")
    scores = multi_scores[..., :-1]
    if score_factors is not None:
        scores = scores * score_factors[..., None]
    batch, count = scores.shape[:2]
    boxes = multi_bboxes.reshape(batch, count, -1, 4)
    boxes, scores, classes, _ = torch_npu.npu_batch_nms(boxes.half(), scores.half(), score_thr, nms_thr, max_num, max_num)
    return torch.cat((boxes, scores[..., None]), -1), classes
