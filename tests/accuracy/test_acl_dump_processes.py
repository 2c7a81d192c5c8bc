"""Dumps of operators in separate programs: published samples, ACL_DUMP_DATA, DUMP_GE_GRAPH, folders that cannot be written."""

from __future__ import annotations

import json

import pytest
from torch_npu.tools.accuracy import dump_data

DUMP_JSON = """{
 "dump":
 {
         "dump_list":[],
         "dump_path":"./output",
         "dump_mode":"all",
         "dump_op_switch":"on"
 }"""
ACL_JSON = """{
    "dump":
\t    {
            "dump_list":[]
            "dump_path":"./output_IR2TBE"# 映射结果输出路径
            "dump_mode":"all"
            "dump_op_switch":"on"
\t    }

}"""
SAMPLE = """
import os, sys
os.chdir(sys.argv[1])
import torch, torch_npu
torch.npu.set_device("npu:0")
torch.npu.init_dump()
torch.npu.set_dump("./dump.json")
a = torch.tensor([2, 2]).to("npu:0")
a.add_(1)
torch.npu.finalize_dump()
"""
PLAIN = """
import os, sys
os.chdir(sys.argv[1])
import torch, torch_npu
a = torch.tensor([2, 2]).to("npu:0")
a.add_(1)
print(a.tolist())
"""


def dumps(folder):
    return [dump_data.read(path) for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("variable", [None, "0", "1"])
def test_the_sample_dumps_with_the_variable_unset_0_and_1(child, tmp_path, variable):
    (tmp_path / "dump.json").write_text(DUMP_JSON)
    (tmp_path / "acl.json").write_text(ACL_JSON)
    done = child(SAMPLE, tmp_path, **({} if variable is None else {"ACL_DUMP_DATA": variable}))
    assert done.returncode == 0, done.stderr
    assert "is not valid JSON; it was read with these mistakes corrected: 8:3: '}' is missing" in done.stderr
    (dump,) = dumps(tmp_path / "output")
    assert dump.outputs[0].values().tolist() == [3, 3]


def test_acl_dump_data_dumps_as_acl_json_says(child, tmp_path):
    (tmp_path / "acl.json").write_text(ACL_JSON)
    for variable, count in (("0", 0), ("1", 1)):
        done = child(PLAIN, tmp_path, ACL_DUMP_DATA=variable)
        assert done.stdout == "[3, 3]\n", done.stderr
        assert len(dumps(tmp_path / "output_IR2TBE")) == count


def test_acl_dump_data_without_acl_json_is_one_sentence(child, tmp_path):
    done = child(PLAIN, tmp_path, ACL_DUMP_DATA="1")
    assert done.stdout == "[3, 3]\n", done.stderr
    assert done.stderr.count("ACL_DUMP_DATA=1: operators are not dumped") == 1
    assert "acl.json' cannot be read" in done.stderr


def test_the_program_goes_on_if_the_folder_is_a_file(child, tmp_path):
    (tmp_path / "output").write_text("a file")
    (tmp_path / "dump.json").write_text(DUMP_JSON + "}")
    log = tmp_path / "log"
    done = child(SAMPLE + "print(a.tolist())", tmp_path, ASCEND_PROCESS_LOG_PATH=str(log))
    assert done.stdout == "[3, 3]\n", done.stderr
    assert done.stderr.count("the operator dump stopped") == 1
    assert "".join(path.read_text() for path in log.rglob("*.log")).count("the operator dump stopped") == 1


def test_only_operators_loaded_from_a_file_are_dumped(child, tmp_path):
    (tmp_path / "acl.json").write_text(ACL_JSON)
    done = child(
        """
        import os, sys
        os.chdir(sys.argv[1])
        import torch, torch_npu
        x = torch.arange(6.0).reshape(2, 3).npu()
        with torch.utils.dumper(use_dump=True, dump_path="./op.h5", operators="mul"):
            x * 2
        with torch.utils.dumper(use_load=True, dump_path="./", load_file_path="./op.h5", load_with_acl_dump=True):
            y = torch.zeros(2, 3).npu()
            y.add_(1)
            z = y * 2
            z.sub_(1)
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = dumps(tmp_path / "output_IR2TBE")
    assert {dump.name for dump in found} <= {"aclnnMul", "aclnnMuls"} and len(found) == 1
    assert found[0].outputs[0].values().tolist() == [[0, 2, 4], [6, 8, 10]]


@pytest.mark.parametrize(
    ("before", "words"),
    [("", "there is no file 'acl.json'"), ("torch.npu.init_dump()", "a dump is already initialised; end it")],
)
def test_a_load_that_cannot_dump_is_one_sentence(child, tmp_path, before, words):
    if before:
        (tmp_path / "acl.json").write_text(ACL_JSON)
    done = child(
        """
        import os, sys
        os.chdir(sys.argv[1])
        import torch, torch_npu
        x = torch.arange(6.0).reshape(2, 3).npu()
        with torch.utils.dumper(use_dump=True, dump_path="./op.h5", operators="mul"):
            x * 2
            x * 2
        exec(sys.argv[2])
        with torch.utils.dumper(use_load=True, dump_path="./", load_file_path="./op.h5", load_with_acl_dump=True):
            y = torch.zeros(2, 3).npu()
            print((y * 2).tolist(), (y * 2).tolist())
        """,
        tmp_path,
        before,
    )
    # the first call gets the inputs of the first entry, which overwrite y
    assert done.stdout == "[[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]\n", done.stderr
    assert done.stderr.count("the loaded operators are not dumped") == 1 and words in done.stderr
    assert not list(tmp_path.glob("output_IR2TBE/*"))


GRAPH = """
import os, sys
os.chdir(sys.argv[1])
import torch, torch_npu
a = torch.zeros(2, 3).npu()
for _ in range(2):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        b = (a + 1).relu_()
graph.replay()
print(b.tolist(), os.getpid())
"""


@pytest.mark.parametrize(("value", "tensors"), [("1", True), ("2", True), ("3", False)])
def test_captured_graphs_are_written(child, tmp_path, value, tensors):
    done = child(GRAPH, tmp_path, DUMP_GE_GRAPH=value, DUMP_GRAPH_LEVEL="3")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / f"pid_{done.stdout.split()[-1]}_deviceid_0"
    assert sorted(path.name for path in folder.iterdir()) == ["graph_0.json", "graph_1.json"]
    graph = json.loads((folder / "graph_1.json").read_text())
    names = [task["name"] for task in graph["tasks"]]
    assert names == ["aclnnAdds", "aclnnInplaceRelu"] and graph["device"] == 0
    assert all(("tensors" in task) == tensors for task in graph["tasks"])
    if tensors:
        first = graph["tasks"][0]["tensors"]
        assert [tensor["role"] for tensor in first] == ["input", "output"]
        assert first[0] == {"role": "input", "dtype": "float32", "format": 2, "shape": [2, 3], "strides": [3, 1]}


def test_no_graph_is_written_without_the_variable(child, tmp_path):
    for environment in ({}, {"DUMP_GRAPH_LEVEL": "3"}):
        done = child(GRAPH, tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_one_sentence(child, tmp_path):
    program = GRAPH.replace("torch_npu\n", "torch_npu\nopen(f'pid_{os.getpid()}_deviceid_0', 'w').close()\n")
    done = child(program, tmp_path, DUMP_GE_GRAPH="2")
    assert done.returncode == 0 and "[[1.0, 1.0, 1.0]" in done.stdout, done.stderr
    assert done.stderr.count("DUMP_GE_GRAPH: the captured graph was not written") == 1
