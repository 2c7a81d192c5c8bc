"""What unit tests of NPU programs use: a TestCase with tolerances, pairs of tensors on CPU and npu, tests for each dtype.

    from torch_npu.testing.testcase import TestCase, run_tests
    from torch_npu.testing.common_utils import create_common_tensor

    class TestAdd(TestCase):
        def test_add(self):
            cpu, npu = create_common_tensor((np.float32, -1, (3, 4)), -1, 1)
            self.assertRtolEqual(cpu + 1, (npu + 1).cpu())

    if __name__ == "__main__":
        run_tests()

Tests that take TestCase from torch.testing._internal.common_utils and call assertEqual(a, b, prec=1e-4) fail there, since torch
has no `prec` any more: import TestCase and run_tests from torch_npu.testing.testcase instead. Nothing of torch is patched.

The environment variable SET_NPU_DEVICE is the number of the device that tests use, SEED what they seed with (666).
"""
