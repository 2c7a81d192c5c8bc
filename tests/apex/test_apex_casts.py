"""O1: the lists of functions, registered and decorated functions, and torch.amp in the same program."""

import threading
import types
from itertools import chain

import pytest
import torch
from apex import amp
from apex.amp import lists
from torch.nn import functional

from tests.apex.training import backward, batch, initialized, net, sgd

DEVICES = pytest.mark.parametrize("device", ["npu", "cpu"])


def single(*shape):
    return torch.linspace(0.2, 0.7, max(1, torch.Size(shape).numel())).view(shape).to(single.device)


def half(*shape):
    return single(*shape).half()


def index(*values):
    return torch.tensor(values).to(single.device)


UNARY = "acos asin cosh erfinv exp expm1 log log10 log2 reciprocal rsqrt sinh tan norm prod std sum var gelu softplus cpu"
PAIR = "dist cosine_similarity poisson_nll_loss kl_div l1_loss mse_loss smooth_l1_loss binary_cross_entropy_with_logits"
PRODUCT = "matmul mm __matmul__ __rmatmul__ linear"
WIDEST = "add div mul atan2 __add__ __mul__ __sub__ __truediv__ __radd__ __rmul__ __rsub__ __rtruediv__"
# Name -> call of the function with float16 arguments for FP32_FUNCS, float32 ones for FP16_FUNCS, both for CASTS.
CALLS = {
    **{name: lambda f: f(half(3, 3)) for name in UNARY.split()},
    **{name: lambda f: f(half(3, 3), half(3, 3)) for name in PAIR.split()},
    **{name: lambda f: f(half(3, 3), dim=0) for name in ["cumprod", "cumsum", "softmax", "log_softmax", "softmin", "normalize"]},
    **{name: lambda f: f(single(3, 3), single(3, 3)) for name in PRODUCT.split()},
    **{name: lambda f: f(half(3), single(3)) for name in WIDEST.split()},
    **{name: lambda f: f(half(3), 2.0) for name in ("pow", "__pow__", "__rpow__")},
    **{name: lambda f: f([half(3), single(3)]) for name in ("cat", "stack")},
    **{f"conv{n}d": lambda f, n=n: f(single(1, 2, *[4] * n), single(2, 2, *[3] * n)) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": lambda f, n=n: f(single(1, 2, *[4] * n), single(2, 2, *[3] * n)) for n in (1, 2, 3)},
    "__ipow__": lambda f: f(single(3), 2),
    "addbmm": lambda f: f(single(3, 3), single(2, 3, 3), single(2, 3, 3)),
    "addcdiv": lambda f: f(half(3), single(3), half(3)),
    "addcmul": lambda f: f(half(3), single(3), half(3)),
    "addmm": lambda f: f(single(3, 3), single(3, 3), single(3, 3)),
    "addmv": lambda f: f(single(3), single(3, 3), single(3)),
    "addr": lambda f: f(single(3, 3), single(3), single(3)),
    "baddbmm": lambda f: f(single(2, 3, 3), single(2, 3, 3), single(2, 3, 3)),
    "bilinear": lambda f: f(half(2, 3), single(2, 3), single(2, 3, 3), None),
    "bmm": lambda f: f(single(2, 3, 3), single(2, 3, 3)),
    "conv_tbc": lambda f: f(single(3, 2, 2), single(2, 2, 2), single(2)),
    "cosine_embedding_loss": lambda f: f(half(2, 3), half(2, 3), index(1, -1)),
    "cross": lambda f: f(half(3), single(3), dim=0),
    "cross_entropy": lambda f: f(half(3, 3), index(0, 1, 2)),
    "ctc_loss": lambda f: f(half(5, 1, 4).log(), index(1, 2)[None], torch.tensor([5]), torch.tensor([2])),
    "dot": lambda f: f(half(3), single(3)),
    "grid_sample": lambda f: f(half(1, 1, 3, 3), half(1, 2, 2, 2), align_corners=False),
    "group_norm": lambda f: f(half(1, 4, 3), 2),
    "hinge_embedding_loss": lambda f: f(half(2), index(1, -1)),
    "interpolate": lambda f: f(half(1, 1, 3, 3), scale_factor=2, mode="bilinear"),
    "layer_norm": lambda f: f(half(3, 3), (3,)),
    "local_response_norm": lambda f: f(half(1, 4, 3, 3), 2),
    "margin_ranking_loss": lambda f: f(half(2), half(2), index(1, -1)),
    "multi_margin_loss": lambda f: f(half(2, 3), index(0, 1)),
    "multilabel_margin_loss": lambda f: f(half(1, 3), index(0, -1, -1)[None]),
    "multilabel_soft_margin_loss": lambda f: f(half(2, 3), half(2, 3)),
    "mv": lambda f: f(single(3, 3), single(3)),
    "nll_loss": lambda f: f(half(2, 3), index(0, 1)),
    "prelu": lambda f: f(single(3, 3), single(1)),
    "renorm": lambda f: f(half(3, 3), 2, 0, 1.0),
    "soft_margin_loss": lambda f: f(half(2), index(1, -1)),
    "triplet_margin_loss": lambda f: f(half(2, 3), half(2, 3), half(2, 3)),
}
COMPARISONS = "eq equal ge gt le lt ne __eq__ __ge__ __gt__ __le__ __lt__ __ne__"
IN_PLACE = "__iadd__ __isub__ __imul__ __itruediv__"
LISTED = [
    (module, kind, name)
    for module in (lists.torch_overrides, lists.functional_overrides, lists.tensor_overrides)
    for kind in ("FP16_FUNCS", "FP32_FUNCS", "CASTS", "SEQUENCE_CASTS")
    for name in getattr(module, kind, [])
    if name not in COMPARISONS.split() + IN_PLACE.split()
]


@DEVICES
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_listed_function_runs_in_the_dtype_of_its_list(device):
    single.device = device
    initialized(device, opt_level="O1")
    wrong = []
    for module, kind, name in LISTED:
        result = CALLS[name](getattr(module.MODULE, name)).dtype
        if result != (torch.float16 if kind == "FP16_FUNCS" else torch.float32):
            wrong.append((module.MODULE.__name__, kind, name, result))
    assert not wrong


@DEVICES
def test_comparisons_and_operators_in_place_take_mixed_dtypes(device):
    single.device = device
    initialized(device, opt_level="O1")
    assert half(3).ne(half(3).float() + 1).all() and (half(3) < single(3) + 1).all()
    value = half(3)
    value += single(3)
    assert value.dtype == torch.float16


@DEVICES
def test_float32_functions_compute_in_float32(device):
    single.device = device
    initialized(device, opt_level="O1")
    logits, target = half(4, 8) * 9, index(0, 1, 2, 3)
    torch.testing.assert_close(functional.cross_entropy(logits, target), functional.cross_entropy(logits.float(), target))
    assert torch.full((70000,), 1.0).half().to(device).sum().item() == 70000


@DEVICES
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell", "MultiheadAttention"])
def test_recurrent_layers_and_attention(device, kind):
    single.device = device
    layer = getattr(torch.nn, kind)(4, 4 if kind != "MultiheadAttention" else 2).to(device)
    x = single(3, 4) if kind.endswith("Cell") else single(2, 3, 4)
    args = (x, x, x) if kind == "MultiheadAttention" else (x,)
    expected = layer(*args)
    amp.initialize(layer, opt_level="O1", verbosity=0)
    for given in (args, tuple(arg.half() for arg in args)):
        result = layer(*given)
        first = result[0] if isinstance(result, tuple) else result
        torch.testing.assert_close(first.float(), expected[0] if isinstance(expected, tuple) else expected, rtol=1e-2, atol=1e-2)
        first.float().sum().backward()
    assert all(param.grad is not None and param.grad.dtype == torch.float32 for param in layer.parameters())


@DEVICES
def test_binary_cross_entropy_needs_float32(device):
    single.device = device
    initialized(device, opt_level="O1")
    assert functional.binary_cross_entropy(single(3), single(3)).dtype == torch.float32
    with pytest.raises(NotImplementedError, match="BCEWithLogitsLoss"):
        functional.binary_cross_entropy(half(3), single(3))


@DEVICES
def test_registered_functions(device):
    single.device = device
    amp.register_float_function(torch, "sigmoid")
    amp.register_half_function(torch, "tanh")
    amp.register_promote_function(torch, "maximum")
    initialized(device, opt_level="O1")
    assert torch.sigmoid(half(3)).dtype == torch.float32
    assert torch.tanh(single(3)).dtype == torch.float16
    assert torch.maximum(half(3), half(3)).dtype == torch.float16
    assert torch.maximum(half(3), single(3)).dtype == torch.float32
    amp.register_half_function(torch, "atan")
    assert torch.atan(single(3)).dtype == torch.float16
    with pytest.raises(ValueError, match="has no function 'sigmoide' to register"):
        amp.register_half_function(torch, "sigmoide")


@DEVICES
def test_user_cast_preferred_leaves_out_the_cast_of_the_list(device):
    single.device = device
    a, b = single(3, 3) + 1e-5, single(3, 3)
    for preferred in (True, False):
        amp.register_float_function(torch, "mm")
        initialized(device, opt_level="O1", user_cast_preferred=preferred)
        with amp.disable_casts():
            expected = torch.mm(a, b) if preferred else torch.mm(a.half().float(), b.half().float())
        assert torch.mm(a, b).dtype == torch.float32
        assert torch.mm(a, b).equal(expected)
        amp.uninitialize()
        amp.amp.REGISTERED.clear()


@DEVICES
def test_decorated_functions(device):
    single.device = device

    @amp.half_function
    def halved(x, *, pair):
        return x, pair

    @amp.float_function
    def widened(x):
        return x

    @amp.promote_function
    def promoted(x, y):
        return x, y

    assert halved(single(2), pair=[single(1)])[0].dtype == torch.float32
    initialized(device, opt_level="O1")
    x, (y, n) = halved(single(2), pair=[single(1), 3])
    assert (x.dtype, y.dtype, n) == (torch.float16, torch.float16, 3)
    assert widened(half(2)).dtype == torch.float32
    assert [t.dtype for t in promoted(half(1), single(1))] == [torch.float32] * 2
    with amp.disable_casts():
        assert halved(single(2), pair=[])[0].dtype == torch.float32


@DEVICES
def test_changed_lists_change_the_casts(device, monkeypatch):
    single.device = device
    module = lists.functional_overrides
    monkeypatch.setattr(module, "FP32_FUNCS", [name for name in module.FP32_FUNCS if name != "softmax"])
    monkeypatch.setattr(lists.torch_overrides, "FP16_FUNCS", [*lists.torch_overrides.FP16_FUNCS, "tanh"])
    monkeypatch.setattr(lists.torch_overrides, "FP32_FUNCS", [*lists.torch_overrides.FP32_FUNCS, "sigmoid"])
    initialized(device, opt_level="O1")
    assert functional.softmax(half(3), 0).dtype == torch.float16
    assert torch.tanh(single(3)).dtype == torch.float16
    assert torch.sigmoid(half(3)).dtype == torch.float32


@DEVICES
def test_torch_amp_decides_in_its_own_regions(device):
    single.device = device
    initialized(device, opt_level="O1")
    a = single(3, 3)
    with torch.autocast(device, enabled=False):
        assert (a @ a).dtype == torch.float32 and torch.mv(a, a[0]).dtype == torch.float32
    with torch.autocast(device, dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        with amp.disable_casts():
            assert (a @ a).dtype == torch.float32
        assert (a @ a).dtype == torch.bfloat16
    assert (a @ a).dtype == torch.float16
    with amp.disable_casts():
        assert (a @ a).dtype == torch.float32
    with pytest.raises(ZeroDivisionError), amp.disable_casts():
        1 / 0  # noqa: B018
    assert (a @ a).dtype == torch.float16


def test_tensors_of_other_devices_are_not_cast():
    initialized("npu", opt_level="O1")
    a = torch.ones(2, 2)
    assert (a @ a).dtype == torch.float32 and (a.npu() @ a.npu()).dtype == torch.float16


def test_a_grad_scaler_works_beside_o1():
    model, optimizer = initialized(opt_level="O1")
    other = net()
    its = sgd(other)
    scaler = torch.amp.GradScaler("npu", init_scale=128)
    x, y = batch()
    for _ in range(2):
        scaler.scale(functional.cross_entropy(other(x), y)).backward()
        scaler.step(its)
        scaler.update()
        its.zero_grad()
    loss = backward(model, optimizer, x, y)
    optimizer.step()
    assert scaler.get_scale() == 128 and loss > 0


@DEVICES
def test_backward_passes_have_the_dtypes_of_the_forward_pass(device):
    single.device = device
    initialized(device, opt_level="O1")
    a = (single(3, 3) + 1e-5).requires_grad_()
    with amp.disable_casts():
        out = a @ a
    out.sum().backward()
    with amp.disable_casts():
        ones = torch.ones_like(a)
        assert a.grad.equal(ones @ a.detach().T + a.detach().T @ ones)


@DEVICES
def test_python_functions_of_autograd_are_cast_in_both_passes(device):
    single.device = device

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x @ w

        @staticmethod
        def backward(ctx, grad):
            x, w = ctx.saved_tensors
            return grad @ w.T, x.T @ grad

    initialized(device, opt_level="O1")
    x, w = half(3, 3).requires_grad_(), single(3, 3).requires_grad_()
    Product.apply(x, w).float().sum().backward()
    assert (x.grad.dtype, w.grad.dtype) == (torch.float16, torch.float32)


def test_checkpointed_layers_are_cast_again():
    model, _optimizer = initialized(opt_level="O1")
    x, y = batch()
    for reentrant in (False, True):
        x.requires_grad_()
        out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant)
        functional.cross_entropy(out, y).backward()
        assert model.fc.weight.grad.isfinite().all() and model.conv_dtype == torch.float16


def test_other_threads_are_cast_inside_the_model():
    model, _ = initialized(opt_level="O1")
    found = []
    thread = threading.Thread(target=lambda: found.append(model(batch()[0]).dtype))
    thread.start()
    thread.join()
    assert found == [torch.float16]


def test_weights_are_cast_once_per_call_and_never_stale():
    layer = torch.nn.Linear(4, 4, bias=False).npu()
    twice = torch.nn.Sequential(layer, layer)
    amp.initialize(twice, opt_level="O1", verbosity=0)
    x = torch.eye(4).npu()
    with torch.no_grad():
        before = twice(x)
    out = twice(x)
    assert out.equal(before) and out.requires_grad
    with torch.no_grad():
        layer.weight.zero_()
    assert twice(x).abs().sum() == 0 and layer(x).abs().sum() == 0


def test_every_list_has_a_call():
    assert not [name for _, _, name in LISTED if name not in CALLS]
    assert not CALLS.keys() - set(chain.from_iterable(LISTED))


def test_functions_of_an_object_without_a_hash_can_be_registered():
    owner = types.SimpleNamespace(add=lambda one, other: one + other)
    amp.register_half_function(owner, "add")
    model = torch.nn.Linear(2, 2).npu()
    amp.initialize(model, opt_level="O1", verbosity=0)
    one = torch.ones(2, device="npu")
    assert owner.add(one, other=one).dtype == torch.float16
    amp.uninitialize()
    assert owner.add(one, other=one).dtype == torch.float32


class Doubled(torch.autograd.Function):
    """Notes whether the casts are on in its backward pass."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Doubled.is_cast = torch.is_autocast_enabled(grad.device.type)
        return grad * 2


def gradient_pass(grad):
    with torch.enable_grad():
        x = torch.ones(2, device=grad.device, requires_grad=True)
        torch.autograd.grad(x.square().sum(), x)


def decorated_call(grad):
    amp.half_function(torch.abs)(grad)


def model_call(grad):
    model_call.model(batch(grad.device.type)[0])


@DEVICES
@pytest.mark.parametrize("call", [gradient_pass, decorated_call, model_call])
def test_calls_in_a_hook_leave_the_casts_of_a_backward_pass(device, call):
    model_call.model, _ = initialized(device, opt_level="O1")
    layer = torch.nn.Linear(8, 8).to(device)
    x = (torch.ones(4, 8) / 3).to(device).requires_grad_()
    found = []
    for hook in (None, call):
        with amp.disable_casts():
            out = layer(Doubled.apply(x))
        if hook is not None:
            out.register_hook(lambda grad, hook=hook: hook(grad))
        layer.zero_grad()
        out.square().sum().backward()
        found.append([param.grad.cpu() for param in layer.parameters()])
        assert Doubled.is_cast
    assert all(one.equal(other) for one, other in zip(*found, strict=True))
