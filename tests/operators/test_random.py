"""Random numbers: the same seed gives the same bits in every layout, and distributions have their moments."""

import pytest
import torch
import torch.nn.functional as F

from tests.support import two_devices

N = 100_000

DRAWS = {
    "rand": lambda: torch.rand(1000, device="npu"),
    "randn": lambda: torch.randn(1000, device="npu"),
    "randn_half": lambda: torch.randn(1000, device="npu", dtype=torch.float16),
    "randint": lambda: torch.randint(0, 1000, (1000,), device="npu"),
    "randperm": lambda: torch.randperm(1000, device="npu"),
    "bernoulli": lambda: torch.full((1000,), 0.5, device="npu").bernoulli(),
    "bernoulli_": lambda: torch.empty(1000, device="npu").bernoulli_(0.3),
    "exponential_": lambda: torch.empty(1000, device="npu").exponential_(),
    "uniform_": lambda: torch.empty(1000, device="npu").uniform_(-1, 1),
    "normal_": lambda: torch.empty(1000, device="npu").normal_(2, 3),
    "normal": lambda: torch.normal(torch.zeros(1000, device="npu"), torch.ones(1000, device="npu")),
    "multinomial": lambda: torch.ones(1000, device="npu").multinomial(100),
    "standard_gamma": lambda: torch._standard_gamma(torch.full((1000,), 2.0, device="npu")),
    "dirichlet": lambda: torch._sample_dirichlet(torch.ones(100, 10, device="npu")),
    "binomial": lambda: torch.binomial(torch.full((1000,), 20.0, device="npu"), torch.full((1000,), 0.3, device="npu")),
    "dropout": lambda: F.dropout(torch.ones(1000, device="npu"), 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_gives_the_same_bits_and_the_next_draw_other_bits(name):
    torch.manual_seed(7)
    first, second = DRAWS[name](), DRAWS[name]()
    torch.manual_seed(7)
    assert torch.equal(DRAWS[name](), first)
    assert not torch.equal(first, second)
    torch.manual_seed(8)
    assert not torch.equal(DRAWS[name](), first)


@pytest.mark.parametrize("name", ["rand", "randn", "randint", "randperm"])
def test_state_can_be_kept_and_restored(name):
    state = torch.npu.get_rng_state()
    assert (state.device.type, state.dtype, state.numel()) == ("cpu", torch.uint8, 16)
    first = DRAWS[name]()
    torch.npu.set_rng_state(state)
    assert torch.equal(DRAWS[name](), first)
    with torch.random.fork_rng(device_type="npu"):
        torch.npu.manual_seed(1)
        DRAWS[name]()
    torch.npu.set_rng_state(state)
    assert torch.equal(DRAWS[name](), first)


def test_a_new_generator_is_independent_of_the_default_one():
    generator = torch.Generator("npu").manual_seed(3)
    first = torch.rand(10, device="npu", generator=generator)
    torch.rand(10, device="npu")
    twin = torch.Generator(device="npu").manual_seed(3)
    assert torch.equal(torch.rand(10, device="npu", generator=twin), first)
    assert generator.initial_seed() == 3
    assert generator.device.type == "npu"
    with pytest.raises(RuntimeError, match="type for generator"):
        torch.rand(10, device="npu", generator=torch.Generator())


def test_seeds():
    torch.npu.manual_seed(11)
    assert torch.npu.initial_seed() == 11
    torch.npu.manual_seed_all(12)
    assert {generator.initial_seed() for generator in torch.npu.default_generators} == {12}
    torch.npu.seed()
    assert torch.npu.initial_seed() != 12
    torch.npu.seed_all()
    assert len({generator.initial_seed() for generator in torch.npu.default_generators}) == 1
    states = torch.npu.get_rng_state_all()
    torch.npu.set_rng_state_all(states)
    assert torch.equal(torch.npu.get_rng_state(), states[0])
    with pytest.raises(RuntimeError, match="16 bytes"):
        torch.npu.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_a_seed_set_before_the_first_use_is_used(child):
    program = """
        import torch
        {}
        assert not torch.npu.is_initialized()
        print(torch.rand(3, device="npu").tolist())
    """
    one, all_, before = (
        child(program.format(seed))
        for seed in ("torch.npu.manual_seed(5)", "torch.manual_seed(5)", "torch.manual_seed(9); torch.npu.manual_seed_all(5)")
    )
    assert one.stdout == all_.stdout == before.stdout != "", one.stderr


# Calls between two seeds that start the device or query it.
STARTS = {
    "nothing": "pass",
    "pinned memory": "torch.ones(3).pin_memory()",
    "new pinned memory": "torch.empty(3, pin_memory=True)",
    "a stream": "torch.Stream('npu')",
    "an event": "torch.Event('npu')",
    "the index of the accelerator": "torch.accelerator.set_device_index(0)",
    "a wait for the accelerator": "torch.accelerator.synchronize()",
    "the stream of the accelerator": "torch.accelerator.current_stream()",
    "a generator": "torch.Generator('npu').get_state()",
    "default generators": "torch.npu.default_generators[0].get_state()",
    "properties": "torch.npu.get_device_properties(0)",
    "a state": "torch.npu.get_rng_state()",
    "init": "torch.npu.init()",
    "a tensor": "torch.ones(3, device='npu')",
    "a draw": "torch.rand(3, device='npu')",
}

# Ways to seed the current device with 2.
SEEDS = {
    "torch.manual_seed": "torch.manual_seed(2)",
    "manual_seed": "torch.npu.manual_seed(2)",
    "manual_seed_all": "torch.npu.manual_seed_all(2)",
    "set_rng_state": "torch.npu.set_rng_state(torch.tensor([2] + 15 * [0], dtype=torch.uint8))",
    "a generator": "torch.npu.default_generators[0].manual_seed(2)",
    "_lazy_call": "torch.npu._lazy_call(lambda: torch.npu.default_generators[0].manual_seed(2))",
}


@pytest.mark.parametrize(
    ("start", "seed"),
    [(start, "torch.manual_seed") for start in STARTS]
    + [(start, seed) for start in ("nothing", "pinned memory") for seed in SEEDS if seed != "torch.manual_seed"],
)
def test_the_last_seed_is_used_however_the_device_was_started(child, start, seed):
    """An older seed must not be applied when the device starts or when Python runs its lazy calls."""
    done = child(
        f"""
        import torch
        torch.npu._lazy_call(lambda: torch.npu.manual_seed(3))
        torch.manual_seed(1)
        {STARTS[start]}
        {SEEDS[seed]}
        print(torch.rand(2, device="npu").tolist(), torch.npu.initial_seed())
        """
    )
    torch.manual_seed(2)
    assert done.stdout == f"{torch.rand(2, device='npu').tolist()} 2\n", done.stderr


def test_lazy_calls_and_seeds_are_applied_in_order(child):
    done = child(
        """
        import torch
        def seeds():
            return [generator.initial_seed() for generator in torch.npu.default_generators][:3]
        torch.manual_seed(1)
        torch.npu._lazy_call(lambda: torch.npu.default_generators[0].manual_seed(10))
        torch.npu.set_device(1)
        torch.npu.manual_seed(11)                                       # of device 1, whichever is current when it starts
        torch.npu.set_device(0)
        torch.npu._lazy_call(lambda: torch.npu.default_generators[1].manual_seed(12))
        torch.npu._lazy_call(lambda: torch.npu.default_generators[2].manual_seed(13), seed_all=True)
        for _ in range(3):
            torch.npu.set_rng_state(torch.tensor([14] + 15 * [0], dtype=torch.uint8), 2)
        torch.ones(3).pin_memory()                                      # starts the device, and Python is not told
        torch.npu._lazy_call(lambda: torch.npu.default_generators[0].manual_seed(15))
        print(seeds())
        torch.npu.init()
        print(seeds())
        """
    )
    assert done.stdout == "[15, 12, 14]\n[15, 12, 14]\n", done.stdout + done.stderr


def test_the_first_draws_of_several_threads_come_after_the_seed(child):
    done = child(
        """
        import sys, threading, torch
        sys.setswitchinterval(1e-6)
        called, draws, gate = [], [], threading.Barrier(8)
        for number in range(50):
            torch.npu._lazy_call(lambda number=number: called.append(number))
        torch.npu._lazy_call(lambda: torch.npu.manual_seed(1))
        def draw():
            gate.wait()
            draws.append(torch.rand(2, device="npu"))
        threads = [threading.Thread(target=draw) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        torch.manual_seed(1)
        wanted = [torch.rand(2, device="npu").tolist() for _ in range(8)]
        print(called == list(range(50)), sorted(draw.tolist() for draw in draws) == sorted(wanted))
        """
    )
    assert done.stdout == "True True\n", done.stdout + done.stderr


def test_a_lazy_call_can_use_the_device_and_fail(child):
    done = child(
        """
        import torch
        called = []
        def fails():
            called.append(torch.ones(2, device="npu").sum().item())
            raise ValueError("planned")
        torch.npu._lazy_call(fails)
        torch.npu._lazy_call(lambda: called.append("next"))
        try:
            torch.npu.init()
        except ValueError as error:
            called.append(str(error))
        torch.npu.init()
        print(called)
        """
    )
    assert done.stdout == "[2.0, 'planned', 'next']\n", done.stdout + done.stderr


def test_seeding_without_a_device_is_no_error(child):
    done = child(
        """
        import torch
        torch.manual_seed(1)
        torch.npu.manual_seed(2)
        torch.npu.manual_seed_all(3)
        torch.npu.seed()
        torch.npu.seed_all()
        torch.npu.set_rng_state(torch.zeros(16, dtype=torch.uint8))
        try:
            torch.npu.set_rng_state(torch.zeros(16, dtype=torch.uint8), 1)
        except RuntimeError as error:
            print("there is no NPU" in str(error))
        """,
        ASCEND_RT_VISIBLE_DEVICES="",
    )
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 - 1, -(2**63)])
def test_the_whole_range_of_seeds_is_taken(seed):
    torch.npu.manual_seed_all(seed)
    assert torch.npu.initial_seed() == torch.Generator().manual_seed(seed).initial_seed()


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(RuntimeError, match=str(seed)):
        torch.npu.manual_seed_all(seed)


def test_launch_mode_and_threads_do_not_change_the_bits(child):
    program = """
        import torch
        torch.set_num_threads({})
        torch.manual_seed(1)
        print(torch.rand(70_000, device="npu").double().sum().item(), torch.randn(70_000, device="npu").double().sum().item())
    """
    outputs = {child(program.format(threads), SOFTNPU_LAUNCH=mode).stdout for threads in (1, 3) for mode in ("hybrid", "queue")}
    assert len(outputs) == 1
    assert outputs != {""}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distributions_have_their_moments(dtype):
    torch.manual_seed(0)
    to = {"device": "npu", "dtype": dtype}
    uniform = torch.rand(N, **to).cpu()
    assert uniform.min() >= 0 and uniform.max() < 1
    assert uniform.mean().item() == pytest.approx(0.5, abs=0.01)
    assert uniform.var().item() == pytest.approx(1 / 12, abs=0.005)
    normal = torch.randn(N, **to).cpu()
    assert normal.mean().item() == pytest.approx(0, abs=0.02)
    assert normal.std().item() == pytest.approx(1, abs=0.02)
    assert (normal.abs() > 3).double().mean().item() == pytest.approx(0.0027, abs=0.001)
    exponential = torch.empty(N, **to).exponential_(2).cpu()
    assert exponential.min() > 0
    assert exponential.mean().item() == pytest.approx(0.5, abs=0.01)
    assert torch.empty(N, **to).bernoulli_(0.3).mean().item() == pytest.approx(0.3, abs=0.01)


def test_integers_cover_their_range():
    torch.manual_seed(0)
    drawn = torch.randint(-3, 4, (N,), device="npu").cpu()
    assert drawn.unique().tolist() == list(range(-3, 4))
    assert drawn.double().mean().item() == pytest.approx(0, abs=0.05)
    for size in (0, 1, 2, 5000):
        assert torch.randperm(size, device="npu").sort().values.tolist() == list(range(size))
    chosen = torch.tensor([0.0, 1.0, 3.0], device="npu").multinomial(N, replacement=True).cpu()
    assert chosen.bincount(minlength=3).double().div(N).tolist() == pytest.approx([0, 0.25, 0.75], abs=0.01)


def test_dropout_drops_scales_and_passes_gradients():
    torch.manual_seed(0)
    x = torch.ones(N, device="npu", requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach().cpu() != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.01)
    assert torch.allclose(y.detach().cpu()[kept], torch.tensor(1 / 0.75))
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert torch.equal(F.dropout(x, 0.5, training=False), x)
    assert torch.equal(F.dropout(x, 0.0), x)
    assert F.dropout(x, 1.0).sum().item() == 0


def test_draws_into_a_strided_tensor_leave_the_gaps_alone():
    x = torch.full((100, 20), -5.0, device="npu")
    x[:, ::2].uniform_(0, 1)
    assert (x[:, 1::2] == -5).all().item()
    assert (x[:, ::2] >= 0).all().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma_dirichlet_and_binomial_have_their_moments(dtype):
    torch.manual_seed(0)
    for shape in (0.5, 3.0):
        drawn = torch._standard_gamma(torch.full((N,), shape, device="npu", dtype=dtype))
        assert drawn.dtype == dtype
        assert abs(drawn.mean().item() - shape) < 0.05
        assert abs(drawn.var().item() - shape) < 0.2
    weights = torch.tensor([1.0, 2.0, 5.0], device="npu", dtype=dtype)
    parts = torch._sample_dirichlet(weights.expand(N, 3))
    torch.testing.assert_close(parts.sum(-1), torch.ones(N, device="npu", dtype=dtype))
    torch.testing.assert_close(parts.mean(0), weights / 8, rtol=0, atol=0.01)
    for count, chance in ((7.0, 0.4), (200.0, 0.7)):
        drawn = torch.binomial(
            torch.full((N,), count, device="npu", dtype=dtype), torch.tensor(chance, device="npu", dtype=dtype)
        )
        assert torch.equal(drawn, drawn.round())
        assert 0 <= drawn.min().item() <= drawn.max().item() <= count
        assert abs(drawn.mean().item() - count * chance) < 0.2
        assert abs(drawn.var().item() / (count * chance * (1 - chance)) - 1) < 0.05


def test_distributions_over_the_gamma_family_have_gradients():
    shape = torch.tensor([0.7, 2.0, 9.0], device="npu", requires_grad=True)
    torch.distributions.Gamma(shape, torch.ones_like(shape)).rsample((5,)).sum().backward()
    assert torch.isfinite(shape.grad).all() and (shape.grad > 0).all()
    torch.distributions.Dirichlet(shape).rsample((5,)).square().sum().backward()
    assert torch.isfinite(shape.grad).all()


@pytest.mark.parametrize("dtype", [torch.uint16, torch.uint32, torch.uint64], ids=str)
def test_unsigned_integers_are_drawn_over_their_whole_range(dtype):
    limit = torch.iinfo(dtype).max
    draw = torch.empty(4000, dtype=dtype, device="npu").random_().tolist()
    assert max(draw) > 0.99 * limit and min(draw) < 0.01 * limit
    assert set(torch.randint(3, 5, (200,), dtype=dtype, device="npu").tolist()) == {3, 4}


def test_a_wide_range_of_integers_is_drawn_uniformly():
    limit = 3 * 2**30
    shares = torch.randint(limit, (400_000,), device="npu").div(limit // 8, rounding_mode="floor").bincount() / 400_000
    assert (shares[:8] - 1 / 8).abs().max() < 0.003


def test_half_precision_uniform_has_the_resolution_of_its_dtype():
    draw = torch.empty(10_000, dtype=torch.float16, device="npu").uniform_(-100, 100)
    assert draw.unique().numel() > 4000
    assert draw.min() >= -100 and draw.max() < 100


def test_a_state_that_is_no_tensor_is_named():
    with pytest.raises(TypeError, match=r"new_state must be a tensor, .* but got int"):
        torch.npu.set_rng_state(3)


def test_a_poisson_number_has_its_moments_at_any_rate():
    for rate in (0.5, 9.9, 10.1, 150.0, 1e4, 1e12):
        drawn = torch.poisson(torch.full((N,), rate, device="npu", dtype=torch.float64))
        assert drawn.mean().item() == pytest.approx(rate, rel=5 * rate**-0.5 * N**-0.5)
        assert drawn.var().item() == pytest.approx(rate, rel=0.05)
        assert torch.equal(drawn, drawn.floor())
    assert torch.poisson(torch.tensor([0.0, float("inf")], device="npu")).tolist() == [0, float("inf")]


@pytest.mark.parametrize("value", [-1.0, float("nan"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("draw", [torch.poisson, torch.bernoulli, lambda x: x.multinomial(1), lambda x: torch.normal(0.0, x)])
def test_a_parameter_out_of_its_range_is_refused(draw, dtype, value):
    for device in ("npu", "cpu"):
        if device == "cpu" and dtype == torch.float16 and value != value:
            continue
        with pytest.raises(RuntimeError):
            draw(torch.tensor([0.5, value], dtype=dtype, device=device))
            torch.npu.synchronize()


def test_a_negative_rate_is_refused_in_the_words_of_the_cpu():
    with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
        torch.poisson(torch.tensor([1.0, -1.0], device="npu"))
        torch.npu.synchronize()


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "draw",
    [
        lambda x, value: x.uniform_(value, 1),
        lambda x, value: x.uniform_(0, value),
        lambda x, value: x.normal_(0, value),
        lambda x, value: x.exponential_(value),
        lambda x, value: x.geometric_(value),
        lambda x, value: x.log_normal_(0, value),
        lambda x, value: x.cauchy_(0, value),
        lambda x, value: x.bernoulli_(value),
        lambda x, value: torch.dropout(x, value, True),
        lambda x, value: torch.alpha_dropout(x, value, True),
        lambda x, value: torch.rrelu(x, value, 0.5, True),
    ],
)
def test_numbers_out_of_range_are_accepted_or_refused_as_on_the_cpu(draw, value):
    seen = []
    for device in ("npu", "cpu"):
        try:
            draw(torch.zeros(3, device=device), value)
            seen.append("accepted")
        except RuntimeError as refusal:
            seen.append(str(refusal))
    assert seen[0] == seen[1]


# Calls with a generator of another device.
DRAWS_BY_A_GENERATOR = {
    "rand": lambda x, g: torch.rand(3, device=x.device, generator=g),
    "randn": lambda x, g: torch.randn(3, device=x.device, generator=g),
    "randint": lambda x, g: torch.randint(3, (3,), device=x.device, generator=g),
    "randperm": lambda x, g: torch.randperm(3, device=x.device, generator=g),
    "normal": lambda x, g: torch.normal(0.0, 1.0, (3,), device=x.device, generator=g),
    "normal of tensors": lambda x, g: torch.normal(x, x, generator=g),
    "normal of a mean": lambda x, g: torch.normal(x, 1.0, generator=g),
    "normal of a deviation": lambda x, g: torch.normal(1.0, x, generator=g),
    "normal_": lambda x, g: x.normal_(generator=g),
    "uniform_": lambda x, g: x.uniform_(generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(x, generator=g),
    "bernoulli_": lambda x, g: x.bernoulli_(generator=g),
    "bernoulli_ of a tensor": lambda x, g: x.bernoulli_(x, generator=g),
    "exponential_": lambda x, g: x.exponential_(generator=g),
    "geometric_": lambda x, g: x.geometric_(0.5, generator=g),
    "log_normal_": lambda x, g: x.log_normal_(generator=g),
    "cauchy_": lambda x, g: x.cauchy_(generator=g),
    "random_": lambda x, g: x.random_(generator=g),
    "random_ to": lambda x, g: x.random_(3, generator=g),
    "multinomial": lambda x, g: torch.multinomial(x, 1, generator=g),
    "poisson": lambda x, g: torch.poisson(x, generator=g),
    "standard_gamma": lambda x, g: torch._standard_gamma(x, generator=g),
    "dirichlet": lambda x, g: torch._sample_dirichlet(x, generator=g),
    "binomial": lambda x, g: torch.binomial(x, x, generator=g),
    "rrelu": lambda x, g: torch.ops.aten.rrelu_with_noise(x, x.clone(), 0.1, 0.3, True, g),
    "rand_like": lambda x, g: torch.rand_like(x, generator=g),
    "randint_like": lambda x, g: torch.randint_like(x, 3, generator=g),
    "trunc_normal_": lambda x, g: torch.nn.init.trunc_normal_(x, generator=g),
}


@pytest.mark.parametrize("name", DRAWS_BY_A_GENERATOR)
def test_a_generator_of_another_device_is_refused(name):
    draw = DRAWS_BY_A_GENERATOR[name]
    words = {"npu": "cpu", "cpu": "npu"}
    for device, other in words.items():
        with pytest.raises(
            RuntimeError, match=f"Expected a '{device}' (?:device type for generator|generator device) but found '{other}'"
        ):
            draw(torch.full((3,), 0.5, device=device), torch.Generator(other))
    draw(torch.full((3,), 0.5, device="npu"), torch.Generator("npu"))


@two_devices
@pytest.mark.parametrize("name", DRAWS_BY_A_GENERATOR)
def test_a_generator_of_another_npu_is_refused(name):
    draw = DRAWS_BY_A_GENERATOR[name]
    for device, other in (("npu:0", "npu:1"), ("npu:1", "npu:0")):
        with pytest.raises(RuntimeError, match=f"{device}.* found .*{other}"):
            draw(torch.full((3,), 0.5, device=device), torch.Generator(other))
        draw(torch.full((3,), 0.5, device=device), torch.Generator(device))
