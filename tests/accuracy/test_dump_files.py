"""Dump files of operators: reading and writing, msaccucmp convert, compare of folders, overflow, file_compare."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_npu.tools.accuracy import cli, dump_data, msaccucmp
from torch_npu.tools.accuracy.dump_data import Block, OpDump
from torch_npu.tools.accuracy.dump_data.message import DumpData
from torch_npu.tools.accuracy.formats import to_format

NAMES = ["float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "uint32", "uint64", "bool", "float64"]


def write(folder: Path, name: str, inputs, outputs) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    dump_data.write(folder / name, OpDump(name.split(".")[1], [*map(Block.of, inputs)], [*map(Block.of, outputs)]))
    return folder / name


@pytest.mark.parametrize("name", [*NAMES, "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_every_type_is_read_as_it_was_written(tmp_path, name, shape):
    values = (np.arange(np.prod(shape, dtype=int)).reshape(shape) - 1).astype(name)
    dump_data.write(tmp_path / "x", OpDump("op", [Block.of(values)], [], [(1, b"abc")], [(0, b"z")], {"k": "v"}))
    found = dump_data.read(tmp_path / "x")
    np.testing.assert_array_equal(found.inputs[0].values(), values)
    assert found.inputs[0].values().dtype == values.dtype and found.inputs[0].shape == shape
    assert (found.buffers, found.spaces, found.attributes, found.outputs) == ([(1, b"abc")], [(0, b"z")], {"k": "v"}, [])


def test_bfloat16_rounds_as_torch_does(tmp_path):
    values = torch.tensor([1.0, 1 / 3, -2e38, 3.4e38, float("inf"), float("nan"), 0.0, 1e-40])
    dump_data.write(tmp_path / "x", OpDump("op", [Block.of(values.numpy(), "bfloat16")]))
    found = torch.from_numpy(dump_data.read(tmp_path / "x").inputs[0].values().copy())
    torch.testing.assert_close(found, values.bfloat16().float(), rtol=0, atol=0, equal_nan=True)


def test_the_layout_matches_the_published_readers(tmp_path):
    x, y = np.arange(3, dtype=np.float32), np.arange(2, dtype=np.int64)
    data = dump_data.encode(OpDump("op", [Block.of(x)], [Block.of(y)]))
    length = int.from_bytes(data[:8], "little")
    assert data[8 + length :] == x.tobytes() + y.tobytes()


def test_names():
    assert dump_data.file_name("Conv2D", "a/b.c d\\e", 3, 1, 17) == "Conv2D.a_b_c_d_e.3.1.17"
    five, four = dump_data.parse_name("Add.add.3.0.17"), dump_data.parse_name("Pooling.pool1.1147.1589195081588018")
    assert (five.task, five.stream, five.time) == (3, 0, 17)
    assert (four.type, four.task, four.stream, four.time) == ("Pooling", 1147, None, 1589195081588018)
    assert dump_data.parse_name("notes.txt") is None


def test_convert_writes_arrays_of_a_file_and_of_a_folder(tmp_path, capsys):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    name = "Pooling.pool1.1147.1589195081588018"
    path = write(tmp_path / "dump/0/0", name, [], [x])
    assert cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "a"), "-v", "2"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a" / f"{name}.output.0.npy"), x)
    assert f"There is no input in {path}." in capsys.readouterr().out
    write(tmp_path / "dump/0/1", "Add.add.3.0.17", [x, x], [x + x])
    assert cli.main(["convert", "-d", str(tmp_path / "dump"), "-out", str(tmp_path / "b")]) == 0
    assert len(list((tmp_path / "b").glob("*.npy"))) == 4
    assert cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "c"), "-t", "pt", "-o", "0"]) == 0
    assert torch.load(tmp_path / "c" / f"{name}.output.0.pt").tolist() == x.tolist()
    assert cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "c"), "-o", "3"]) == 6


def test_convert_reads_version_1_and_names_the_version_to_try(tmp_path, capsys):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    whole = DumpData(version="1.0", op_name="pool1")
    block = whole.output.add(data_type=1, data=x.tobytes(), size=x.nbytes)
    block.shape.dim.extend(x.shape)
    name = "Pooling.pool1.1147.1589195081588018"
    (tmp_path / name).write_bytes(whole.SerializeToString())
    assert cli.main(["convert", "-d", str(tmp_path / name), "-out", str(tmp_path / "o"), "-v", "1"]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "o" / f"{name}.output.0.npy"), x)
    assert cli.main(["convert", "-d", str(tmp_path / name), "-out", str(tmp_path / "o"), "-v", "2"]) != 0
    assert "give -v 1" in capsys.readouterr().err
    path = write(tmp_path, "Add.add.3.0.17", [x], [])
    assert cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "o"), "-v", "1"]) != 0
    assert "give -v 2" in capsys.readouterr().err


def test_a_name_that_is_too_long_goes_through_a_mapping(tmp_path):
    path = write(tmp_path, "T." + "n" * 238 + ".1.0.17", [], [np.ones(2, np.float32)])
    assert cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o/mapping.csv").read_text().strip() == f"0.npy,{path.name}.output.0.npy"
    assert np.load(tmp_path / "o/0.npy").tolist() == [1, 1]


@pytest.mark.parametrize("size", [0, 5, 20, -1])
def test_a_dump_file_that_is_cut_off_is_one_sentence(tmp_path, capsys, size):
    path = write(tmp_path, "Add.add.3.0.17", [np.ones(4)], [np.ones(4)])
    os.truncate(path, path.stat().st_size + size if size < 0 else size)
    for words in (["convert", "-d", str(path)], ["compare", "-m", str(path), "-g", str(path)], ["overflow", "-d", str(path)]):
        assert cli.main([*words, "-out", str(tmp_path / "o")]) > 1
        told = capsys.readouterr().err
        assert str(path) in told and len(told.splitlines()) == 1


def test_one_bad_file_does_not_stop_the_others(tmp_path, capsys):
    write(tmp_path / "d", "Add.add.3.0.17", [], [np.ones(4)])
    (tmp_path / "d/Mul.mul.4.0.18").write_bytes(b"xx")
    assert cli.main(["convert", "-d", str(tmp_path / "d"), "-out", str(tmp_path / "o")]) == 4
    assert (tmp_path / "o/Add.add.3.0.17.output.0.npy").exists() and "Mul.mul.4.0.18" in capsys.readouterr().err


def folders(tmp_path: Path, factor: float) -> list[str]:
    x = np.arange(1, 7, dtype=np.float32)
    for side, times in (("mine", 1.0), ("golden", 1.0)):
        write(tmp_path / side / "1/0", "Add.first.1.0.100", [x], [x * 2 * times])
        write(tmp_path / side / "1/0", "Mul.second.2.0.200", [x * 2], [x * (factor if side == "mine" else 6)])
    return ["compare", "-m", str(tmp_path / "mine"), "-g", str(tmp_path / "golden"), "-out", str(tmp_path / "o")]


def test_compare_of_folders(tmp_path, capsys):
    assert cli.main([*folders(tmp_path, 6.5), "-map", "-overflow_detection"]) == 1
    assert "the first wrong operator is Mul second" in capsys.readouterr().out
    (table,) = (tmp_path / "o").glob("result_*.csv")
    head, *rows = csv.reader(table.open())
    expected = "Index,OpType,NPUDump,DataType,Address,GroundTruth,DataType,Address,TensorIndex,Shape,OverFlow"
    assert ",".join(head[:11]) == expected
    assert [row[-1] for row in rows] == ["pass", "pass", "pass", "error"]
    assert len(list((tmp_path / "o").glob("mapping_*.csv"))) == 1


def test_one_operator_element_by_element(tmp_path):
    assert cli.main([*folders(tmp_path, 6.5), "-op", "second", "-o", "0", "-n", "2"]) == 1
    rows = list(csv.DictReader((tmp_path / "o/second_output_0.csv").open()))
    assert [float(row["AbsoluteError"]) for row in rows] == [0.5, 1, 1.5, 2, 2.5, 3]
    top = list(csv.DictReader((tmp_path / "o/second_output_0_topn.csv").open()))
    assert [row["Index"] for row in top] == ["5", "4"]


def test_complex_elements_keep_both_parts(tmp_path):
    x = np.array([1 + 2j, 3 - 4j, 0], np.complex64)
    for side, last in (("mine", 1j), ("golden", 0)):
        write(tmp_path / side, "Mul.second.2.0.200", [x], [x + np.array([0, 0, last], np.complex64)])
    words = ["compare", "-m", str(tmp_path / "mine"), "-g", str(tmp_path / "golden"), "-out", str(tmp_path / "o")]
    assert cli.main([*words, "-op", "second", "-o", "0", "-n", "1"]) == 1
    rows = list(csv.DictReader((tmp_path / "o/second_output_0.csv").open()))
    assert [float(row["AbsoluteError"]) for row in rows] == [0, 0, 1]
    assert [row["RelativeError"] for row in rows] == ["0.0", "0.0", "NaN"]


def test_a_data_type_that_the_format_lacks_is_compared_and_converted_as_bytes(tmp_path, capsys):
    x = np.ones(3, np.float32)
    for side, data in (("mine", b"abd"), ("golden", b"abc")):
        (tmp_path / side).mkdir()
        for place, block in ((1, Block(data, 0, 2, (3,))), (2, Block.of(x))):
            dump_data.write(tmp_path / side / f"Op.op{place}.{place}.0.{place}00", OpDump("op", [Block.of(x)], [block]))
    words = ["compare", "-m", str(tmp_path / "mine"), "-g", str(tmp_path / "golden"), "-out", str(tmp_path / "o")]
    assert cli.main(words) == 1 and "first wrong operator is Op op1" in capsys.readouterr().out
    assert cli.main(["overflow", "-d", str(tmp_path / "mine"), "-out", str(tmp_path / "o")]) == 0
    assert cli.main(["convert", "-d", str(tmp_path / "mine"), "-out", str(tmp_path / "c")]) == 0
    assert np.load(tmp_path / "c/Op.op1.1.0.100.output.0.npy").tobytes() == b"abd"
    assert "its bytes are written" in capsys.readouterr().out


def test_negative_places_and_files_without_numbers_are_refused(tmp_path, capsys):
    path = write(tmp_path, "Add.add.3.0.17", [], [np.ones(4)])
    with pytest.raises(SystemExit) as end:
        cli.main(["convert", "-d", str(path), "-out", str(tmp_path / "o"), "-o", "-1"])
    assert end.value.code != 0
    np.save(tmp_path / "words.npy", np.array(["a", "b"]))
    words = ["file_compare", "-m", str(tmp_path / "words.npy"), "-g", str(tmp_path / "words.npy")]
    assert cli.main(words) == 4 and "words.npy holds no numbers" in capsys.readouterr().err


def test_folders_of_converted_arrays_are_compared(tmp_path):
    words = folders(tmp_path, 6)
    for side in ("mine", "golden"):
        assert cli.main(["convert", "-d", str(tmp_path / side), "-out", str(tmp_path / f"{side}_npy")]) == 0
    assert cli.main(["compare", "-m", str(tmp_path / "mine_npy"), "-g", str(tmp_path / "golden_npy"), *words[-2:]]) == 0


def test_overflow_names_the_first_operator(tmp_path, capsys):
    x, inf = np.ones(2, np.float16), np.full(2, np.inf, np.float16)
    write(tmp_path / "d", "Add.good.1.0.100", [x], [x])
    write(tmp_path / "d", "Mul.culprit.2.0.200", [x], [inf])
    write(tmp_path / "d", "Add.later.3.0.300", [inf], [inf])
    assert cli.main(["overflow", "-d", str(tmp_path / "d"), "-out", str(tmp_path / "o"), "-n", "5"]) == 1
    told = capsys.readouterr().out
    assert "Find [1] overflow ops" in told and "[Mul] culprit" in told and "later" not in told
    assert len(list((tmp_path / "o").glob("overflow_summary_*.txt"))) == 1


def test_file_compare(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.ones(3, np.float32))
    np.save(tmp_path / "b.npy", np.array([1, 1, 2], np.float32))
    both = ["file_compare", "-m", str(tmp_path / "a.npy"), "-g"]
    assert cli.main([*both, str(tmp_path / "a.npy")]) == 0
    assert cli.main([*both, str(tmp_path / "b.npy"), "-out", str(tmp_path)]) == 1
    assert "MaxAbsoluteError: 1.000000" in capsys.readouterr().out and len(list(tmp_path.glob("file_result_*.csv"))) == 1
    (tmp_path / "c.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-3])
    assert cli.main([*both, str(tmp_path / "c.npy")]) == 4
    assert cli.main([*both, str(tmp_path / "none.npy")]) == 3


def test_the_command_runs_by_its_path(tmp_path):
    golden = tmp_path / "golden.npy"
    np.save(golden, np.ones(3, np.float32))
    words = [sys.executable, msaccucmp.__file__, "file_compare", "-m", golden, "-g", golden]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Verdict: pass" in done.stdout, done.stderr


def test_the_command_needs_no_torch(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    words = ["-m", "torch_npu.tools.accuracy.msaccucmp", "file_compare", "-m", "a.npy", "-g", "a.npy"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Verdict: pass" in done.stdout


def test_formats_of_the_device_become_plain():
    x = np.arange(2 * 20 * 3 * 4, dtype=np.float32).reshape(2, 20, 3, 4)
    padded = np.pad(x, ((0, 0), (0, 12), (0, 0), (0, 0)))
    blocks = padded.reshape(2, 2, 16, 3, 4).transpose(0, 1, 3, 4, 2)
    np.testing.assert_array_equal(to_format(blocks, "NC1HWC0", "NCHW", x.shape), x)
    np.testing.assert_array_equal(to_format(blocks, "NC1HWC0", "NHWC", x.shape), x.transpose(0, 2, 3, 1))
    z = (
        np.pad(x, ((0, 14), (0, 12), (0, 0), (0, 0)))
        .reshape(1, 16, 2, 16, 3, 4)
        .transpose(2, 4, 5, 0, 1, 3)
        .reshape(24, 1, 16, 16)
    )
    np.testing.assert_array_equal(to_format(z, "FRACTAL_Z", "NCHW", x.shape), x)
    m = np.arange(5 * 20, dtype=np.float32).reshape(5, 20)
    nz = np.pad(m, ((0, 11), (0, 12))).reshape(1, 16, 2, 16).transpose(2, 0, 1, 3)
    np.testing.assert_array_equal(to_format(nz, "FRACTAL_NZ", "ND", m.shape), m)
