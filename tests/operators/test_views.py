"""Views share memory with their base and have the shape, strides and offset of the CPU."""

import pytest
import torch

from tests.compare import assert_same
from tests.support import LAYOUTS, WRITABLE, pair

VIEWS = {
    "transpose": lambda x: x.transpose(0, -1),
    "permute": lambda x: x.permute(tuple(reversed(range(x.dim())))),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "squeeze": lambda x: x.unsqueeze(-1).squeeze(),
    "slice": lambda x: x[1:, ..., ::2],
    "select": lambda x: x.select(-1, 0),
    "narrow": lambda x: x.narrow(0, 1, 1),
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(-1),
    "expand": lambda x: x.unsqueeze(0).expand(2, *x.shape),
    "unfold": lambda x: x.unfold(-1, 2, 1),
    "diagonal": lambda x: x.diagonal(0, 0, 1),
    "movedim": lambda x: x.movedim(0, -1),
    "split": lambda x: x.split(2, -1),
    "chunk": lambda x: x.chunk(2),
    "unbind": lambda x: x.unbind(0),
    "detach": lambda x: x.detach(),
    "as_strided": lambda x: x.as_strided((2,), (1,)),
    "view_bytes": lambda x: x.contiguous().view(torch.int32),
    "T": lambda x: x.mT,
    "unflatten": lambda x: x.flatten().unflatten(0, (-1, 2)),
}


def outcome(view, x):
    try:
        return view(x)
    except (RuntimeError, IndexError) as error:
        return type(error)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_view_equals_that_of_the_cpu(name, layout):
    cpu, npu = pair(layout)
    expected, got = outcome(VIEWS[name], cpu), outcome(VIEWS[name], npu)
    if isinstance(expected, type):
        assert got is expected
        return
    assert_same(got, expected, rtol=0, atol=0)
    for one, other in zip(*([each] if isinstance(each, torch.Tensor) else each for each in (got, expected)), strict=True):
        assert one.storage_offset() == other.storage_offset()
        assert one._is_view() == other._is_view()


@pytest.mark.parametrize("layout", [name for name in WRITABLE if name not in ("zero_dim", "empty")])
@pytest.mark.parametrize("name", ["transpose", "slice", "select", "narrow", "diagonal", "unfold", "T"])
def test_writing_to_a_view_writes_to_the_base(name, layout):
    cpu, npu = pair(layout)
    for x in (cpu, npu):
        VIEWS[name](x).fill_(7)
    assert_same(npu, cpu, rtol=0, atol=0)
    assert (npu == 7).any().item()


def test_complex_tensors_are_seen_as_real_ones():
    cpu = torch.tensor([1 + 2j, 3 + 4j])
    npu = cpu.npu()
    assert_same(torch.view_as_real(npu), torch.view_as_real(cpu))
    assert_same(torch.view_as_complex(torch.view_as_real(npu)), cpu)
    assert_same(npu.real, cpu.real)
    npu.imag.zero_()
    assert npu.tolist() == [1, 3]


def test_a_view_that_does_not_fit_is_refused_in_pytorchs_words():
    x = torch.zeros(2, 3, device="npu")
    with pytest.raises(RuntimeError, match="shape '\\[4\\]' is invalid for input of size 6"):
        x.view(4)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(6)
    with pytest.raises(IndexError, match="out of range"):
        x.select(2, 0)


def test_autograd_follows_writes_through_views():
    results = []
    for device in ("cpu", "npu"):
        x = torch.arange(6.0, device=device).reshape(2, 3).requires_grad_()
        y = x * 2
        y[0].mul_(3)
        y.t()[1].add_(1)
        (y**2).sum().backward()
        results.append(x.grad)
    assert_same(results[1], results[0])


def test_a_lazy_clone_shares_memory_until_the_first_write():
    base = torch.arange(4.0, device="npu")
    address = base.data_ptr()
    clone = base._lazy_clone()
    assert torch._C._is_cow_tensor(base) and torch._C._is_cow_tensor(clone)
    base.view(2, 2).add_(1)
    clone.record_stream(torch.npu.current_stream())
    assert base.tolist() == [1, 2, 3, 4]
    assert clone.tolist() == [0, 1, 2, 3]
    clone.mul_(2)  # the last owner writes in place
    assert clone.data_ptr() == address
    assert clone.tolist() == [0, 2, 4, 6]
    torch._foreach_add_([clone._lazy_clone(), base], 1)
    assert clone.tolist() == [0, 2, 4, 6]


def test_a_lazy_clone_of_an_empty_tensor_can_be_written():
    base = torch.empty(0, 3, device="npu")
    clone = base._lazy_clone()
    again = clone._lazy_clone()
    again.add_(1)
    assert clone.shape == again.shape == (0, 3)
    assert torch._C._is_cow_tensor(clone)


def test_what_a_call_only_reads_stays_lazy():
    statistics = [torch.ones(2, device="npu")._lazy_clone() for _ in range(2)]
    x = torch.arange(6.0, device="npu").view(3, 2)
    torch.nn.functional.batch_norm(x, *statistics, training=False)
    nothing = torch.empty(0, device="npu")
    statistics[0].put_(nothing.long(), nothing)
    assert all(torch._C._is_cow_tensor(one) for one in statistics)
    torch.nn.functional.batch_norm(x, *statistics, training=True)
    assert not any(torch._C._is_cow_tensor(one) for one in statistics)


def test_running_statistics_of_a_prediction_may_be_expanded():
    x = torch.arange(6.0).view(3, 2)
    cpu, npu = (
        torch.nn.functional.batch_norm(one, *(torch.full((1,), 2.0, device=one.device).expand(2) for _ in range(2)))
        for one in (x, x.npu())
    )
    assert_same(npu, cpu)


def test_a_fill_writes_the_one_element_of_an_expanded_tensor():
    x = torch.zeros(1, device="npu").expand(4)
    x.fill_(2)
    assert x.tolist() == [2] * 4
    with pytest.warns(UserWarning, match="index_fill_ on expanded tensors"):
        x.index_fill_(0, torch.tensor([1], device="npu"), 3)
    assert x.tolist() == [3] * 4
    with pytest.warns(UserWarning, match="masked_fill_ on expanded tensors"):
        x.masked_fill_(torch.tensor([True, False, False, False], device="npu"), 4)
    assert x.tolist() == [4] * 4


STRIDED = {
    "set_": lambda x, size, stride: x.new_empty(0).set_(x.untyped_storage(), 0, size, stride),
    "set_ of a tensor": lambda x, size, stride: x.new_empty(0).set_(x, 0, size, stride),
    "as_strided": torch.as_strided,
    "as_strided_": lambda x, size, stride: x.as_strided_(size, stride),
    "as_strided_copy": torch.as_strided_copy,
    "as_strided_scatter": lambda x, size, stride: torch.as_strided_scatter(x, x[:2], size, stride),
    "empty_strided": lambda x, size, stride: torch.empty_strided(size, stride, device=x.device).zero_(),
    "new_empty_strided": lambda x, size, stride: x.new_empty_strided(size, stride).zero_(),
}


SHAPES = [((2,), (-1,)), ((2, 2), (2, -1)), ((2,), (-3,)), ((-2,), (1,)), ((0,), (-1,)), ((1,), (-1,))]


@pytest.mark.parametrize(("size", "stride"), SHAPES)
@pytest.mark.parametrize("name", STRIDED)
def test_negative_strides_and_sizes_give_the_outcome_of_the_cpu(name, size, stride):
    seen = []
    for device in ("npu", "cpu"):
        try:
            result = STRIDED[name](torch.zeros(6, device=device), size, stride)
            seen.append((result.shape, result.stride()))
        except RuntimeError as refusal:
            seen.append(str(refusal))
    assert seen[0] == seen[1]
    if -1 in stride and min(size) > 1:
        assert "negative" in seen[0].lower() or "overflow" in seen[0]
