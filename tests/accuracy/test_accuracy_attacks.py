"""Cases in which a comparison or a record could be wrong unnoticed: fill values, numbers as inputs, in-place writes, odd
tensors."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch_npu  # noqa: F401
from torch_npu.accuracy import PrecisionDebugger
from torch_npu.capture import Capture
from torch_npu.tools.accuracy.compare import Options, compare
from torch_npu.tools.accuracy.runs import open_run
from torch_npu.tools.accuracy.verdict import judge

pytest.importorskip("h5py")
from dumps import Records, write_h5

functional = torch.nn.functional


def record(folder, step, **options):
    debugger = PrecisionDebugger(dump_path=folder, **options)
    debugger.start()
    try:
        step()
    finally:
        debugger.stop()
        debugger.step()
    return json.loads((folder / "step0" / "rank0" / "dump.json").read_text())["data"]


@pytest.mark.parametrize(
    ("fill", "kind"),
    [(np.finfo(np.float32).min, "float32"), (-1e4, "float32"), (1e9, "float32"), (-65504, "float16"), (-1e9, "bfloat16")],
)
def test_a_fill_value_hides_no_error(fill, kind):
    golden = np.array([fill, 1, 2, fill, 3], np.float32)
    wrong = golden.copy()
    wrong[2] = 3
    assert judge(wrong, golden, kind, kind).state == "error"
    assert judge(golden, golden, kind, kind).state == "pass"


def test_cancellation_beside_a_large_value_is_no_error():
    golden = np.array([1e5, 1, 2, 3], np.float32)
    assert judge(golden + np.float32(0.01), golden, "float32", "float32").state == "pass"


def test_operators_are_paired_by_their_number_arguments(tmp_path):
    x = np.arange(1, 5, dtype=np.float32)
    ops = [("mul", number, {"self": x, "other": number + 1}, {"result": x * (number + 1)}) for number in (1, 2, 3)]
    mine, golden = write_h5(tmp_path / "mine.h5", ops), write_h5(tmp_path / "golden.h5", ops[1:])
    found = compare(open_run(mine), open_run(golden), Options())
    assert found.counts == {"pass": 2, "warning": 0, "error": 0, "inherited": 0, "unmatched": 1}


@pytest.mark.parametrize("call", ["leaky_relu", "dropout", "hardtanh"])
def test_a_positional_inplace_argument_records_the_old_values(tmp_path, call):
    calls = {"leaky_relu": (0.5, True), "dropout": (1.0, True, True), "hardtanh": (-1.0, 1.0, True)}
    x = torch.tensor([-4.0, 2.0]).npu()
    data = record(tmp_path, lambda: getattr(functional, call)(x, *calls[call]))
    assert data[f"Functional.{call}.0.forward"]["input_args"][0]["Min"] == -4.0


def test_running_statistics_are_recorded_as_they_were_read(tmp_path):
    norm = torch.nn.BatchNorm1d(2).npu()
    data = record(tmp_path, lambda: norm(torch.tensor([[1.0, 2.0], [30.0, 40.0]]).npu()))
    assert data["Functional.batch_norm.0.forward"]["input_args"][1]["Max"] == 0.0


def test_a_module_that_writes_its_input(tmp_path):
    class Writes(torch.nn.Module):
        def forward(self, x):
            x.relu_()
            return x * 2

    def step():
        x = torch.tensor([-4.0, 2.0], device="npu", requires_grad=True) * 3
        Writes()(x).sum().backward()

    data = record(tmp_path, step, level="L0")
    assert data["Module.Writes.forward.0"]["input_args"][0]["Min"] == -12.0
    assert data["Module.Writes.backward.0"]["output"][0]["Min"] == 0.0  # the gradient of the input, not that of relu's result


def test_integers_beyond_the_precision_of_float32(tmp_path):
    data = record(tmp_path, lambda: torch.tensor([2**24 + 1], dtype=torch.int32).npu() + 0)
    assert data["Tensor.add.0.forward"]["output"][0]["Max"] == 2**24 + 1


@pytest.mark.parametrize("task", ["statistics", "tensor", "overflow_check"])
def test_tensors_without_readable_values_do_not_stop_the_program(tmp_path, task):
    def step():
        values = [torch.ones(2), torch.ones(3)]
        torch.nested.nested_tensor(values, layout=torch.jagged) * 2
        torch.vmap(lambda x: x.sin() * 2)(torch.ones(3, device="npu"))
        torch.func.grad(lambda x: x.sin().sum())(torch.ones(3, device="npu"))
        torch.eye(3).to_sparse() * 2
        torch.ones(3, device="meta") * 2
        torch.ones(3).to(torch.float8_e4m3fn).view(3, 1)

    data = record(tmp_path, step, task=task)
    assert task == "overflow_check" or "Tensor.view.0.forward" in data


def test_a_storage_that_was_resized_to_zero():
    for device in ("npu", "cpu"):
        for mode in ("tensor", "statistics"):
            records = Records()
            x = torch.ones(1000, 1000, device=device)
            with Capture(records, mode=mode, operators="view"):
                x.untyped_storage().resize_(0)
                x.view(-1)
                x.untyped_storage().resize_(4_000_000)
            assert [record.inputs["self"].missing for record in records.all] == ["its storage was resized to 0"]


COLLECTIVE = """
import torch, torch_npu, torch.distributed as dist
from torch_npu.capture import Capture
found = []
class Writer:
    def write(self, record): found.append(record)
    def close(self): pass
dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
result, x = torch.zeros(4, device="npu"), torch.arange(4.0, device="npu")
with Capture(Writer(), mode="statistics", operators="mul|_allgather_base_"):
    result * 1
    dist.all_gather_into_tensor(result, x)
    result * 1
    work = dist.all_gather_into_tensor(result, x + 1, async_op=True)
    work.wait()
    result * 1
dist.destroy_process_group()
assert [each.inputs["self"].statistics["Max"] for each in found if each.name == "mul"] == [0.0, 3.0, 4.0], found
"""


def test_statistics_after_a_collective_use_its_result():
    subprocess.run([sys.executable, "-c", COLLECTIVE], check=True, timeout=300)


IDLE_STREAM = """
import torch, torch_npu
from torch_npu.capture import Capture
class Writer:
    count = 0
    def write(self, record): self.count += 1
    def close(self): pass
writer = Writer()
x = torch.ones(1, device="npu")
many = [x] * 20_000
stream = torch.npu.Stream()
with Capture(writer, mode="statistics", operators="mul|cat"):
    with torch.npu.stream(stream):
        x * 2
    for _ in range(45):
        torch.cat(many)
assert writer.count == 46
"""


@pytest.mark.full
def test_a_stream_that_is_idle_does_not_hold_the_queue_for_ever():
    subprocess.run([sys.executable, "-c", IDLE_STREAM], check=True, timeout=300)


FULL = """
import resource, torch, torch_npu
from torch_npu.accuracy import PrecisionDebugger
from torch_npu.capture import Capture, JsonWriter
x = torch.randn(1 << 18)  # the limit allows a file with x, but not a file with three tensors or with y
y = torch.randn(1 << 19)
resource.setrlimit(resource.RLIMIT_FSIZE, (1200 << 10, 1200 << 10))
with Capture(JsonWriter("json"), operators="neg"):
    torch.neg(x), torch.neg(y), torch.neg(x)
with torch.utils.dumper(use_dump=True, dump_path="x.h5", operators="neg"):
    torch.neg(x), torch.neg(y)
debugger = PrecisionDebugger(task="tensor", dump_path="debugger")
debugger.start()
torch.neg(x), torch.neg(y), torch.neg(x)
debugger.stop()
print("went on")
"""


def test_a_full_disk_leaves_whole_files_only(tmp_path):
    pytest.importorskip("h5py")
    done = subprocess.run([sys.executable, "-c", FULL], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "went on\n"), done.stderr
    told = done.stderr.splitlines()
    assert len(told) == 4 and all("cannot be written" in line and "program goes on" in line for line in (told[0], *told[2:]))
    assert "x.h5 cannot be written and is not readable: File too large" in told[2]
    for folder in ("json", "debugger/step0/rank0"):
        files = {path.name for path in (tmp_path / folder / "dump_tensor_data").iterdir()}
        data = json.loads((tmp_path / folder / "dump.json").read_text())["data"]
        named = set(re.findall(r"'data_name': '([^']+)'", str(data)))
        assert len(files) == 2 and named == files
        assert all(torch.load(tmp_path / folder / "dump_tensor_data" / name).shape == (1 << 18,) for name in files)
