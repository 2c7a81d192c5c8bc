"""Gradients equal those of the CPU."""

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same
from tests.support import LAYOUTS, pair

FUNCTIONS = {
    "add": lambda x: x + x * 2,
    "mul": lambda x: x * x,
    "div": lambda x: 1 / (x.abs() + 1),
    "exp": torch.exp,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "leaky_relu": F.leaky_relu,
    "sqrt": lambda x: (x.abs() + 1).sqrt(),
    "log": lambda x: (x.abs() + 1).log(),
    "pow": lambda x: x**3,
    "clamp": lambda x: x.clamp(-1, 1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "mean": lambda x: x.mean(-1),
    "sum": lambda x: x.sum(0),
    "amax": lambda x: x.amax(-1),
    "var": lambda x: x.var(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "where": lambda x: torch.where(x > 0, x, -2 * x),
    "cat": lambda x: torch.cat([x, x * 2], -1),
    "transpose": lambda x: x.transpose(0, -1),
    "slice": lambda x: x[1:, ..., :2],
    "expand": lambda x: x.expand(2, *x.shape),
    "index": lambda x: x[torch.tensor([0, 0, 1], device=x.device)],
    "select": lambda x: x.select(-1, 1),
    "norm": torch.norm,
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "mse": lambda x: F.mse_loss(x, torch.ones_like(x)),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "pad": lambda x: F.pad(x, (1, 1)),
    "matmul": lambda x: x @ x.mT,
    "gather": lambda x: x.gather(-1, (x > 0).long()),
    "sort": lambda x: x.sort(-1).values,
    "max": lambda x: x.max(-1).values,
    "stack": lambda x: torch.stack([x, x]),
    "mul_": lambda x: (x * 1).mul_(2).add_(1),
    "clone": lambda x: x.clone(),
    "to_double": lambda x: x.double() * 2,
    "smooth_l1": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
}


def gradient(function, x):
    x = x.detach().requires_grad_()
    try:
        y = function(x)
        torch.npu.synchronize()
    except (RuntimeError, IndexError) as error:
        return error, None
    weight = torch.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape).div(max(y.numel(), 1))
    (y * weight.to(y.device)).sum().backward()
    return y, x.grad


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name, layout):
    cpu, npu = pair(layout)
    expected, expected_gradient = gradient(FUNCTIONS[name], cpu)
    got, got_gradient = gradient(FUNCTIONS[name], npu)
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), f"the CPU says: {expected}"
        return
    if isinstance(got, Exception):
        raise got
    assert_same(got, expected, strides=False)
    assert_same(got_gradient, expected_gradient, strides=False)


LAYERS = {
    "conv": lambda: (torch.nn.Conv2d(4, 6, 3, stride=2, padding=1), (2, 4, 8, 8)),
    "conv_groups": lambda: (torch.nn.Conv2d(4, 8, 3, groups=2, dilation=2, bias=False), (2, 4, 8, 8)),
    "conv1d": lambda: (torch.nn.Conv1d(4, 6, 3), (2, 4, 9)),
    "conv3d": lambda: (torch.nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv_transpose": lambda: (torch.nn.ConvTranspose2d(4, 3, 3, stride=2, output_padding=1), (2, 4, 5, 5)),
    "batch_norm": lambda: (torch.nn.BatchNorm2d(4), (3, 4, 5, 5)),
    "layer_norm": lambda: (torch.nn.LayerNorm(6), (3, 4, 6)),
    "group_norm": lambda: (torch.nn.GroupNorm(2, 4), (2, 4, 5, 5)),
    "max_pool": lambda: (torch.nn.MaxPool2d(2), (2, 3, 6, 6)),
    "avg_pool": lambda: (torch.nn.AvgPool2d(3, 2, 1), (2, 3, 6, 6)),
    "adaptive_pool": lambda: (torch.nn.AdaptiveAvgPool2d(2), (2, 3, 5, 5)),
    "linear": lambda: (torch.nn.Linear(5, 3), (2, 4, 5)),
    "bilinear": lambda: (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 4, 4)),
    "nearest": lambda: (torch.nn.Upsample(scale_factor=2), (1, 2, 4, 4)),
}


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers(name, memory_format):
    torch.manual_seed(0)
    layer, shape = LAYERS[name]()
    x = torch.randn(shape)
    if memory_format == torch.channels_last:
        if x.dim() != 4:
            pytest.skip("channels_last has four dimensions")
        x = x.contiguous(memory_format=memory_format)
    results = []
    for device in ("cpu", "npu"):
        layer = layer.to(device)
        layer.zero_grad()
        here = x.clone().to(device).requires_grad_()
        y = layer(here)
        (y * y).sum().backward()
        results.append([y.detach(), here.grad, *(parameter.grad.clone() for parameter in layer.parameters())])
    assert_same(results[1], results[0], strides=False)


def test_second_derivatives():
    results = []
    for device in ("cpu", "npu"):
        x = torch.linspace(-1, 1, 5, device=device, requires_grad=True)
        (first,) = torch.autograd.grad((x.tanh() ** 2).sum(), x, create_graph=True)
        results.append(torch.autograd.grad(first.sum(), x)[0])
    assert_same(results[1], results[0])


def test_gradients_flow_between_devices():
    x = torch.ones(3, requires_grad=True)
    (x.npu() * 2).cpu().sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    if torch.npu.device_count() > 1:
        there = torch.ones(3, device="npu:1", requires_grad=True)
        (there.to("npu:0") * 3).sum().backward()
        assert there.grad.device.index == 1


def test_gradients_on_another_stream():
    side = torch.npu.Stream()
    x = torch.ones(1000, device="npu", requires_grad=True)
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        y = (x * 2).sum()
    torch.npu.current_stream().wait_stream(side)
    y.backward()
    assert x.grad.sum().item() == 2000


def test_gradient_modes():
    x = torch.ones(3, device="npu", requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        y = x * 2 + 1
        assert y.is_inference()
    assert y.tolist() == [3, 3, 3]
    assert (x * 2).requires_grad


def test_a_custom_autograd_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(context, gradient):
            assert context.saved_tensors[0].is_npu
            return gradient * 2

    x = torch.ones(3, device="npu", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_process_may_end_right_after_backward(python):
    program = "import torch; torch.ones(2, device='npu', requires_grad=True).sum().backward()"
    for _ in range(5):
        done = python(program)
        assert (done.returncode, done.stderr) == (0, "")


def test_backward_works_in_every_forked_child_of_a_process_that_used_the_threads_of_the_cpu(python):
    done = python(
        """
        import os, time, torch

        torch.set_num_threads(2)
        torch.ones(1_000_000).sum()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                torch.ones(3, requires_grad=True).sum().backward()
                time.sleep(0.05)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        """
    )
    assert done.returncode == 0, done.stderr
