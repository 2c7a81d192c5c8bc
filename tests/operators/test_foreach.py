"""Foreach operators: a long list takes as many launches as a short one and gives the values of the CPU."""

import pytest
import torch
from torch_npu import softnpu

from tests.compare import assert_same

SHAPES = [(4, 3), (3,), (), (2, 3, 2), (5,)]


def tensors(seed, count=None, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.rand(shape, generator=generator) * 2 + 0.5).to(dtype) for shape in SHAPES[:count]]


UNARY = ["ceil", "floor", "round", "trunc", "frac", "norm", "sqrt"]
OPERATIONS = {
    **{name: lambda x, y, z, name=name: getattr(torch, f"_foreach_{name}")(x) for name in UNARY},
    "norm_1": lambda x, y, z: torch._foreach_norm(x, 1),
    "norm_inf": lambda x, y, z: torch._foreach_norm(x, float("inf")),
    "pow_list": lambda x, y, z: torch._foreach_pow(x, y),
    "pow_scalars": lambda x, y, z: torch._foreach_pow(x, numbers(x)),
    "scalar_pow": lambda x, y, z: torch._foreach_pow(2.5, x),
    "lerp_scalars": lambda x, y, z: torch._foreach_lerp(x, y, numbers(x)),
    "clamp_min_list": lambda x, y, z: torch._foreach_clamp_min(x, y),
    "clamp_min": lambda x, y, z: torch._foreach_clamp_min(x, 1.0),
    "clamp_max_scalars": lambda x, y, z: torch._foreach_clamp_max(x, numbers(x)),
    "mul_tensor": lambda x, y, z: torch._foreach_mul(x, y[2]),
    "div_tensor": lambda x, y, z: torch._foreach_div(x, y[2]),
    "add_tensor": lambda x, y, z: torch._foreach_add(x, y[2]),
    "mul_host_tensor": lambda x, y, z: torch._foreach_mul(x, torch.tensor(0.25)),
    "addcmul_packed": lambda x, y, z: torch._foreach_addcmul(x, y, z, torch.tensor(numbers(x))),
    "addcdiv_packed": lambda x, y, z: torch._foreach_addcdiv(x, y, z, torch.tensor(numbers(x))),
}


def numbers(x):
    return [0.5 + index for index in range(len(x))]


def on_npu(lists):
    return [[tensor.npu() for tensor in one] for one in lists]


def launches(operation, count):
    lists = on_npu([tensors(seed, count) for seed in range(3)])
    with softnpu.faults("count"):
        operation(*lists)
        return softnpu.fault_counts()["launch"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_list_is_one_launch_with_the_values_of_the_cpu(name):
    operation = OPERATIONS[name]
    lists = [tensors(seed) for seed in range(3)]
    assert_same(operation(*on_npu(lists)), operation(*lists))
    assert launches(operation, len(SHAPES)) == launches(operation, 3)


@pytest.mark.parametrize("name", ["ceil_", "frac_", "mul_", "clamp_max_", "pow_", "copy_"])
def test_in_place(name):
    lists = [tensors(seed) for seed in range(2)]
    x, y = on_npu(lists)
    arguments = (x, y), lists
    if name in ("ceil_", "frac_"):
        arguments = (x,), lists[:1]
    for operands in arguments:
        getattr(torch, f"_foreach_{name}")(*operands)
    assert_same(x, lists[0])


def test_copies_take_one_launch_and_cast_where_they_must():
    x, y = (on_npu([tensors(seed)])[0] for seed in range(2))
    with softnpu.faults("count"):
        torch._foreach_copy_(x, y)
        assert softnpu.fault_counts()["launch"] == 1
    assert_same(x, tensors(1))
    torch._foreach_copy_(x, on_npu([tensors(2, dtype=torch.float64)])[0])
    assert_same(x, tensors(2))
    torch._foreach_copy_(x, tensors(3))
    assert_same(x, tensors(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_lists_that_do_not_fit_one_launch_are_computed_one_by_one(dtype):
    lists = [tensors(seed, dtype=dtype) for seed in range(3)]
    for name in ("mul_tensor", "clamp_min", "pow_list", "norm"):
        try:
            expected = OPERATIONS[name](*lists)
        except RuntimeError as error:
            with pytest.raises(type(error)):
                OPERATIONS[name](*on_npu(lists))
                torch.npu.synchronize()
        else:
            assert_same(OPERATIONS[name](*on_npu(lists)), expected, rtol=1e-2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: torch._foreach_sign([each.to(torch.complex64) for each in x]),
        lambda x: torch._foreach_frac([each.int() for each in x]),
        lambda x: torch._foreach_neg([each.bool() for each in x]),
        lambda x: torch._foreach_sub([each.bool() for each in x], [each.bool() for each in x]),
        lambda x: torch._foreach_addcmul_(x, x, x, 1j),
    ],
)
def test_a_list_is_refused_at_once_if_the_single_operator_refuses(wrong):
    with pytest.raises(RuntimeError):
        wrong(on_npu([tensors(0)])[0])


def test_complex_factors():
    lists = [tensors(seed, dtype=torch.complex64) for seed in range(3)]
    factors = torch.tensor([1 + 2j, 3, 4j, 0.5, 6 - 1j])
    assert_same(torch._foreach_addcmul(*on_npu(lists), factors), torch._foreach_addcmul(*lists, factors))


def test_factors_are_not_rounded_to_half_precision():
    zero, first, second = ([torch.full((3,), value, dtype=torch.bfloat16, device="npu")] for value in (0, 15, 17))
    for factors in ([1.003], torch.tensor([1.003])):
        assert torch._foreach_addcmul(zero, first, second, factors)[0].tolist() == [256] * 3  # 255 with a rounded factor


def overlapping(device):
    """A list in two buffers: one tensor twice, two that overlap, and one alone."""
    base, apart = torch.arange(1.0, 13.0, device=device), torch.full((4,), 2.0, device=device)
    return {"a": base[:4], "b": base[2:6], "c": apart}, [base, apart]


SEQUENTIAL = {
    "exp_": ["aa", "ab"],
    "neg_": ["aaa", "ab"],
    "add_": ["aa cc", "ab cc", "aa aa", "ca ac", "ab ba", "aa cb"],
    "mul_": ["aa cc", "ab cc", "aa aa", "ca ac", "ab ba", "aa cb"],
    "maximum_": ["ca ac", "ab ba"],
    "pow_": ["ca ac", "ab ba"],
    "copy_": ["ca ac", "aa cc", "ab ba"],
    "lerp_": ["ca ac cc", "ab ba cc"],
    "addcmul_": ["ca ac cc", "aa cc cc", "ab ba cc", "ca ac ac"],
    "addcdiv_": ["ca ac cc", "aa cc cc", "ab ba cc", "ca ac ac"],
}


@pytest.mark.parametrize(("name", "lists"), [(name, lists) for name, all in SEQUENTIAL.items() for lists in all])
def test_lists_that_overlap_are_taken_in_order_or_refused_as_on_the_cpu(name, lists):
    seen = []
    for device in ("npu", "cpu"):
        tensors, buffers = overlapping(device)
        try:
            getattr(torch, f"_foreach_{name}")(*([tensors[letter] for letter in letters] for letters in lists.split()))
            seen.append([buffer.tolist() for buffer in buffers])
        except RuntimeError as refusal:
            assert "refer to a single memory location" in str(refusal)
            seen.append(str(refusal))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", ["add_", "mul_", "div_"])
@pytest.mark.parametrize("number", [2.0, [2.0, 3.0], "another", "own"])
def test_a_tensor_that_is_twice_in_a_list_gets_both_numbers(name, number):
    seen = []
    for device in ("npu", "cpu"):
        x = torch.full((4,), 3.0, device=device)
        given = {"another": torch.tensor(2.0, device=device), "own": x[0]}.get(str(number), number)
        try:
            getattr(torch, f"_foreach_{name}")([x, x], given)
            seen.append(x.tolist())
        except RuntimeError as refusal:
            seen.append(str(refusal))
    assert seen[0] == seen[1]
