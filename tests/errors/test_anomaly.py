"""Debugging on npu: anomaly mode names the line of the forward pass; printing and pdb work in forward and backward."""

import io
import pdb
import sys

import pytest
import torch


def diverging(x):
    y = x * 2
    return torch.sqrt(y)  # the line at fault


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_the_line_of_the_forward_pass_is_named():
    x = torch.tensor([-1.0, 4.0], device="npu", requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = diverging(x)
        with (
            pytest.warns(UserWarning, match="the line at fault"),
            pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"),
        ):
            y.sum().backward()


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_without_nan_nothing_changes():
    x = torch.tensor([1.0, 4.0], device="npu", requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        diverging(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), torch.tensor([0.5**0.5, 0.125**0.5]))
    x = torch.tensor([-1.0], device="npu", requires_grad=True)
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        diverging(x).sum().backward()
    assert x.grad.isnan().item()


def test_an_error_in_backward_keeps_its_type_and_the_device_usable():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("in backward")

    x = torch.ones(2, device="npu", requires_grad=True)
    with pytest.raises(KeyError, match="in backward"):
        Broken.apply(x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_values_can_be_printed_in_forward_and_backward(capsys):
    x = torch.ones(2, device="npu", requires_grad=True)
    y = x * 2
    print(y, y.shape, f"{y.sum():.1f}")
    y.register_hook(print)
    (y * 3).sum().backward()
    shown = capsys.readouterr().out
    assert "tensor([2., 2.], device='npu:0', grad_fn=<MulBackward0>) torch.Size([2]) 4.0" in shown
    assert "tensor([3., 3.], device='npu:0')" in shown


def test_a_debugger_stops_in_forward_and_backward(monkeypatch, capsys):
    commands = io.StringIO("p y * 2\nc\n" + "p grad + 1\nc\n")

    class Layer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x + 1
            debugger.set_trace()
            return y

        @staticmethod
        def backward(ctx, grad):
            debugger.set_trace()
            return grad

    debugger = pdb.Pdb(stdin=commands, stdout=sys.stdout, nosigint=True, readrc=False)
    x = torch.ones(2, device="npu", requires_grad=True)
    y = Layer.apply(x)
    sys.settrace(None)
    y.sum().backward()
    shown = capsys.readouterr().out
    assert "tensor([4., 4.], device='npu:0')" in shown
    assert "tensor([2., 2.], device='npu:0')" in shown
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("function", [torch.sin, lambda x: x.cumsum(0).exp(), lambda x: x @ x.t()])
def test_gradients_are_checked_by_differences(function):
    x = torch.rand(3, 3, device="npu", dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)
