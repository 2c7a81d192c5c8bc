"""Captures of operators in difficult programs: threads, streams, freed memory, in-place writes, hooks, failures."""

from __future__ import annotations

import errno
import gc
import json
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch_npu  # noqa: F401
from torch.utils.checkpoint import checkpoint
from torch_npu import _C
from torch_npu.capture import Capture, Hdf5Writer, JsonWriter

pytest.importorskip("h5py")
from dumps import Records


@pytest.fixture
def records():
    return Records()


def test_threads_do_not_mix_their_values(records):
    def work(number):
        for _ in range(20):
            torch.mul(torch.full((4,), float(number), device="npu"), 2)

    with Capture(records, operators="mul"):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = records.of("mul")
    assert len(found) == 80 and len({record.sequence for record in found}) == 80
    for record in found:
        assert torch.equal(record.outputs["result"].data, record.inputs["self"].data * 2)


def test_side_streams_and_tensors_that_are_freed_at_once(records):
    stream = torch.npu.Stream()
    with Capture(records, operators="add|mul"):
        for number in range(30):
            with torch.npu.stream(stream if number % 2 else torch.npu.current_stream()):
                x = torch.full((1 << 16,), float(number), device="npu")
                x = (x + 1) * 2  # the sum is freed at once, and its memory is used again
                del x
        gc.collect()
    assert [record.outputs["result"].data.unique().tolist() for record in records.of("mul")] == [[2.0 * n + 2] for n in range(30)]


def test_an_in_place_operator_has_its_old_and_new_values(records):
    x = torch.tensor([1.0, -2.0]).npu()
    with Capture(records):
        x.relu_()
        x[:1].add_(1)
        torch.add(x, 1, out=x)
    (relu,), (add,), (out,) = records.of("relu_"), records.of("add_"), records.of("add")
    assert relu.inputs["self"].data.tolist() == [1, -2] and relu.outputs["result"].data.tolist() == [1, 0]
    assert add.inputs["self"].data.tolist() == [1] and add.outputs["result"].data.tolist() == [2]
    assert out.inputs["self"].data.tolist() == [2, 0] and next(iter(out.outputs.values())).data.tolist() == [3, 1]


def test_arguments_that_an_operator_writes_and_does_not_return_are_results(records):
    norm = torch.nn.BatchNorm1d(2).npu()
    x, y = torch.ones(2).npu(), torch.zeros(2).npu()
    with Capture(records):
        norm(torch.tensor([[1.0, 3.0], [3.0, 7.0]]).npu())
        torch._foreach_add_([x, y], 2)
    (batch_norm,), (foreach,) = records.of("batch_norm"), records.of("_foreach_add_")
    assert batch_norm.inputs["running_mean"].data.tolist() == [0, 0]
    torch.testing.assert_close(batch_norm.outputs["running_mean"].data, torch.tensor([0.2, 0.5]))
    assert [each.data.tolist() for each in foreach.inputs["self"]] == [[1, 1], [0, 0]]
    assert [each.data.tolist() for each in foreach.outputs["self"]] == [[3, 3], [2, 2]]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_statistics_follow_writes_without_a_new_tensor(records, device):
    x = torch.tensor([1.0, 2.0]).to(device)
    with Capture(records, mode="statistics", operators="neg"):
        torch.neg(x)
        torch.neg(x)
        x[0] = 5
        torch.neg(x)
        x.data.copy_(torch.tensor([7.0, 8.0]))  # does not change the version
        torch.neg(x)
    assert [record.inputs["self"].statistics["Max"] for record in records.all] == [2, 2, 5, 8]
    assert records.all[0].inputs["self"].statistics == {"Max": 2, "Min": 1, "Mean": 1.5, "Norm": pytest.approx(5**0.5)}


def test_statistics_follow_writes_by_numpy_and_by_graphs(records):
    host = torch.ones(2)
    x = torch.zeros(2, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
    with Capture(records, mode="statistics", operators="neg"):
        torch.neg(host)
        host.numpy()[:] = 3
        torch.neg(host)
        for _ in range(2):
            graph.replay()
            torch.neg(x)
    assert [record.inputs["self"].statistics["Max"] for record in records.all] == [1, 3, 1, 2]


def test_dtypes_without_all_statistics(records):
    with Capture(records, mode="statistics", operators="clone"):
        for x in (torch.tensor([True, False]), torch.tensor([3, 4]), torch.tensor([3 + 4j]), torch.empty(0), torch.ones(()),
                  torch.tensor([float("nan")] * 2), torch.tensor([1.0, 3.0], dtype=torch.bfloat16)):  # fmt: skip
            torch.clone(x.npu())
    numbers = [record.inputs["self"].statistics for record in records.all]
    assert [each and each["Max"] for each in numbers[:3]] == [1, 4, 5]
    assert numbers[3] is None and numbers[4]["Mean"] == 1 and numbers[5]["Max"] != numbers[5]["Max"] and numbers[6]["Mean"] == 2


def test_checkpoints_and_nested_autograd(records):
    x = torch.ones(3, device="npu", requires_grad=True)
    with Capture(records):
        checkpoint(lambda value: value.sin().cos(), x, use_reentrant=False).sum().backward()
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        slope.sum().backward()
    assert records.names().count("sin") == 1  # the backward node calls it again
    assert {"CosBackward0", "PowBackward0", "AccumulateGrad"} <= set(records.names(backward=True))
    torch.testing.assert_close(records.of("AccumulateGrad")[-1].inputs["grad_0"].data, torch.full((3,), 6.0))


RANKS = """
import torch, torch_npu, torch.distributed as dist
dist.init_process_group("hccl")
rank = dist.get_rank()
torch.npu.set_device(rank)
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).npu(), device_ids=[rank])
with torch.utils.dumper(use_dump=True, dump_path=f"rank{rank}.h5"):
    model(torch.full((3, 4), float(rank + 1)).npu()).sum().backward()
dist.destroy_process_group()
"""


@pytest.mark.full
def test_two_ranks_of_ddp(tmp_path):
    import h5py

    (tmp_path / "ranks.py").write_text(RANKS)
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "--standalone", "ranks.py"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    for rank in range(2):
        with h5py.File(tmp_path / f"rank{rank}.h5") as file:
            (number,) = file["linear"]
            assert file[f"linear/{number}/input/input"][()].tolist() == [[rank + 1.0] * 4] * 3
            assert {"AddmmBackward0", "AccumulateGrad"} <= set(file)


def test_torch_func_leaves_values_out_with_a_reason(records):
    x = torch.randn(4, 3).npu()
    with Capture(records):
        result = torch.func.vmap(torch.func.grad(lambda row: row.sin().sum()))(x)
        x.exp()
    torch.testing.assert_close(result, x.cos())
    (last,) = records.of("exp")
    torch.testing.assert_close(last.outputs["result"].data, x.exp().cpu())
    wrapped = [value for record in records.all for value in record.inputs.values() if getattr(value, "missing", "")]
    assert wrapped and all("subclass" in value.missing for value in wrapped)


def test_hooks_that_call_operators_are_recorded_too(records):
    layer = torch.nn.Linear(2, 2).npu()
    layer.register_forward_hook(lambda module, inputs, output: output.mul(3))
    layer.weight.register_hook(lambda gradient: gradient.neg())
    with Capture(records, model=layer):
        layer(torch.ones(1, 2).npu()).sum().backward()
    assert records.names() == ["linear", "mul", "sum", "ones_like", "neg"] or {"linear", "mul", "neg"} <= set(records.names())
    assert "AddmmBackward0" in records.names(backward=True)


def test_a_failed_operator_is_recorded_without_results(records):
    x = torch.ones(2, 3).npu()
    y = x.clone().requires_grad_()

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no gradient")

    with Capture(records):
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        with pytest.raises(ValueError, match="no gradient"):
            Fails.apply(y).sum().backward()
        torch.add(x, 1)
    (failed,), (last,) = records.of("mm"), records.of("add")
    assert failed.inputs["self"].data.shape == (2, 3) and not failed.outputs
    assert last.outputs["result"].data.unique().tolist() == [2]


def test_modules_and_operators_select_calls(records):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2)).npu()
    with Capture(records, model=model, modules=["2"]):
        model(torch.ones(1, 2).npu()).sum().backward()
    assert records.names() == ["linear"] and {record.module for record in records.all} == {"2"}
    assert "AddmmBackward0" in records.names(backward=True) and "ReluBackward0" not in records.names(backward=True)
    chosen = Records()
    for step in range(3):
        with Capture(chosen, operators="relu", steps=[1], step=step, ranks=[0]):
            model(torch.ones(1, 2).npu())
    assert chosen.names() == ["relu"]
    with Capture(chosen, ranks=[5]):
        model(torch.ones(1, 2).npu())
    assert chosen.names() == ["relu"]


def test_queued_data_stay_within_256_mib(records):
    largest = []

    def slow(record):
        largest.append(_C._capture_queued())
        time.sleep(0.02)

    records.write = slow
    x = torch.ones(8 << 20, device="npu")
    with Capture(records, operators="neg"):
        for _ in range(12):
            torch.neg(x)  # 64 MiB of input and result
    assert len(largest) == 12 and 128 << 20 < max(largest) <= 256 << 20


def test_a_failed_writer_does_not_stop_the_program(records, capfd):
    def full(record):
        raise OSError(28, "No space left on device")

    records.write = full
    with Capture(records) as capture:
        for _ in range(20):
            result = torch.ones(1 << 22, device="npu") + 1
    assert result.sum().item() == 2 << 22 and isinstance(capture.failure, OSError)
    assert "the dump stops, and the program goes on: [Errno 28] No space left on device" in capfd.readouterr().err


def test_a_child_process_neither_records_nor_writes(records, tmp_path):
    path = tmp_path / "x.h5"
    with torch.utils.dumper(use_dump=True, dump_path=path):
        torch.ones(3) + 1
        child = os.fork()
        if child == 0:  # e.g. a worker of a DataLoader
            try:
                torch.set_num_threads(1)  # like a DataLoader, because OpenMP's threads exist only in the parent
                for _ in range(8):
                    torch.ones(16 << 20) + 1  # more data than the queue can hold
                os._exit(0 if not _C._capture_is_active() else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        torch.ones(3) * 3
    import h5py

    with h5py.File(path) as file:
        assert {"add", "mul"} <= set(file) and len(file["add"]) == 1


def test_an_empty_capture_and_successive_captures(records):
    for _ in range(2):
        with Capture(records):
            pass
    assert not records.all
    with Capture(records):
        torch.ones(2).npu()
        with pytest.raises(RuntimeError, match="already active"):
            Capture(Records()).start()
    assert records.all


@pytest.mark.parametrize("number", [errno.EMLINK, errno.EPERM])
def test_equal_tensors_have_separate_files_without_hard_links(tmp_path, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    x = torch.ones(3).npu()
    with Capture(JsonWriter(tmp_path), operators="neg") as capture:
        for _ in range(2):
            torch.neg(x)
    assert capture.failure is None
    data = json.loads((tmp_path / "dump.json").read_text())["data"]
    assert list(data) == ["Aten.neg.0.forward", "Aten.neg.1.forward"]
    for name in data:
        told = data[name]["output"][0]
        assert (told["Max"], told["shape"], told["requires_grad"]) == (-1, [3], False)
        assert torch.load(tmp_path / "dump_tensor_data" / told["data_name"]).tolist() == [-1] * 3


def _layouts(x):
    """The tensor, and dense, permuted, strided and expanded views of it."""
    return [x, x.t(), x[1:, ::3], x[:, :1].expand(-1, 5), x[0, 0]]


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64,
     torch.bool, torch.complex64, torch.complex128, torch.float8_e5m2, torch.uint16],
    ids=lambda dtype: str(dtype).partition(".")[2],
)  # fmt: skip
def test_statistics_are_those_of_the_values(records, dtype):
    torch.manual_seed(0)
    wide = torch.randn(70, 1001) * 30  # more elements than one piece of work of a thread
    if dtype.is_complex:
        wide = torch.complex(wide, wide.flip(0))
    x = (wide.abs() if dtype == torch.uint16 else wide).to(dtype)
    with Capture(records, mode="statistics", operators="alias"):
        for each in _layouts(x.npu()):
            torch.ops.aten.alias(each)
    for record, values in zip(records.all, _layouts(x), strict=True):
        numbers = record.inputs["self"].statistics
        golden = (values.abs() if dtype.is_complex else values).double()
        told = [golden.max().item(), golden.min().item(), golden.mean().item(), torch.linalg.vector_norm(golden).item()]
        torch.testing.assert_close(list(numbers.values()), told, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("place", [0, 7, 9, 100, 69999])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_statistics_of_numbers_that_are_not_finite(records, place, value):
    x = torch.ones(max(place + 1, 11))
    x[place] = value
    with Capture(records, mode="statistics", operators="neg"):
        torch.neg(x.npu())
    numbers = records.all[0].inputs["self"].statistics
    golden = [x.max().item(), x.min().item(), x.mean().item(), x.norm().item()]
    torch.testing.assert_close(list(numbers.values()), golden, equal_nan=True)


def test_statistics_of_lists_and_of_a_tensor_that_is_given_twice(records):
    x = [torch.full((n + 1,), float(n)).npu() for n in range(40)]
    with Capture(records, mode="statistics", operators="_foreach_add|mul|_foreach_add_"):
        torch._foreach_add(x, x)
        torch.mul(x[3], x[3])
        torch._foreach_add_(x, 1)
    (add,), (mul,), (last,) = records.of("_foreach_add"), records.of("mul"), records.of("_foreach_add_")
    assert [each.statistics["Mean"] for each in add.inputs["self"]] == list(range(40))
    assert [each.statistics["Mean"] for each in add.outputs["result"]] == [2.0 * n for n in range(40)]
    assert mul.inputs["self"].statistics["Max"] == mul.inputs["other"].statistics["Max"] == 3
    assert [each.statistics["Mean"] for each in last.inputs["self"]] == list(range(40))
    assert [each.statistics["Mean"] for each in last.outputs["self"]] == [n + 1.0 for n in range(40)]


def test_a_stop_inside_a_graph_capture_ends_the_dump_with_a_sentence(records, capfd):
    x, graph, stream = torch.ones(4).npu(), torch.npu.NPUGraph(), torch.npu.Stream()
    capture = Capture(records, mode="statistics", operators="neg|exp")
    with torch.npu.stream(stream):
        capture.start()
        torch.neg(x)
        with torch.npu.graph(graph, stream=stream):
            y = torch.exp(x)
            with pytest.warns(UserWarning, match="inside a graph capture"):
                capture.stop()
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.ones(4).exp())
    told = capfd.readouterr().err
    assert "the dump stops, and the program goes on" in told and "a graph capture of the stream has begun" in told


def test_statistics_are_refused_for_a_file_that_cannot_hold_them(tmp_path):
    with pytest.raises(ValueError, match="Hdf5Writer hold no statistics"):
        Capture(Hdf5Writer(tmp_path / "x.h5"), mode="statistics")


def test_half_complex_tensors_have_statistics_in_dump_json(tmp_path):
    x = torch.tensor([3 + 4j, 0]).to(torch.complex32)
    with Capture(JsonWriter(tmp_path), operators="clone") as capture:
        x.clone()
    assert capture.failure is None
    found = json.loads((tmp_path / "dump.json").read_text())["data"]["Aten.clone.0.forward"]["output"][0]
    assert (found["Max"], found["dtype"]) == (5, "torch.complex32")


def test_a_storage_is_recorded_by_its_size(records):
    with Capture(records, operators="set_"):
        torch.empty(0).set_(torch.ones(1000).untyped_storage(), 0, (1000,))
    assert records.of("set_")[0].inputs["source"] == "UntypedStorage of 4000 bytes"
