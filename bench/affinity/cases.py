"""The jobs of the comparison of the affinity library with the formulas in plain PyTorch. `plain` and `ours` return a function
that does the job once, on npu."""

from dataclasses import dataclass

import torch
import torch_npu
from torch import nn
from torch.nn import functional
from torch_npu.contrib import function, module

BAR = 0.8


@dataclass(frozen=True)
class Case:
    plain: object
    ours: object
    bar: float | None = BAR


def _rand(*shape, grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*shape, generator=generator).npu().requires_grad_(grad)


def _boxes(count, size=800.0, seed=0):
    corner, extent = _rand(count, 2, seed=seed) * size, _rand(count, 2, seed=seed + 1) * 200 + 1
    return torch.cat((corner, corner + extent), 1)


def _step(job, *inputs):
    """Forward and backward of a job that returns a tensor or a tuple of tensors."""

    def run():
        out = job()
        outs = out if isinstance(out, tuple) else (out,)
        return torch.autograd.grad([each.sum() for each in outs], inputs)

    return run


def _shuffle_inputs():
    return [_rand(32, 116, 28, 28, grad=True, seed=seed) for seed in (0, 1)]


def plain_shuffle(split):
    x1, x2 = _shuffle_inputs()

    def job():
        x = torch.cat((x1, x2), 1)
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)
        return x.chunk(2, 1) if split else x

    return _step(job, x1, x2)


def our_shuffle(split):
    x1, x2 = _shuffle_inputs()
    shuffle = module.ChannelShuffle(232, split_shuffle=split).npu()
    return _step(lambda: shuffle(x1, x2), x1, x2)


class PlainLabelSmoothing(nn.Module):
    def __init__(self, classes, smoothing):
        super().__init__()
        self.on, self.off = 1 - smoothing, smoothing / (classes - 1)

    def forward(self, x, target):
        labels = torch.full_like(x, self.off).scatter_(1, target.unsqueeze(1), self.on)
        return -(labels * functional.log_softmax(x, 1)).sum(1).mean()


def label_smoothing(kind):
    x, target = _rand(256, 1000, grad=True), torch.randint(1000, (256,)).npu()
    loss = kind(1000, 0.1).npu()
    return _step(lambda: loss(x, target), x)


def plain_iou(boxes1, boxes2):
    def area(boxes):
        return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])

    low, high = torch.max(boxes1[:, None, :2], boxes2[:, :2]), torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    side = (high - low).clamp(min=0)
    common = side[..., 0] * side[..., 1]
    return common / (area(boxes1)[:, None] + area(boxes2) - common)


def iou(overlap):
    boxes, anchors = _boxes(32), _boxes(8192, seed=2)
    return lambda: overlap(boxes, anchors)


def _matched():
    first, second = _rand(4096, 4, grad=True), _rand(4096, 4, seed=1)
    return first, second


def plain_giou():
    first, second = _matched()

    def corners(boxes):
        return torch.cat((boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2), 1)

    def job():
        a, b = corners(first), corners(second)
        common = (torch.min(a[:, 2:], b[:, 2:]) - torch.max(a[:, :2], b[:, :2])).clamp(min=0).prod(1)
        union = (a[:, 2:] - a[:, :2]).prod(1) + (b[:, 2:] - b[:, :2]).prod(1) - common
        hull = (torch.max(a[:, 2:], b[:, 2:]) - torch.min(a[:, :2], b[:, :2])).prod(1)
        return common / union - (hull - union) / hull

    return _step(job, first)


def our_giou():
    first, second = _matched()
    return _step(lambda: function.npu_giou(first, second), first)


def plain_nms(boxes, scores, threshold):
    """Box by box, as code without an operator for it does."""
    order, kept = scores.argsort(descending=True), []
    while order.numel() > 0:
        kept.append(order[0])
        overlap = plain_iou(boxes[order[:1]], boxes[order[1:]])[0]
        order = order[1:][overlap <= threshold]
    return torch.stack(kept)


def nms(suppress):
    boxes, scores = _boxes(1000), _rand(1000, seed=3)
    return lambda: suppress(boxes, scores, 0.5)


def our_nms(boxes, scores, threshold):
    limits = torch.tensor([threshold, 0.0], device=boxes.device)
    return torch_npu.npu_nms_v4(boxes, scores, boxes.size(0), limits[0], limits[1])


def plain_multiclass_nms():
    boxes, scores = _boxes(200), _rand(200, 21, seed=3)

    def job():
        found = []
        for label in range(20):
            own = (scores[:, label] > 0.5).nonzero()[:, 0]
            found.append(own[plain_nms(boxes[own], scores[own, label], 0.5)])
        return torch.cat(found)

    return job


def our_multiclass_nms():
    boxes, scores = _boxes(200), _rand(200, 21, seed=3)
    return lambda: function.npu_multiclass_nms(boxes, scores, 0.5, 0.5, 100)


class PlainBiLSTM(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.fw_rnn, self.bw_rnn = nn.LSTM(inputs, hidden), nn.LSTM(inputs, hidden)

    def forward(self, x):
        there, back = self.fw_rnn(x)[0], self.bw_rnn(x.flip(0))[0]
        return torch.cat((there, back.flip(0)), 2)


def bilstm(kind):
    x, layer = _rand(64, 32, 64, grad=True), kind(64, 64).npu()
    return _step(lambda: layer(x), x, *layer.parameters())


def plain_dropout(x, p):
    return x * (torch.rand_like(x) >= p) / (1 - p)


def dropout(drop):
    x = _rand(256, 4096, grad=True)
    return _step(lambda: drop(x, 0.5), x)


def our_dropout(x, p):
    return module.DropoutV2(p)(x)


def plain_roi_align(features, rois, size, scale, samples):
    """By grid_sample, roi by roi, as code without an operator for it does."""
    height, width = features.shape[2:]
    step = (torch.arange(size * samples, device=features.device) + 0.5) / (size * samples)
    pooled = []
    for image, x0, y0, x1, y1 in rois.tolist():
        x, y = (low * scale + step * max((high - low) * scale, 1.0) for low, high in ((x0, x1), (y0, y1)))
        grid = torch.stack(torch.meshgrid(x / (width - 1) * 2 - 1, y / (height - 1) * 2 - 1, indexing="xy"), -1)
        own = functional.grid_sample(features[int(image), None], grid[None], align_corners=True, padding_mode="border")
        pooled.append(functional.avg_pool2d(own, samples))
    return torch.cat(pooled)


def roi_align(align):
    features = _rand(2, 64, 50, 76, grad=True)
    rois = torch.cat(((torch.arange(64) % 2).npu().unsqueeze(1), _boxes(64, 500.0)), 1)
    return _step(lambda: align(features, rois, 7, 1 / 16, 2), features)


def our_roi_align(features, rois, size, scale, samples):
    return module.ROIAlign((size, size), scale, samples, aligned=False)(features, rois)


def _batches(count=4):
    """Batches in pinned memory, as of a DataLoader with pin_memory; the work of loading is in the thread of the program."""
    generator = torch.Generator().manual_seed(0)
    for pinned in _PINNED[:count]:
        images = torch.randint(256, pinned.shape, generator=generator, dtype=torch.uint8)
        yield pinned.copy_(images).div_(255), torch.zeros(32, dtype=torch.int64)


_PINNED = [torch.empty(32, 3, 112, 112).pin_memory() for _ in range(4)]


def _training():
    network = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).npu()

    def train(x, y):
        loss = functional.cross_entropy(network(x), y)
        loss.backward()
        return loss

    return train


def plain_loading():
    train = _training()
    return lambda: [train(x.npu(), y.npu()).item() for x, y in _batches()]


def our_loading():
    train = _training()

    def job():
        prefetcher = module.Prefetcher(_batches())
        x, y = prefetcher.next()
        while x is not None:
            loss = train(x, y)
            x, y = prefetcher.next()
            loss.item()

    return job


CASES = {
    "ChannelShuffle, halves": Case(lambda: plain_shuffle(True), lambda: our_shuffle(True)),
    "ChannelShuffle, joined": Case(lambda: plain_shuffle(False), lambda: our_shuffle(False)),
    "LabelSmoothingCrossEntropy": Case(
        lambda: label_smoothing(PlainLabelSmoothing), lambda: label_smoothing(module.LabelSmoothingCrossEntropy)
    ),
    "npu_iou, 32 x 8192": Case(lambda: iou(plain_iou), lambda: iou(function.npu_iou)),
    "pairwise_iou, 32 x 8192": Case(lambda: iou(plain_iou), lambda: iou(function.pairwise_iou)),
    "npu_giou, 4096": Case(plain_giou, our_giou),
    "npu_nms_v4, 1000 boxes": Case(lambda: nms(plain_nms), lambda: nms(our_nms)),
    "npu_multiclass_nms, 200 x 20": Case(plain_multiclass_nms, our_multiclass_nms),
    "BiLSTM": Case(lambda: bilstm(PlainBiLSTM), lambda: bilstm(module.BiLSTM)),
    "DropoutV2": Case(lambda: dropout(plain_dropout), lambda: dropout(our_dropout)),
    "ROIAlign, 64 rois": Case(lambda: roi_align(plain_roi_align), lambda: roi_align(our_roi_align)),
    "Prefetcher": Case(plain_loading, our_loading),
}
