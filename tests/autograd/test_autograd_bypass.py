"""A call skips PyTorch's autograd kernel only if no gradient, transform or mode needs it."""

import pytest
import torch
import torch_npu  # noqa: F401
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from tests.compare import assert_same

FUNCTIONS = {
    "add": lambda x: x + 2 * x,
    "exp": torch.exp,
    "matmul": lambda x: x @ x.t(),
    "sum": lambda x: x.sum(0),
    "softmax": lambda x: x.softmax(1),
    "cat": lambda x: torch.cat([x, x]),
}


def both():
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    return x, x.npu()


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_tracked_where_an_operand_is(function):
    cpu, npu = (x.requires_grad_() for x in both())
    for x in (cpu, npu):
        result = function(x)
        assert result.requires_grad and result.grad_fn is not None
        result.sum().backward()
    assert_same(npu.grad, cpu.grad)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_not_tracked_without_gradients(function):
    cpu, npu = (x.requires_grad_() for x in both())
    with torch.no_grad():
        result = function(npu)
        assert not result.requires_grad and result.grad_fn is None
        assert_same(result, function(cpu))
    assert function(npu.detach()).grad_fn is None
    with torch.inference_mode():
        assert function(npu).is_inference()


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_tangents_of_forward_mode_are_carried(function, gradients):
    tangents = []
    for x in both():
        with torch.set_grad_enabled(gradients), forward_ad.dual_level():
            tangents.append(forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x)))).tangent)
    assert tangents[0] is not None
    assert_same(tangents[1], tangents[0])


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_transforms_see_the_call(function):
    cpu, npu = both()
    assert_same(torch.func.grad(lambda x: function(x).sum())(npu), torch.func.grad(lambda x: function(x).sum())(cpu))
    tangent = torch.func.jvp(function, (npu,), (torch.ones_like(npu),))[1]
    assert_same(tangent, torch.func.jvp(function, (cpu,), (torch.ones_like(cpu),))[1])
    batch = torch.stack([cpu, -cpu])
    assert_same(torch.vmap(function)(batch.npu()), torch.vmap(function)(batch))


def test_dispatch_modes_see_the_call():
    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    for gradients in (True, False):
        names = []
        with torch.set_grad_enabled(gradients), Names():
            both()[1].exp() + 1
        assert {"aten.exp.default", "aten.add.Tensor"} <= set(names)


def test_a_call_works_under_the_python_dispatcher():
    x = torch.ones(2, 2, device="npu")
    with FakeTensorMode() as mode, enable_python_dispatcher():
        assert torch.sin(mode.from_tensor(x) + 1).shape == (2, 2)
    compiled = torch.compile(lambda t: torch.sin(t + 1), backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), torch.sin(x + 1))


def test_conjugated_and_negated_views_are_resolved():
    cpu = torch.complex(*(torch.randn(3, 4) for _ in range(2)))
    with torch.no_grad():
        npu = cpu.npu()
        assert_same(npu.conj() + npu, cpu.conj() + cpu)
        assert_same(npu.conj().imag * 2, cpu.conj().imag * 2)
        assert npu.conj()[0, 0].item() == cpu.conj()[0, 0].item()
