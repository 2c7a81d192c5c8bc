"""torchvision's classification networks."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.models.training import check_evaluation, check_training, needs

pytestmark = pytest.mark.full

# fmt: off
NETS = [
    "alexnet", "densenet121", "densenet161", "densenet169", "densenet201", "googlenet",
    "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3", "mobilenet_v2", "resnet18",
    "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
    "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "vgg11", "vgg11_bn", "vgg13",
    "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn", "wide_resnet50_2",
    "wide_resnet101_2",
]
# fmt: on


def loss(net, images, labels):
    output = net(images)
    if isinstance(output, torch.Tensor):
        return F.cross_entropy(output, labels), output
    main, *auxiliary = output
    return F.cross_entropy(main, labels) + 0.3 * sum(F.cross_entropy(each, labels) for each in auxiliary), main


def with_narrow_head(net):
    """Narrows the two layers that hold nine tenths of the parameters of AlexNet and VGG."""
    layers = [module for module in net.classifier if isinstance(module, nn.Linear)]
    for layer, following in itertools.pairwise(layers):
        layer.weight, layer.bias = nn.Parameter(layer.weight[:64].clone()), nn.Parameter(layer.bias[:64].clone())
        following.weight = nn.Parameter(following.weight[:, :64].clone())
    return net


def check(make):
    images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    cpu, npu = check_training(make, (images, torch.tensor([1, 7])), loss)
    check_evaluation(cpu, npu, (images,))


@pytest.mark.parametrize("name", NETS)
def test_convolutional_networks(name):
    make = getattr(needs("torchvision").models, name)
    options = {"init_weights": True} if name == "googlenet" else {}
    head = with_narrow_head if name.startswith(("alexnet", "vgg")) else nn.Identity()
    check(lambda: head(make(weights=None, num_classes=10, **options)))


def test_vision_transformer():
    vit = needs("torchvision").models.VisionTransformer
    check(lambda: vit(image_size=64, patch_size=16, num_layers=3, num_heads=4, hidden_dim=64, mlp_dim=128, num_classes=10))
