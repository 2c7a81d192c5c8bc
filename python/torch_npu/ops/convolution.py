"""Convolutions by their old names, and deformable convolution."""

import torch
from torch.nn import functional

from ._define import check, op

_CONV = "(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, int[] dilation, int groups) -> Tensor"
_TRANSPOSED = (
    "(Tensor input, Tensor weight, Tensor? bias, int[] padding, int[] output_padding, int[] stride, int[] dilation, int groups)"
    " -> Tensor"
)


@op("npu_conv2d" + _CONV, out="*, Tensor(a!) out")
def npu_conv2d(input, weight, bias, stride, padding, dilation, groups):
    """torch.nn.functional.conv2d."""
    return functional.conv2d(input, weight, bias, stride, padding, dilation, groups)


@op("npu_conv3d" + _CONV, called=lambda input_, weight, bias, stride, padding, dilation, groups: ..., out="*, Tensor(a!) out")
def npu_conv3d(input, weight, bias, stride, padding, dilation, groups):
    """torch.nn.functional.conv3d."""
    return functional.conv3d(input, weight, bias, stride, padding, dilation, groups)


@op("npu_convolution" + _CONV)
def npu_convolution(input, weight, bias, stride, padding, dilation, groups):
    """The convolution with the weight's number of dimensions minus two."""
    return torch.convolution(input, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups)


@op("npu_conv_transpose2d" + _TRANSPOSED)
def npu_conv_transpose2d(input, weight, bias, padding, output_padding, stride, dilation, groups):
    """torch.nn.functional.conv_transpose2d."""
    return functional.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)


@op("npu_convolution_transpose" + _TRANSPOSED)
def npu_convolution_transpose(input, weight, bias, padding, output_padding, stride, dilation, groups):
    """The transposed convolution with the weight's number of dimensions minus two."""
    return torch.convolution(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


@op(
    "npu_deformable_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor? bias, int[2] kernel_size, int[] stride,"
    " int[] padding, int[4] dilation=[1,1,1,1], int groups=1, int deformable_groups=1, bool modulated=True) -> (Tensor, Tensor)",
    called=lambda inputs, weight, offset, bias, kernel_size, stride, padding, dilation=[1, 1, 1, 1], groups=1,
    deformable_groups=1, modulated=True: ...,
)  # fmt: skip
def npu_deformable_conv2d(
    input,
    weight,
    offset,
    bias,
    kernel_size,
    stride,
    padding,
    dilation=(1, 1, 1, 1),
    groups=1,
    deformable_groups=1,
    modulated=True,
):
    """(out, samples): deformable convolution in float32: each tap samples the input at its own offset.

    offset is [batch, (3 or 2) * deformable_groups * taps, height, width]: the x offsets of the taps, then the y offsets, then, if
    modulated, the factors. stride and dilation are (1, 1, y, x), padding is (top, bottom, left, right). samples, [batch,
    channels, height * kernel height, width * kernel width], are the sampled values."""
    name = "npu_deformable_conv2d"
    for argument, given in (("stride", stride), ("padding", padding), ("dilation", dilation)):
        check(len(given) == 4, name, f"{argument} has four numbers, not {len(given)}")
    rows, columns = weight.shape[2:]
    check(
        sorted(kernel_size) == sorted((rows, columns)),
        name,
        f"kernel_size is that of the weight, {[rows, columns]}, not {list(kernel_size)}",
    )
    taps, parts = rows * columns, 3 if modulated else 2
    batch, channels, in_height, in_width = input.shape
    height = (in_height + padding[0] + padding[1] - (rows - 1) * dilation[2] - 1) // stride[2] + 1
    width = (in_width + padding[2] + padding[3] - (columns - 1) * dilation[3] - 1) // stride[3] + 1
    expected = [batch, parts * deformable_groups * taps, height, width]
    check(list(offset.shape) == expected, name, f"offset is {expected}, not {list(offset.shape)}")
    check(channels % deformable_groups == 0, name, f"{deformable_groups} deformable groups do not divide {channels} channels")
    x, w = input.float(), weight.float()
    moves = offset.float().view(batch, parts, deformable_groups, rows, columns, height, width)
    at = {"device": input.device, "dtype": torch.float32}
    base_y = torch.arange(height, **at) * stride[2] - padding[0] + (torch.arange(rows, **at) * dilation[2]).view(-1, 1, 1, 1)
    base_x = torch.arange(width, **at) * stride[3] - padding[2] + (torch.arange(columns, **at) * dilation[3]).view(-1, 1, 1)
    place_x = moves[:, 0] + base_x
    place_y = moves[:, 1] + base_y.transpose(-1, -2)
    images = x.view(batch * deformable_groups, channels // deformable_groups, in_height, in_width)
    flat = (batch * deformable_groups, rows * columns * height, width)
    seen = _bilinear(images, place_y.reshape(flat), place_x.reshape(flat))
    seen = seen.view(batch, deformable_groups, channels // deformable_groups, rows, columns, height, width)
    if modulated:
        seen = seen * moves[:, 2].unsqueeze(2)
    samples = seen.reshape(batch, channels, rows, columns, height, width).permute(0, 1, 4, 2, 5, 3)
    samples = samples.reshape(batch, channels, height * rows, width * columns)
    bias = None if bias is None else bias.float()
    return functional.conv2d(samples, w, bias, stride=(rows, columns), groups=groups), samples


@op(
    "npu_deformable_conv2dbk(Tensor input, Tensor grad_output, Tensor offset_out, Tensor weight, Tensor offset,"
    " int[2] kernel_size, int[] stride, int[] padding, int[4] dilation=[1,1,1,1], int groups=1, int deformable_groups=1,"
    " bool modulated=True) -> (Tensor, Tensor, Tensor, Tensor)"
)
def npu_deformable_conv2dbk(
    input,
    grad_output,
    offset_out,
    weight,
    offset,
    kernel_size,
    stride,
    padding,
    dilation=(1, 1, 1, 1),
    groups=1,
    deformable_groups=1,
    modulated=True,
):
    """The gradients of npu_deformable_conv2d for input, weight, offset and bias. The samples, offset_out, are computed again."""
    options = (kernel_size, stride, padding, dilation, groups, deformable_groups, modulated)
    with torch.enable_grad():
        inputs = [tensor.detach().requires_grad_() for tensor in (input, weight, offset)]
        out = npu_deformable_conv2d(*inputs, None, *options)[0]
    check(
        out.shape == grad_output.shape,
        "npu_deformable_conv2dbk",
        f"grad_output is {list(out.shape)}, not {list(grad_output.shape)}",
    )
    grad_output = grad_output.to(out.dtype)
    return *torch.autograd.grad(out, inputs, grad_output), grad_output.sum((0, 2, 3)).to(weight.dtype)


def _bilinear(images, y, x):
    """images [n, c, h, w] at places [n, a, b]: [n, c, a, b]; 0 outside."""
    height, width = images.shape[2:]
    pixels = images.flatten(2)
    top, left = y.floor(), x.floor()
    total = 0
    for row, weight_y in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, weight_x in ((left, 1 - (x - left)), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            index = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long()
            found = pixels.gather(2, index.flatten(1).unsqueeze(1).expand(-1, images.size(1), -1)).unflatten(2, x.shape[1:])
            total = total + found * (weight_y * weight_x * inside).unsqueeze(1)
    return total
