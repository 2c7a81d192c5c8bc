"""The affinity library, torch.contrib.npu.optimized_lib: names, values, gradients, dtypes, layouts and wrong arguments."""

import importlib
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch_npu import contrib
from torch_npu.contrib import function, module

from tests.compare import assert_close
from tests.support import rand

DEVICES = pytest.mark.parametrize("device", ["cpu", "npu"])


def some_boxes(count, seed=0, size=20):
    corner, extent = rand(count, 2, seed=seed).abs() * size, rand(count, 2, seed=seed + 1).abs() * size + 1
    return torch.cat((corner, corner + extent), 1).float()


def plain_iou(a, b):
    side = (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0)
    common = side.prod(2)
    return common / ((a[:, 2:] - a[:, :2]).prod(1)[:, None] + (b[:, 2:] - b[:, :2]).prod(1) - common)


def plain_nms(boxes, scores, threshold):
    kept = []
    for i in scores.argsort(descending=True, stable=True).tolist():
        if all(plain_iou(boxes[i, None], boxes[j, None]) <= threshold for j in kept):
            kept.append(i)
    return kept


def test_the_names_of_the_documents_are_importable():
    library = importlib.import_module("torch.contrib.npu.optimized_lib")
    for name in ("pairwise_iou", "fast_rcnn_inference_single_image", "ChannelShuffle", "PreLoader"):
        assert getattr(library, name) is getattr(contrib, name)
    for name in library.__all__:
        assert getattr(library, name) is not None


def test_modules_of_the_library_are_those_of_contrib():
    from torch.contrib.npu.optimized_lib import function as old_function
    from torch.contrib.npu.optimized_lib import module as old_module
    from torch.contrib.npu.optimized_lib.module.prefetcher import Prefetcher

    assert old_function is function and old_module is module and Prefetcher is module.Prefetcher
    assert torch.contrib.npu is contrib
    with pytest.raises(ModuleNotFoundError, match=r"torch\.contrib\.npu\.nothing"):
        importlib.import_module("torch.contrib.npu.nothing")


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("channels", [6, 8])
@pytest.mark.parametrize("split", [True, False])
def test_a_channel_shuffle_of_every_dtype_has_contiguous_results(device, dtype, channels, split):
    x1, x2 = (rand(2, channels // 2, 3, 5, seed=i).to(dtype).to(device).requires_grad_() for i in (0, 1))
    out = module.ChannelShuffle(channels, split_shuffle=split)(x1.transpose(2, 3), x2.transpose(2, 3))
    parts = out if split else (out,)
    joined = torch.cat((x1, x2), 1).transpose(2, 3).detach().cpu().requires_grad_()
    expected = F.channel_shuffle(joined, 2)
    assert all(part.is_contiguous() for part in parts)
    assert_close(torch.cat(parts, 1).detach(), expected.detach())
    weight = rand(2, channels, 5, 3, seed=2).to(dtype)
    grads = torch.autograd.grad((torch.cat(parts, 1) * weight.to(device)).sum(), (x1, x2))
    (whole,) = torch.autograd.grad((expected * weight).sum(), joined)
    assert_close(torch.cat(grads, 1), whole.transpose(2, 3))


def test_a_channel_shuffle_has_a_gradient_of_its_gradient():
    x1, x2 = (rand(1, 4, 2, seed=i).npu().requires_grad_() for i in (0, 1))
    shuffle = module.ChannelShuffle(8)
    assert torch.autograd.gradgradcheck(lambda a, b: torch.cat(shuffle(a, b), 1) ** 2, (x1, x2))


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("classes", [5, 9])
def test_label_smoothing_is_cross_entropy_with_soft_labels(device, dtype, classes):
    x, target = rand(6, 5).to(dtype).to(device).requires_grad_(), torch.tensor([0, 1, 4, 3, 2, 2], dtype=torch.int32)
    loss = module.LabelSmoothingCrossEntropy(classes, 0.1)(x, target.to(device))
    (grad,) = torch.autograd.grad(loss * 3, x)
    twin = x.detach().cpu().double().requires_grad_()
    labels = torch.full((6, 5), 0.1 / (classes - 1), dtype=torch.float64).scatter_(1, target.long()[:, None], 0.9)
    expected = -(labels * twin.log_softmax(1)).sum(1).mean()
    (expected_grad,) = torch.autograd.grad(expected * 3, twin)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_close(loss.detach().double(), expected.detach())
    assert_close(grad, expected_grad.to(dtype), rtol=None, atol=None)


def test_label_smoothing_has_a_gradient_of_its_gradient():
    x, loss = rand(3, 4).npu().requires_grad_(), module.LabelSmoothingCrossEntropy(4, 0.2)
    target = torch.tensor([0, 3, 2]).npu()
    assert torch.autograd.gradgradcheck(lambda a: loss(a, target), (x,))


def test_label_smoothing_refuses_wrong_arguments():
    with pytest.raises(ValueError, match=r"two or more classes and a smooth_factor of 0 to 1, not 1 and 0\.1"):
        module.LabelSmoothingCrossEntropy(1, 0.1)
    with pytest.raises(ValueError, match=r"pred is \[n, classes\] and target \[n\], not \[2, 3\] and \[3\]"):
        module.LabelSmoothingCrossEntropy(3)(torch.ones(2, 3), torch.ones(3).long())


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_overlaps_of_all_pairs(device, dtype):
    a, b = some_boxes(7).to(dtype), some_boxes(11, seed=4).to(dtype)
    for found in (function.pairwise_iou, function.npu_iou, function.npu_ptiou):
        assert_close(found(a.to(device), b.to(device)), plain_iou(a.float(), b.float()).to(found(a, b).dtype))
    wrapped = (SimpleNamespace(tensor=boxes.to(device)) for boxes in (a, b))
    assert_close(function.pairwise_iou(*wrapped).float(), plain_iou(a.float(), b.float()))


def test_overlaps_of_strided_boxes_have_gradients():
    rows = rand(2, 5, 8).npu()
    rows[..., 4:] = rows[..., :4].abs() + 1  # the even numbers of a row are a box
    a, b = (each[:, ::2].detach().requires_grad_() for each in rows)
    assert not a.is_contiguous()
    grads = torch.autograd.grad(torch_npu.npu_iou(a, b).sum(), (a, b))
    twins = [each.detach().cpu().requires_grad_() for each in (a, b)]
    expected = torch.autograd.grad(plain_iou(twins[1], twins[0]).sum(), twins)
    assert_close(grads, expected)


def test_empty_boxes_overlap_nothing():
    point, box = torch.tensor([[1.0, 1, 1, 1]]).npu(), torch.tensor([[0.0, 0, 2, 2]]).npu()
    for a, b in ((point, point), (point, box), (box, point)):
        assert function.pairwise_iou(a, b).item() == 0
    assert function.pairwise_iou(point[:0], box).shape == (0, 1)


def test_overlaps_refuse_other_shapes():
    with pytest.raises(ValueError, match=r"boxes are \[n, 4\] or Boxes, not \[2, 5\]"):
        function.pairwise_iou(torch.ones(2, 5), torch.ones(2, 4))
    with pytest.raises(ValueError, match=r"boxes are \[n, 4\] or Boxes, not list"):
        function.pairwise_iou([1], torch.ones(2, 4))


@DEVICES
@pytest.mark.parametrize("shared", [True, False])
def test_detections_are_those_of_each_class_by_score(device, shared):
    count, classes = 40, 3
    boxes = torch.stack([some_boxes(count, seed=5 * i) for i in range(1 if shared else classes)], 1)
    scores = rand(count, classes + 1, seed=99).float().abs()
    boxes[3], scores[5, 0] = float("nan"), float("inf")
    expected = []
    for label in range(classes):
        own = boxes[:, 0 if shared else label].clamp(min=0).minimum(torch.tensor([30.0, 25, 30, 25]))
        rows = [i for i in range(count) if i not in (3, 5) and scores[i, label] > 0.3]
        kept = plain_nms(own[rows], scores[rows, label], 0.4)
        expected += [(scores[rows[i], label].item(), label, rows[i], own[rows[i]]) for i in kept]
    expected.sort(key=lambda row: -row[0])
    given = boxes.view(count, -1).to(device), scores.to(device), (25, 30), 0.3, 0.4
    found, rows = function.fast_rcnn_inference_single_image(*given, 12)
    assert len(found) == 12 and found.image_size == (25, 30)
    assert rows.tolist() == [row for _, _, row, _ in expected[:12]]
    assert found.pred_classes.tolist() == [label for _, label, _, _ in expected[:12]]
    assert_close(found.scores, torch.tensor([score for score, _, _, _ in expected[:12]]))
    assert_close(found.pred_boxes, torch.stack([box for _, _, _, box in expected[:12]]))
    assert len(function.fast_rcnn_inference_single_image(*given, -1)[0]) == len(expected)


def test_an_image_may_have_no_detections():
    found, rows = function.fast_rcnn_inference_single_image(torch.ones(3, 4), torch.zeros(3, 2), (9, 9), 0.5, 0.5, 5)
    assert len(found) == 0 and rows.shape == (0,) and found.pred_boxes.shape == (0, 4)


def test_detections_refuse_other_shapes():
    with pytest.raises(ValueError, match=r"boxes \[n, 4\] or \[n, classes \* 4\], not \[3, 4\] and \[3, 8\]"):
        function.fast_rcnn_inference_single_image(torch.ones(3, 8), torch.ones(3, 4), (9, 9), 0.5, 0.5, 5)


@DEVICES
@pytest.mark.parametrize("count", [0, 1, 60])
def test_chains_of_overlapping_boxes_are_decided_in_order(device, count):
    # Each box overlaps the next one: every second box is kept.
    start = torch.arange(count).float()
    boxes = torch.stack((start, torch.zeros(count), start + 2, torch.ones(count)), 1).to(device)
    scores = torch.linspace(1, 0.1, count).to(device)
    limits = torch.tensor([0.3, 0.0], device=device)
    indices, kept = torch_npu.npu_nms_v4(boxes, scores, 60, limits[0], limits[1])
    assert indices[: int(kept)].tolist() == list(range(0, count, 2))


@DEVICES
def test_batched_suppression_is_that_of_each_image(device):
    boxes, scores = torch.stack([some_boxes(15, seed=9 * i) for i in range(2)]), rand(2, 15, 4, seed=3).float().abs()
    both = function.npu_batched_multiclass_nms(boxes.to(device), scores.to(device), 0.2, 0.3, 20)
    for image in range(2):
        one = function.npu_multiclass_nms(boxes[image], scores[image], 0.2, 0.3, 20)
        assert_close(tuple(part[image] for part in both), one)


@DEVICES
def test_dropout_v2(device):
    torch.manual_seed(0)
    x, layer = torch.ones(64, 64, device=device, requires_grad=True), module.DropoutV2(0.25)
    y = layer(x)
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()} and 0.7 < y.ne(0).float().mean().item() < 0.8
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, y.detach())
    z = torch.ones(8, 8, device=device)
    assert module.DropoutV2(1.0, inplace=True)(z) is z and z.sum() == 0
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match=r"a probability is 0 to 1, not 1\.5"):
        module.DropoutV2(1.5)


def test_a_preloader_moves_batches_of_dicts_in_order():
    Pair = namedtuple("Pair", "a b")
    loader = [[{"image": torch.full((3,), float(i)), "pair": Pair(torch.ones(1), i), "id": i}] for i in range(3)]
    preloader = module.PreLoader(loader, "npu:0")
    assert len(preloader) == 3
    for i, batch in enumerate(preloader):
        assert batch[0]["id"] == i and batch[0]["pair"].a.is_npu and batch[0]["pair"].b == i
        assert_close(batch[0]["image"], torch.full((3,), float(i)))
    assert preloader.next() is None and not loader[0][0]["image"].is_npu
    with pytest.raises(TypeError, match="generator has none"):
        len(module.PreLoader((each for each in loader), "npu:0"))


def test_a_preloader_moves_objects_by_their_own_method():
    class Instances:
        def __init__(self, boxes):
            self.boxes = boxes

        def to(self, device):
            return Instances(self.boxes.to(device))

    batch = module.PreLoader([[{"instances": Instances(torch.ones(2))}]], "npu:0").next()
    assert batch[0]["instances"].boxes.is_npu


def test_prefetchers_of_a_device_share_a_stream():
    loader = [(torch.ones(2), torch.ones(1))]
    assert module.Prefetcher(loader).stream == module.Prefetcher(loader).stream
    own = torch.npu.Stream()
    assert module.Prefetcher(loader, own).stream is own
