"""PyTorch's own test files on npu: `scripts/upstream --help`, docs/testing.md."""
