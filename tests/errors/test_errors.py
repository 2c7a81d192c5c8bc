"""Bad input and failures: one clear error, and the process stays usable."""

from pathlib import Path

import pytest
import torch
import torch_npu


@pytest.fixture(autouse=True)
def usable_afterwards():
    yield
    assert (torch.arange(3.0, device="npu") + 1).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x, y: x + y,
        lambda x, y: y + x,
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.where(x > 0, x, y),
        lambda x, y: torch.nn.functional.linear(x, y),
        lambda x, y: x.add_(y),
        lambda x, y: torch.add(x, x, out=y),
        lambda x, y: torch.fft.fft(x, out=y.cfloat()),
    ],
)
def test_devices_are_not_mixed(mixed):
    x, y = torch.ones(2, 2, device="npu"), torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        mixed(x, y)


def test_a_number_from_the_cpu_may_be_mixed_in():
    assert (torch.ones(2, device="npu") + torch.tensor(2.0)).tolist() == [3, 3]


@pytest.mark.parametrize(
    "use", [lambda: torch.ones(2, device="npu:99"), lambda: torch.npu.set_device(99), lambda: torch.ones(2).npu(99)]
)
def test_an_absent_device_is_named(use):
    with pytest.raises(RuntimeError, match="npu:99"):
        use()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x @ x, "mat1 and mat2 shapes cannot be multiplied"),
        (lambda x: x + torch.ones(7, device="npu"), "must match the size"),
        (lambda x: x.view(5), "invalid for input of size"),
        (lambda x: x.sum(9), "Dimension out of range"),
        (lambda x: torch.cat([x, x[:, :2]]), "Sizes of tensors must match"),
        (lambda x: x.softmax(5), "Dimension out of range"),
        (lambda x: x.int().softmax(0), "not implemented for 'Int'"),
    ],
)
def test_wrong_shapes_and_dtypes_are_refused(wrong, message):
    with pytest.raises((RuntimeError, IndexError), match=message):
        wrong(torch.ones(2, 3, device="npu")).cpu()


def test_an_assertion_fails_at_the_next_wait_with_its_message():
    wrong = torch.zeros((), device="npu")
    torch._assert_async(wrong, "the sum should not vanish")
    with pytest.raises(RuntimeError, match="the sum should not vanish"):
        torch.npu.synchronize()
    torch._assert_async(wrong)
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        wrong.item()
    torch._assert_async(wrong + 1, "never")
    torch.npu.synchronize()


@pytest.mark.parametrize("size", [0, 2])
def test_an_assertion_on_more_or_less_than_one_value_is_refused_at_once(size):
    with pytest.raises(RuntimeError, match="is ambiguous"):
        torch._assert_async(torch.ones(size, device="npu"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.bool().abs(),
        lambda x: x.int().softmax(0),
        lambda x: x.bitwise_and(x),
        lambda x: x.bool().remainder(x.bool()),
        lambda x: x.int().normal_(),
        lambda x: x.bool() @ x.bool().T,
        lambda x: x.bool().clamp(False, True),
        lambda x: x.bool().clamp_min(True),
        lambda x: torch._foreach_clamp_max([x.bool()], False),
    ],
)
def test_a_dtype_that_an_operator_lacks_is_refused_by_the_call(wrong):
    with pytest.raises(NotImplementedError, match="not implemented for"):
        wrong(torch.ones(2, 3, device="npu"))


def test_one_operand_of_a_fitting_dtype_is_enough():
    flags, steps = torch.tensor([True, False], device="npu"), torch.tensor([3, 2], device="npu")
    assert flags.remainder(steps).tolist() == [1, 0]
    assert (flags << steps).tolist() == [8, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x.expand(3, 2, 3).abs_(), "more than one element of the written-to tensor"),
        (lambda x: x.expand(3, 2, 3).uniform_(), "more than one element of the written-to tensor"),
        (lambda x: x.bernoulli_(x.expand(2, 2, 3)), "must be greater or equal to the number of dimensions"),
        (lambda x: x.masked_fill_(x, 1), "only supports boolean masks"),
        (lambda x: x.masked_fill_((x > 0).expand(2, 2, 3), 1), "doesn't match the broadcast shape"),
        (lambda x: x.floor_divide_(x.expand(2, 2, 3)), "doesn't match the broadcast shape"),
        (lambda x: torch.searchsorted(x[0], x, side="middle"), "side can only be 'left' or 'right'"),
        (lambda x: torch.nn.functional.gelu(x, approximate="other"), "approximate argument must be either none or tanh"),
        (lambda x: torch.nn.functional.unfold(x.view(1, 1, 2, 3), (3, 3)), "its components must be at least one"),
        (lambda x: torch.nn.functional.unfold(x.view(1, 1, 2, 3), (0, 1)), "kernel size should be greater than zero"),
        (lambda x: torch.nn.functional.fold(x.view(1, 2, 3), (2, 2), (2, 2)), "to be divisible by the product of kernel_size"),
        (lambda x: torch.nn.ReflectionPad2d(1)(x.view(2, 3, 1, 1)[:, :0]), "3D or 4D"),
        (lambda x: torch.nn.functional.batch_norm(x.double(), None, None, x[0], x[0], True), "mixed dtype"),
        (lambda x: torch.nn.functional.layer_norm(x, (3,), x[0].half()), "mixed dtype"),
        (lambda x: torch.ops.aten._adaptive_avg_pool2d_backward(x.view(1, 2, 3), x.view(1, 2, 3, 1)), "Expected dimensions"),
        (
            lambda x: torch.nn.FractionalMaxPool2d(1, (1, 1), _random_samples=x[:0].view(0, 1, 2))(x.view(1, 1, 2, 3)),
            "Expect _random_samples.size.0. no less than the input's batch size",
        ),
        (lambda x: torch.nn.functional.fractional_max_pool2d(x.view(1, 1, 2, 3), 1, (1, 1, 1)), "output_size must either"),
        (lambda x: x.lerp(x, 1 + 2j), "cannot be converted"),
        (lambda x: x - True, "with a bool tensor is not supported"),
        (lambda x: x.add(1, alpha=True), "Boolean alpha only supported for Boolean results"),
        (lambda x: x.byte().addcmul(x.byte(), x.byte(), value=1j), "cannot be converted"),
    ],
)
def test_wrong_arguments_are_refused_by_the_call(wrong, message):
    with pytest.raises(RuntimeError, match=message):
        wrong(torch.ones(2, 3, device="npu"))


def recorded_on_two_devices():
    event = torch.npu.Event()
    event.record()
    event.record(torch.npu.Stream("npu:1"))


def generator():
    return torch.Generator("npu")


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: torch.npu.current_stream().wait_stream(None), TypeError, "stream must be a torch.npu.Stream, .* but got None"),
        (lambda: torch.npu.set_stream(3), TypeError, "stream must be a torch.npu.Stream, .* but got 3"),
        (lambda: torch.npu.stream("npu"), TypeError, "stream must be a torch.npu.Stream, .* but got 'npu'"),
        (recorded_on_two_devices, RuntimeError, "an event of npu:0 cannot be recorded on a stream of npu:1; an event belongs"),
        (lambda: torch.npu.MemPool("big"), TypeError, "must be an NPUPluggableAllocator, but got str"),
        (
            lambda: torch.npu.set_rng_state(torch.npu.get_rng_state().npu()),
            TypeError,
            "but got torch.uint8 on npu:0; call .cpu",
        ),
        (lambda: torch.npu.set_rng_state(torch.zeros(16)), TypeError, "uint8 on the CPU, but got torch.float32"),
        (
            lambda: torch.rand(2, generator=generator()),
            RuntimeError,
            "Expected a 'cpu' device type for generator but found 'npu'",
        ),
        (lambda: torch.randperm(2, generator=generator()), RuntimeError, "Expected a 'cpu' device type for generator"),
        (lambda: torch.ones(2).multinomial(1, generator=generator()), RuntimeError, "Expected a 'cpu' device type for gen"),
        (lambda: torch.npu.super_kernel_scope_begin(), NotImplementedError, "super_kernel_scope_begin is not offered"),
    ],
)
def test_wrong_calls_of_torch_npu_say_what_is_needed(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


FAILING = """
import torch
table = torch.ones(4, 2, device="npu")
index = torch.tensor([0, 9, 0, 0], device="npu")
try:
    loss = torch.nn.functional.nll_loss(table, index)  # here
    torch.npu.synchronize()
except (RuntimeError, IndexError) as error:
    print(error)
torch.npu.synchronize()
print(table.sum().item())
"""


def test_a_failure_on_the_device_is_reported_once_and_the_process_goes_on(child):
    done = child(FAILING, SOFTNPU_LAUNCH="queue")
    assert done.stdout.endswith("8.0\n"), done.stderr
    assert done.stdout.count("index out of range") + done.stdout.count("out of bounds") >= 1
    assert "task 'aclnn" in done.stdout
    assert "ASCEND_LAUNCH_BLOCKING=1" in done.stdout


@pytest.mark.parametrize("switch", ["ASCEND_LAUNCH_BLOCKING", "TORCH_NPU_DEBUG"])
def test_launch_blocking_names_the_line_the_shapes_and_the_dtypes(child, switch):
    done = child(FAILING, SOFTNPU_LAUNCH="queue", **{switch: "1"})
    assert done.stdout.endswith("8.0\n"), done.stderr
    assert done.stdout.count("index out of range") + done.stdout.count("out of bounds") >= 1
    assert "task 'aclnn" in done.stdout
    assert "<string>:6" in done.stdout
    assert "[4, 2]" in done.stdout.replace("(4, 2)", "[4, 2]")


@pytest.mark.parametrize("name", ["TASK_QUEUE_ENABLE", "ASCEND_LAUNCH_BLOCKING", "TORCH_NPU_DEBUG", "TORCH_NPU_STRICT_FALLBACK"])
def test_a_wrong_value_in_the_environment_is_named_and_not_used(child, name):
    done = child("import torch; print(torch.ones(2, device='npu').sum().item())", **{name: "maybe"})
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr
    assert f"{name} is 'maybe'" in done.stderr


@pytest.mark.parametrize(
    ("dtype", "factors", "words"),
    [
        (torch.int32, {"beta": 2.0}, "argument beta must not be a floating point number"),
        (torch.int32, {"alpha": 1.0}, "argument alpha must not be a floating point number"),
        (torch.float32, {"beta": True}, "Boolean beta only supported for Boolean results"),
        (torch.float32, {"alpha": True}, "Boolean alpha only supported for Boolean results"),
    ],
)
def test_factors_of_another_type_are_refused_at_once(dtype, factors, words):
    vector = torch.ones(2, dtype=dtype, device="npu")
    with pytest.raises(RuntimeError, match=words):
        torch.addr(torch.ones(2, 2, dtype=dtype, device="npu"), vector, vector, **factors)


def test_a_result_may_not_share_memory_where_the_cpu_forbids_it():
    x, y = torch.ones(4, 3, device="npu"), torch.ones(4, 3, device="npu")
    numbers = torch.arange(6.0, device="npu")
    for use in (
        lambda: torch.linalg.cross(x, y, out=x),
        lambda: torch.linalg.cross(y, x, out=x),
        lambda: torch.pow(2, numbers[:3], out=numbers[1:4]),
    ):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            use()
    assert torch.pow(2, numbers, out=numbers).tolist() == [1, 2, 4, 8, 16, 32]


def test_a_missing_device_library_is_one_error_at_first_use(child, tmp_path):
    done = child(
        """
        import torch
        print(torch.npu.is_available(), torch.ones(2).sum().item(), flush=True)
        for _ in range(2):
            try:
                torch.ones(2, device="npu")
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        """,
        TORCH_NPU_LIBRARY_PATH=str(tmp_path),
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "False 2.0", done.stderr
    assert len(lines) == 3
    assert all("TORCH_NPU_LIBRARY_PATH" in line and "no libascendcl.so" in line for line in lines[1:])


def test_a_broken_device_library_is_named(child, tmp_path):
    (tmp_path / "libascendcl.so").write_text("no library")
    done = child("import torch; torch.ones(2, device='npu')", TORCH_NPU_LIBRARY_PATH=str(tmp_path))
    assert f"cannot load the device library {tmp_path}/libascendcl.so" in done.stderr


def test_a_missing_collective_library_is_named(child, tmp_path):
    for name in ("libascendcl.so", "libopapi.so"):
        (tmp_path / name).symlink_to(Path(torch_npu.__file__).parent / "lib" / name)
    done = child(
        """
        import torch, torch_npu
        from torch import distributed as dist
        print(torch.npu.is_available(), torch_npu.distributed.is_hccl_available())
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        dist.all_reduce(torch.ones(2).npu())
        """,
        TORCH_NPU_LIBRARY_PATH=str(tmp_path),
    )
    assert done.stdout == "True False\n", done.stderr
    assert f"{tmp_path}/libascendcl.so, but there is no libhccl.so beside it" in done.stderr


def test_calls_that_older_versions_refused():
    """Calls from the FAQ of older documents: integers, a changing number of indices, out=."""
    numbers = torch.randint(0, 100, (2, 3, 8, 8))
    on_npu = numbers.npu()
    for call in (lambda x: x.max(), lambda x: torch.max(x, 1).values, lambda x: torch.nn.functional.max_pool2d(x, 2)):
        torch.testing.assert_close(call(on_npu).cpu(), call(numbers))
    values = torch.zeros(10).npu()
    for count in (2, 5, 3):
        values[torch.arange(count).npu()] = torch.full((count,), float(count)).npu()
        values[values == 5] = 1.0
    assert values.tolist() == [3.0] * 3 + [1.0] * 2 + [0.0] * 5
    assert torch.trunc(torch.tensor([1.5, -1.5]).npu(), out=torch.empty(2).npu()).tolist() == [1.0, -1.0]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_a_binary_loss_of_integers_is_refused_as_on_the_cpu(dtype):
    floats, whole = torch.randn(4), torch.ones(4, dtype=dtype)
    for arguments in ((floats, whole), (whole, floats)):
        with pytest.raises(RuntimeError) as expected:
            torch.nn.functional.binary_cross_entropy_with_logits(*arguments)
        with pytest.raises(type(expected.value), match=r"not implemented for|result type"):
            torch.nn.functional.binary_cross_entropy_with_logits(*(argument.npu() for argument in arguments))


def test_the_library_can_be_chosen(child):
    path = torch.npu.library_info()["path"]
    done = child("import torch; print(torch.npu.library_info()['origin'])", TORCH_NPU_LIBRARY_PATH=path)
    assert done.stdout == "env\n", done.stderr
