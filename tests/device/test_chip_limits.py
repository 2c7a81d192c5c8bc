"""SOFTNPU_CHIP_LIMITS=1 gives operators the limits of the chip. Without it they have none."""

import json

import pytest

PROGRAM = """
import json

import torch

torch.manual_seed(0)
a, b, bias = torch.randn(8, 16), torch.randn(16, 4), torch.randn(4) * 1000
found = {}

try:
    torch.ones(2).npu().double().float()
    torch.ones(1, dtype=torch.float64).npu().reciprocal()
    (torch.ones(2, dtype=torch.float64).npu() + 1).cpu()
    found["float64"] = "computed"
except RuntimeError as error:
    found["float64"] = str(error)
found["afterwards"] = (torch.ones(2).npu() + 1).tolist()

half = torch.tensor([60000.0, -60000.0, float("inf"), float("nan"), 1.0]).half().npu()
found["twice"] = (half * 2).tolist()
found["inplace"] = half.clone().mul_(2).tolist()
found["cast"] = torch.tensor([1e6, -1e6]).npu().half().tolist()
found["single"] = (torch.tensor([3e38]).npu() * 10).tolist()


def same(npu, cpu):
    return torch.equal(npu.cpu(), cpu) or bool((npu.cpu() - cpu).abs().max() < 1e-4)


def rounded(x):
    return x.half().float()


def judge(name, function, operands, addends=()):
    npu = function(*[x.npu() for x in (*operands, *addends)])
    exact = function(*operands, *addends)
    cube = function(*map(rounded, operands), *addends)
    found[name] = ["exact"] * same(npu, exact) + ["rounded"] * same(npu, cube)


judge("mm", torch.mm, (a, b))
judge("addmm", lambda x, y, z: torch.addmm(z, x, y), (a, b), (bias,))
judge("bmm", torch.bmm, (a[None], b[None]))
judge("linear", lambda x, y, z: torch.nn.functional.linear(x, y.t(), z), (a, b), (bias,))
judge("conv", torch.conv2d, (torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)), (bias,))
judge("mul", torch.mul, (a, a))
print(json.dumps(found))
"""
PRODUCTS = ("mm", "addmm", "bmm", "linear", "conv")


def run(child, value):
    done = child(PROGRAM, SOFTNPU_CHIP_LIMITS=value)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def limited(child):
    return run(child, "1")


@pytest.fixture(scope="module")
def free(child):
    return run(child, "0")


def test_float64_is_refused_with_the_name_of_the_switch(limited, free):
    assert "float64" in limited["float64"]
    assert "SOFTNPU_CHIP_LIMITS" in limited["float64"]
    assert limited["afterwards"] == [2.0, 2.0]
    assert free["float64"] == "computed"


def test_float16_saturates(limited, free):
    assert limited["twice"] == [65504.0, -65504.0, 65504.0, 0.0, 2.0]
    assert limited["inplace"] == limited["twice"]
    assert limited["cast"] == [65504.0, -65504.0]
    assert free["cast"] == [float("inf"), float("-inf")]
    assert free["twice"][:2] == [float("inf"), float("-inf")]


def test_float32_does_not_saturate(limited):
    assert limited["single"] == [float("inf")]


@pytest.mark.parametrize("name", PRODUCTS)
def test_operands_of_products_are_rounded_to_float16(limited, free, name):
    assert limited[name] == ["rounded"]
    assert free[name] == ["exact"]


def test_other_operators_are_exact(limited):
    assert limited["mul"] == ["exact"]


PROGRAMS = """
import io, json, torch, torch_npu
F = torch.nn.functional
failures = {}

def attempt(name, function):
    try:
        function()
        torch.npu.synchronize()
    except Exception as error:
        failures[name] = repr(error)[:300]

def printed(values, dtype):
    tensor = values.to(dtype)
    text = "".join(repr(tensor.npu()).split()).replace(",device='npu:0'", "")
    assert text == "".join(repr(tensor).split()), text

torch.manual_seed(0)
host = torch.randn(4, 8)
x, h = host.npu(), host.half().npu()
for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64,
              torch.bool, torch.complex64):
    for name, values in (("matrix", host * 1000), ("number", host[0, 0]), ("summary", host.repeat(300, 1)), ("empty", host[:0]),
                         ("not finite", torch.tensor([1.0, float("inf"), float("nan")]))):
        if dtype.is_floating_point or name != "not finite":
            attempt(f"print {name} {dtype}", lambda: printed(values, dtype))
attempt("print gradient", lambda: repr((x.clone().requires_grad_() * 2).sum()))
attempt("format", lambda: f"{x.mean():.3f}")

def train(optimizer, make_scaler=None, dtype=None, scheduler=None, clip=False, **options):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.GELU(), torch.nn.Dropout(0.1),
                                torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)).npu()
    optimizer = optimizer(model.parameters(), lr=0.01, **options)
    scheduler = scheduler(optimizer) if scheduler else None
    scaler = make_scaler() if make_scaler else torch.amp.GradScaler("npu", enabled=False)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("npu", dtype=dtype or torch.float16, enabled=dtype is not None):
            loss = F.cross_entropy(model(x), torch.tensor([0, 1, 2, 0]).npu())
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        if scheduler:
            scheduler.step()
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    file.seek(0)
    for owner, state in zip((model, optimizer), torch.load(file)):
        owner.load_state_dict(state)
    optimizer.step()
    assert torch.isfinite(loss).item()

optim = torch.optim
for name in ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "ASGD", "Adafactor"):
    for options in ({}, {"foreach": True}):
        attempt(f"{name} {options}", lambda: train(getattr(optim, name), **options))
for name in ("SGD", "Adam", "AdamW", "Adagrad"):
    attempt(f"fused {name}", lambda: train(getattr(optim, name), fused=True))
for make in (lambda: torch.amp.GradScaler("npu"), torch.npu.amp.GradScaler):
    for clip in (False, True):
        attempt(f"scaled {clip}", lambda: train(optim.Adam, make, torch.float16, clip=clip))
    attempt("scaled and fused", lambda: train(optim.Adam, make, torch.float16, fused=True))
attempt("bfloat16", lambda: train(optim.AdamW, None, torch.bfloat16, clip=True))
schedulers = optim.lr_scheduler
attempt("one cycle", lambda: train(optim.SGD, scheduler=lambda o: schedulers.OneCycleLR(o, 0.1, total_steps=9)))
attempt("cosine", lambda: train(optim.SGD, scheduler=lambda o: schedulers.CosineAnnealingLR(o, 9)))

positive = x.abs() + 1
eye = torch.eye(3).npu()
attempts = {
    "isclose": lambda: torch.isclose(x, x), "allclose": lambda: torch.allclose(x, x),
    "assert_close": lambda: torch.testing.assert_close(x, x.clone()),
    "assert_close of float16": lambda: torch.testing.assert_close(h, h.clone()),
    "moments": lambda: (x.mean(), x.std(), torch.var_mean(x, 1), x.norm(), x.median(), torch.quantile(x, 0.5)),
    "ranges": lambda: [f(0, 1, n, device="npu") for f, n in ((torch.linspace, 7), (torch.logspace, 7), (torch.arange, 0.1))],
    "windows": lambda: [getattr(torch, name + "_window")(8, device="npu") for name in
                        ("hann", "hamming", "blackman", "bartlett", "kaiser")],
    "stft": lambda: torch.stft(torch.randn(64).npu(), 16, window=torch.hann_window(16, device="npu"), return_complex=True),
    "dropout": lambda: (F.dropout(x), F.alpha_dropout(x, 0.5, True), F.feature_alpha_dropout(x, 0.5, True),
                        F.rrelu(x, training=True)),
    "random": lambda: (torch.rand(3, device="npu"), torch.randn(3, device="npu"), torch.randint(9, (3,), device="npu"),
                       torch.randperm(9, device="npu"), torch.bernoulli(x.sigmoid()), torch.multinomial(x.softmax(1), 2),
                       torch.normal(x, positive), x.clone().exponential_(), x.clone().geometric_(0.5), torch.poisson(positive)),
    "generator": lambda: torch.rand(3, device="npu", generator=torch.Generator("npu").manual_seed(3)),
    "generator state": lambda: torch.npu.set_rng_state(torch.npu.get_rng_state()),
    "distributions": lambda: (torch.distributions.Normal(x, positive).log_prob(x),
                              torch.distributions.Categorical(logits=x).sample(),
                              torch.distributions.Beta(positive, positive).rsample(),
                              torch.distributions.Dirichlet(positive).sample()),
    "histograms": lambda: (torch.histc(x), torch.histogram(x.flatten(), 5), torch.bincount(torch.tensor([1]).npu())),
    "decompositions": lambda: (torch.linalg.svd(x), torch.linalg.pinv(x), torch.linalg.matrix_rank(x), torch.linalg.inv(eye)),
    "foreach": lambda: (torch._foreach_addcdiv([x], [x], [x], [0.1]), torch._foreach_addcmul([h, h], [h, h], [h, h], [0.1, 0.2])),
    "numbers in float64": lambda: (x * torch.tensor(0.1, dtype=torch.float64).npu(), x + torch.tensor(2.0, dtype=torch.float64)),
    "reading a sum in float64": lambda: (x.sum().double() / 3).item(),
    "converting from float64": lambda: torch.ones(3, dtype=torch.float64).npu().float(),
    "attention": lambda: F.scaled_dot_product_attention(h[None], h[None], h[None], is_causal=True),
    "interpolation": lambda: F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear"),
    "recurrent": lambda: torch.nn.LSTM(8, 8).npu()(x[None]),
    "spectral norm": lambda: torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(8, 8)).npu()(x),
    "initialisers": lambda: (torch.nn.init.orthogonal_(torch.empty(8, 8, device="npu")),
                             torch.nn.init.trunc_normal_(torch.empty(8, device="npu"))),
    "metrics": lambda: ((x.argmax(1) == 0).float().mean().item(), F.cosine_similarity(x, x), torch.corrcoef(x)),
    "integers": lambda: (x.int() / 3, x.int().float().mean(), x.int() @ x.int().t()),
}
for name, function in attempts.items():
    attempt(name, function)

def product(inner):
    a = torch.randint(-128, 128, (3, inner), dtype=torch.int8)
    b = torch.randint(-128, 128, (inner, 5), dtype=torch.int8)
    a[0], b[:, 0] = -128, -128
    expected = a.long() @ b.long()
    found = torch_npu.npu_quant_matmul(a.npu(), b.npu(), torch.ones(5).npu(), output_dtype=torch.int32)
    assert torch.equal(found.cpu().long(), expected), (found, expected)

def convolution(channels, groups):
    a = torch.randint(-128, 128, (1, channels, 5, 5), dtype=torch.int8)
    b = torch.randint(-128, 128, (2 * groups, channels // groups, 3, 3), dtype=torch.int8)
    expected = F.conv2d(a.double(), b.double(), groups=groups).float()
    found = torch_npu.npu_quant_conv2d(a.npu(), b.npu(), torch.ones(2 * groups).npu(), groups=groups, output_dtype=torch.float32)
    assert torch.equal(found.cpu(), expected), (found, expected)

for inner in (1, 16, 1024, 1025, 5000):
    attempt(f"quantised product of {inner}", lambda: product(inner))
for channels, groups in ((2, 1), (300, 1), (600, 2)):
    attempt(f"quantised convolution of {channels} channels in {groups} groups", lambda: convolution(channels, groups))
w = torch.ones(2, 16, 8, dtype=torch.int8).npu()
a = torch.ones(4, 16, dtype=torch.int8).npu()
ends = torch.tensor([2, 4]).npu()
attempt("grouped product", lambda: torch_npu.npu_grouped_matmul([a], [w], scale=[torch.ones(2, 8).npu()],
    per_token_scale=[torch.ones(4).npu()], group_list=ends, split_item=3, group_type=0, output_dtype=torch.float16))
attempt("grouped product with swiglu", lambda: torch_npu.npu_grouped_matmul_swiglu_quant(
    a, w, ends, torch.ones(2, 8).npu(), torch.ones(4).npu()))
print(json.dumps(failures))
"""


def test_programs_in_float32_run_within_the_limits(child):
    done = child(PROGRAMS, SOFTNPU_CHIP_LIMITS="1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def test_the_same_programs_run_without_the_limits(child):
    done = child(PROGRAMS, SOFTNPU_CHIP_LIMITS="0")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
