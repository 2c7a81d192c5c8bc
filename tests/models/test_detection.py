"""torchvision's networks for segmentation and detection."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.models.training import check_evaluation, check_training, needs

pytestmark = pytest.mark.full

ALL = 1_000_000  # more than there are boxes, so that none is chosen at random


def images(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["deeplabv3_resnet50", "deeplabv3_mobilenet_v3_large", "fcn_resnet50"])
def test_segmentation(name):
    make = getattr(needs("torchvision.models.segmentation"), name)

    def loss(net, x, labels):
        output = net(x)
        return sum(F.cross_entropy(each, labels) for each in output.values()), output["out"]

    x, labels = images(2, 3, 64, 64), torch.randint(0, 4, (2, 64, 64), generator=torch.Generator().manual_seed(2))
    cpu, npu = check_training(lambda: make(weights=None, weights_backbone=None, num_classes=4, aux_loss=True), (x, labels), loss)
    check_evaluation(cpu, npu, (x,))


def targets():
    boxes = torch.tensor([[8.0, 8.0, 40.0, 40.0], [20.0, 4.0, 60.0, 30.0]])
    masks = torch.zeros(2, 64, 64, dtype=torch.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes.int().tolist(), strict=True):
        mask[top:bottom, left:right] = 1
    first = {"boxes": boxes, "labels": torch.tensor([1, 2]), "masks": masks}
    return [first, {name: value[:1] for name, value in first.items()}]


@pytest.mark.parametrize("name", ["FasterRCNN", "MaskRCNN"])
def test_detection(name):
    detection = needs("torchvision.models.detection")

    def make():
        backbone = detection.backbone_utils.resnet_fpn_backbone(
            backbone_name="resnet18", weights=None, trainable_layers=5, norm_layer=nn.BatchNorm2d
        )
        options = dict.fromkeys(["rpn_batch_size_per_image", "box_batch_size_per_image"], ALL)
        options |= {f"rpn_{when}_nms_top_n_{mode}": 100 for when in ("pre", "post") for mode in ("train", "test")}
        return getattr(detection, name)(backbone, num_classes=3, min_size=64, max_size=64, box_detections_per_img=10, **options)

    def loss(net, x, given):
        losses = net(list(x), given)
        return sum(losses.values()), losses

    x = images(2, 3, 64, 64)
    cpu, npu = check_training(make, (x, targets()), loss)
    found = cpu.eval()(list(x))
    assert sum(len(each["boxes"]) for each in found) > 0
    check_evaluation(cpu, npu, (list(x),))
