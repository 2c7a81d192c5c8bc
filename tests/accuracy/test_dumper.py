"""torch.utils.dumper: files, replays, overflows, and files that cannot be written."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import types
import warnings

import pytest
import torch
import torch_npu  # noqa: F401
from torch_npu.capture._hdf5 import tensor_of
from torch_npu.tools.accuracy import cli
from torch_npu.tools.accuracy.runs import open_run

h5py = pytest.importorskip("h5py")

MODEL = """
import torch, torch_npu, sys
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
                            torch.nn.Linear(4 * 36, 5)).npu()
x, target = torch.randn(2, 3, 8, 8).npu(), torch.tensor([1, 3]).npu()
"""


def network(device):
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)]
    return torch.nn.Sequential(*layers).to(device)


def step(model, device, scale=1.0):
    torch.manual_seed(1)
    x, target = torch.randn(2, 3, 8, 8) * scale, torch.tensor([1, 3])
    loss = torch.nn.functional.cross_entropy(model(x.to(device)), target.to(device))
    loss.backward()
    return loss


def entries(path):
    with h5py.File(path) as file:
        return {name: sorted(map(int, group)) for name, group in file.items()}


def run(code, tmp_path, **options):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, capture_output=True, text=True, **options)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_dump_has_operators_and_backward_nodes_with_their_values(device, tmp_path):
    path = tmp_path / "model.h5"
    model = network(device)
    with torch.utils.dumper(use_dump=True, dump_path=str(path)) as dump:
        step(model, device)
    assert dump.path == str(path)
    found = entries(path)
    assert {"conv2d", "batch_norm", "relu", "linear", "cross_entropy_loss"} <= set(found)
    assert {"AddmmBackward0", "ReluBackward0", "NllLossBackward0"} <= set(found)
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(1, 1 + sum(map(len, found.values()))))
    with h5py.File(path) as file:
        linear = file["linear"][str(found["linear"][0])]
        weight = linear["input/weight"]
        torch.testing.assert_close(torch.from_numpy(weight[()]), model[4].weight.detach().cpu())
        assert int(weight.attrs["DataType"]) == 1 and int(weight.attrs["Type"]) == 0
        assert list(weight.attrs["Stride"]) == [144, 1]
        inputs = torch.from_numpy(linear["input/input"][()])
        expected = torch.nn.functional.linear(inputs, model[4].weight.detach().cpu(), model[4].bias.detach().cpu())
        torch.testing.assert_close(torch.from_numpy(linear["output/result"][()]), expected, rtol=1e-5, atol=1e-5)
        backward = file["AddmmBackward0"][str(found["AddmmBackward0"][0])]
        assert backward["input/grad_0"].shape == (2, 5)
        assert backward["output/result_0"].shape == (5,)
        assert int(weight.attrs["DeviceType"]) == (10 if device == "npu" else 0)
        module, line = json.loads(file.attrs["Places"])[linear.name.rpartition("/")[2]]
        assert module == "Linear" and "test_dumper.py" in line
        groups = []
        file.visititems(lambda name, item: groups.append(name) if hasattr(item, "keys") and item.attrs else None)
        assert not groups, "msaccucmp takes a group with attributes for a dataset"


@pytest.mark.parametrize(("golden", "mine"), [("cpu", "npu"), ("npu", "cpu")])
@pytest.mark.parametrize("spelling", [{"use_dump": True}, {"use_load": True}])
def test_a_replay_takes_the_inputs_of_the_file(golden, mine, spelling, tmp_path):
    first, second = str(tmp_path / "golden.h5"), str(tmp_path / "mine.h5")
    with torch.utils.dumper(use_dump=True, dump_path=first):
        step(network(golden), golden)
    with torch.utils.dumper(load_file_path=first, dump_path=second, **spelling):
        step(network(mine), mine, scale=100.0)  # different data, because the inputs come from the file
    with h5py.File(first) as one, h5py.File(second) as two:
        compared = 0
        for name in set(one) & set(two):
            for number in set(one[name]) & set(two[name]):
                for result in one[name][number]["output"]:
                    a, b = one[name][number]["output"].get(result), two[name][number]["output"].get(result)
                    if b is None or not hasattr(a, "shape") or a.dtype.kind != "f":
                        continue
                    # Uninitialised parameters may hold NaN.
                    torch.testing.assert_close(tensor_of(a), tensor_of(b), rtol=1e-3, atol=1e-4, equal_nan=True)
                    compared += 1
        assert compared >= 8


def test_dtypes_keep_their_codes_and_equal_tensors_are_stored_once(tmp_path):
    path = tmp_path / "types.h5"
    x = torch.randn(4, 6).npu()
    with torch.utils.dumper(use_dump=True, dump_path=path, compress=True):
        torch.add(x.bfloat16().t(), 1)
        torch.mul(torch.randn(3, dtype=torch.complex64).npu(), 2)
        torch.add(x, 1)
        torch.sub(x, 1)
        torch.cat([x, x])
    with h5py.File(path) as file:
        first, second = sorted(file["add"], key=int)
        assert int(file["add"][first]["input/self"].attrs["DataType"]) == 15
        assert file["add"][first]["input/self"].shape == (6, 4)
        assert list(file["add"][first]["input/self"].attrs["Stride"]) == [1, 6]
        assert file["mul"][next(iter(file["mul"]))]["input/self"].dtype.kind == "c"
        same = file["sub"][next(iter(file["sub"]))]["input/self"]
        assert file["add"][second]["input/self"] == same
        assert set(file["cat"][next(iter(file["cat"]))]["input/tensors"]) == {"tensors_0", "tensors_1"}


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tensors_with_other_strides_are_replayed(device, tmp_path):
    x = torch.arange(6.0).view(2, 3).to(device)
    given = [x.t(), x[0].expand(4, 3), x[:, ::2], torch.arange(12.0, device=device).as_strided((3, 3), (2, 1)), x[:0], x[0, 0]]
    with torch.utils.dumper(use_dump=True, dump_path=tmp_path / "x.h5", operators="neg"):
        for each in given:
            torch.neg(each)
    ops = open_run(tmp_path / "x.h5").ops
    with h5py.File(tmp_path / "x.h5") as file:
        for op, each in zip(ops, given, strict=True):
            assert op.inputs[0].load().tolist() == each.tolist() == tensor_of(file[op.inputs[0].path]).tolist()
        # msaccucmp reads CPU tensors in the order of their memory.
        memory = [0.0, 1, 2, 3, 4, 5] if device == "cpu" else [0.0, 3, 1, 4, 2, 5]
        assert file[ops[0].inputs[0].path][()].reshape(-1).tolist() == memory


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("exit()", 0),
        pytest.param("sys.exit(3)", 3, marks=pytest.mark.full),
        pytest.param("raise ValueError('no')", 1, marks=pytest.mark.full),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(9)", -signal.SIGINT),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM); import time; time.sleep(9)", -signal.SIGTERM),
    ],
)
def test_the_file_is_whole_however_the_block_ends(end, status, tmp_path):
    code = MODEL + "with torch.utils.dumper(use_dump=True, dump_path='x.h5'):\n    model(x).sum().backward()\n    " + end
    done = run(code, tmp_path, timeout=120)
    assert done.returncode in (status, 128 + abs(status)), done.stderr
    assert {"conv2d", "linear", "AddmmBackward0"} <= set(entries(tmp_path / "x.h5"))


@pytest.mark.parametrize("place", ["overflow", "overflow.h5"])
def test_an_overflow_is_named_and_its_data_are_written(place, tmp_path, capfd):
    with torch.utils.dumper(check_overflow=True, dump_path=str(tmp_path / place), load_file_path=""):
        torch.add(torch.ones(4).npu(), 1)
        torch.full((4,), 60000.0, dtype=torch.half).npu() * 4
    assert "mul overflows" in capfd.readouterr().out
    files = [tmp_path / place] if place.endswith(".h5") else list((tmp_path / place).glob("*.h5"))
    assert len(files) == 1 and "mul" in entries(files[0]) and "add" not in entries(files[0])


def test_a_folder_gets_a_file_with_the_time_as_its_name(tmp_path, capfd):
    with torch.utils.dumper(use_dump=True, dump_path=str(tmp_path / "new" / "folder")) as dump:
        torch.ones(2) + 1
    assert dump.path.endswith(".h5") and os.path.dirname(dump.path) == str(tmp_path / "new" / "folder")
    assert dump.path in capfd.readouterr().err


def test_a_replay_says_which_calls_are_not_in_the_file(tmp_path, capfd):
    path = tmp_path / "golden.h5"
    x = torch.ones(2).npu()
    with torch.utils.dumper(use_dump=True, dump_path=path):
        torch.neg(x)
    for call, words in (
        (lambda: torch.exp(torch.neg(x)), "1 of 2 calls are not in"),
        (lambda: torch.exp(x), "no call is in"),
        (lambda: torch.neg(x[:1]), "no call is in"),
    ):
        with torch.utils.dumper(use_dump=True, load_file_path=path, dump_path=tmp_path / "mine.h5", operators="neg|exp"):
            call()
        assert words in capfd.readouterr().err
    with h5py.File(path, "a") as file:
        del file["neg"]["1"]["input"]
        file["neg/2"], file["exp/3/input"] = 1, 2
    with torch.utils.dumper(use_dump=True, load_file_path=path, dump_path=tmp_path / "mine.h5", operators="neg|exp"):
        assert torch.exp(torch.neg(x)).isfinite().all()
    assert "no call is in" in capfd.readouterr().err


def test_a_dump_that_cannot_start_prints_a_sentence(tmp_path, capfd):
    full = tmp_path / "full.h5"
    full.symlink_to("/dev/full")
    (tmp_path / "cut.h5").write_bytes(b"\\x89HDF\\r\\n\\x1a\\n" + bytes(40))
    (tmp_path / "ok.h5").touch()
    for options, words in (
        ({"dump_path": str(full)}, "full.h5"),
        ({"dump_path": "/proc/x.h5"}, "/proc/x.h5 cannot be written"),
        ({"dump_path": str(tmp_path / "none" / "x.h5")}, "there is no folder"),
        ({"dump_path": str(tmp_path / "x.txt")}, "must be a folder or a file that ends in .h5"),
        ({"dump_path": str(tmp_path / "ok.h5"), "load_file_path": str(tmp_path / "ok.h5")}, "the same file"),
        ({"dump_path": str(tmp_path / "y.h5"), "load_file_path": str(tmp_path / "cut.h5")}, "cannot read"),
        ({"dump_path": str(tmp_path / "y.h5"), "load_file_path": str(tmp_path / "no.h5")}, "there is no file"),
    ):
        with torch.utils.dumper(use_dump=True, **options):
            result = torch.ones(2).npu() + 1
        assert result.tolist() == [2, 2]
        assert words in capfd.readouterr().err, options


def test_a_dump_inside_a_dump_is_refused_and_the_outer_one_goes_on(tmp_path, capfd):
    with torch.utils.dumper(use_dump=True, dump_path=str(tmp_path / "outer.h5")):
        with torch.utils.dumper(use_dump=True, dump_path=str(tmp_path / "inner.h5")):
            torch.ones(2) + 1
        torch.ones(2) * 3
    assert "another dump is active" in capfd.readouterr().err
    assert {"add", "mul"} <= set(entries(tmp_path / "outer.h5"))


def test_a_large_dump_and_a_dynamic_loss_scale_give_advice(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("torch_npu.capture._hdf5.LARGE", 1 << 10)
    with torch.utils.dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
        for _ in range(4):
            torch.ones(300) + torch.rand(300)
    assert capfd.readouterr().err.count("use a batch of at most 8, dump one step") == 1
    amp = types.ModuleType("apex.amp")
    properties = types.SimpleNamespace(combine_grad=True)
    amp._amp_state = types.SimpleNamespace(loss_scalers=[types.SimpleNamespace(dynamic=True)], opt_properties=properties)
    monkeypatch.setitem(sys.modules, "apex.amp", amp)
    with (
        pytest.warns(UserWarning, match="dynamic loss scale"),
        pytest.warns(UserWarning, match="combine_grad"),
        torch.utils.dumper(check_overflow=True, dump_path=tmp_path / "y.h5"),
    ):
        torch.ones(2) + 1


def test_bad_switches_are_errors(tmp_path):
    with pytest.raises(TypeError, match="use_dump must be True or False"):
        torch.utils.dumper(use_dump=1)
    with pytest.raises(ValueError, match="cannot be combined"):
        torch.utils.dumper(use_dump=True, check_overflow=True)
    with pytest.raises(ValueError, match="needs a load_file_path"):
        torch.utils.dumper(use_load=True)
    with pytest.raises(ValueError, match="set one of"):
        torch.utils.dumper()
    with torch.utils.dumper(enabled=False):
        torch.ones(2) + 1


def test_operators_of_a_graph_capture_are_left_out_with_a_warning(tmp_path):
    x = torch.ones(4).npu()
    graph = torch.npu.NPUGraph()
    with (
        pytest.warns(UserWarning, match="inside a graph capture"),
        torch.utils.dumper(use_dump=True, dump_path=tmp_path / "g.h5"),
    ):
        with torch.npu.graph(graph):
            y = x * 2
        x + 1
    graph.replay()
    assert y.tolist() == [2, 2, 2, 2]
    assert "add" in entries(tmp_path / "g.h5")


def test_an_optimizer_in_the_block_gives_one_warning(tmp_path):
    model = torch.nn.Linear(2, 2).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.warns(UserWarning, match="SGD.step.. runs in the block") as told:
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / "x.h5"):
            model(torch.ones(1, 2).npu()).sum().backward()
            optimizer.step()
            optimizer.step()
        optimizer.step()
    assert len(told) == 1
    with warnings.catch_warnings(), torch.utils.dumper(use_dump=True, dump_path=tmp_path / "y.h5"):
        warnings.simplefilter("error")
        torch.ones(2) + 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_the_smallest_step_of_eight_bits_agrees(dtype, tmp_path, capsys):
    golden = torch.tensor([1.0, 2, 3, 4]).to(dtype)
    mine = (golden.view(torch.uint8) + torch.tensor([1, 0, 0, 0], dtype=torch.uint8)).view(dtype)
    for name, x in (("golden", golden), ("mine", mine)):
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / f"{name}.h5", operators="clone"):
            torch.clone(x)
    words = ["compare", "-m", str(tmp_path / "mine.h5"), "-g", str(tmp_path / "golden.h5"), "-out", str(tmp_path)]
    assert cli.main(words) == 0, capsys.readouterr()


def test_bytes_above_127_are_compared_as_they_are(tmp_path, capsys):
    for name, value in (("golden", 250), ("mine", 251)):
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / f"{name}.h5", operators="clone"):
            torch.clone(torch.full((4,), value, dtype=torch.uint8).npu())
    words = ["compare", "-m", str(tmp_path / "mine.h5"), "-g", str(tmp_path / "golden.h5"), "-out", str(tmp_path)]
    assert cli.main(words) == 1, capsys.readouterr()
    (path,) = tmp_path.glob("result_*.csv")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert {row["StandardDeviation"] for row in rows} == {"(251.000;0.000),(250.000;0.000)"}


def test_tensors_that_cannot_be_read_are_counted_and_do_not_stop_a_comparison(tmp_path, capfd):
    for name in ("a.h5", "b.h5"):
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / name, operators="neg|mul"):
            torch.neg(torch.eye(3).to_sparse())
            torch.ones(2) * 2
    assert "b.h5 lacks the values of 2 tensors; the reason for each: it is not strided" in capfd.readouterr().err
    words = ["compare", "-m", str(tmp_path / "b.h5"), "-g", str(tmp_path / "a.h5"), "-out", str(tmp_path / "out")]
    assert cli.main(words) == 0
    (table,) = (tmp_path / "out").glob("result_*.csv")
    told = {row["NPUDump"]: (row["CompareFailReason"], row["Verdict"]) for row in csv.DictReader(table.open())}
    assert told["neg"] == ("neither dump has a tensor of this operator", "pass")


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.uint64])
def test_rare_types_keep_their_values(dtype, tmp_path):
    x = torch.tensor([1.0, 2.0, 4.0]).to(dtype)
    with torch.utils.dumper(use_dump=True, dump_path=tmp_path / "x.h5", operators="clone"):
        x.clone()
    with h5py.File(tmp_path / "x.h5") as file:
        assert torch.equal(tensor_of(file["clone/1/input/self"]), x)
    assert open_run(tmp_path / "x.h5").ops[0].inputs[0].type == str(dtype).removeprefix("torch.")


def test_the_same_object_inside_of_its_block_is_refused_and_the_outer_block_goes_on(tmp_path, capfd):
    with torch.utils.dumper(use_dump=True, dump_path=tmp_path / "x.h5") as dump:
        with dump:
            torch.ones(2) + 1
        torch.ones(2) * 3
    assert "active already" in capfd.readouterr().err and {"add", "mul"} <= set(entries(tmp_path / "x.h5"))


def test_each_block_of_an_object_with_a_folder_has_a_file_of_its_own(tmp_path):
    dump = torch.utils.dumper(use_dump=True, dump_path=tmp_path)
    paths = []
    for operator in (torch.neg, torch.exp):
        with dump:
            operator(torch.ones(2))
        paths.append(dump.path)
    assert [set(entries(path)) & {"neg", "exp"} for path in paths] == [{"neg"}, {"exp"}]


def test_sigterm_while_the_program_reads_a_file_of_hdf5(tmp_path):
    code = """
        import h5py, os, signal, torch, torch_npu
        with h5py.File("data.h5", "w") as file:
            file["x"] = 1
        with torch.utils.dumper(use_dump=True, dump_path="dump.h5"), h5py.File("data.h5") as file:
            torch.ones(2) + 1
            file.visititems(lambda *_: os.kill(os.getpid(), signal.SIGTERM))
            while True:
                torch.ones(2) * 3
    """
    done = run(code, tmp_path, timeout=120)
    assert done.returncode == -signal.SIGTERM, done.stderr
    assert "add" in entries(tmp_path / "dump.h5")


@pytest.mark.parametrize(("size", "smaller"), [(8, False), (100_000, True)])
def test_compression_makes_no_file_larger(size, smaller, tmp_path):
    for name, compress in (("plain.h5", False), ("small.h5", True)):
        with torch.utils.dumper(use_dump=True, dump_path=tmp_path / name, compress=compress, operators="mul"):
            for i in range(50):
                torch.ones(size) * i
    sizes = [os.path.getsize(tmp_path / name) for name in ("plain.h5", "small.h5")]
    assert sizes[1] < sizes[0] / 2 if smaller else sizes[1] <= sizes[0]


def test_a_file_that_another_program_writes_is_a_sentence(tmp_path):
    code = """
        import torch, torch_npu
        with torch.utils.dumper(use_dump=True, dump_path="x.h5"):
            print(torch.ones(2).sum().item())
    """
    with h5py.File(tmp_path / "x.h5", "w"):
        done = run(code, tmp_path, timeout=120)
    assert done.returncode == 0 and done.stdout == "2.0\n"
    assert "x.h5 cannot be written: another program or rank has it open; choose another dump_path" in done.stderr


def test_an_overflow_of_eight_bits_is_found(tmp_path, capfd):
    x = torch.full((4,), 1e6)
    with torch.utils.dumper(check_overflow=True, dump_path=tmp_path / "x.h5", operators="to"):
        x.to(torch.float8_e4m3fnuz)
        torch.ones(2).to(torch.float8_e4m3fnuz)
    told = capfd.readouterr()
    assert "could not be dumped" not in told.err and told.out.count("to overflows") == 1
