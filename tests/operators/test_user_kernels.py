"""A user kernel for an ATen operator is used in every mode, before and after the operator's first use, until
its registration ends."""

import contextlib
import warnings

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.library import Library
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support import TORCH

MODES = {
    "grad": torch.enable_grad,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "forward_ad": forward_ad.dual_level,
}
DEVICES = {"cpu": ("CPU", "AutogradCPU"), "npu": ("PrivateUse1", "AutogradPrivateUse1")}

# Operator -> a call. They cover all kinds of kernels: generated with and without a shape function, several launches, several
# results, a value for the host, operators that autograd decomposes.
CALLS = {
    "add.Tensor": lambda x: torch.add(x, x),
    "exp": torch.exp,
    "sinc": torch.sinc,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "digamma": torch.digamma,
    "sum.dim_IntList": lambda x: x.sum(0),
    "mm": lambda x: torch.mm(x, x),
    "cat": lambda x: torch.cat([x, x]),
    "_softmax": lambda x: x.softmax(0),
    "sort.stable": lambda x: torch.sort(x, stable=True),
    "where.self": lambda x: torch.where(x > 0, x, x),
    "index.Tensor": lambda x: x[torch.tensor([0], device=x.device)],
    "add_.Tensor": lambda x: x.clone().add_(x),
    "add.out": lambda x: torch.add(x, x, out=torch.empty_like(x)),
    "_foreach_add.Scalar": lambda x: torch._foreach_add([x], 1.0),
    "_foreach_add_.Scalar": lambda x: torch._foreach_add_([x.clone()], 1.0),
    "_local_scalar_dense": lambda x: x[0, 0].item(),
    "copy_": lambda x: x.clone().copy_(x),
    "normal_": lambda x: x.clone().normal_(),
}


class Registered:
    """Registers user kernels until the end of the block. Each notes its call and raises."""

    class Called(Exception):
        pass

    def __init__(self, *registrations):
        self._library = Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, key in registrations:
                self._library.impl(name, self._kernel(key), key)

    def _kernel(self, key):
        def kernel(*args, **kwargs):
            raise self.Called(key)

        return kernel

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._library._destroy()

    def called(self, call):
        """The dispatch key of the user kernel that the call reaches, or None."""
        try:
            call()
        except self.Called as error:
            return str(error)
        return None


def square(device, requires_grad=False):
    return torch.full((2, 2), 0.5, device=device).requires_grad_(requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "requires_grad"])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_for_the_device_is_used(name, mode, requires_grad):
    call = CALLS[name]
    for device, (key, _) in DEVICES.items():
        x = square(device, requires_grad)
        with mode():
            context = torch.no_grad if requires_grad and name.endswith("out") else contextlib.nullcontext
            with context(), Registered((name, key)) as user:
                assert user.called(lambda x=x: call(x)) == key
                assert user.called(lambda x=x: call(x)) == key
                if mode is torch.inference_mode:
                    assert user.called(lambda device=device: call(square(device))) == key
            with context():
                call(x)


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("alias", [True, False], ids=["Autograd", "of the device"])
@pytest.mark.parametrize("name", ["add.Tensor", "exp", "sinc", "sum.dim_IntList", "mm", "cat", "_softmax", "sort.stable"])
def test_a_kernel_for_autograd_is_used(name, alias, mode):
    for device, (_, own) in DEVICES.items():
        key = "Autograd" if alias else own
        for requires_grad in (False, True):
            x = square(device, requires_grad)
            with mode(), Registered((name, key)) as user:
                assert user.called(lambda x=x: CALLS[name](x)) == key
            assert Registered().called(lambda x=x: CALLS[name](x)) is None
        with torch.inference_mode(), Registered((name, key)) as user:
            assert user.called(lambda device=device: CALLS[name](square(device))) is None  # autograd does not see these


@pytest.mark.skipif(TORCH < (2, 13), reason="torch refuses a second kernel from Python")
def test_kernels_are_nested_and_removed_in_any_order():
    x = square("npu")
    outer = Registered(("exp", "PrivateUse1"), ("exp", "AutogradPrivateUse1"))
    inner = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner.impl("exp", lambda x: x + 100, "PrivateUse1")
    assert outer.called(lambda: torch.exp(x)) == "AutogradPrivateUse1"
    with torch.inference_mode():
        assert torch.exp(square("npu")).flatten()[0].item() == 100.5
    outer.__exit__()
    assert torch.exp(x).flatten()[0].item() == 100.5
    inner._destroy()
    torch.testing.assert_close(torch.exp(x).cpu(), torch.exp(x.cpu()))


def test_register_kernel_is_used():
    library = Library("aten", "IMPL")
    torch.library.register_kernel("aten::erfinv", "npu", lambda x: x * 0 + 5, lib=library)
    x = square("npu")
    with torch.no_grad():
        assert torch.erfinv(x).flatten()[0].item() == 5
    assert torch.erfinv(x).flatten()[0].item() == 5
    assert torch.erfinv(square("npu", True)).flatten()[0].item() == 5
    library._destroy()
    torch.testing.assert_close(torch.erfinv(x).cpu(), torch.erfinv(x.cpu()))


BEFORE_IMPORT = """
import warnings

import torch
from torch.library import Library

warnings.simplefilter("ignore")
torch.utils.rename_privateuse1_backend("npu")
library = Library("aten", "IMPL")
library.impl("sinc", lambda x: x + 100, "Autograd")
library.impl("digamma", lambda x: x + 100, "AutogradPrivateUse1")
import torch_npu

x = torch.full((1,), 0.5, device="npu")
late = Library("aten", "IMPL")
late.impl("erfinv", lambda x: x + 100, "PrivateUse1")
with torch.no_grad():
    print(torch.erfinv(x).item())
library._destroy()
late._destroy()
print(torch.sinc(x).item() < 1, torch.erfinv(x).item() < 1)
"""


def test_a_kernel_is_used_before_the_first_use_of_its_operator(python):
    done = python(BEFORE_IMPORT, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["100.5", "True", "True"]


@pytest.mark.parametrize("name", ["mul.Tensor", "neg", "sum.dim_IntList", "threshold_backward"])
def test_a_kernel_is_used_by_the_backward_pass(name):
    for device, (key, _) in DEVICES.items():
        x = torch.ones(2, 2, device=device, requires_grad=True)
        y = torch.ones(2, device=device, requires_grad=True)
        loss = ((-(x - y)) * y).relu().sum()
        with Registered((name, key)) as user:
            assert user.called(loss.backward) == key


def test_a_kernel_of_a_composed_operator_is_used():
    for device, (key, _) in DEVICES.items():
        lstm = torch.nn.LSTM(3, 4, device=device)
        x = torch.ones(2, 1, 3, device=device)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), Registered(("lstm.input", key)) as user:
                assert user.called(lambda: lstm(x)) == key  # noqa: B023
        assert Registered().called(lambda: lstm(x)) is None  # noqa: B023


# (operator that is called, operator that PyTorch composes it of) -> the call.
PARTS = {
    ("isin.Scalar_Tensor", "isin.Tensor_Tensor_out"): lambda x: torch.isin(1.0, x),
    ("set_", "set_.source_Storage_storage_offset"): lambda x: x.clone().set_(),
    ("set_.source_Storage", "set_.source_Storage_storage_offset"): lambda x: x.clone().set_(x.untyped_storage()),
    ("zeros_like", "zero_"): torch.zeros_like,
    ("ones", "fill_.Scalar"): lambda x: torch.ones(2, device=x.device),
    ("clone", "copy_"): lambda x: x.t().clone(),
    ("_to_copy", "copy_"): lambda x: x.double(),
    ("randn", "normal_"): lambda x: torch.randn(2, device=x.device),
    ("isnan", "ne.Tensor"): torch.isnan,
    ("linear", "addmm"): lambda x: torch.nn.functional.linear(x, x, x[0]),
    ("index_put_", "_index_put_impl_"): lambda x: x.clone().index_put_((torch.tensor([0], device=x.device),), x[0]),
    ("masked_fill", "masked_fill_.Scalar"): lambda x: x.masked_fill(x > 0, 1.0),
    ("_foreach_add_.Scalar", "add_.Scalar"): lambda x: torch._foreach_add_([x.clone(), x.double()], 1.0),
}


@pytest.mark.parametrize(("outer", "inner"), PARTS)
def test_a_kernel_is_used_by_operators_that_are_made_of_it(outer, inner):
    for device, (key, _) in DEVICES.items():
        x = square(device)
        with torch.no_grad(), Registered((inner, key)) as user:
            assert user.called(lambda x=x: PARTS[outer, inner](x)) == key


def test_autocast_runs_before_a_kernel():
    dtypes = []
    library = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("mm", lambda a, b: dtypes.append(a.dtype) or torch.zeros_like(a), "PrivateUse1")
    try:
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode(), torch.autocast("npu", dtype=torch.float16):
                torch.mm(square("npu"), square("npu"))
    finally:
        library._destroy()
    assert dtypes == [torch.float16] * 3


class Dispatched(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_python_modes_run_before_a_kernel(mode):
    x = square("npu")
    with mode(), Registered(("sinc", "PrivateUse1")) as user:
        with Dispatched() as dispatched, Functions() as functions:
            assert user.called(lambda: torch.sinc(x)) == "PrivateUse1"
        assert "aten.sinc.default" in dispatched.names
        assert "sinc" in functions.names
        with FakeTensorMode() as fake:
            assert user.called(lambda: torch.sinc(fake.from_tensor(x))) is None


def test_transforms_run_before_a_kernel():
    x = square("npu")
    with Registered(("sinc", "PrivateUse1")) as user:
        assert user.called(lambda: torch.vmap(torch.sinc)(x)) == "PrivateUse1"
        assert user.called(lambda: torch.func.grad(lambda t: torch.sinc(t).sum())(x)) == "PrivateUse1"
        assert user.called(lambda: torch.func.jvp(torch.sinc, (x,), (x,))) == "PrivateUse1"


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_switches_for_debugging_see_a_call_in_every_mode(mode):
    lines = []

    class File:
        def write(self, text):
            lines.append(text)

        def flush(self):
            pass

    x = square("npu")
    with mode(), torch.npu.debug.print_ops("sinc", file=File()):
        torch.sinc(x)
        torch.sinc(square("npu"))
    assert "".join(lines).count("aten::sinc(") == 2
    torch.npu.reset_fallback_stats()
    with mode(), torch.npu.debug.force_fallback("sinc"):
        torch.sinc(x)
    assert torch.npu.fallback_stats() == {"aten::sinc": 1}
    torch.npu.reset_fallback_stats()


def test_a_kernel_for_lstm_is_used_within_dispatch_modes():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    model, x, called = torch.nn.LSTM(3, 3, device="npu"), torch.ones(2, 1, 3, device="npu"), []
    library = Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.impl("lstm.input", lambda x, *rest: called.append(x) or (x, x, x), "PrivateUse1")
    for mode in MODES.values():
        with mode(), Mode():
            model(x)
    assert len(called) == len(MODES)
    library._destroy()
