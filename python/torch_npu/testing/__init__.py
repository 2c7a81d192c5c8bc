"""Helpers for unit tests of NPU programs: a TestCase with tolerances, pairs of tensors on CPU and npu, tests for each dtype.

    from torch_npu.testing.testcase import TestCase, run_tests
    from torch_npu.testing.common_utils import create_common_tensor

    class TestAdd(TestCase):
        def test_add(self):
            cpu, npu = create_common_tensor((np.float32, -1, (3, 4)), -1, 1)
            self.assertRtolEqual(cpu + 1, (npu + 1).cpu())

    if __name__ == "__main__":
        run_tests()

The TestCase of torch.testing._internal.common_utils no longer has the argument `prec` of assertEqual(a, b, prec=1e-4): import
TestCase and run_tests from torch_npu.testing.testcase instead. This package does not patch torch.

The environment variable SET_NPU_DEVICE is the number of the device for tests, SEED is the seed (666 by default).
"""
