"""The device's memory checks, used from Python: explained faults, writes outside of tensors, fresh and freed memory."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("memory_faults.py")

HOST = {
    "read_live": "host code read device address 0x",
    "write_live": "host code wrote to device address 0x",
    "read_freed": "that was freed",
    "write_freed": "that was freed",
    "read_as_array": "host code read device address 0x",
    "read_with_faulthandler_before": "host code read",
    "read_with_faulthandler_after": "host code read",
}
DAMAGE = ["raised_by_the_next_synchronisation", "raised_by_the_next_launch", "printed_at_exit", "names_the_operator"]
CASES = [
    *(f"{case}@{check}" for case in HOST for check in ("none", "guard,redzone,poison")),
    "read_live@off",
    "elsewhere@none",
    *(f"damage_{case}@{check}" for case in DAMAGE for check in ("redzone", "redzone,poison")),
    *(f"{case}@{check}" for case in ("stale_stream", "recorded_stream") for check in ("guard", "poison")),
]


@pytest.fixture(scope="module")
def answers():
    """case@check -> (exit code, stderr) of memory_faults.py."""
    done = subprocess.run(
        [sys.executable, PROGRAM, *CASES], cwd=tempfile.gettempdir(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return {case: tuple(answer) for case, answer in json.loads(done.stdout).items()}


def one_line(stderr):
    lines = [line for line in stderr.splitlines() if line.startswith("softnpu: ")]
    assert len(lines) == 1, stderr
    return lines[0]


@pytest.mark.parametrize("check", ["none", "guard,redzone,poison"])
@pytest.mark.parametrize("case", HOST)
def test_a_host_access_to_device_memory_is_explained(answers, case, check):
    code, stderr = answers[f"{case}@{check}"]
    line = one_line(stderr)
    assert code == -11
    assert line.startswith("softnpu: SIGSEGV: host code")
    assert HOST[case] in line
    assert ".cpu()" in line
    assert ("Fatal Python error: Segmentation fault" in stderr) == ("faulthandler" in case), stderr
    if case == "read_live" and check != "none":
        assert "offset 16 of the allocation of 64 bytes at 0x" in line


def test_other_faults_are_not_explained(answers):
    assert answers["elsewhere@none"] == (-11, "")
    assert answers["read_live@off"] == (-11, "")


@pytest.mark.parametrize("check", ["redzone", "redzone,poison"])
def test_a_write_beside_a_tensor_is_found(answers, check):
    found = [answers[f"damage_{case}@{check}"] for case in DAMAGE]
    assert [code for code, _ in found] == [0, 0, 1, 0], found
    synchronised, launched, exited, operator = (stderr.splitlines() for _, stderr in found)
    for line, offset in zip(synchronised, (400, 450, -1), strict=True):
        assert "red zone of the allocation of 400 bytes" in line
        assert line.endswith(f"offset {offset}")
    assert launched[0].endswith("offset 400")
    assert launched[1:] == ["[2.0, 2.0, 2.0]"]
    assert len(exited) == 1
    assert exited[0].endswith("offset 400")
    assert "task 'aclnnMul" in operator[0]
    assert "allocation of 400 bytes" in operator[0]
    assert "offset 400 (device 0, stream " in operator[0]
    assert operator[-1] == "200.0"


@pytest.mark.parametrize("check", ["guard", "poison"])
def test_memory_goes_back_after_the_work_of_all_streams(answers, check):
    one = 0x3F800000  # the bits of 1.0
    assert answers[f"stale_stream@{check}"] == (0, f"[{one}]\n")
    assert answers[f"recorded_stream@{check}"] == (0, "[1.0]\n")


def test_uninitialized_memory_makes_results_nan(child):
    done = child(
        """
        import torch

        FRESH = -1  # every bit set
        for dtype, bits in ((torch.float16, torch.int16), (torch.bfloat16, torch.int16), (torch.float32, torch.int32)):
            x = torch.empty(100, dtype=dtype, device="npu")
            assert torch.npu.memory_reserved() == x.nbytes, "a tensor is an allocation of its own"
            assert torch.isnan(x).all() and (x.view(bits) == FRESH).all(), dtype
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).npu()
        x = torch.rand(4, 8, device="npu")
        assert torch.isfinite(model(x).sum())
        bias = torch.nn.Parameter(torch.empty(8, device="npu"))  # the planted error: never initialised
        model[0].bias = bias
        loss = model(x).sum()
        assert torch.isnan(loss)
        assert loss.view(torch.int32).item() == FRESH, "the result itself says that it comes from fresh memory"
        with torch.autograd.set_detect_anomaly(True):
            try:
                loss = model(x).sum()
                loss.backward()
            except RuntimeError as error:
                print("nan" in str(error))
        """,
        SOFTNPU_MEMORY_CHECK="poison",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n", done.stderr


def test_checked_memory_is_allocated_and_freed_without_a_cache(child):
    done = child(
        """
        import gc, threading, torch

        def numbers():
            stats = torch.npu.memory_stats()
            return [torch.npu.memory_allocated(), torch.npu.memory_reserved(), stats["allocation.all.current"],
                    stats["segment.all.current"], stats["active_bytes.all.current"], stats["requested_bytes.all.current"]]

        x = torch.ones(3, device="npu")
        assert numbers() == [12, 12, 1, 1, 12, 12], numbers()
        y = torch.ones(1 << 20, device="npu")
        torch.npu.synchronize()
        total = 12 + (4 << 20)
        assert numbers() == [total, total, 2, 2, total, total], numbers()
        assert torch.npu.memory_stats()["allocated_bytes.large_pool.current"] == 4 << 20
        address = y.data_ptr()
        del y
        assert numbers() == [12, 12, 1, 1, 12, 12], numbers()
        assert torch.npu.max_memory_allocated() == total
        torch.npu.reset_peak_memory_stats()
        assert torch.npu.max_memory_allocated() == 12

        # Queued work, and recorded streams, hold memory that was freed.
        side = torch.npu.Stream()
        y = torch.zeros(1 << 20, device="npu")
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            for _ in range(20):
                y.add_(1)
            y.record_stream(side)
            z = y[:3].clone()
        del y
        assert torch.npu.memory_allocated() == 24
        torch.npu.synchronize()
        assert numbers() == [24, 24, 2, 2, 24, 24], numbers()
        assert z.tolist() == [20.0] * 3

        # Freed on another thread.
        held = [torch.ones(1000, device="npu")]
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
        assert torch.npu.memory_allocated() == 24

        try:
            torch.empty(2 * torch.npu.mem_get_info()[1], dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            assert "Tried to allocate" in str(error)
        torch.npu.set_per_process_memory_fraction(0.01)
        try:
            torch.empty(torch.npu.mem_get_info()[1] // 50, dtype=torch.uint8, device="npu")
        except torch.OutOfMemoryError as error:
            assert " allowed; " in str(error)
        torch.npu.set_per_process_memory_fraction(1.0)
        assert torch.npu.memory_stats()["num_ooms"] == 2

        # A training step leaves nothing behind.
        def step(device):
            torch.manual_seed(0)
            model = torch.nn.Linear(30, 10).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            data = torch.linspace(-1, 1, 600).reshape(20, 30).to(device)
            for _ in range(3):
                optimizer.zero_grad()
                loss = model(data).square().mean()
                loss.backward()
                optimizer.step()
            return loss.item()

        assert abs(step("npu") - step("cpu")) < 1e-5
        gc.collect()
        torch.npu.empty_cache()
        assert numbers() == [24, 24, 2, 2, 24, 24], numbers()
        print("done")
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
        SOFTNPU_MEMORY_CHECK="none",
    )
    assert done.stdout == "done\n", done.stderr


def test_memory_is_cached_unless_asked_otherwise(child):
    program = 'import torch; torch.ones(3, device="npu"); print(torch.npu.memory_reserved())'
    assert child(program, SOFTNPU_MEMORY_CHECK="none").stdout == f"{2 << 20}\n"
