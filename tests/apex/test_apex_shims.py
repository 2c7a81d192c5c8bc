"""The rest of apex: optimizers, norms, parallel, fp16_utils, multi_tensor_apply, mlp and contrib against torch."""

import importlib
import importlib.metadata

import apex
import pytest
import torch
import torch_npu
from apex import fp16_utils, optimizers
from apex.contrib import xentropy
from apex.mlp import MLP
from apex.multi_tensor_apply import amp_C, multi_tensor_applier
from apex.normalization import FusedLayerNorm, FusedRMSNorm, MixedFusedLayerNorm, MixedFusedRMSNorm, fused_layer_norm
from apex.parallel import LARC, SyncBatchNorm, convert_syncbn_model
from torch.nn import functional

from tests.apex.training import net
from tests.support import randn


def stepped(make, device="npu", steps=3):
    """Parameters after steps with given gradients."""
    params = [torch.nn.Parameter(randn(3, 4).to(device)), torch.nn.Parameter(randn(5, seed=1).to(device))]
    optimizer = make(params)
    for step in range(steps):
        for index, param in enumerate(params):
            param.grad = randn(*param.shape, seed=10 * step + index).to(device)
        optimizer.step()
        optimizer.zero_grad()
    return [param.detach().cpu() for param in params]


SAME = [
    (lambda p: optimizers.FusedAdam(p, weight_decay=0.1), lambda p: torch.optim.AdamW(p, weight_decay=0.1)),
    (
        lambda p: optimizers.FusedAdam(p, adam_w_mode=False, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=1e-3, weight_decay=0.1),
    ),
    (
        lambda p: optimizers.FusedSGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1),
    ),
    (lambda p: optimizers.FusedAdagrad(p), lambda p: torch.optim.Adagrad(p)),
    (lambda p: optimizers.Lamb(p, weight_decay=0.1), lambda p: optimizers.NpuFusedLamb(p, weight_decay=0.1)),
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_optimizers_that_torch_has(number):
    mine, torchs = SAME[number]
    torch.testing.assert_close(stepped(mine), stepped(torchs), rtol=1e-5, atol=1e-6)


def lamb_by_formula(param, grads, lr, beta1, beta2, eps, decay, norm):
    m = v = torch.zeros_like(param)
    for step, grad in enumerate(grads, 1):
        grad = grad / max(1.0, norm[step - 1])
        m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
        update = (m / (1 - beta1**step)) / ((v / (1 - beta2**step)).sqrt() + eps) + decay * param
        param = param - lr * (param.norm() / update.norm()) * update
    return param


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_fused_lamb_follows_its_formula(device):
    grads = [[randn(*shape, seed=10 * step + i).double() for i, shape in enumerate(((3, 4), (5,)))] for step in range(3)]
    norms = [torch.cat([grad.flatten() for grad in both]).norm().item() for both in grads]
    got = stepped(lambda p: optimizers.FusedLAMB(p, lr=0.1), device)
    for i, (shape, seed) in enumerate((((3, 4), 0), ((5,), 1))):
        start = randn(*shape, seed=seed).double()
        expected = lamb_by_formula(start, [both[i] for both in grads], 0.1, 0.9, 0.999, 1e-6, 0.01, norms)
        torch.testing.assert_close(got[i].double(), expected, rtol=1e-4, atol=1e-5)


def novograd_by_formula(param, grads, lr, beta1, beta2, eps, decay, inside):
    m, v = torch.zeros_like(param), None
    for step, grad in enumerate(grads, 1):
        norm = grad.norm()
        v = norm if v is None else (beta2 * v**2 + (1 - beta2) * norm**2).sqrt()
        denominator = v / (1 - beta2**step) ** 0.5 + eps
        if inside:
            m = beta1 * m + (1 - beta1) * (grad / denominator + decay * param)
            param = param - lr * m / (1 - beta1**step)
        else:
            m = beta1 * m + (1 - beta1) * grad
            param = param - lr * (m / (1 - beta1**step) / denominator + decay * param)
    return param


@pytest.mark.parametrize("inside", [False, True])
def test_fused_novograd_follows_its_formula(inside):
    got = stepped(lambda p: optimizers.FusedNovoGrad(p, lr=0.1, weight_decay=0.1, reg_inside_moment=inside))
    grads = [randn(3, 4, seed=10 * step).double() for step in range(3)]
    expected = novograd_by_formula(randn(3, 4).double(), grads, 0.1, 0.9, 0.999, 1e-8, 0.1, inside)
    torch.testing.assert_close(got[0].double(), expected, rtol=1e-4, atol=1e-5)


def test_options_that_are_not_offered_are_refused():
    param = [torch.nn.Parameter(torch.ones(2))]
    for call in (
        lambda: optimizers.FusedAdam(param, amsgrad=True),
        lambda: optimizers.FusedAdam(param, bias_correction=False),
        lambda: optimizers.FusedSGD(param, lr=0.1, wd_after_momentum=True),
        lambda: optimizers.FusedLAMB(param, amsgrad=True),
        lambda: optimizers.FusedNovoGrad(param, norm_type=1),
        lambda: optimizers.FusedMixedPrecisionLamb(param),
    ):
        with pytest.raises(RuntimeError, match=r"FusedAdam|FusedSGD|FusedLAMB|FusedNovoGrad|FusedMixedPrecisionLamb"):
            call()


def test_npu_fused_optimizers_are_those_of_torch_npu():
    for name in torch_npu.optim.__all__:
        assert getattr(optimizers, name) is getattr(torch_npu.optim, name)
    with pytest.raises(AttributeError, match="has no 'NpuFusedSgd'"):
        _ = optimizers.NpuFusedSgd


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_norms(device):
    x = randn(2, 4, 8).to(device)
    torch.testing.assert_close(FusedLayerNorm(8).to(device)(x), torch.nn.LayerNorm(8).to(device)(x))
    torch.testing.assert_close(FusedLayerNorm((4, 8), elementwise_affine=False)(x), functional.layer_norm(x, (4, 8)))
    torch.testing.assert_close(FusedRMSNorm(8).to(device)(x), torch.nn.RMSNorm(8, eps=1e-5).to(device)(x))
    torch.testing.assert_close(fused_layer_norm(x, 8), functional.layer_norm(x, (8,), eps=1e-6))
    assert FusedLayerNorm(8).to(device)(x.half()).dtype == torch.float16
    for mixed in (MixedFusedLayerNorm(8), MixedFusedRMSNorm(8)):
        assert mixed.to(device)(x.half()).dtype == torch.float32
    with pytest.raises(RuntimeError, match="needs weights"):
        MixedFusedLayerNorm(8, elementwise_affine=False)


def test_larc_scales_gradients_by_norms():
    def run(make):
        param = torch.nn.Parameter(randn(4, 3).npu())
        still = torch.nn.Parameter(torch.zeros(2).npu())
        optimizer = make(torch.optim.SGD([param, still], lr=0.5, weight_decay=0.1))
        param.grad, still.grad = randn(4, 3, seed=1).npu(), torch.ones(2).npu()
        optimizer.step()
        assert optimizer.param_groups[0]["weight_decay"] == 0.1
        return param.detach().cpu(), still.detach().cpu()

    param, grad = randn(4, 3), randn(4, 3, seed=1)
    rate = min(0.02 * param.norm() / (grad.norm() + 0.1 * param.norm() + 1e-8) / 0.5, torch.tensor(1.0))
    got, still = run(LARC)
    torch.testing.assert_close(got, param - 0.5 * rate * (grad + 0.1 * param), rtol=1e-5, atol=1e-6)
    assert still.tolist() == [-0.5, -0.5]


def test_convert_syncbn_model_keeps_weights_and_statistics():
    model = net("cpu")
    weight, mean = model.norm.weight, model.norm.running_mean
    model = convert_syncbn_model(model)
    assert isinstance(model.norm, SyncBatchNorm) and model.norm.weight is weight and model.norm.running_mean is mean
    model = model.eval().npu()
    assert model(randn(2, 3, 8, 8).npu()).shape == (2, 10)
    assert set(model.state_dict()) == set(net("cpu").state_dict())


def test_fp16_utils():
    model = fp16_utils.network_to_half(net())
    assert model[1].conv.weight.dtype == torch.float16 and model[1].norm.weight.dtype == torch.float32
    out = model(randn(2, 3, 8, 8).npu())
    params, master = fp16_utils.prep_param_lists(model)
    out.float().sum().backward()
    fp16_utils.model_grads_to_master_grads(params, master)
    assert all(m.dtype == torch.float32 for m in master)
    with torch.no_grad():
        master[0].fill_(2.0)
    fp16_utils.master_params_to_model_params(params, master)
    assert (params[0] == 2).all() and fp16_utils.to_python_float(torch.tensor(1.5)) == 1.5


def test_fp16_optimizer_trains_and_skips_overflows():
    model = fp16_utils.network_to_half(net())
    optimizer = fp16_utils.FP16_Optimizer(
        torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), dynamic_loss_scale=True, verbose=False
    )
    x, y = randn(16, 3, 8, 8).npu(), (torch.arange(16) % 10).npu()
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x).float(), y)
        optimizer.backward(loss * (float("inf") if step == 2 else 1))
        assert optimizer.overflow == (step == 2)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and losses[3] == losses[2] and optimizer.loss_scale == 2.0**15
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    assert optimizer.loss_scale == 2.0**15


def test_multi_tensor_apply():
    values = [randn(3).npu(), randn(2, 2, seed=1).npu()]
    out = [torch.empty_like(value) for value in values]
    flag = torch.zeros(1, dtype=torch.int32, device="npu")
    multi_tensor_applier(amp_C.multi_tensor_scale, flag, [values, out], 0.5)
    torch.testing.assert_close(out, [value * 0.5 for value in values])
    total, each = multi_tensor_applier(amp_C.multi_tensor_l2norm, flag, [values], True)
    torch.testing.assert_close(total[0], torch.cat([value.flatten() for value in values]).norm())
    torch.testing.assert_close(each, torch.stack([value.norm() for value in values]))
    multi_tensor_applier(amp_C.multi_tensor_axpby, flag, [values, values, out], 2.0, 3.0, 0)
    torch.testing.assert_close(out, [value * 5 for value in values])
    assert flag.item() == 0
    multi_tensor_applier(amp_C.multi_tensor_scale, flag, [[values[0] / 0], [out[0]]], 1.0)
    assert flag.item() == 1
    with pytest.raises(ImportError, match="multi_tensor_adam is a kernel of NVIDIA"):
        _ = amp_C.multi_tensor_adam


def test_mlp_and_xentropy():
    layer = MLP([4, 8, 2]).npu()
    x = randn(3, 4).npu()
    expected = functional.relu(functional.linear(functional.relu(functional.linear(x, *layer_of(layer, 0))), *layer_of(layer, 1)))
    torch.testing.assert_close(layer(x), expected)
    logits, labels = randn(4, 5).npu(), torch.tensor([0, 1, 2, 4]).npu()
    losses = xentropy.SoftmaxCrossEntropyLoss.apply(logits, labels, 0.1, 2)
    expected = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=0.1)
    expected[2] = 0
    torch.testing.assert_close(losses, expected)


def layer_of(mlp, index):
    return getattr(mlp, f"weight_{index}"), getattr(mlp, f"bias_{index}")


@pytest.mark.parametrize(
    "name", ["contrib.sparsity", "contrib.multihead_attn", "contrib.optimizers", "pyprof", "transformer", "RNN"]
)
def test_packages_that_are_not_offered_say_what_to_use(name):
    with pytest.raises(ImportError, match=f"apex.{name} is not offered for npu: use "):
        importlib.import_module(f"apex.{name}")


def test_the_version():
    assert apex.__version__ == "0.1+ascend"
