"""torchvision's operators on npu give what its CPU kernels give, forward and backward, and refuse in the same words."""

import pytest
import torch
from training import needs

DTYPES = [torch.float32, torch.float64, torch.float16]
SCALES = [1.0, 0.3]


@pytest.fixture(scope="module")
def ops():
    return needs("torchvision").ops


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(function, *inputs):
    """Results, and gradients of the inputs; a refusal is of the same type and words."""
    outcomes = []
    for device in ("cpu", "npu"):
        given = [each.detach().to(device).requires_grad_(each.is_floating_point()) for each in inputs]
        try:
            result = function(*given)
            gradients = ()
            if result.requires_grad:
                weights = torch.linspace(-1, 1, result.numel()).view(result.shape).to(result)
                gradients = torch.autograd.grad(result, given, weights, allow_unused=True)
            outcomes.append((result.detach(), *(each for each in gradients if each is not None)))
        except (RuntimeError, IndexError) as error:
            outcomes.append(error)
    expected, got = outcomes
    if isinstance(expected, Exception):
        assert type(got) is type(expected), got
        first = str(expected).split("  (Could this")[0]
        assert str(got).splitlines()[0] == first.splitlines()[0]
        return
    if isinstance(got, Exception):
        raise got
    assert len(got) == len(expected)
    tolerance = {"rtol": 1e-2, "atol": 1e-2} if inputs[0].dtype == torch.float16 else {}
    for one, other in zip(got, expected, strict=True):
        assert one.device.type == "npu"
        torch.testing.assert_close(one.cpu(), other, equal_nan=True, **tolerance)


# ---- boxes ----

BOXES = torch.tensor(
    [
        [0, 0, 0, 9, 9],
        [1, 2.3, 1.7, 7.9, 5.2],
        [0, 4, 4, 4, 4],  # nothing in it
        [1, 7, 6, 3, 2],  # ends before it begins
        [1, -5, -5, 3, 14],  # beyond the image
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
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), scale), random(2, 12, 10, 9, dtype=dtype), BOXES.to(dtype))


@pytest.mark.parametrize("name", REGIONS)
def test_regions_of_strided_images(ops, name):
    image = random(2, 10, 9, 24).permute(0, 3, 1, 2)[:, ::2]
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), 1.0), image, BOXES.t().contiguous().t())


@pytest.mark.parametrize("name", REGIONS)
def test_no_boxes(ops, name):
    check(lambda x, boxes: REGIONS[name](ops, x, boxes.detach(), 1.0), random(2, 12, 10, 9), BOXES[:0])


@pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool", "roi_pool"])
def test_the_second_result_of_regions(ops, name):
    options = [1.0, 3, 2] + ([2] if "align" in name else [])
    function = getattr(torch.ops.torchvision, name)
    check(lambda x, boxes: function(x, boxes, *options)[1], random(2, 12, 10, 9), BOXES)


def test_a_box_of_an_image_that_does_not_exist_is_refused(ops):
    boxes = torch.tensor([[2.0, 0, 0, 4, 4]], device="npu")
    with pytest.raises(RuntimeError, match="2"):
        ops.roi_align(random(2, 12, 10, 9).npu(), boxes, 2).cpu()
    torch.npu.synchronize()


@pytest.mark.parametrize(
    ("image", "boxes"),
    [
        (random(2, 12, 6, 6), BOXES.half()),
        (random(2, 12, 6, 6).bfloat16(), BOXES.bfloat16()),
        (random(2, 12, 6, 6).int(), BOXES.int()),
        (random(2, 12, 6, 6)[0], BOXES),
        (random(2, 11, 6, 6), BOXES[:1]),
    ],
    ids=["dtypes", "bfloat16", "int", "image", "channels"],
)
@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_refusals_of_regions(ops, name, image, boxes):
    def run(x, rois):
        try:
            return REGIONS[name](ops, x.detach(), rois.detach(), 1.0)
        except RuntimeError as error:
            if "same type" in str(error):  # it names the type, and with it the device
                raise RuntimeError(str(error).split(";")[0]) from None
            raise

    check(run, image, boxes)


# ---- suppression ----


@pytest.mark.parametrize("count", [0, 1, 7, 300])
@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("dtype", DTYPES[:2], ids=str)
def test_suppression(ops, dtype, threshold, count):
    boxes = random(count, 4, dtype=dtype).abs() * 20
    boxes[:, 2:] += boxes[:, :2]
    scores = random(count, seed=1, dtype=dtype).round(decimals=1)  # with equal ones
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
    check(lambda x, y: ops.nms(x.detach(), y.detach(), 0.5), random(*boxes), random(*scores))


# ---- deformable convolution ----


def deformable(dtype=torch.float32, batch=2):
    """Image, offset, mask, filter and bias: 2 groups, 3 of offsets, output of 4 x 5."""
    shapes = [(batch, 6, 7, 8), (batch, 36, 4, 5), (batch, 18, 4, 5), (4, 3, 3, 2), (4,)]
    return [random(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]


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
    image, boxes = random(2, 12, 10, 9).half().npu(), BOXES.npu()
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
