"""The overflow flag of a saturating device (INF_NAN_MODE_ENABLE=0): operators set it, GradScaler reads and clears it, and loss
scaling skips the same steps as on a device with infinity."""

import json
import textwrap

import pytest

SATURATION = {"INF_NAN_MODE_ENABLE": "0", "INF_NAN_MODE_FORCE_DISABLE": "1"}


def result(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FAMILIES = """
import json, torch, torch_npu
F = torch.nn.functional

def half(*values):
    return torch.tensor(values).half().npu()

def flagged(compute):
    torch.npu.clear_npu_overflow_flag()
    results = compute()
    results = results if isinstance(results, (list, tuple)) else [results]
    finite = all(bool(x.cpu().isfinite().all()) for x in results if x is not None and x.is_floating_point())
    return [torch.npu.get_npu_overflow_flag(), finite]

big = half(60000.0, -60000.0, 1.0)
wide = torch.full((4,), 3e38).npu()
matrix = torch.full((2, 2), 300.0).half().npu()
image = torch.full((1, 1, 3, 3), 300.0).half().npu()
tiny = half(1.0, 2.0, 3.0)
mask = torch.tensor([float("-inf"), 0.0, 0.0])
leaf = half(300.0, 1.0, 1.0).requires_grad_()

overflows = {
    "mul by a number": lambda: big * 2,
    "add": lambda: big + big,
    "in place": lambda: big.clone().mul_(2),
    "bfloat16": lambda: torch.full((2,), 3e38).bfloat16().npu() * 10,
    "float32": lambda: wide * 10,
    "exp": lambda: half(20.0).exp(),
    "log of zero": lambda: half(0.0).log(),
    "division by zero": lambda: half(1.0) / half(0.0),
    "not a number": lambda: half(-1.0).sqrt(),
    "sum": lambda: big.abs().sum(),
    "sum of float32": lambda: wide.sum(),
    "cumsum": lambda: big.abs().cumsum(0),
    "norm": lambda: big.norm(),
    "prod": lambda: big.prod(),
    "variance": lambda: big.var(),
    "mm": lambda: matrix @ matrix,
    "bmm": lambda: torch.bmm(matrix[None], matrix[None]),
    "linear": lambda: F.linear(matrix, matrix),
    "convolution": lambda: F.conv2d(image, image),
    "cast": lambda: torch.tensor([1e6]).npu().half(),
    "cast of copy_": lambda: half(0.0).copy_(torch.tensor([1e6]).npu()),
    "layer norm": lambda: F.layer_norm(tiny, (3,), weight=half(6e4, 6e4, 6e4)),
    "backward": lambda: torch.autograd.grad(leaf.square(), leaf, half(60000.0, 0.0, 0.0)),
    "lerp": lambda: torch.lerp(-big, big, 2.0),
    "foreach": lambda: torch._foreach_mul([big, tiny], 2.0),
    "index_add": lambda: big.clone().index_add_(0, torch.tensor([0]).npu(), half(60000.0)),
}
does_not = {
    "small numbers": lambda: tiny * 2,
    "softmax": lambda: big.softmax(0),
    "softmax of a mask": lambda: (tiny + mask.half().npu()).softmax(0),
    "masked_fill with -inf": lambda: tiny.masked_fill(tiny > 1, float("-inf")).softmax(0),
    "float32 mask": lambda: (tiny.float() + mask.npu()).softmax(0),
    "cast of a mask": lambda: mask.npu().half() + 1,
    "max": lambda: big.max(),
    "norm of infinite order": lambda: big.norm(p=float("inf")),
    "sort": lambda: list(torch.sort(big))[:1],
    "integers": lambda: torch.tensor([2**30]).npu() * 8,
}
moves = {
    "to the device": lambda: mask.half().npu(),
    "clone": lambda: mask.npu().clone(),
    "strided copy": lambda: mask.repeat(2).npu()[::2].contiguous(),
    "fill": lambda: tiny.clone().fill_(float("inf")),
    "full": lambda: torch.full((2,), float("nan"), device="npu"),
    "setitem": lambda: tiny.clone().__setitem__(0, float("inf")) or tiny,
}
found = {kind: {name: flagged(f) for name, f in cases.items()} for kind, cases in
         (("overflows", overflows), ("does not", does_not), ("moves", moves))}
found["seen"] = [torch.full((2,), float("inf"), device="npu").isinf().tolist(), mask.npu().tolist()[0] == float("-inf")]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def families(child):
    return result(child(FAMILIES, **SATURATION))


def test_families_of_operators_set_the_flag_and_saturate(families):
    wrong = {name: found for name, found in families["overflows"].items() if found != [True, True]}
    assert not wrong


def test_results_that_fit_set_no_flag(families):
    wrong = {name: found for name, found in families["does not"].items() if found != [False, True]}
    assert not wrong


def test_copies_and_fills_keep_infinity_and_set_no_flag(families):
    assert not [name for name, (flag, _) in families["moves"].items() if flag]
    assert families["seen"] == [[True, True], True]


def test_the_flag_belongs_to_one_device_and_follows_stream_order(child):
    program = """
    import json, torch, torch_npu
    def flags():
        found = []
        for index in range(2):
            with torch.npu.device(index):
                found.append(torch.npu.get_npu_overflow_flag())
        return found
    half = [torch.tensor([60000.0]).half().to(f"npu:{i}") for i in range(2)]
    found = [flags()]
    half[1] * 2
    found.append(flags())
    torch.npu.clear_npu_overflow_flag()
    found.append(flags())
    with torch.npu.device(1):
        torch.npu.clear_npu_overflow_flag()
    found.append(flags())
    # All of this is queued behind a task that takes 50 ms: what is read is what held at that place of the stream.
    torch_npu._C._npu_sleep(50_000_000)
    empty = torch.zeros(8, device="npu")
    read = [torch_npu.npu_get_float_status(empty)]
    half[0] * 2
    read.append(torch_npu.npu_get_float_status(empty))
    torch_npu.npu_clear_float_status(empty)
    read.append(torch_npu.npu_get_float_status(empty))
    print(json.dumps([found, [status.tolist() for status in read], str(read[0].dtype)]))
    """
    found, read, dtype = result(child(program, **SATURATION))
    assert found == [[False, False], [False, True], [False, True], [False, False]]
    assert read == [[0] * 8, [1] + [0] * 7, [0] * 8]
    assert dtype == "torch.int32"


def test_older_chips_write_the_status_into_their_argument(child):
    program = """
    import torch, torch_npu
    (torch.tensor([65504.0]).half().npu() + 100).cpu()
    status = torch_npu.npu_alloc_float_status(torch.zeros(8).npu())
    result = torch_npu.npu_get_float_status(status)
    print(status.dtype, status.cpu()[0].item(), result.cpu()[0].item())
    print(torch_npu.npu_clear_float_status(status).tolist(), torch.npu.get_npu_overflow_flag())
    """
    done = child(program, SOFTNPU_SOC_NAME="Ascend910A", SOFTNPU_CHIP_LIMITS="1")
    assert done.stdout == f"torch.float32 1.0 1.0\n{[0.0] * 8} False\n", done.stderr


def test_wrong_arguments_of_the_status_are_refused():
    import torch
    import torch_npu

    with pytest.raises(ValueError, match="mode is 0 or 1, not 2"):
        torch_npu.npu_get_float_status(torch.zeros(8, device="npu"), 2)
    with pytest.raises(ValueError, match="has 8 elements, not 3"):
        torch_npu.npu_clear_float_status(torch.zeros(3, device="npu"))
    with pytest.raises(ValueError, match="is on an npu, not on cpu"):
        torch_npu.npu_get_float_status(torch.zeros(8))


def test_the_flag_stays_clear_if_overflows_are_infinite():
    import torch
    import torch_npu

    assert (torch.tensor([60000.0]).half().npu() * 2).isinf().item()
    assert torch_npu.npu_get_float_status(torch.zeros(8, device="npu")).tolist() == [0] * 8


TRAINING = """
import json, sys, torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.first = torch.nn.Linear(16, 16)
        self.second = torch.nn.Linear(16, 1)
    def forward(self, x):
        x = self.conv(x).relu().flatten(1).unflatten(1, (4, 4)).flatten(1)
        return self.second(self.first(x).relu())

def train(device, make_scaler, fused=False, steps=12):
    model = Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=fused)
    scaler = make_scaler()
    data = torch.randn(steps, 4, 1, 4, 4, generator=torch.Generator().manual_seed(1)).to(device)
    scales, moved = [], []
    for step in range(steps):
        before = [p.detach().clone() for p in model.parameters()]
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            # Two batches in the middle overflow in the forward pass by themselves.
            loss = model(data[step] * (1e5 if step in (6, 7) else 1.0)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not all(map(torch.equal, before, model.parameters())))
    return [p.detach().cpu().tolist() for p in model.parameters()], scales, moved

options = dict(init_scale=2.0**22, growth_interval=3)
runs = {
    "cpu": train("cpu", lambda: torch.amp.GradScaler("cpu", **options)),
    "torch": train("npu", lambda: torch.amp.GradScaler("npu", **options)),
    "npu": train("npu", lambda: torch.npu.amp.GradScaler(**options)),
    "fused": train("npu", lambda: torch.npu.amp.GradScaler(**options), fused=True),
}
print(json.dumps([torch.npu.utils.is_support_inf_nan(), runs]))
"""


@pytest.mark.parametrize("saturates", [False, True])
def test_training_that_overflows_skips_the_steps_that_the_cpu_skips(child, saturates):
    import torch

    supported, runs = result(child(TRAINING, **(SATURATION if saturates else {})))
    assert supported is not saturates
    weights, scales, moved = runs.pop("cpu")
    assert moved.count(False) >= 4 and moved.count(True) >= 4
    for name, (our_weights, our_scales, our_moved) in runs.items():
        assert (our_scales, our_moved) == (scales, moved), name
        for ours, expected in zip(our_weights, weights, strict=True):
            torch.testing.assert_close(torch.tensor(ours), torch.tensor(expected), rtol=2e-3, atol=2e-4, msg=name)


def test_chip_limits_make_float16_saturate_and_the_scaler_notice(child):
    program = """
    import torch
    print(torch.npu.utils.is_support_inf_nan())
    weight = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for scaler in (torch.amp.GradScaler("npu", init_scale=2.0**20), torch.npu.amp.GradScaler(init_scale=2.0**20)):
        optimizer.zero_grad()
        scaler.scale(weight.half().sum().float()).backward()
        scaler.step(optimizer)
        scaler.update()
        print(weight.tolist(), scaler.get_scale() == 2.0**19)
    """
    done = child(program, SOFTNPU_CHIP_LIMITS="1")
    assert done.stdout == "False\n[1.0, 1.0] True\n[1.0, 1.0] True\n", done.stderr


def test_the_scaler_reads_and_clears_the_flag_of_every_device(child):
    program = """
    import json, torch
    weights = [torch.ones(2, device=f"npu:{i}", requires_grad=True) for i in range(2)]
    optimizer = torch.optim.SGD(weights, lr=0.5)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    moved = []
    for size in (1.0, 1e5, 1.0):
        optimizer.zero_grad()
        far = weights[1].half() * size
        scaler.scale(weights[0].sum() + far.float().sum().to("npu:0")).backward()
        before = weights[0].tolist()
        scaler.step(optimizer)
        scaler.update()
        moved.append(weights[0].tolist() != before)
    print(json.dumps(moved))
    """
    assert result(child(program, **SATURATION)) == [True, False, True]


SCALERS = """
import json, torch
def scalers():
    yield torch.amp.GradScaler("npu", init_scale=1024.0)
    yield torch.npu.amp.GradScaler(init_scale=1024.0)
def moves(scaler, losses, given=None):
    weight = torch.ones(2, device="npu:0", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    found = []
    for loss in losses:
        optimizer.zero_grad()
        scaler.scale(loss(weight)).backward()
        before = weight.tolist()
        scaler.step(optimizer)
        scaler.update(given)
        found.append(weight.tolist() != before)
    return found
usual = lambda weight: weight.sum()
"""


def test_an_overflow_on_a_device_without_parameters_counts(child):
    program = """
    there = lambda weight: (weight.to("npu:1").half() * 1000).sum().float().to("npu:0")
    print(json.dumps([moves(scaler, (usual, there, usual)) for scaler in scalers()]))
    """
    assert result(child(SCALERS + textwrap.dedent(program), **SATURATION)) == [[True, False, True]] * 2


def test_an_overflow_of_the_forward_pass_counts(child):
    program = """
    def forward(weight):
        large = weight.half() + 60000
        return ((large + large).float() * 1e-9).sum() + weight.sum()
    print(json.dumps([moves(scaler, (usual, forward, usual)) for scaler in scalers()]))
    """
    assert result(child(SCALERS + textwrap.dedent(program), **SATURATION)) == [[True, False, True]] * 2


def test_an_overflow_is_cleared_if_a_new_scale_is_given(child):
    program = """
    far = lambda weight: (weight.half() * 1e5).float().sum()
    print(json.dumps([moves(scaler, (usual, far, usual), given=4.0) for scaler in scalers()]))
    """
    assert result(child(SCALERS + textwrap.dedent(program), **SATURATION)) == [[True, False, True]] * 2


def test_logarithms_of_zero_in_ctc_loss_set_no_flag(child):
    program = """
    probabilities = torch.randn(12, 2, 5, device="npu").log_softmax(-1).requires_grad_()
    targets, lengths = torch.tensor([[1, 2, 3], [4, 1, 1]], device="npu"), torch.tensor([12, 12])
    torch.npu.clear_npu_overflow_flag()
    torch.nn.functional.ctc_loss(probabilities, targets, lengths, torch.tensor([3, 2])).backward()
    print(json.dumps(torch.npu.get_npu_overflow_flag()))
    """
    assert result(child(SCALERS + textwrap.dedent(program), **SATURATION)) is False
