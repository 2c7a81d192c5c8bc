"""Overlaps, encodings and assignments of boxes (x0, y0, x1, y1)."""

import math

import torch

from ._define import check, op


@op("npu_iou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor")
def npu_iou(bboxes, gtboxes, mode=0):
    """[m, n]: the overlap of each of m gtboxes with each of n bboxes, over their union (mode 0) or the area of the gtbox (1)."""
    _mode(mode, "npu_iou")
    for label, given in (("bboxes", bboxes), ("gtboxes", gtboxes)):
        check(given.dim() == 2 and given.size(1) == 4, "npu_iou", f"{label} is [n, 4], not {list(given.shape)}")
    # The edges are copied one after the other: operators are slow on every fourth number of a table.
    box, gt = bboxes.t().contiguous().unbind(0), gtboxes.t().contiguous().unsqueeze(-1).unbind(0)
    return _overlap(box, gt, mode)[0]


@op("npu_ptiou(Tensor bboxes, Tensor gtboxes, int mode=0) -> Tensor")
def npu_ptiou(bboxes, gtboxes, mode=0):
    """npu_iou."""
    return npu_iou(bboxes, gtboxes, mode)


@op("npu_giou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor")
def npu_giou(self, gtboxes, trans=False, is_cross=False, mode=0):
    """[n, 1], with is_cross [n, m]: the IoU of boxes [4, n] with gtboxes [4, m], minus the share of the hull that is in neither.
    trans: the boxes are (centre x, centre y, width, height)."""
    box, gt = _corners(self, gtboxes, trans, is_cross, mode, "npu_giou")
    iou, union = _overlap(box, gt, mode)
    width, height = _hull(box, gt)
    hull = width * height
    return (iou - (hull - union) / _not_zero(hull)).t()


@op("npu_diou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=False, int mode=0) -> Tensor")
def npu_diou(self, gtboxes, trans=False, is_cross=False, mode=0):
    """[1, n], with is_cross [m, n]: the IoU of boxes [4, n] with gtboxes [4, m], minus the squared distance of their centres over
    the squared diagonal of their hull."""
    box, gt = _corners(self, gtboxes, trans, is_cross, mode, "npu_diou")
    return _overlap(box, gt, mode)[0] - _distance(box, gt)


@op("npu_ciou(Tensor self, Tensor gtboxes, bool trans=False, bool is_cross=True, int mode=0, bool atan_sub_flag=False) -> Tensor")
def npu_ciou(self, gtboxes, trans=False, is_cross=True, mode=0, atan_sub_flag=False):
    """npu_diou minus a term for different aspect ratios. The weight of the term has no gradient."""
    box, gt = _corners(self, gtboxes, trans, is_cross, mode, "npu_ciou")
    iou = _overlap(box, gt, mode)[0]
    angles = [torch.atan((x1 - x0) / (y1 - y0 + 1e-9)) for x0, y0, x1, y1 in (box, gt)]
    v = 4 / math.pi**2 * (angles[1] - angles[0]).square()
    with torch.no_grad():
        weight = v / (1 + 1e-9 - iou + v)
    return iou - _distance(box, gt) - v * weight


@op(
    "npu_bounding_box_encode(Tensor anchor_box, Tensor ground_truth_box, float means0, float means1, float means2, float means3,"
    " float stds0, float stds1, float stds2, float stds3) -> Tensor"
)
def npu_bounding_box_encode(anchor_box, ground_truth_box, means0, means1, means2, means3, stds0, stds1, stds2, stds3):
    """[n, 4]: the deltas from anchors to boxes: distances of the centres over width and height, logs of the ratios of width and
    height; minus the means, over the stds. x1 is the last pixel of a box: its width is x1 - x0 + 1."""
    _same_boxes(anchor_box, ground_truth_box, "npu_bounding_box_encode")
    (ax, ay, aw, ah), (gx, gy, gw, gh) = _inclusive(anchor_box), _inclusive(ground_truth_box)
    deltas = torch.stack(((gx - ax) / aw, (gy - ay) / ah, (gw / aw).log(), (gh / ah).log()), -1)
    means, stds = (deltas.new_tensor(four) for four in ((means0, means1, means2, means3), (stds0, stds1, stds2, stds3)))
    return (deltas - means) / stds


@op(
    "npu_bounding_box_decode(Tensor rois, Tensor deltas, float means0, float means1, float means2, float means3, float stds0,"
    " float stds1, float stds2, float stds3, int[1] max_shape, float wh_ratio_clip) -> Tensor"
)
def npu_bounding_box_decode(rois, deltas, means0, means1, means2, means3, stds0, stds1, stds2, stds3, max_shape, wh_ratio_clip):
    """[n, 4]: applies the deltas of npu_bounding_box_encode to rois, clipped to an image of max_shape (height, width). Widths and
    heights change at most by the factor 1 / wh_ratio_clip."""
    name = "npu_bounding_box_decode"
    _same_boxes(rois, deltas, name)
    check(len(max_shape) == 2, name, f"max_shape is (height, width), not {list(max_shape)}")
    means, stds = (deltas.new_tensor(four) for four in ((means0, means1, means2, means3), (stds0, stds1, stds2, stds3)))
    dx, dy, dw, dh = (deltas * stds + means).unbind(-1)
    x, y, width, height = _inclusive(rois)
    most = abs(math.log(wh_ratio_clip))
    x, y = x + width * dx, y + height * dy
    width, height = width * dw.clamp(-most, most).exp(), height * dh.clamp(-most, most).exp()
    right, lower = max_shape[1] - 1, max_shape[0] - 1
    corners = (
        (x - width / 2 + 0.5, right),
        (y - height / 2 + 0.5, lower),
        (x + width / 2 - 0.5, right),
        (y + height / 2 - 0.5, lower),
    )
    return torch.stack([edge.clamp(0, most) for edge, most in corners], -1)


@op(
    "npu_yolo_boxes_encode(Tensor self, Tensor gt_bboxes, Tensor stride, bool performance_mode=False) -> Tensor",
    called=lambda self, gt_bboxes, weight: ...,
)
def npu_yolo_boxes_encode(self, gt_bboxes, stride, performance_mode=False):
    """[n, 4]: distances of the centres in units of stride, from the upper left corner of the cell and clamped to it, and logs of
    the ratios of width and height."""
    name = "npu_yolo_boxes_encode"
    _same_boxes(self, gt_bboxes, name)
    check(stride.numel() == self.size(0), name, f"{self.size(0)} boxes, but {stride.numel()} strides")
    least = 1e-6
    (x, y, width, height), (gx, gy, gwidth, gheight) = _centred(self), _centred(gt_bboxes)
    dx, dy = (((goal - own) / stride + 0.5).clamp(least, 1 - least) for goal, own in ((gx, x), (gy, y)))
    dw, dh = ((goal / own).clamp(min=least).log() for goal, own in ((gwidth, width), (gheight, height)))
    return torch.stack((dx, dy, dw, dh), -1)


@op("npu_anchor_response_flags(Tensor self, int[2] featmap_size, int[2] stride, int num_base_anchors) -> Tensor")
def npu_anchor_response_flags(self, featmap_size, stride, num_base_anchors):
    """uint8 [height * width * num_base_anchors]: 1 for the anchors of cells that contain the centre of a box."""
    name = "npu_anchor_response_flags"
    check(self.dim() == 2 and self.size(1) == 4, name, f"boxes are [n, 4], not {list(self.shape)}")
    height, width = featmap_size
    boxes = self.float()
    column = ((boxes[:, 0] + boxes[:, 2]) / 2 / stride[0]).floor().long().clamp(0, width - 1)
    row = ((boxes[:, 1] + boxes[:, 3]) / 2 / stride[1]).floor().long().clamp(0, height - 1)
    cells = torch.zeros(height * width, dtype=torch.int32, device=self.device)
    cells = cells.index_put((row * width + column,), torch.ones((), dtype=torch.int32, device=self.device))
    return cells.to(torch.uint8).repeat_interleave(num_base_anchors)


@op(
    "npu_grid_assign_positive(Tensor self, Tensor overlaps, Tensor box_responsible_flags, Tensor max_overlaps,"
    " Tensor argmax_overlaps, Tensor gt_max_overlaps, Tensor gt_argmax_overlaps, int num_gts, float pos_iou_thr,"
    " float min_pos_iou, bool gt_max_assign_all) -> Tensor"
)
def npu_grid_assign_positive(
    self,
    overlaps,
    box_responsible_flags,
    max_overlaps,
    argmax_overlaps,
    gt_max_overlaps,
    gt_argmax_overlaps,
    num_gts,
    pos_iou_thr,
    min_pos_iou,
    gt_max_assign_all,
):
    """[n]: self, in which a responsible box gets 1 + the index of the ground truth that it overlaps most, if by more than
    pos_iou_thr; and each ground truth, later ones last, gives its own to the box, or with gt_max_assign_all the boxes, that
    overlap it most, if by more than min_pos_iou."""
    responsible = box_responsible_flags.bool()
    truths, count = min(num_gts, overlaps.size(0)), self.size(0)
    assigned = torch.where(responsible & (max_overlaps > pos_iou_thr), (argmax_overlaps + 1).to(self.dtype), self)
    if gt_max_assign_all:
        best = overlaps[:truths] == gt_max_overlaps[:truths, None]
    else:
        best = gt_argmax_overlaps[:truths, None] == torch.arange(count, device=self.device)
    best = best & responsible & (gt_max_overlaps[:truths, None] > min_pos_iou)
    index = torch.arange(1, truths + 1, device=self.device).unsqueeze(1)
    last = (best * index).amax(0) if truths else index.new_zeros(count)
    return torch.where(last > 0, last.to(self.dtype), assigned)


def _mode(mode, operator):
    check(mode in (0, 1), operator, f"mode is 0 (over the union) or 1 (over the ground truth), not {mode}")


def _same_boxes(a, b, operator):
    fits = a.dim() == 2 and a.size(-1) == 4 and a.shape == b.shape
    check(fits, operator, f"both sets of boxes are [n, 4], not {list(a.shape)} and {list(b.shape)}")


def _not_zero(x):
    return torch.where(x == 0, torch.ones_like(x), x)


def _corners(boxes, gtboxes, trans, is_cross, mode, operator):
    _mode(mode, operator)
    for name, given in (("self", boxes), ("gtboxes", gtboxes)):
        check(given.dim() == 2 and given.size(0) == 4, operator, f"{name} is [4, n], not {list(given.shape)}; transpose it")
    check(
        is_cross or boxes.shape == gtboxes.shape,
        operator,
        f"without is_cross there are as many gtboxes as boxes, not {gtboxes.size(1)} and {boxes.size(1)}",
    )
    corners = []
    for given in (boxes, gtboxes):
        x, y, w, h = given.float() if given.dtype == torch.float16 else given
        corners.append([x - w / 2, y - h / 2, x + w / 2, y + h / 2] if trans else [x, y, w, h])
    box, gt = corners
    return [edge.unsqueeze(0) for edge in box], [edge.unsqueeze(1 if is_cross else 0) for edge in gt]


def _overlap(box, gt, mode):
    """(overlap, union); 0 of 0 is 0."""
    sides = []
    for near in (0, 1):
        side = torch.minimum(box[near + 2], gt[near + 2])
        sides.append(side.sub_(torch.maximum(box[near], gt[near])).clamp_(min=0))
    common = sides[0].mul_(sides[1])
    # A box without area overlaps nothing. A tiny area keeps its unions from being 0.
    own, truth = (
        area.masked_fill(area == 0, torch.finfo(area.dtype).tiny)
        for area in ((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (box, gt))
    )
    union = (own + truth).sub_(common)
    return common / (truth if mode else union), union


def _hull(box, gt):
    width = torch.maximum(box[2], gt[2]) - torch.minimum(box[0], gt[0])
    return width, torch.maximum(box[3], gt[3]) - torch.minimum(box[1], gt[1])


def _distance(box, gt):
    width, height = _hull(box, gt)
    across = (gt[0] + gt[2] - box[0] - box[2]).square() + (gt[1] + gt[3] - box[1] - box[3]).square()
    return across / 4 / (width.square() + height.square() + 1e-9)


def _inclusive(boxes):
    x0, y0, x1, y1 = boxes.unbind(-1)
    return (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0 + 1, y1 - y0 + 1


def _centred(boxes):
    x0, y0, x1, y1 = boxes.unbind(-1)
    return (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0
