"""torch.npu.amp: autocast, custom functions and GradScaler, against torch.amp on the CPU."""

import warnings

import pytest
import torch
from torch.npu import amp

DTYPES = [torch.float16, torch.bfloat16]


def test_the_package_has_the_parts_that_programs_import():
    from torch.npu.amp import grad_scaler
    from torch_npu.npu.amp import autocast_mode, common, sharded_grad_scaler

    assert grad_scaler.GradScaler is amp.GradScaler
    assert autocast_mode.autocast is amp.autocast
    assert common.amp_definitely_not_available() is False
    assert sharded_grad_scaler.ShardedGradScaler()._device == "npu"


@pytest.mark.parametrize("dtype", DTYPES)
def test_autocast_casts(dtype):
    a = torch.ones(4, 4, device="npu")
    with amp.autocast(dtype=dtype):
        assert torch.npu.is_autocast_enabled()
        assert torch.npu.get_autocast_dtype() == dtype
        assert (a @ a).dtype == dtype
        assert torch.exp(a.to(dtype)).dtype == torch.float32
        with amp.autocast(enabled=False):
            assert (a @ a).dtype == torch.float32
    assert not torch.npu.is_autocast_enabled()
    assert (a @ a).dtype == torch.float32


def test_autocast_to_float32_widens_operators_of_lower_precision():
    a = torch.ones(2, 2, device="npu", dtype=torch.float16)
    with amp.autocast(dtype=torch.float32):
        assert (a @ a).dtype == torch.float32


def test_autocast_is_a_decorator_too():
    @amp.autocast()
    def product(a):
        return a @ a

    assert product(torch.ones(2, 2, device="npu")).dtype == torch.float16


@pytest.mark.parametrize("cache", [False, True])
def test_the_cache_keeps_weights_that_were_cast(cache):
    weight = torch.ones(4, 4, device="npu", requires_grad=True)
    x = torch.ones(4, 4, device="npu", dtype=torch.float16)
    with amp.autocast(cache_enabled=cache):
        assert torch.is_autocast_cache_enabled() is cache
        first, second = x @ weight, x @ weight
    same = first.grad_fn.next_functions[1][0] is second.grad_fn.next_functions[1][0]
    assert same is cache


def test_autocast_is_switched_by_hand():
    before = torch.npu.get_autocast_dtype()
    try:
        torch.npu.set_autocast_enabled(True)
        torch.npu.set_autocast_dtype(torch.bfloat16)
        assert torch.is_autocast_enabled("npu")
        assert torch.mm(torch.ones(2, 2, device="npu"), torch.ones(2, 2, device="npu")).dtype == torch.bfloat16
    finally:
        torch.npu.set_autocast_enabled(False)
        torch.npu.set_autocast_dtype(before)


def test_a_chip_without_bfloat16_says_so(child):
    program = "import torch; print(torch.npu.is_bf16_supported(), torch.bfloat16 in torch.npu.get_amp_supported_dtype())"
    assert child(program).stdout == "True True\n"
    assert child(program, SOFTNPU_SOC_NAME="Ascend910A").stdout == "False False\n"


def test_custom_functions_see_the_dtype_they_ask_for():
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            seen.append((x.dtype, torch.npu.is_autocast_enabled()))
            return x * 2

        @staticmethod
        @amp.custom_bwd
        def backward(ctx, gradient):
            seen.append((gradient.dtype, torch.npu.is_autocast_enabled()))
            return gradient * 2

    x = torch.ones(2, device="npu", dtype=torch.float16, requires_grad=True)
    with amp.autocast():
        Double.apply(x).sum().backward()
    assert seen == [(torch.float32, False), (torch.float32, False)]
    assert x.grad.tolist() == [2, 2]


def train(device, scaler, dtype, spoil=(), steps=6, optimizer=torch.optim.SGD):
    """Trains. Returns the weights, the scale after each step, and whether each step changed the weights."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to(device)
    optimizer = optimizer(model.parameters(), lr=0.05)
    data = torch.randn(steps, 4, 8, generator=torch.Generator().manual_seed(1)).to(device)
    scales, moved = [], []
    for step in range(steps):
        before = [parameter.detach().clone() for parameter in model.parameters()]
        optimizer.zero_grad()
        with torch.autocast(device, dtype=dtype):
            loss = model(data[step]).float().square().mean()
        scaler.scale(loss).backward()
        if step in spoil:
            model[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        moved.append(not all(map(torch.equal, before, model.parameters())))
    return [parameter.detach().cpu() for parameter in model.parameters()], scales, moved


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, lambda *a, **k: torch.optim.Adam(*a, fused=True, **k)])
def test_a_step_with_infinite_gradients_is_skipped(dtype, optimizer):
    options = {"init_scale": 256.0, "growth_interval": 2}
    weights, scales, moved = train("npu", amp.GradScaler(**options), dtype, spoil=[2], optimizer=optimizer)
    expected = train("cpu", torch.amp.GradScaler("cpu", **options), dtype, spoil=[2], optimizer=optimizer)
    assert scales == expected[1]
    assert moved == expected[2] == [True, True, False, True, True, True]
    torch.testing.assert_close(weights, expected[0], rtol=2e-2, atol=2e-3)


def test_a_static_scale_stays_and_skips_nothing():
    scaler = amp.GradScaler(init_scale=128.0, growth_interval=1, dynamic=False)
    _, scales, moved = train("npu", scaler, torch.float16, spoil=[2])
    assert scales == [128.0] * 6
    assert moved[2]
    scaler.update(64.0)
    assert scaler.get_scale() == 64.0


def test_a_static_scale_unscales():
    scaler = amp.GradScaler(init_scale=128.0, dynamic=False)
    weight = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0]


def test_states_are_exchanged_with_the_scaler_of_torch():
    ours = amp.GradScaler(init_scale=32.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=7, dynamic=False)
    theirs = torch.amp.GradScaler("npu")
    theirs.load_state_dict(ours.state_dict())
    assert theirs.get_scale() == 32.0
    assert (theirs.get_growth_factor(), theirs.get_backoff_factor(), theirs.get_growth_interval()) == (3.0, 0.25, 7)
    back = amp.GradScaler(dynamic=False)
    back.load_state_dict(theirs.state_dict())
    assert back.state_dict() == ours.state_dict()
    dynamic = amp.GradScaler()
    dynamic.load_state_dict(ours.state_dict())
    assert dynamic.state_dict()["dynamic"] is False
    assert amp.GradScaler(enabled=False).state_dict() == {}


def test_a_disabled_scaler_does_nothing():
    scaler = amp.GradScaler(enabled=False)
    loss = torch.ones((), device="npu")
    assert scaler.scale(loss) is loss
    assert scaler.get_scale() == 1.0
    scaler.update()


def test_wrong_factors_are_refused():
    for wrong in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(AssertionError, match="factor must be"):
            amp.GradScaler(**wrong)


def test_lists_of_outputs_are_scaled():
    scaler = amp.GradScaler(init_scale=4.0)
    first, (second,) = scaler.scale([torch.ones(2, device="npu"), (torch.ones(1, device="npu"),)])
    assert first.tolist() == [4, 4]
    assert second.tolist() == [4]


def test_a_chip_with_infinity_has_no_overflow_flag():
    assert torch.npu.utils.is_support_inf_nan()
    with pytest.raises(RuntimeError, match="npu_check_overflow"):
        torch.npu.get_npu_overflow_flag()
    with pytest.raises(RuntimeError, match="npu_check_overflow"):
        amp.GradScaler.get_npu_overflow_flag()
    torch.npu.clear_npu_overflow_flag()
    amp.GradScaler.clear_npu_overflow_flag()


def test_an_overflow_is_found():
    check = torch.npu.utils.npu_check_overflow
    assert not check(torch.ones(3, device="npu"))
    assert check(torch.tensor([1.0, float("inf"), -float("inf")], device="npu"))
    assert check(torch.tensor([1.0, float("nan")], device="npu", dtype=torch.float16))
    assert not check(torch.full((4,), 3e38, device="npu"))
    assert check(float("-inf"))
    assert not check(1.0)
    with pytest.raises(TypeError, match="a float or a tensor"):
        check([1.0])


def test_the_scaler_reads_the_flag_of_a_chip_without_infinity(child):
    done = child(
        """
        import torch
        print(torch.npu.utils.is_support_inf_nan(), torch.npu.get_npu_overflow_flag())
        torch.npu.clear_npu_overflow_flag()
        print(torch.npu.utils.npu_check_overflow(1.0))
        scaler = torch.npu.amp.GradScaler(init_scale=2.0)
        weight = torch.ones(2, device="npu", requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scaler.scale(weight.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        print(weight.tolist())
        """,
        SOFTNPU_SOC_NAME="Ascend910A",
    )
    assert done.stdout == "False False\nFalse\n[0.5, 0.5]\n", done.stderr


def test_without_a_device_the_scaler_warns_and_does_nothing(child):
    done = child(
        """
        import torch
        scaler = torch.npu.amp.GradScaler()
        print(scaler.is_enabled(), torch.npu.amp.amp_definitely_not_available())
        """,
        ASCEND_RT_VISIBLE_DEVICES="",
    )
    assert done.stdout == "False True\n"
    assert "there is no NPU" in done.stderr


def test_creating_scaler_and_autocast_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        amp.GradScaler()
        with amp.autocast():
            pass
