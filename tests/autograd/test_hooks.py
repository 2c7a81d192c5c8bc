"""Hooks of modules, tensors and autograd run on npu at the same times and with the same values as on the CPU."""

import pytest
import torch
from torch import nn

from tests.compare import on_both


def numbers(value):
    return [
        tensor.detach().cpu().clone() for tensor in torch.utils._pytree.tree_leaves(value) if isinstance(tensor, torch.Tensor)
    ]


def network(device):
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to(device)


def test_hooks_of_modules():
    def run(device):
        seen, net = [], network(device)
        net.register_forward_pre_hook(lambda module, args: seen.append(numbers(args)))
        net[0].register_forward_hook(lambda module, args, output: output * 2)
        net[2].register_forward_hook(lambda module, args, kwargs, output: seen.append(numbers(output)), with_kwargs=True)
        net[0].register_full_backward_pre_hook(lambda module, grad: seen.append(numbers(grad)))
        net[2].register_full_backward_hook(lambda module, grads, outputs: (grads[0] * 3,))
        net[0].register_full_backward_hook(lambda module, grads, outputs: seen.append(numbers(outputs)))
        x = torch.rand(5, 3).to(device).requires_grad_()
        net(x).sum().backward()
        return seen, x.grad, [parameter.grad for parameter in net.parameters()]

    on_both(run)


def test_hooks_of_all_modules():
    def run(device):
        seen = []
        handles = [
            nn.modules.module.register_module_forward_hook(lambda m, args, out: seen.append(numbers(out))),
            nn.modules.module.register_module_full_backward_hook(lambda m, g, o: seen.append(numbers(o))),
        ]
        network(device)(torch.rand(5, 3).to(device).requires_grad_()).sum().backward()
        for handle in handles:
            handle.remove()
        return seen

    assert len(on_both(run)) == 8


def test_hooks_of_tensors():
    def run(device):
        seen = []
        x = torch.rand(3).to(device).requires_grad_()
        y = x * 2
        y.retain_grad()
        y.register_hook(lambda grad: grad * 10)
        x.register_hook(lambda grad: seen.append(grad.clone()))
        x.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.clone()))
        y.grad_fn.register_prehook(lambda grads: seen.append(grads[0].clone()))
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(inputs[0].clone()))
        y.sin().sum().backward()
        return seen, x.grad, y.grad

    on_both(run)


def test_an_optimizer_may_step_inside_backward():
    def run(device):
        net = network(device)
        optimizers = {parameter: torch.optim.SGD([parameter], lr=0.1) for parameter in net.parameters()}

        def step(parameter):
            optimizers[parameter].step()
            optimizers[parameter].zero_grad()

        for parameter in net.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            net(torch.ones(5, 3, device=device)).pow(2).sum().backward()
        assert all(parameter.grad is None for parameter in net.parameters())
        return list(net.parameters())

    on_both(run)


def test_hooks_of_saved_tensors_and_of_several_gradients():
    def run(device):
        seen, moved = [], []
        x, w = torch.rand(3).to(device).requires_grad_(), torch.rand(3).to(device).requires_grad_()
        torch.autograd.graph.register_multi_grad_hook((x, w), lambda grads: seen.append(numbers(grads)))
        with torch.autograd.graph.saved_tensors_hooks(lambda t: moved.append(t) or t.cpu(), lambda t: t.to(device)):
            y = (x * w).exp().sum()
        y.backward()
        assert moved
        with torch.autograd.graph.save_on_cpu(pin_memory=device == "npu"):
            z = (x * w).sin().sum()
        z.backward()
        return seen, x.grad, w.grad

    on_both(run)


class Detector(nn.Module):
    """Returns a dict of lists, as detection models do."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        y = self.linear(x)
        return {"loss": [y.sum(), y.pow(2).sum()]}


@pytest.mark.filterwarnings("ignore:For backward hooks to be called")
def test_full_backward_hooks_accept_outputs_of_any_structure():
    def run(device):
        seen, net = [], Detector().to(device)
        net.register_full_backward_hook(lambda module, grads, outputs: seen.append(numbers(outputs)))
        net.linear.register_full_backward_hook(lambda module, grads, outputs: seen.append(numbers(outputs)))
        sum(net(torch.ones(1, 3, device=device, requires_grad=True))["loss"]).backward()
        return seen, net.linear.weight.grad

    on_both(run)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_the_old_backward_hook_needs_a_tensor_in_the_output(device):
    net = Detector().to(device)
    net.register_backward_hook(lambda *_: None)
    with pytest.raises(StopIteration):
        net(torch.ones(1, 3, device=device))


def test_optimizers_have_hooks():
    def run(device):
        seen, net = [], network(device)
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.register_step_pre_hook(lambda *_: seen.append(numbers(net[0].weight)))
        optimizer.register_step_post_hook(lambda *_: seen.append(numbers(net[0].weight)))
        net(torch.ones(5, 3, device=device)).sum().backward()
        optimizer.step()
        return seen

    on_both(run)
