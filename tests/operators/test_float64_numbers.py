"""Number arguments keep float64 precision on float64 tensors, although some device functions take them in float32."""

import pytest
import torch
import torch.nn.functional as F

from tests.compare import on_both

N = 20_000
TENTH = 0.1  # not a float32


def pairs(device, dtype=torch.float64):
    numbers = torch.Generator().manual_seed(1)
    x, y = (torch.randn(4, 5, generator=numbers, dtype=torch.float64).to(device, dtype) for _ in range(2))
    return x.requires_grad_(), y


def differentiated(compute):
    def run(device):
        x, y = pairs(device)
        result = compute(x, y)
        return result, torch.autograd.grad(result.sum(), x)

    return run


CALLS = {
    "smooth_l1_loss": lambda x, y: F.smooth_l1_loss(x, y, beta=TENTH),
    "smooth_l1_loss of elements": lambda x, y: F.smooth_l1_loss(x, y, beta=TENTH, reduction="none"),
    "huber_loss": lambda x, y: F.huber_loss(x, y, delta=TENTH),
    "cdist": lambda x, y: torch.cdist(x, y, p=1.1),
    "pdist": lambda x, y: F.pdist(x, p=1.1),
    "multi_margin_loss": lambda x, y: F.multi_margin_loss(x, torch.zeros(4, dtype=torch.int64, device=x.device), margin=TENTH),
    "addmm": lambda x, y: torch.addmm(x, x, y.t() @ y, beta=TENTH, alpha=1.1),
    "add": lambda x, y: torch.add(x, y, alpha=TENTH),
    "threshold": lambda x, y: F.threshold(x, TENTH, 1.1),
    "hardshrink": lambda x, y: F.hardshrink(x, TENTH) * TENTH,
    "softshrink": lambda x, y: F.softshrink(x, TENTH),
    "softplus": lambda x, y: F.softplus(x, 1.1, TENTH),
    "leaky_relu": lambda x, y: F.leaky_relu(x, TENTH),
    "elu": lambda x, y: F.elu(x, 1.1),
    "celu": lambda x, y: F.celu(x, 1.1),
    "hardtanh": lambda x, y: F.hardtanh(x, -TENTH, TENTH),
    "clamp": lambda x, y: x.clamp(-TENTH, TENTH),
    "nan_to_num": lambda x, y: torch.nan_to_num(x / x.detach().gt(0), TENTH, 1.1, -1.1),
    "logit": lambda x, y: torch.logit(x, TENTH),
    "pow": lambda x, y: x.abs().pow(1.1),
    "norm": lambda x, y: x.norm(1.1),
    "renorm": lambda x, y: torch.renorm(x, 1.1, 0, TENTH),
    "layer_norm": lambda x, y: F.layer_norm(x, (5,), eps=TENTH),
    "batch_norm": lambda x, y: F.batch_norm(x, None, None, training=True, eps=TENTH),
    "group_norm": lambda x, y: F.group_norm(x, 5, eps=TENTH),
    "rms_norm": lambda x, y: F.rms_norm(x, (5,), eps=TENTH),
    "lerp": lambda x, y: torch.lerp(x, y, TENTH),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=TENTH),
    "rrelu": lambda x, y: F.rrelu(x, TENTH, TENTH),
    "pad": lambda x, y: F.pad(x, (1, 1), value=TENTH),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_number_keeps_its_precision_on_float64(name):
    on_both(differentiated(CALLS[name]), rtol=1e-12, atol=1e-13)


def test_a_momentum_and_an_epsilon():
    def run(device):
        x = pairs(device)[0].detach()
        mean, var = torch.zeros(2, 5, dtype=torch.float64, device=device)
        F.batch_norm(x, mean, var, training=True, momentum=TENTH)
        return mean, var

    on_both(run, rtol=1e-12, atol=1e-13)


def normals(**options):
    return {
        "normal_": lambda mean, std: torch.empty(N, **options).normal_(mean, std),
        "normal": lambda mean, std: torch.normal(mean, std, (N,), **options),
        "mean as a tensor": lambda mean, std: torch.normal(torch.full((N,), mean, **options), std),
        "std as a tensor": lambda mean, std: torch.normal(mean, torch.full((N,), std, **options)),
        "both": lambda mean, std: torch.normal(torch.full((N,), mean, **options), torch.full((N,), std, **options)),
        "out": lambda mean, std: torch.normal(mean, torch.full((N,), std, **options), out=torch.empty(0, **options)),
        "slice": lambda mean, std: torch.empty(N, 2, **options)[:, 0].normal_(mean, std),
    }


NORMALS = normals(device="npu", dtype=torch.float64)


@pytest.mark.parametrize("name", NORMALS)
def test_means_and_deviations(name):
    draw = NORMALS[name]
    assert abs(draw(TENTH, 1e-12).mean().item() - TENTH) < 1e-13
    assert draw(0.0, 1e60).std().item() == pytest.approx(1e60, rel=0.05)
    assert draw(0.0, 1e-60).std().item() == pytest.approx(1e-60, rel=0.05)
    torch.manual_seed(3)
    scaled = draw(TENTH, 1.1)
    torch.manual_seed(3)
    assert torch.equal(scaled, draw(0.0, 1.0).mul_(1.1).add_(TENTH))


def test_the_deviation_of_complex128():
    drawn = torch.empty(N, device="npu", dtype=torch.complex128).normal_(0, 1e-60)
    assert torch.view_as_real(drawn).std().item() * 2**0.5 == pytest.approx(1e-60, rel=0.05)


def test_parameters_of_other_distributions():
    x = torch.empty(N, device="npu", dtype=torch.float64)
    assert x.exponential_(1e60).mean().item() == pytest.approx(1e-60, rel=0.05)
    assert x.cauchy_(TENTH, 1e-60).median().item() == TENTH
    assert x.log_normal_(TENTH, 1e-12).log_().mean().item() == pytest.approx(TENTH, rel=1e-12)
    assert x.geometric_(1e-9).mean().item() == pytest.approx(1e9, rel=0.05)
    assert x.uniform_(TENTH, TENTH + 1e-12).mean().item() == pytest.approx(TENTH, rel=1e-11)
    assert set(F.dropout(torch.ones_like(x), TENTH).unique().tolist()) == {0, 1 / (1 - TENTH)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.uint8])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_a_scale_chooses_the_elements_that_it_chooses_on_the_cpu(dtype, dims, mode):
    for size in (4, 12, 39):
        x = torch.arange(size).to(dtype).view(1, 1, *[1] * (dims - 1), size)
        for scale in (1.1, 1.3, 2.7, 4.9, 5.8, 0.3):
            factors = (*[1.0] * (dims - 1), scale)
            cpu, npu = (F.interpolate(y, scale_factor=factors, mode=mode) for y in (x, x.npu()))
            assert torch.equal(npu.cpu(), cpu), (size, scale)
