"""torch.func on npu gives what it gives on the CPU."""

import copy

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

from tests.compare import on_both

X, W = torch.linspace(-1, 1, 12).view(4, 3), torch.linspace(-2, 1, 9).view(3, 3)


def loss(x, w):
    return torch.tanh(x @ w).pow(2).sum()


TRANSFORMS = {
    "vmap": lambda x, w: vmap(lambda a, b: (a * b).sum())(x, x),
    "vmap over one": lambda x, w: vmap(torch.mv, (None, 0))(w, x),
    "vmap over columns": lambda x, w: vmap(torch.dot, in_dims=(1, 1))(x, x),
    "vmap nested": lambda x, w: vmap(vmap(torch.mul, (None, 0)), (0, None))(x[0], x),
    "vmap in chunks": lambda x, w: vmap(torch.sin, chunk_size=2)(x),
    "vmap of what has no rule": lambda x, w: vmap(lambda a: torch.searchsorted(a, a))(x),
    "vmap of indexing": lambda x, w: vmap(lambda a, i: a[i])(x, torch.tensor([0, 2, 1, 0], device=x.device)),
    "grad": lambda x, w: grad(loss, argnums=(0, 1))(x, w),
    "grad and value": lambda x, w: grad_and_value(loss)(x, w),
    "grad of grad": lambda x, w: vmap(grad(grad(torch.sin)))(x.flatten()),
    "gradients of samples": lambda x, w: vmap(grad(loss, argnums=1), (0, None))(x, w),
    "vjp": lambda x, w: vjp(torch.exp, x)[1](x),
    "jvp": lambda x, w: jvp(torch.exp, (x,), (x,)),
    "linearize": lambda x, w: linearize(torch.exp, x)[1](x),
    "jacrev": lambda x, w: jacrev(lambda y: torch.sin(y @ w))(x),
    "jacfwd": lambda x, w: jacfwd(lambda y: torch.sin(y @ w))(x),
    "hessian": lambda x, w: hessian(lambda y: loss(y, w))(x),
    "functionalize": lambda x, w: functionalize(lambda y: y.clone().add_(1).view(-1).mul_(2))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    on_both(lambda device: TRANSFORMS[name](X.to(device), W.to(device)))


def test_a_module_is_called_with_other_parameters():
    def run(device):
        net = nn.Linear(3, 2).to(device)
        doubled = {name: value * 2 for name, value in net.named_parameters()}
        return functional_call(net, doubled, (X.to(device),)), net(X.to(device))

    on_both(run)


def test_an_ensemble_runs_as_one():
    def run(device):
        nets = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval().to(device) for _ in range(3)]
        parameters, buffers = stack_module_state(nets)
        base = copy.deepcopy(nets[0]).to("meta")
        together = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), (0, 0, None))(parameters, buffers, X.to(device))
        torch.testing.assert_close(together, torch.stack([net(X.to(device)) for net in nets]))
        return together

    on_both(run)


def test_gradients_of_the_samples_of_a_network():
    def run(device):
        net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)).to(device)
        parameters = {name: value.detach() for name, value in net.named_parameters()}
        images, labels = torch.rand(4, 1, 8, 8).to(device), torch.tensor([0, 1, 2, 0]).to(device)

        def loss(parameters, image, label):
            return nn.functional.cross_entropy(functional_call(net, parameters, (image[None],)), label[None])

        return vmap(grad(loss), (None, 0, 0))(parameters, images, labels)

    on_both(run)


def test_vmap_follows_its_randomness_option():
    x = torch.ones(4, 100, device="npu")
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda row: row + torch.randn(100, device="npu"))(x)
    for draw in (lambda row: row + torch.rand(100, device="npu"), nn.functional.dropout):
        same = vmap(draw, randomness="same")(x)
        different = vmap(draw, randomness="different")(x)
        assert torch.equal(same[0], same[1])
        assert not torch.equal(different[0], different[1])


def attend(q):
    return nn.functional.scaled_dot_product_attention(q, q, q)


ATTENTION = {
    "vmap": lambda q: vmap(attend)(q),
    "vmap of a causal mask": lambda q: vmap(lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True))(q),
    "vmap over some": lambda q: vmap(lambda x: nn.functional.scaled_dot_product_attention(x, q[0], q[0]))(q),
    "vmap nested": lambda q: vmap(vmap(attend))(q),
    "grad": lambda q: grad(lambda x: attend(x).sum())(q[0]),
    "gradients of samples": lambda q: vmap(grad(lambda x: attend(x).pow(2).sum()))(q),
    "jacrev": lambda q: jacrev(attend)(q[0, :, :1, :2]),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    q = torch.randn(3, 1, 2, 5, 8, generator=torch.Generator().manual_seed(1))
    on_both(lambda device: ATTENTION[name](q.to(device)))


def test_attention_has_a_forward_derivative():
    """The CPU's fused operator has no forward derivative, so npu is compared with the formula."""
    q, t = torch.randn(2, 1, 2, 5, 8, generator=torch.Generator().manual_seed(1)).unbind()
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        expected = jvp(attend, (q,), (t,))
    torch.testing.assert_close([x.cpu() for x in jvp(attend, (q.npu(),), (t.npu(),))], list(expected), rtol=1e-4, atol=1e-5)
    with torch.autograd.forward_ad.dual_level():
        dual = attend(torch.autograd.forward_ad.make_dual(q.npu(), t.npu()))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(dual).tangent.cpu(), expected[1], rtol=1e-4, atol=1e-5)


LAYERS = {
    **{cell.__name__: (cell, {}) for cell in (nn.RNNCell, nn.GRUCell, nn.LSTMCell, nn.RNN, nn.GRU, nn.LSTM)},
    "GRU of two layers": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "LSTM of two layers": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "LSTM with projections": (nn.LSTM, {"proj_size": 2}),
}


def recurrent(name, device, bias):
    """A layer in float64 as a function of input and parameters, with their values and tangents."""
    kind, options = LAYERS[name]
    layer = kind(3, 4, bias=bias, dtype=torch.float64, **options)
    names = [key for key, _ in layer.named_parameters()]
    x = torch.randn((2, 3) if "Cell" in name else (5, 2, 3), dtype=torch.float64)
    given = [x, *(parameter.detach() for parameter in layer.parameters())]
    tangents = [torch.randn_like(tensor) for tensor in given]
    layer.to(device)

    def run(x, *parameters):
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    return run, [tensor.to(device) for tensor in given], [tensor.to(device) for tensor in tangents]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_have_forward_derivatives(name, bias):
    def compute(device):
        run, given, tangents = recurrent(name, device, bias)
        of_all = jvp(run, tuple(given), tuple(tangents))
        of_input = jvp(lambda x: run(x, *given[1:]), (given[0],), (tangents[0],))
        of_weights = jvp(lambda *weights: run(given[0], *weights), tuple(given[1:]), tuple(tangents[1:]))
        return of_all, of_input, of_weights

    on_both(compute, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["GRUCell", "LSTMCell", "GRU", "LSTM"])
def test_second_derivatives_of_recurrent_layers(name):
    def compute(device):
        run, given, _ = recurrent(name, device, True)

        def total(x):
            result = run(x, *given[1:])
            return (result if isinstance(result, torch.Tensor) else result[0]).sum()

        return hessian(total)(given[0]), jacfwd(jacfwd(total))(given[0])

    on_both(compute, rtol=1e-9, atol=1e-9)


def test_a_recurrent_cell_supports_reverse_over_forward():
    def compute(device):
        run, given, tangents = recurrent("GRUCell", device, True)
        x = given[0].requires_grad_()
        with torch.autograd.forward_ad.dual_level():
            result = run(torch.autograd.forward_ad.make_dual(x, tangents[0]), *given[1:])
            tangent = torch.autograd.forward_ad.unpack_dual(result).tangent
            return torch.autograd.grad(result.sum() + tangent.sum(), x)

    on_both(compute, rtol=1e-9, atol=1e-9)
