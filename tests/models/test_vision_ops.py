"""torchvision's operators on npu give what its CPU kernels give, forward and backward, and refuse in the same words."""

import pytest
import torch

from tests.compare import assert_same_outcome
from tests.models.training import needs
from tests.support import randn

DTYPES = [torch.float32, torch.float64, torch.float16]
SCALES = [1.0, 0.3]


@pytest.fixture(scope="module")
def ops():
    return needs("torchvision").ops


def check(function, *inputs):
    """The result and the gradients of the inputs, or the refusal, are those of the CPU."""
    cpu, npu = ([x.detach().to(device).requires_grad_(x.is_floating_point()) for x in inputs] for device in ("cpu", "npu"))
    tolerance = 1e-2 if inputs[0].dtype == torch.float16 else None
    assert_same_outcome(lambda *given: results_of(function, given), cpu, npu, rtol=tolerance, atol=tolerance, strides=False)


def results_of(function, given):
    result = function(*given)
    if not result.requires_grad:
        return (result,)
    weights = torch.linspace(-1, 1, result.numel()).view(result.shape).to(result)
    gradients = torch.autograd.grad(result, given, weights, allow_unused=True)
    return (result, *(each for each in gradients if each is not None))


# ---- boxes ----

BOXES = torch.tensor(
    [
        [0, 0, 0, 9, 9],
        [1, 2.3, 1.7, 7.9, 5.2],
        [0, 4, 4, 4, 4],  # empty
        [1, 7, 6, 3, 2],  # inverted
        [1, -5, -5, 3, 14],  # partly outside
        [0, 30, 30, 40, 40],  # outside
        [0, 8.5, 8.5, 9.5, 9.5],
    ]
)
REGIONS = {
    "roi_align": lambda ops, x, boxes, scale: ops.roi_align(x, boxes, (3, 2), scale, 2),
    "roi_align adaptive": lambda ops, x, boxes, scale: ops.roi_align(x, boxes, (3, 2), scale),
    "roi_align aligned": lambda ops, x, boxes, scale: ops.roi_align(x, boxes, (3, 2), scale, 2, aligned=True),
    "roi_align aligned adaptive": lambda ops, x, boxes, scale: ops.roi_align(x, boxes, (3, 2), scale, aligned=True),
    "ps_roi_align": lambda ops, x, boxes, scale: ops.ps_roi_align(x, boxes, (3, 2), scale, 2),
    "ps_roi_align adaptive": lambda ops, x, boxes, scale: ops.ps_roi_align(x, boxes, (3, 2), scale),
    "roi_pool": lambda ops, x, boxes, scale: ops.roi_pool(x, boxes, (3, 2), scale),
    "ps_roi_pool": lambda ops, x, boxes, scale: ops.ps_roi_pool(x, boxes, (3, 2), scale),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", REGIONS)
def test_regions(ops, name, scale, dtype):
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), scale), randn(2, 12, 10, 9, dtype=dtype), BOXES.to(dtype))


@pytest.mark.parametrize("name", REGIONS)
def test_regions_of_strided_images(ops, name):
    image = randn(2, 10, 9, 24).permute(0, 3, 1, 2)[:, ::2]
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), 1.0), image, BOXES.t().contiguous().t())


@pytest.mark.parametrize("name", REGIONS)
def test_no_boxes(ops, name):
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), 1.0), randn(2, 12, 10, 9), BOXES[:0])


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool", "roi_pool"])
def test_the_second_result_of_regions(ops, name):
    options = [1.0, 3, 2] + ([2] if "align" in name else [])
    function = getattr(torch.ops.torchvision, name)
    check(lambda x, boxes: function(x, boxes, *options)[1], randn(2, 12, 10, 9), BOXES)


def test_a_box_of_an_image_that_does_not_exist_is_refused(ops):
    boxes = torch.tensor([[2.0, 0, 0, 4, 4]], device="npu")
    with pytest.raises(RuntimeError, match="2"):
        ops.roi_align(randn(2, 12, 10, 9).npu(), boxes, 2).cpu()
    torch.npu.synchronize()


@pytest.mark.parametrize(
    ("image", "boxes"),
    [
        (randn(2, 12, 6, 6), BOXES.half()),
        (randn(2, 12, 6, 6).bfloat16(), BOXES.bfloat16()),
        (randn(2, 12, 6, 6).int(), BOXES.int()),
        (randn(2, 12, 6, 6)[0], BOXES),
        (randn(2, 11, 6, 6), BOXES[:1]),
    ],
    ids=["dtypes", "bfloat16", "int", "image", "channels"],
)
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_refusals_of_regions(ops, name, image, boxes):
    def run(x, rois):
        try:
            return REGIONS[name](ops, x.detach(), rois.detach(), 1.0)
        except RuntimeError as error:
            if "same type" in str(error):  # the message names the tensor type, which includes the device
                raise RuntimeError(str(error).split(";")[0]) from None
            raise

    check(run, image, boxes)


# ---- suppression ----


@pytest.mark.parametrize("count", [0, 1, 7, 300])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_suppression(ops, dtype, threshold, count):
    boxes = randn(count, 4, dtype=dtype).abs() * 20
    boxes[:, 2:] += boxes[:, :2]
    scores = randn(count, seed=1, dtype=dtype).round(decimals=1)  # with equal scores
    check(lambda x, y: ops.nms(x.detach(), y.detach(), threshold), boxes, scores)
    check(lambda x, y: ops.batched_nms(x.detach(), y.detach(), (y * 3).long().detach(), threshold), boxes, scores)


def test_suppression_in_float16(ops):
    boxes = torch.tensor([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]], dtype=torch.float16, device="npu")
    scores = torch.tensor([0.5, 0.75, 0.25], dtype=torch.float16, device="npu")
    assert ops.nms(boxes, scores, 0.5).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("boxes", "scores"),
    [((5,), (5,)), ((5, 3), (5,)), ((5, 4), (5, 1)), ((5, 4), (4,))],
    ids=str,
)
def test_refusals_of_suppression(ops, boxes, scores):
    check(lambda x, y: ops.nms(x.detach(), y.detach(), 0.5), randn(*boxes), randn(*scores))


# ---- deformable convolution ----


def deformable(dtype=torch.float32, batch=2):
    """Image, offset, mask, filter and bias: 2 groups, 3 of offsets, output of 4 x 5."""
    shapes = [(batch, 6, 7, 8), (batch, 36, 4, 5), (batch, 18, 4, 5), (4, 3, 3, 2), (4,)]
    return [randn(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]


OPTIONS = {"stride": (2, 2), "padding": (2, 1), "dilation": (2, 1)}


@pytest.mark.parametrize("batch", [2, 0])
@pytest.mark.parametrize("masked", [True, False], ids=["masked", "plain"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_deformable_convolution(ops, dtype, masked, batch):
    def run(x, offset, mask, weight, bias):
        return ops.deform_conv2d(x, offset, weight, bias, mask=mask if masked else None, **OPTIONS)

    check(run, *deformable(dtype, batch))


def test_deformable_convolution_reads_at_the_edge(ops):
    image, offset, _, weight, bias = deformable()
    whole = offset.round()  # points on pixels and on the border around the image
    check(lambda x, y, w, b: ops.deform_conv2d(x, y, w, b, **OPTIONS), image, whole * 3, weight, bias)


@pytest.mark.parametrize(
    "change",
    [
        lambda given: given | {"x": given["x"][0]},
        lambda given: given | {"weight": given["weight"][0]},
        lambda given: given | {"x": given["x"][:, :5]},
        lambda given: given | {"offset": given["offset"][:1]},
        lambda given: given | {"offset": given["offset"][..., :4]},
        lambda given: given | {"mask": given["mask"][:1]},
        lambda given: given | {"mask": given["mask"][:, :6]},
        lambda given: given | {"mask": given["mask"][..., :4]},
        lambda given: given | {"bias": given["bias"][:3]},
        lambda given: given | {"padding": (-1, 0)},
        lambda given: given | {"dilation": (0, 1)},
    ],
)
def test_refusals_of_deformable_convolution(ops, change):
    names = ["x", "offset", "mask", "weight", "bias"]

    def run(*tensors):
        given = change(dict(zip(names, (each.detach() for each in tensors), strict=True)) | OPTIONS)
        pairs = [number for name in OPTIONS for number in given[name]]
        tensors = (given[name] for name in ("x", "weight", "offset", "mask", "bias"))
        return torch.ops.torchvision.deform_conv2d(*tensors, *pairs, 2, 3, True)

    check(run, *deformable())


def test_a_stride_of_zero_is_refused(ops):
    image, offset, _, weight, bias = (each.npu() for each in deformable())
    with pytest.raises(RuntimeError, match="stride_h: 0"):
        torch.ops.torchvision.deform_conv2d(image, weight, offset, bias, bias, 0, 1, 0, 0, 1, 1, 2, 3, False)


# ---- autocast ----


def test_autocast_computes_in_float32(ops):
    image, boxes = randn(2, 12, 10, 9).half().npu(), BOXES.npu()
    with torch.autocast("npu", dtype=torch.float16):
        found = ops.roi_align(image, boxes, (3, 2), 0.3, 2)
        kept = ops.nms(boxes[:, 1:].half(), boxes[:, 1].half(), 0.5)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.cpu(), ops.roi_align(image.cpu().float(), BOXES, (3, 2), 0.3, 2).half())
    assert kept.device.type == "npu"


@pytest.mark.parametrize("first", ["torchvision", "torch_npu"])
def test_the_order_of_imports_does_not_matter(ops, python, first):
    second = {"torchvision": "torch_npu", "torch_npu": "torchvision"}[first]
    program = f"""
        import warnings
        warnings.simplefilter("error")
        import torch, {first}, {second}
        torch.npu.set_strict_fallback(True)
        box = torch.tensor([[0.0, 0.0, 2.0, 2.0]], device="npu")
        print(torchvision.ops.nms(box, box[0, 2:3], 0.5).tolist())
    """
    result = python(program, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (result.stdout.strip(), result.stderr) == ("[0]", "")
