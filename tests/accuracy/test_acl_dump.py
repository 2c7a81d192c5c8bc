"""torch.npu.init_dump, set_dump and finalize_dump: the files hold the tensors, and `msaccucmp convert` reads them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_npu import softnpu
from torch_npu.tools.accuracy import cli, dump_data

from tests.support import LAYOUTS, pair

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.uint16,
    torch.int32,
    torch.uint32,
    torch.int64,
    torch.uint64,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


class Dump:
    """A dump into a folder. After the block, `files` has the written files in the order of time."""

    def __init__(self, folder: Path, mode: str = "all", **members) -> None:
        self.path = folder / "output"
        self._config = folder / "dump.json"
        dump = {"dump_list": [], "dump_path": str(self.path), "dump_mode": mode, "dump_op_switch": "on"}
        self._config.write_text(json.dumps({"dump": dump | members}))
        self.files: list[Path] = []

    def __enter__(self):
        torch.npu.init_dump()
        torch.npu.set_dump(self._config)
        return self

    def __exit__(self, *_):
        torch.npu.finalize_dump()
        found = [path for path in self.path.rglob("*") if path.is_file()]
        self.files = sorted(found, key=lambda path: dump_data.parse_name(path.name).time)

    def names(self):
        return [dump_data.parse_name(path.name).type for path in self.files]


def numpy_of(tensor):
    tensor = tensor.cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def converted(folder, dump, out, *more):
    """The arrays that `msaccucmp convert` makes. The key is the end of the name."""
    assert cli.main(["convert", "-d", str(dump.path), "-out", str(out), "-v", "2", *more]) == 0
    return {re.search(r"(input|output)\.\d+$", path.stem)[0]: np.load(path) for path in out.glob("*.npy")}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).partition(".")[2])
def test_arrays_of_convert_equal_the_tensors(tmp_path, dtype):
    values = torch.arange(12).reshape(3, 4).to(dtype)
    tensor = values.npu()
    with Dump(tmp_path, dump_list=["InplaceCopy", "Copy"]) as dump:
        torch.empty(4, 3, dtype=dtype, device="npu").copy_(tensor.t())
    arrays = converted(tmp_path, dump, tmp_path / "numpy")
    wanted = numpy_of(values.t())
    assert "output.0" in arrays and len(dump.files) == 1
    for name, array in arrays.items():
        if name != "input.0":  # the input of the copy: the values of the target before it
            assert array.dtype == wanted.dtype and array.shape == wanted.shape
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views_of_every_layout_are_written_in_their_order(tmp_path, layout):
    cpu, npu = pair(layout)
    with Dump(tmp_path, dump_list=["Neg"]) as dump:
        result = -npu
    if layout == "empty":  # an empty tensor launches nothing
        assert not dump.files
        return
    arrays = converted(tmp_path, dump, tmp_path / "numpy")
    np.testing.assert_array_equal(arrays["input.0"], numpy_of(cpu))
    np.testing.assert_array_equal(arrays["output.0"], numpy_of(result))
    np.testing.assert_array_equal(arrays["output.0"], numpy_of(-cpu))


def test_names_are_those_of_the_document(tmp_path):
    with Dump(tmp_path) as dump:
        torch.ones(2).npu().add_(1)
    (path,) = dump.files
    assert re.fullmatch(r"\d{14}/\d+/0/0/[A-Za-z0-9_]+\.aclnn[A-Za-z0-9_]+\.\d+\.\d+\.\d{16}", str(path.relative_to(dump.path)))


@pytest.mark.parametrize(("mode", "sides"), [("input", (2, 0)), ("output", (0, 1)), ("all", (2, 1))])
def test_mode_selects_the_tensors(tmp_path, mode, sides):
    a = torch.ones(3).npu()
    with Dump(tmp_path, mode) as dump:
        torch.add(a, a)
    read = dump_data.read(dump.files[0])
    assert (len(read.inputs), len(read.outputs)) == sides


def test_steps_of_a_network_on_two_streams(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)).npu()
    data = torch.randn(3, 4).npu()
    side = torch.npu.Stream()
    with Dump(tmp_path) as dump:
        model(data).sum().backward()
        with torch.npu.stream(side):
            other = data * 2
    assert dump.names().count("Muls") >= 1 and len(dump.files) > 8
    streams = {dump_data.parse_name(path.name).stream for path in dump.files}
    assert len(streams) == 2
    last = dump_data.read(next(path for path in dump.files if dump_data.parse_name(path.name).type == "Muls"))
    np.testing.assert_array_equal(last.outputs[0].values(), numpy_of(other))


def test_replays_of_a_graph_are_dumped(tmp_path):
    a = torch.zeros(3).npu()
    graph = torch.npu.NPUGraph()
    with Dump(tmp_path) as dump:
        with torch.npu.graph(graph):
            a.add_(1)
        graph.replay()
        graph.replay()
    values = [dump_data.read(path).outputs[0].values().tolist() for path in dump.files]
    assert values == [[1] * 3, [2] * 3]
    assert [path.parent.name for path in dump.files] == ["0", "1"]
    assert int(dump.files[0].parent.parent.name) > 0


def test_wrong_order_and_missing_files_are_errors(tmp_path):
    with pytest.raises(RuntimeError, match="call aclmdlInitDump first"):
        torch.npu.finalize_dump()
    config = tmp_path / "dump.json"
    config.write_text("{}")
    with pytest.raises(RuntimeError, match="call aclmdlInitDump first"):
        torch.npu.set_dump(config)
    torch.npu.init_dump()
    try:
        with pytest.raises(RuntimeError, match="aclmdlFinalizeDump first"):
            torch.npu.init_dump()
        with pytest.raises(FileNotFoundError, match=r"no file .*missing\.json"):
            torch.npu.set_dump(tmp_path / "missing.json")
        with pytest.raises(RuntimeError, match='no object "dump"'):
            torch.npu.set_dump(str(config))
        with pytest.raises(TypeError):
            torch.npu.set_dump(7)
    finally:
        torch.npu.finalize_dump()


def test_options_do_the_same(tmp_path):
    dump = Dump(tmp_path)
    torch.npu.set_option({"mdldumpswitch": "enable"})
    torch.npu.set_option({"mdldumpconfigpath": str(tmp_path / "dump.json")})
    torch.ones(2, device="npu").neg()
    torch.npu.set_option({"mdldumpswitch": "disable"})
    assert list(dump.path.rglob("Neg.*"))


def test_a_wrong_element_is_in_the_dump(tmp_path):
    a = torch.tensor([1.0, 2.0, 3.0]).npu()
    with softnpu.faults("wrong:aclnnNeg:2"), Dump(tmp_path, dump_list=["aclnnNeg"]) as dump:
        for _ in range(3):
            result = -a
    values = [dump_data.read(path).outputs[0].values().tolist() for path in dump.files]
    assert values == [[-1, -2, -3], [-1, 2, -3], [-1, -2, -3]]
    assert result.tolist() == [-1, -2, -3]


def test_an_operator_of_a_step_can_be_made_wrong():
    def losses():
        torch.manual_seed(0)
        layer = torch.nn.Linear(4, 4).npu()
        return [layer(torch.ones(2, 4).npu() * step).sum().item() for step in range(1, 4)]

    right = losses()
    with softnpu.faults("wrong:Addmm:2"):
        wrong = losses()
    assert wrong[0] == right[0] and wrong[1] != right[1] and wrong[2] == right[2]
