"""Compares a network on npu with the same network on the CPU: outputs, modules in the forward and backward pass, gradients,
BatchNorm.

    python examples/accuracy/whole_network.py [--device npu]

The exit status is 1 if the mean absolute difference of the outputs is above 1e-4, or if a module or a gradient differs by more.
Look first at the first module that the program names."""

import argparse
import copy
import sys

import torch
import torch_npu  # noqa: F401
from torch import nn

TOLERANCE = 1e-4


def make_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)
    )  # put your network here  # fmt: skip


def watch(network, notes):
    """Records the outputs of each module, and the gradients of these outputs."""
    for name, module in network.named_modules():
        label = name or "(the network)"

        def forward(module, inputs, outputs, label=label):
            notes[f"forward {label}"] = outputs.detach().cpu()

        def backward(module, gradients_in, gradients_out, label=label):
            notes[f"backward {label}"] = gradients_out[0].detach().cpu()

        module.register_forward_hook(forward)
        module.register_full_backward_hook(backward)


def difference(one, other):
    """The mean absolute difference. For values above 1 it is relative to them."""
    one, other = one.double(), other.double()
    return ((one - other).abs().mean() / max(1.0, one.abs().mean().item())).item()


def run(network, x, target):
    notes = {}
    watch(network, notes)
    output = network(x)
    nn.functional.cross_entropy(output, target).backward()
    return output.detach().cpu(), notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="npu")
    device = parser.parse_args().device
    torch.manual_seed(0)
    on_cpu = make_network()
    on_npu = copy.deepcopy(on_cpu).to(device)  # before .npu(), which moves a module in place
    x, target = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    golden, golden_notes = run(on_cpu, x, target)
    output, notes = run(on_npu, x.to(device), target.to(device))

    wrong = []
    for label, expected in golden_notes.items():
        apart = difference(expected, notes[label])
        print(f"{label:<24} {apart:.2e}")
        wrong += [label] if not apart <= TOLERANCE else []
    for name, parameter in on_cpu.named_parameters():
        apart = difference(parameter.grad, on_npu.get_parameter(name).grad.cpu())
        print(f"gradient of {name:<12} {apart:.2e}")
        wrong += [f"gradient of {name}"] if not apart <= TOLERANCE else []
    for name, buffer in on_cpu.named_buffers():  # running_mean and running_var
        apart = difference(buffer, on_npu.get_buffer(name).cpu())
        print(f"buffer {name:<17} {apart:.2e}")
        wrong += [f"buffer {name}"] if not apart <= TOLERANCE else []
    apart = difference(golden, output)
    print(f"mean absolute difference of the outputs: {apart:.2e}")
    if wrong:
        sys.exit(f"the first of {len(wrong)} beyond {TOLERANCE}: {wrong[0]}")


if __name__ == "__main__":
    main()
