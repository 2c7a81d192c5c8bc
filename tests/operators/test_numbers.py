"""A Scalar that the CPU refuses is refused by the call itself, not by a later wait.

The operators are all those of PyTorch's schemas that take a Scalar. A value that an operator refuses on the CPU, for a
dtype in which it works, must be refused on npu by an exception of the same type. A value that the CPU accepts must work on npu.
"""

import pytest
import torch

DTYPES = [
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
    torch.complex64,
]
VALUES = [2**40, 2**70, -1, 0, 1e10, 1e300, float("inf"), float("nan"), 1j, True]

NUMBERS = ("number", "Optional[number]", "List[number]")

# Left out: their time or memory grows with the number, they need special tensors, or they are assertions.
SKIPPED = {
    "_assert_scalar",
    "_functional_assert_scalar",
    "_functional_sym_constrain_range",
    "_functional_sym_constrain_range_for_size",
    "_pad_packed_sequence",
    "_segment_reduce_backward",
    "_sparse_semi_structured_addmm",
    "_unsafe_masked_index",
    "arange",
    "histc",
    "range",
    "segment_reduce",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
}


def find_operators():
    """Name -> overloads of the operator that take a number; without overloads with `out`, which behave as the others."""
    found = {}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name in SKIPPED or "polynomial" in name or "out" in overload:
            continue
        try:
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        except AttributeError:
            continue
        if any(str(argument.type) in NUMBERS for argument in operator._schema.arguments):
            found.setdefault(name, []).append(operator)
    return found


OPERATORS = find_operators()

AS_TENSOR = "the number becomes a tensor whose type the kernel lacks; the failure surfaces at the next wait"
KNOWN = {
    "__rshift__": AS_TENSOR,
    "bitwise_and": AS_TENSOR,
    "bitwise_left_shift": AS_TENSOR,
    "bitwise_or": AS_TENSOR,
    "bitwise_right_shift": AS_TENSOR,
    "bitwise_xor": AS_TENSOR,
    "copysign": AS_TENSOR,
    "special_xlog1py": AS_TENSOR,
    "special_zeta": AS_TENSOR,
    "_foreach_norm": "a complex order surfaces at the next wait; a truth value counts as a number",
    "_foreach_powsum": "a composition of pow: complex orders work, and orders that float16 cannot hold do not",
    "linalg__powsum": "a composition of pow: complex orders work, and orders that float16 cannot hold do not",
    "hardtanh_": "negative limits of uint8 are refused at the next wait",
    "isin": "the element is converted to the dtype of the others",
}


def with_known_differences(names):
    for name in names:
        known = KNOWN.get(name)
        yield pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=known) if known else ())


def argument_for(argument, operator, dtype, device):
    """A value for an argument other than the tested number; None leaves it out."""
    kind, name = str(argument.type), argument.name
    matrix = torch.tensor([[1, 2], [3, 1]]).to(dtype).to(device)
    if kind == "Tensor":
        if "mask" in name or name == "condition":
            return torch.tensor([[True, False], [False, True]]).to(device)
        if name in ("index", "indices"):
            return torch.tensor([[0, 1], [1, 0]] if "scatter" in str(operator) else [0, 1]).to(device)
        if name in ("vec", "vec1", "vec2"):
            return matrix[0].clone()
        if name.startswith("batch") or ("baddbmm" in str(operator) and name == "self"):
            return matrix[None].clone()
        return matrix
    if kind == "List[Tensor]":
        return [matrix, matrix.clone()]
    if argument.has_default_value():
        return None
    known = {
        "number": 1,
        "Optional[number]": None,
        "List[number]": [1, 1],
        "int": 0 if name == "dim" else 2,
        "float": 0.5,
        "bool": False,
        "str": "add",
        "List[int]": [2, 2] if "size" in name else [1, 1],
        "List[str]": ["N"],  # names of dimensions, before torch 2.13
    }
    if kind.startswith("Optional"):
        return None
    return known[kind]


def call(operator, number_name, value, dtype, device):
    """The outcome of a call: "works", or the place that raises and the exception."""
    positional, keywords = [], {}
    names = [argument.name for argument in operator._schema.arguments]
    for argument in operator._schema.arguments:
        if argument.name == number_name:
            given = [value, value] if str(argument.type) == "List[number]" else value
        else:
            given = argument_for(argument, operator, dtype, device)
            if given is None and (argument.has_default_value() or argument.kwarg_only):
                continue
        if argument.kwarg_only:
            keywords[argument.name] = given
        else:
            positional.append(given)
    if "device" in names:
        keywords["device"] = torch.device(device)
    if "dtype" in names and not any("Tensor" in str(argument.type) for argument in operator._schema.arguments):
        keywords["dtype"] = dtype
    raised = None
    try:
        operator(*positional, **keywords)
    except Exception as error:
        raised = error
    if device == "npu":
        try:
            torch.npu.synchronize()
        except Exception as error:
            return "raises later", error
    return ("works", None) if raised is None else ("raises", raised)


def differences(operator):
    found = []
    for argument in operator._schema.arguments:
        if str(argument.type) not in NUMBERS:
            continue
        for dtype in DTYPES:
            # If the operator refuses every number, the dtype is the reason.
            if any(call(operator, argument.name, 1, dtype, device)[0] != "works" for device in ("cpu", "npu")):
                continue
            for value in VALUES:
                cpu, expected = call(operator, argument.name, value, dtype, "cpu")
                npu, error = call(operator, argument.name, value, dtype, "npu")
                case = f"{operator} {dtype} {argument.name}={value}: CPU {cpu} {expected!r}, npu {npu} {error!r}"
                unlike = cpu != npu or type(expected) is not type(error)
                if unlike or ("without overflow" in str(expected) and "without overflow" not in str(error)):
                    found.append(case)
    return found


@pytest.mark.fallback
@pytest.mark.parametrize("name", with_known_differences(sorted(OPERATORS)))
def test_a_number_is_refused_where_the_cpu_refuses_it(name):
    assert not [case for operator in OPERATORS[name] for case in differences(operator)]


def test_the_search_finds_refused_and_accepted_calls():
    assert len(OPERATORS) > 150
    assert call(torch.ops.aten.fill_.Scalar, "value", 2**40, torch.int32, "cpu")[0] == "raises"
    assert call(torch.ops.aten.fill_.Scalar, "value", 1, torch.int32, "cpu")[0] == "works"


MESSAGE = "value cannot be converted to type {} without overflow"


@pytest.mark.parametrize(
    ("compute", "kind"),
    [
        (lambda x: x.half().fill_(1e10), "c10::Half"),
        (lambda x: x.int().fill_(2**40), "int"),
        (lambda x: x.int().fill_(float("inf")), "int"),
        (lambda x: x.to(torch.uint8).fill_(300), "uint8_t"),
        (lambda x: x.int().masked_fill(x > 0, 2**40), "int"),
        (lambda x: x.int().index_fill(0, torch.tensor([0], device=x.device), 2**40), "int"),
        (lambda x: x.int().__setitem__(0, 2**40), "int"),
        (lambda x: torch.full((2,), 2**40, dtype=torch.int32, device=x.device), "int"),
        (lambda x: torch.full_like(x, 1j), "float"),
        (lambda x: torch.add(x.int(), 1, alpha=2**40), "int"),
        (lambda x: torch.add(x.int(), x.int(), alpha=2**40), "int"),
        (lambda x: x.clamp(1j), "double"),
        (lambda x: torch.addmm(x, x[None], x[:, None].expand(2, 2), beta=1e300), "float"),
    ],
)
def test_the_refusal_says_what_the_cpu_says(compute, kind):
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match=MESSAGE.format(kind)):
            compute(torch.ones(2, device=device))
    torch.npu.synchronize()
    assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]


@pytest.mark.parametrize("compute", [lambda x: x <= 1j, lambda x: x < 1j, lambda x: x % 1j, lambda x: x > 1j])
def test_complex_bounds_of_real_tensors_are_not_implemented(compute):
    for device in ("cpu", "npu"):
        with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
            compute(torch.ones(2, device=device))


@pytest.mark.parametrize("compute", [lambda x: x // 0, lambda x: x % 0, lambda x: torch.fmod(x, 0)])
def test_integers_divided_by_the_number_zero_are_refused_at_the_call(compute):
    fine = torch.ones(3, dtype=torch.int32, device="npu")
    assert (fine // 1).tolist() == [1, 1, 1]
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            compute(torch.ones(3, dtype=torch.int32, device=device))


def test_a_large_tensor_is_refused_like_a_small_one():
    large = torch.zeros(2048, 2048, dtype=torch.int16, device="npu")
    with pytest.raises(RuntimeError, match=MESSAGE.format("int16_t")):
        large.fill_(70000)
    assert large.fill_(7)[-1, -1].item() == 7


def test_a_zero_dimensional_tensor_takes_numbers_that_a_longer_one_refuses():
    value = 3.5e10
    torch.empty((), dtype=torch.float16).fill_(value)  # the CPU takes it
    torch.empty((), dtype=torch.float16, device="npu").fill_(value)
    torch.npu.synchronize()
    with pytest.raises(RuntimeError, match=MESSAGE.format("c10::Half")):
        torch.empty(2, dtype=torch.float16, device="npu").fill_(value)


def test_a_value_is_refused_after_others_of_its_type_worked():
    x = torch.ones(4, dtype=torch.int32, device="npu")
    for value in (1, 1000, 2**31 - 1, -(2**31)):
        assert x.fill_(value)[0].item() == value
    with pytest.raises(RuntimeError, match=MESSAGE.format("int")):
        x.fill_(2**31)
    x = torch.ones(4, dtype=torch.float16, device="npu")
    for value in (1.5, 65504.0, float("-inf")):
        assert x.fill_(value)[0].item() == value
    with pytest.raises(RuntimeError, match=MESSAGE.format("c10::Half")):
        x.fill_(65536.0)
