"""Box and region operators of the namespace npu equal loops over boxes."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from torch.autograd import gradcheck

from tests.compare import assert_close
from tests.support import rand


def boxes(count, seed=0):
    corner, size = (rand(count, 2, seed=seed + i).abs() * 10 for i in (0, 1))
    return torch.cat((corner, corner + size + 0.1), 1)


def kept_by_hand(rows, scores, threshold, least=-math.inf):
    """Indices of the boxes that non-maximum suppression keeps, by a loop."""
    kept = []
    for i in sorted(range(len(scores)), key=lambda i: -scores[i]):
        if scores[i] <= least:
            continue
        clear = True
        for j in kept:
            width = min(rows[i][2], rows[j][2]) - max(rows[i][0], rows[j][0])
            height = min(rows[i][3], rows[j][3]) - max(rows[i][1], rows[j][1])
            common = max(width, 0) * max(height, 0)
            areas = [(r[2] - r[0]) * (r[3] - r[1]) for r in (rows[i], rows[j])]
            clear = clear and common <= threshold * (sum(areas) - common)
        if clear:
            kept.append(i)
    return kept


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_non_maximum_suppression(device):
    rows, scores = boxes(30).float(), rand(30).abs().float()
    expected = kept_by_hand(rows.tolist(), scores.tolist(), 0.3, 0.2)
    limits = torch.tensor(0.3, device=device), torch.tensor(0.2, device=device)
    indices, count = torch_npu.npu_nms_v4(rows.to(device), scores.to(device), 40, *limits)
    assert count.item() == len(expected) and indices.tolist() == expected + [0] * (40 - len(expected))
    indices, count = torch_npu.npu_nms_v4(rows.to(device), scores.to(device), 3, *limits)
    assert (indices.tolist(), count.item(), indices.dtype) == (expected[:3], 3, torch.int32)
    given = torch.cat((rows, scores.unsqueeze(1)), 1).to(device)
    same, order, mask = torch_npu.npu_nms_with_mask(given, 0.3)
    assert torch.equal(same, given) and order.tolist() == list(range(30))
    assert mask.nonzero().flatten().tolist() == sorted(kept_by_hand(rows.tolist(), scores.tolist(), 0.3))


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_non_maximum_suppression_of_classes(device):
    rows, scores = boxes(20).float(), rand(20, 3).abs().float()
    found = []
    for label in range(3):
        kept = kept_by_hand(rows.tolist(), scores[:, label].tolist(), 0.3, 0.1)[:4]
        found += [(scores[i, label].item(), label, rows[i].tolist()) for i in kept]
    found.sort(key=lambda item: -item[0])
    found = found[:9]
    out = torch_npu.npu_batch_nms(rows.view(1, 20, 1, 4).to(device), scores.unsqueeze(0).to(device), 0.1, 0.3, 4, 12)
    out_boxes, out_scores, out_classes, count = (x[0].cpu() for x in out)
    assert count.item() >= len(found)
    for i, (score, label, row) in enumerate(found):
        assert out_scores[i].item() == pytest.approx(score) and out_classes[i].item() == label
        torch.testing.assert_close(out_boxes[i], torch.tensor(row))
    assert (out_boxes[count:] == 0).all() and (out_scores[count:] == 0).all()


def test_overlaps_of_boxes():
    first, second = boxes(4), boxes(3, seed=5)
    expected = torch.zeros(3, 4, dtype=torch.float64)
    for i, j in itertools.product(range(3), range(4)):
        a, b = second[i], first[j]
        common = (torch.min(a[2:], b[2:]) - torch.max(a[:2], b[:2])).clamp(min=0).prod()
        expected[i, j] = common / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common)
    assert_close(torch_npu.npu_iou(first, second), expected)
    assert_close(torch_npu.npu_iou(first.float().npu(), second.float().npu()), expected.float())
    same = first.t().contiguous()
    for overlap in (torch_npu.npu_diou, torch_npu.npu_ciou):
        ones = overlap(same, same, False, False)
        assert ones.shape == (1, 4)
        torch.testing.assert_close(ones, torch.ones(1, 4, dtype=torch.float64), atol=1e-6, rtol=0)
        assert overlap(same, second.t(), is_cross=True).shape == (3, 4)
    assert torch_npu.npu_giou(same, same + 100).lt(-0.5).all()


def test_encoded_boxes_decode_to_the_original():
    anchors, truth = boxes(6).round() + 1, boxes(6, seed=3).round() + 1
    numbers = (0.1, 0.2, 0.3, 0.4, 0.1, 0.1, 0.2, 0.2)
    deltas = torch_npu.npu_bounding_box_encode(anchors, truth, *numbers)
    back = torch_npu.npu_bounding_box_decode(anchors, deltas, *numbers, [1000, 1000], 0.001)
    torch.testing.assert_close(back, truth)
    sample = torch.tensor([[1.0, 2, 3, 4]]), torch.tensor([[5.0, 6, 7, 8]])
    torch.testing.assert_close(
        torch_npu.npu_bounding_box_encode(*sample, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2), torch.tensor([[40 / 3, 40 / 3, 0, 0]])
    )


def test_assignments_of_boxes_to_cells():
    truth = torch.tensor([[0.0, 0, 4, 4], [9, 5, 11, 7]])
    flags = torch_npu.npu_anchor_response_flags(truth.npu(), [3, 4], [4, 4], 2)
    expected = torch.zeros(12, dtype=torch.uint8)
    expected[0 * 4 + 0] = expected[1 * 4 + 2] = 1
    assert flags.tolist() == expected.repeat_interleave(2).tolist()
    stride = torch.tensor([4, 8], dtype=torch.int32)
    encoded = torch_npu.npu_yolo_boxes_encode(truth + 1, truth, stride)
    torch.testing.assert_close(encoded, torch.tensor([[0.25, 0.25, 0, 0], [0.375, 0.375, 0, 0]]), atol=1e-6, rtol=0)


def test_a_positive_box_is_assigned_to_its_truth():
    start = torch.tensor([0.0, -1, 0, 0])
    overlaps = torch.tensor([[0.6, 0.1, 0.6, 0.0], [0.1, 0.2, 0.9, 0.3]])
    flags = torch.tensor([1, 1, 0, 1], dtype=torch.uint8)
    most, best = overlaps.max(0)
    of_truth, box_of_truth = overlaps.max(1)
    call = lambda everyone: torch_npu.npu_grid_assign_positive(  # noqa: E731
        start.npu(), overlaps.npu(), flags.npu(), most.npu(), best.int().npu(), of_truth.npu(), box_of_truth.int().npu(), 2, 0.5,
        0.0, everyone,
    )  # fmt: skip
    assert call(True).tolist() == [1, -1, 0, 0]
    assert call(False).tolist() == [1, -1, 0, 0]
    flags[2] = 1
    assert call(True).tolist() == [1, -1, 2, 0]


def grid_roi_align(features, roi, scale, size, samples, aligned):
    """One region by grid_sample, with sample points inside the image only."""
    image, x0, y0, x1, y1 = roi.tolist()
    shift = 0.5 if aligned else 0.0
    x0, y0, x1, y1 = (c * scale - shift for c in (x0, y0, x1, y1))
    height, width = features.shape[2:]
    place = lambda low, high: low + (torch.arange(size * samples, dtype=torch.float64) + 0.5) / (size * samples) * (high - low)  # noqa: E731
    y, x = place(y0, y1), place(x0, x1)
    grid = torch.stack(torch.meshgrid(x * 2 / (width - 1) - 1, y * 2 / (height - 1) - 1, indexing="xy"), -1)
    sampled = F.grid_sample(features[int(image)].unsqueeze(0), grid.unsqueeze(0).to(features.dtype), align_corners=True)
    return F.avg_pool2d(sampled, samples)[0]


@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(aligned):
    features = rand(2, 3, 10, 12)
    rois = torch.tensor([[0, 2.0, 3.0, 14.0, 12.0], [1, 4.0, 2.0, 9.0, 15.0]], dtype=torch.float64)
    expected = torch.stack([grid_roi_align(features, roi, 0.5, 3, 2, aligned) for roi in rois])
    call = lambda x, r: torch_npu.npu_roi_align(x, r, 0.5, 3, 3, 2, 3 if aligned else 0)  # noqa: E731
    assert_close(call(features, rois), expected, rtol=1e-9, atol=1e-9)
    assert_close(call(features.float().npu(), rois.float().npu()), expected.float())
    assert gradcheck(lambda x: call(x, rois), (features.requires_grad_(),), fast_mode=True)


def test_roi_align_with_as_many_samples_as_pixels():
    features = rand(1, 2, 10, 12)
    rois = torch.tensor([[0, 2.0, 3.0, 8.0, 9.0]], dtype=torch.float64)
    expected = grid_roi_align(features, rois[0], 1.0, 3, 2, False).unsqueeze(0)
    assert_close(torch_npu.npu_roi_align(features, rois, 1.0, 3, 3, 0, 0), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_position_sensitive_pooling(device):
    group, dim = 2, 3
    features = rand(2, dim * group * group, 8, 8).float()
    rois = torch.tensor([[0, 2, 1, 9, 12], [1, 0, 0, 15, 15], [5, 0, 0, 3, 3]], dtype=torch.float32)
    expected = torch.zeros(3, dim, group, group)
    for r, (image, x0, y0, x1, y1) in enumerate(rois.tolist()):
        for d, y, x in itertools.product(range(dim), range(group), range(group)):
            if image >= 2:
                continue
            left, top = x0 * 0.5, y0 * 0.5
            wide, high = ((x1 + 1) * 0.5 - left) / group, ((y1 + 1) * 0.5 - top) / group
            columns = range(max(0, math.floor(left + x * wide)), min(8, math.ceil(left + (x + 1) * wide)))
            rows = range(max(0, math.floor(top + y * high)), min(8, math.ceil(top + (y + 1) * high)))
            channel = features[int(image), (d * group + y) * group + x]
            expected[r, d, y, x] = torch.stack([channel[i, j] for i in rows for j in columns]).mean()
    out = torch_npu.npu_ps_roi_pooling(features.to(device), rois.t().unsqueeze(0).contiguous().to(device), 0.5, group, dim)
    assert_close(out, expected)


def test_overlaps_of_rotated_boxes():
    one = torch.tensor([[[5.0, 5.0, 4.0, 2.0, 0.0], [5.0, 5.0, 2.0, 2.0, 45.0]]])
    other = torch.tensor([[[5.0, 5.0, 2.0, 4.0, 90.0], [6.0, 5.0, 4.0, 2.0, 0.0], [50.0, 5.0, 4.0, 2.0, 30.0]]])
    octagon = 8 * (math.sqrt(2) - 1)
    expected = torch.tensor([[[8.0, 6.0, 0.0], [4 - 2 * (math.sqrt(2) - 1) ** 2, 0.0, 0.0]]])
    for device in ("cpu", "npu"):
        area = torch_npu.npu_rotated_overlaps(one.to(device), other.to(device)).cpu()
        torch.testing.assert_close(area[0, 0], expected[0, 0], atol=1e-4, rtol=0)
        iou = torch_npu.npu_rotated_iou(one.to(device), other.to(device)).cpu()
        torch.testing.assert_close(iou[0, 0], torch.tensor([1.0, 6 / 10, 0.0]), atol=1e-4, rtol=0)
    square = torch.tensor([[[0.0, 0.0, 2.0, 2.0, 0.0]]])
    turned = torch_npu.npu_rotated_overlaps(square, torch.tensor([[[0.0, 0.0, 2.0, 2.0, 45.0]]]))
    assert turned.item() == pytest.approx(octagon, abs=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_deformable_convolution_that_does_not_deform_is_a_convolution(groups):
    x, w, b = rand(2, 4, 6, 5).float(), rand(6, 4 // groups, 3, 3).float(), rand(6).float()
    offset = torch.zeros(2, 2 * 3 * 9, 3, 5)
    offset[:, 36:] = 1
    options = {"kernel_size": [3, 3], "stride": [1, 1, 2, 1], "padding": [1, 1, 1, 1], "groups": groups, "deformable_groups": 2}
    for device in ("cpu", "npu"):
        given = [t.to(device) for t in (x, w, offset, b)]
        out, samples = torch_npu.npu_deformable_conv2d(*given, **options)
        assert_close(out.cpu(), F.conv2d(x, w, b, (2, 1), 1, groups=groups))
        assert samples.shape == (2, 4, 9, 15)


def test_a_deformable_convolution_looks_where_its_offsets_point():
    x = torch.arange(25.0).view(1, 1, 5, 5)
    weight = torch.ones(1, 1, 1, 1)
    offset = torch.stack((torch.full((5, 5), 0.5), torch.full((5, 5), 1.0), torch.full((5, 5), 2.0))).unsqueeze(0)
    out, _ = torch_npu.npu_deformable_conv2d(x, weight, offset, None, [1, 1], [1, 1, 1, 1], [0, 0, 0, 0])
    assert out[0, 0, 1, 1].item() == 2 * (x[0, 0, 2, 1] + x[0, 0, 2, 2]).item() / 2
    assert out[0, 0, 4, 0].item() == 0
