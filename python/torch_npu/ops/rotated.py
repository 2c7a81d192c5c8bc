"""Overlaps of rotated boxes (x, y, width, height, angle in degrees)."""

import math

import torch

from ._define import check, op


@op("npu_rotated_overlaps(Tensor self, Tensor query_boxes, bool trans=False) -> Tensor")
def npu_rotated_overlaps(self, query_boxes, trans=False):
    """[b, n, k]: the common areas of boxes [b, n, 5] and query_boxes [b, k, 5]. trans: (x0, y0, x1, y1, angle)."""
    boxes, queries = _boxes(self, query_boxes, trans, "npu_rotated_overlaps")
    return _common(boxes.unsqueeze(2), queries.unsqueeze(1)).to(self.dtype)


@op(
    "npu_rotated_iou(Tensor self, Tensor query_boxes, bool trans=False, int mode=0, bool is_cross=True, float v_threshold=0.0,"
    " float e_threshold=0.0) -> Tensor"
)
def npu_rotated_iou(self, query_boxes, trans=False, mode=0, is_cross=True, v_threshold=0.0, e_threshold=0.0):
    """[b, n, k], without is_cross [b, n]: the common areas over those of the unions (mode 0) or of the boxes (mode 1)."""
    name = "npu_rotated_iou"
    check(mode in (0, 1), name, f"mode is 0 (over the union) or 1 (over the box), not {mode}")
    boxes, queries = _boxes(self, query_boxes, trans, name)
    if is_cross:
        boxes, queries = boxes.unsqueeze(2), queries.unsqueeze(1)
    else:
        check(boxes.shape == queries.shape, name, "without is_cross there are as many query_boxes as boxes")
    common = _common(boxes, queries)
    own, other = (given[..., 2] * given[..., 3] for given in (boxes, queries))
    whole = (own + other - common) if mode == 0 else own.expand_as(common)
    return torch.where(whole > 0, common / torch.where(whole > 0, whole, 1), 0).to(self.dtype)


def _boxes(boxes, queries, trans, operator):
    for name, given in (("self", boxes), ("query_boxes", queries)):
        check(given.dim() == 3 and given.size(2) == 5, operator, f"{name} is [b, n, 5], not {list(given.shape)}")
    check(boxes.size(0) == queries.size(0), operator, f"{boxes.size(0)} and {queries.size(0)} images")
    boxes, queries = (given.float() if given.dtype == torch.float16 else given for given in (boxes, queries))
    if not trans:
        return boxes, queries
    return tuple(torch.cat(((b[..., :2] + b[..., 2:4]) / 2, b[..., 2:4] - b[..., :2], b[..., 4:]), -1) for b in (boxes, queries))


def _common(boxes, queries):
    """The areas of the common polygons. Their corners are corners of one box inside the other, and crossings of edges."""
    boxes, queries = torch.broadcast_tensors(boxes, queries)
    a, b = _polygon(boxes), _polygon(queries)
    crossings, crossing = _crossings(a, b)
    points = torch.cat((a, b, crossings), -2)
    valid = torch.cat((_inside(a, queries), _inside(b, boxes), crossing), -1)
    count = valid.sum(-1, keepdim=True).clamp(min=1)
    centre = (points * valid.unsqueeze(-1)).sum(-2) / count
    spokes = torch.where(valid.unsqueeze(-1), points - centre.unsqueeze(-2), 0)
    angle = torch.where(valid, torch.atan2(spokes[..., 1], spokes[..., 0]), math.inf)
    order = angle.argsort(-1)
    spokes = spokes.gather(-2, order.unsqueeze(-1).expand_as(spokes))
    place = torch.arange(spokes.size(-2), device=spokes.device)
    following = torch.where(place + 1 < count, place + 1, 0)
    after = spokes.gather(-2, following.unsqueeze(-1).expand_as(spokes))
    twice = spokes[..., 0] * after[..., 1] - spokes[..., 1] * after[..., 0]
    return (twice * (place < count)).sum(-1).abs() / 2


def _axes(boxes):
    angle = boxes[..., 4] * (math.pi / 180)
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((cos, sin), -1), torch.stack((-sin, cos), -1)


def _polygon(boxes):
    right, up = _axes(boxes)
    across, along = right * boxes[..., 2:3] / 2, up * boxes[..., 3:4] / 2
    centre = boxes[..., :2]
    return torch.stack((centre - across - along, centre + across - along, centre + across + along, centre - across + along), -2)


def _inside(points, boxes):
    right, up = _axes(boxes)
    spokes = points - boxes[..., None, :2]
    slack = 1e-5
    across = (spokes * right.unsqueeze(-2)).sum(-1).abs() <= boxes[..., None, 2] / 2 + slack
    return across & ((spokes * up.unsqueeze(-2)).sum(-1).abs() <= boxes[..., None, 3] / 2 + slack)


def _crossings(a, b):
    """(points [..., 16, 2], bool: whether a point is on both edges)."""
    start, run = a.unsqueeze(-2), (a.roll(-1, -2) - a).unsqueeze(-2)
    other_start, other_run = b.unsqueeze(-3), (b.roll(-1, -2) - b).unsqueeze(-3)
    cross = lambda u, v: u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]  # noqa: E731
    slope = cross(run, other_run)
    parallel = slope.abs() < 1e-9
    safe = torch.where(parallel, 1, slope)
    gap = other_start - start
    t, u = cross(gap, other_run) / safe, cross(gap, run) / safe
    on_both = ~parallel & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = start + t.unsqueeze(-1) * run
    return points.flatten(-3, -2), on_both.flatten(-2)
