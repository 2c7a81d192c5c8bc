"""torch.cat: small dense tensors are joined by the device's own loop, others by ATen; both give what the CPU gives."""

import pytest
import torch
import torch_npu  # noqa: F401

from tests.compare import assert_same

PARTS = {
    "rows": (0, [(2, 3, 4), (1, 3, 4), (5, 3, 4)]),
    "middle": (1, [(2, 3, 4), (2, 1, 4)]),
    "columns": (-1, [(2, 3, 4), (2, 3, 1), (2, 3, 2)]),
    "alike": (1, [(4, 4), (4, 4)]),
    "one": (0, [(3, 2)]),
    "size_one": (1, [(1, 1, 3), (1, 2, 3)]),
    "with_empty": (0, [(2, 3), (0, 3), (1, 3)]),
    "with_legacy_empty": (0, [(2, 3), (0,), (1, 3)]),
    "all_empty": (0, [(0, 3), (0, 3)]),
    "large": (1, [(64, 600), (64, 600)]),
}


def tensors_of(shapes, dtype=torch.float32):
    sizes = [torch.Size(shape).numel() for shape in shapes]
    return [torch.arange(size).add(size).reshape(shape).to(dtype) for size, shape in zip(sizes, shapes, strict=True)]


def assert_joined_as_on_the_cpu(parts, dim):
    assert_same(torch.cat([part.npu() for part in parts], dim), torch.cat(parts, dim), rtol=0, atol=0, equal_nan=False)


@pytest.mark.parametrize("case", PARTS)
def test_parts_are_joined_along_their_dimension(case):
    dim, shapes = PARTS[case]
    assert_joined_as_on_the_cpu(tensors_of(shapes), dim)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.float16, torch.int64, torch.complex128], ids=str)
def test_elements_of_every_size_are_joined(dtype):
    assert_joined_as_on_the_cpu(tensors_of([(2, 3), (2, 5)], dtype), 1)


def test_parts_of_two_types_are_promoted():
    assert_joined_as_on_the_cpu([torch.arange(3), torch.rand(2)], 0)


def test_parts_that_are_not_dense_are_joined():
    assert_joined_as_on_the_cpu([torch.rand(3, 4).t(), torch.rand(4, 3)], 0)
    assert_joined_as_on_the_cpu([torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last) for _ in range(2)], 1)


def test_an_output_that_is_not_dense_is_filled():
    parts = tensors_of([(2, 3), (2, 3)])
    out, expected = torch.zeros(4, 6).npu(), torch.zeros(4, 6)
    torch.cat([part.npu() for part in parts], out=out[:, ::2])
    torch.cat(parts, out=expected[:, ::2])
    assert torch.equal(out.cpu(), expected)
