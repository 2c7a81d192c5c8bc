"""Operators that npu lacks run on the CPU, with a warning and a count; strict mode refuses them.

The tests define their own operators with CPU kernels only, so that they hold when npu gets more operators."""

import warnings

import pytest
import torch

pytestmark = pytest.mark.fallback

LIBRARY = torch.library.Library("fallback_test", "DEF")


def define(schema, function):
    LIBRARY.define(schema)
    LIBRARY.impl(schema.split("(")[0], function, "CPU")


def resize_and_fill(x, out):
    assert x.device.type == out.device.type == "cpu"
    out.resize_(x.shape).copy_(x * 2)
    return out


define("double(Tensor x) -> Tensor", lambda x: x * 2)
define("double_(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(2))
define("double.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", resize_and_fill)
define("total(Tensor[] xs) -> Tensor", lambda xs: torch.stack(xs).sum(0))
define("pick(Tensor x, Tensor? y) -> Tensor", lambda x, y: x.clone() if y is None else y.clone())
define("gather_given(Tensor x, Tensor?[] xs) -> int", lambda x, xs: sum(each is not None for each in xs))
define("double_all(Tensor(a!)[] xs) -> ()", lambda xs: [x.mul_(2) for x in xs] and None)
define("halves(Tensor x) -> Tensor[]", lambda x: [x[:1].clone(), x[1:].clone()])
define("first(Tensor(a) x) -> Tensor(a)", lambda x: x[0])
define("like(Tensor x, *, Device device) -> Tensor", lambda x, device: torch.ones(2, device=device))
define("sum_and_mean(Tensor x) -> (Tensor, float)", lambda x: (x.sum(), x.mean().item()))
LIBRARY.define("nowhere(Tensor x) -> Tensor")
ops = torch.ops.fallback_test


@pytest.fixture
def x():
    torch.npu.reset_fallback_stats()
    return torch.arange(4.0, device="npu")


def test_a_functional_operator_runs_on_the_cpu(x):
    y = ops.double(x)
    assert y.device == x.device
    assert y.tolist() == [0, 2, 4, 6]
    assert torch.npu.fallback_stats() == {"fallback_test::double": 1}


def test_an_in_place_operator_writes_to_its_argument(x):
    view = x[1:3]
    assert ops.double_(view) is view
    assert x.tolist() == [0, 2, 4, 3]


@pytest.mark.parametrize("size", [0, 2, 4])
def test_out_is_written_and_grows(x, size):
    out = torch.empty(size, device="npu")
    assert ops.double.out(x, out=out) is out
    assert out.tolist() == [0, 2, 4, 6]


def test_lists_of_tensors(x):
    assert ops.total([x, x, x]).tolist() == [0, 3, 6, 9]
    twin = x.clone()
    ops.double_all([x, twin])
    assert x.tolist() == twin.tolist() == [0, 2, 4, 6]
    first, rest = ops.halves(x)
    assert (first.device, first.tolist(), rest.tolist()) == (x.device, [0], [2, 4, 6])


def test_optional_tensors(x):
    assert torch.equal(ops.pick(x, None), x)
    assert ops.pick(x, x + 1).tolist() == [1, 2, 3, 4]
    assert ops.gather_given(x, [None, x, None]) == 1


def test_strides_are_kept(x):
    y = x.reshape(2, 2).t()
    assert ops.double(y).tolist() == [[0, 4], [2, 6]]


def test_a_device_argument_means_npu(x):
    assert ops.like(x, device="npu").device.type == "npu"


def test_several_results(x):
    total, mean = ops.sum_and_mean(x)
    assert (total.device.type, total.item(), mean) == ("npu", 6.0, 1.5)


def test_a_view_never_falls_back(x):
    with pytest.raises(
        NotImplementedError,
        match=r"Could not run 'fallback_test::first' with arguments from the 'NPU' backend.*a view cannot fall back",
    ):
        ops.first(x)
    assert torch.npu.fallback_stats() == {}


def test_an_operator_without_any_kernel_is_named(x):
    with pytest.raises(
        NotImplementedError,
        match=r"Could not run 'fallback_test::nowhere' with arguments from the 'NPU' backend.*neither an npu nor a CPU",
    ):
        ops.nowhere(x)


def test_devices_are_not_mixed(x):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        ops.total([x, x.cpu()])
    assert torch.npu.fallback_stats() == {}
    assert ops.pick(x, torch.tensor(3.0)).item() == 3.0


def test_a_cpu_scalar_tensor_is_never_written(x):
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        ops.double.out(x[0], out=torch.tensor(0.0))


def test_each_operator_is_warned_about_once(child):
    done = child(
        """
        import torch
        library = torch.library.Library("warn_test", "DEF")
        for name in ("one", "two"):
            library.define(f"{name}(Tensor x) -> Tensor")
            library.impl(name, lambda x: x + 1, "CPU")
        x = torch.ones(2, device="npu")
        for _ in range(3):
            torch.ops.warn_test.one(x)
        torch.ops.warn_test.two(x)
        print(torch.npu.fallback_stats())
        """
    )
    assert done.stdout == "{'warn_test::one': 3, 'warn_test::two': 1}\n", done.stderr
    assert done.stderr.count("warn_test::one is not implemented on npu") == 1
    assert done.stderr.count("warn_test::two is not implemented on npu") == 1


def test_strict_mode_makes_it_an_error(x):
    torch.npu.set_strict_fallback(True)
    assert torch.npu.is_strict_fallback()
    with pytest.raises(NotImplementedError, match="strict mode"):
        ops.double(x)
    assert torch.npu.fallback_stats() == {}
    torch.npu.set_strict_fallback(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ops.double(x).tolist() == [0, 2, 4, 6]


def test_strict_mode_may_come_from_the_environment(child):
    program = "import torch; print(torch.npu.is_strict_fallback())"
    assert child(program, TORCH_NPU_STRICT_FALLBACK="1").stdout == "True\n"
    assert child(program, TORCH_NPU_STRICT_FALLBACK="0").stdout == "False\n"
