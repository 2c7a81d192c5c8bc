"""torch.autocast("npu"): PyTorch's lists of operators, and a network trained with it and a GradScaler against the CPU."""

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

# The first two exist on CUDA only. PyTorch's check splits the equation of einsum into characters.
NOT_HERE = ("cudnn_convolution", "cudnn_convolution_transpose", "einsum")


class Check(TestAutocast):
    """PyTorch's own check of one operator: dtype of the result, and equality with the same call on cast arguments."""

    def runTest(self):
        pass


@pytest.fixture(scope="module")
def lists():
    return AutocastTestLists(torch.device("npu"))


def run_all(calls, run_as, module=torch, dtype=torch.float16):
    check = Check()
    for call in calls:
        name, args, kwargs, result = *call[:2], {}, None
        for extra in call[2:]:
            kwargs, result = (extra, result) if isinstance(extra, dict) else (kwargs, extra)
        if name in NOT_HERE:
            continue
        check._run_autocast_outofplace(
            name, args, run_as, device="npu", out_type=result, module=module, add_kwargs=kwargs, amp_dtype=dtype
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_lower_precision(lists, dtype):
    run_all(lists.torch_fp16, dtype, dtype=dtype)
    run_all(lists.nn_fp16, dtype, torch._C._nn, dtype)
    run_all(lists.linalg_fp16, dtype, torch._C._linalg, dtype)
    run_all(lists.methods_fp16, dtype, None, dtype)


def test_float32(lists):
    run_all(lists.torch_fp32, torch.float32)
    run_all(lists.nn_fp32, torch.float32, torch._C._nn)
    run_all(lists.methods_fp32, torch.float32, None)


def test_promotion_to_the_widest_type(lists):
    run_all(lists.torch_need_autocast_promote, torch.float32)


def test_promotion_that_operators_do_themselves(lists):
    for name, args, result in lists.torch_expect_builtin_promote:
        with torch.autocast("npu"):
            out = getattr(torch, name)(*args)
        assert not torch.is_tensor(out) or out.dtype == result, name


def test_binary_cross_entropy_is_refused(lists):
    for name, args, module in lists.banned:
        with torch.autocast("npu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            getattr(module, name)(*args)


def test_einsum():
    x = torch.randn(2, 3, device="npu")
    with torch.autocast("npu"):
        out = torch.einsum("ij,kj->ik", x, x)
    assert out.equal(x.half() @ x.half().T)


def test_an_operator_on_no_list_keeps_its_dtype():
    half, single = torch.ones(2, device="npu", dtype=torch.float16), torch.ones(2, device="npu")
    with torch.autocast("npu"):
        assert (half * 2).dtype == torch.float16
        assert torch.relu(single).dtype == torch.float32
        assert (single.double() @ single.double()).dtype == torch.float64


def test_weights_are_cast_once():
    weight = torch.ones(4, 4, device="npu", requires_grad=True)
    x = torch.ones(2, 4, device="npu")
    with torch.autocast("npu"):
        first, second = torch.mm(x, weight), torch.mm(x, weight)
    assert first.grad_fn.next_functions[1][0] is second.grad_fn.next_functions[1][0]
    (first.sum() + second.sum()).backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.cpu().equal(torch.full((4, 4), 4.0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_network_trains_as_on_the_cpu(dtype):
    def train(device):
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 3)
        net = torch.nn.Sequential(*layers).to(device)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler(device, init_scale=256.0)
        x, y = torch.randn(32, 8).to(device), torch.randint(3, (32,)).to(device)
        losses = []
        for _ in range(10):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=dtype):
                out = net(x)
                loss = torch.nn.functional.cross_entropy(out, y)
            assert out.dtype == dtype and loss.dtype == torch.float32
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    assert train("npu") == pytest.approx(train("cpu"), rel=2e-2)


def test_overflow_skips_the_step():
    weight = torch.nn.Parameter(torch.ones(3, device="npu"))
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler = torch.amp.GradScaler("npu", init_scale=4.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.detach().cpu().equal(torch.ones(3))
    assert scaler.get_scale() == 2.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_an_lstm_runs_whole_layers_in_the_lower_precision(dtype):
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(5, 6, 2).npu(), torch.randn(7, 4, 5).npu().requires_grad_()
    with torch.autocast("npu", dtype=dtype):
        output, states = layer(x)
    assert all(tensor.dtype == dtype for tensor in (output, *states))
    whole, expected = layer.to(dtype), x.detach().to(dtype).requires_grad_()
    reference = whole(expected)[0]
    assert torch.equal(output, reference)
    (gradient,) = torch.autograd.grad(output.float().sum(), x)
    (wanted,) = torch.autograd.grad(reference.float().sum(), expected)
    assert gradient.dtype == torch.float32 and torch.equal(gradient, wanted.float())
