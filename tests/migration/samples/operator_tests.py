"""Two tests of operators as users write them: an operator, and a module forward and backward, against the CPU."""

import copy

import torch
from torch import nn
from torch_npu.testing.testcase import TestCase, run_tests


class TestMax(TestCase):
    def cpu_op_exec(self, input1):
        return torch.max(input1).numpy()

    def npu_op_exec(self, input1):
        return torch.max(input1)

    def test_max(self):
        input_cpu = torch.randn(10, 20).mul(100).to(torch.int64)
        input_npu = copy.deepcopy(input_cpu).npu()
        self.assertEqual(self.cpu_op_exec(input_cpu), self.npu_op_exec(input_npu), prec=1e-4)
        with self.assertRaises(AssertionError):
            self.assertEqual(self.cpu_op_exec(input_cpu), self.npu_op_exec(input_npu) + 1, prec=1e-4)


class TestConv2d(TestCase):
    def test_conv2d(self):
        model = nn.Conv2d(16, 32, kernel_size=5)
        input_tensor = torch.randn(4, 16, 8, 8)
        model_npu = copy.deepcopy(model).npu()
        cpu_out = model(input_tensor)
        cpu_out.sum().backward()

        torch.npu.set_device("npu:0")
        npu_out = model_npu(copy.deepcopy(input_tensor).npu())
        npu_out.sum().backward()
        self.assertEqual(cpu_out, npu_out, prec=1e-4)
        self.assertEqual(model.weight.grad, model_npu.weight.grad, prec=1e-3)


if __name__ == "__main__":
    run_tests()
