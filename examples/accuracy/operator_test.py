"""Templates for tests of one operator and of one module. They compare npu with the CPU, with equal inputs and weights.

    python examples/accuracy/operator_test.py

Put your operator into operator() or your module into make_module(), and your shapes and dtypes into the inputs. If a dump shows
that the operator is wrong, load the inputs from the dump: random inputs may not show the error."""

import copy

import torch
import torch_npu  # noqa: F401  (beside a CUDA device `import torch` alone does not register npu)
from torch import nn
from torch_npu.testing.testcase import TestCase, run_tests  # its assertEqual has the argument prec


def operator(x):
    return torch.max(x)


def make_module():
    return nn.Conv2d(16, 32, kernel_size=64)


class TestOperator(TestCase):
    def test_values(self):
        x = torch.randn(10, 20)
        self.assertEqual(operator(x), operator(x.npu()).cpu(), prec=1e-4)

    def test_integers(self):
        x = torch.randn(10, 20).mul(100).to(torch.int64)
        self.assertEqual(operator(x), operator(x.npu()).cpu(), prec=0)


class TestModule(TestCase):
    def test_forward_and_backward(self):
        on_cpu = make_module()
        on_npu = copy.deepcopy(on_cpu).npu()  # a copy with equal weights, because Module.npu() moves the module itself
        gradients = []
        on_npu.weight.register_hook(lambda gradient: gradients.append(gradient.cpu()))
        x = torch.randn(4, 16, 64, 64)
        result_cpu, result_npu = on_cpu(x), on_npu(x.npu())
        result_cpu.sum().backward()
        result_npu.sum().backward()
        self.assertEqual(result_cpu, result_npu.cpu(), prec=1e-4)
        self.assertEqual(on_cpu.weight.grad, gradients[0], prec=1e-3)  # larger sums round more


if __name__ == "__main__":
    run_tests()
