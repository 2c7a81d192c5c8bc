"""msaccucmp compare on HDF5 files: columns, alignment, verdicts, the first wrong operator, bad files."""

from __future__ import annotations

import csv
import os
import random
from pathlib import Path

import h5py
import numpy as np
import pytest
from torch_npu.tools.accuracy import cli
from torch_npu.tools.accuracy.align import align
from torch_npu.tools.accuracy.names import is_random
from torch_npu.tools.accuracy.runs import open_run
from torch_npu.tools.accuracy.verdict import judge
from torch_npu.tools.report import read_data

from tests.accuracy.dumps import network, write_h5

HEADER = (
    "Index,NPUDump,NPUDumpPath,GroundTruthPath,DataType,Shape,CosineSimilarity,MaxAbsoluteError,AccumulatedRelativeError,"
    "RelativeEuclideanDistance,KullbackLeiblerDivergence,StandardDeviation,MeanAbsoluteError,RootMeanSquareError,"
    "MaxRelativeError,MeanRelativeError,CompareFailReason,Verdict"
)


def run(folder: Path, mine, golden, *more: str):
    """Runs compare. Returns the exit status, the rows and the data of the page."""
    write_h5(folder / "mine.h5", mine)
    write_h5(folder / "golden.h5", golden)
    out = folder / "out"
    status = cli.main(["compare", "-m", str(folder / "mine.h5"), "-g", str(folder / "golden.h5"), "-out", str(out), *more])
    (table,) = out.glob("result_*.csv")
    (page,) = out.glob("result_*.html")
    with table.open() as file:
        assert file.readline().strip() == HEADER
        file.seek(0)
        return status, list(csv.DictReader(file)), read_data(page.read_text())


def test_equal_runs_agree(tmp_path):
    status, rows, data = run(tmp_path, network(), network())
    assert status == 0 and data["agrees"] and data["first"] is None
    assert {row["Verdict"] for row in rows} == {"pass"}
    assert {row["CosineSimilarity"] for row in rows} == {"1.000000"}
    assert [int(row["Index"]) for row in rows] == sorted(int(row["Index"]) for row in rows)
    assert any(row["NPUDumpPath"] == "/mm/1/input/self" for row in rows)  # inputs are compared too


def test_operators_after_a_wrong_one_are_inherited_in_the_table_too(tmp_path):
    _, rows, data = run(tmp_path, network(wrong=3), network())
    states = {item["number"]: item["state"] for item in data["operators"]}
    found = {int(row["NPUDumpPath"].split("/")[2]): row["Verdict"] for row in rows if "/output/" in row["NPUDumpPath"]}
    assert found == states and {"pass", "error", "inherited"} == set(found.values())


def test_rounding_agrees(tmp_path):
    status, _, data = run(tmp_path, network(noise=1e-7), network())
    assert status == 0 and data["counts"]["pass"] == 24


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 20))])
def test_the_first_wrong_operator_is_named_wherever_it_is(tmp_path, seed):
    place = random.Random(seed).randint(1, 24)
    mine = network(seed, wrong=place)
    # as in a real run, later operators use the wrong result
    status, _, data = run(tmp_path, mine, network(seed))
    assert status == 1
    assert data["first"]["number"] == place and data["first"]["state"] == "error"


def with_backward(scale=1.0, wrong=None):
    """relu, its sum, and the backward nodes. The gradient of the sum is always 1. The gradient of relu needs its saved result."""
    x = np.linspace(-1, 1, 16).astype(np.float32) * np.float32(scale)
    y, one = np.maximum(x, 0), np.ones(16, np.float32)
    made = {"relu": y, "square": y * y, "SquareBackward0": 2 * y, "ReluBackward0": 2 * y * (y > 0)}
    given = {"relu": x, "square": y, "SquareBackward0": one, "ReluBackward0": 2 * y}
    if wrong:
        made[wrong] = made[wrong] + 1
    return [(name, number, {"self": given[name]}, {"result": made[name]}) for number, name in enumerate(made, 1)]


@pytest.mark.parametrize(
    ("mine", "first", "state"),
    [
        ({"scale": 3.0}, "relu", "inherited"),  # different data
        ({"wrong": "square"}, "square", "error"),
        ({"wrong": "SquareBackward0"}, "SquareBackward0", "error"),
        ({"wrong": "ReluBackward0"}, "ReluBackward0", "error"),
    ],
)
def test_a_backward_node_after_a_wrong_forward_operator_is_not_at_fault(tmp_path, capsys, mine, first, state):
    status, _, data = run(tmp_path, with_backward(**mine), with_backward())
    assert status == 1 and (data["first"]["name"], data["first"]["state"]) == (first, state)
    assert ("its inputs differ already; give both runs the same seed" in capsys.readouterr().out) == (state == "inherited")


def test_a_random_operator_hides_no_wrong_operator(tmp_path, capsys):
    x, mask = np.linspace(1, 2, 16).astype(np.float32), np.arange(16) % 2
    drop = [("dropout", 1, {"input": x}, {"result": (x * keep).astype(np.float32)}) for keep in (mask, 1 - mask)]
    # neg gets the inputs of the golden run, as in a replay.
    neg = [("neg", 2, {"self": x}, {"result": result}) for result in (-x, -x + 1)]
    status, rows, data = run(tmp_path, [drop[0], neg[0]], [drop[1], neg[0]])
    assert status == 0 and data["agrees"] and data["counts"]["warning"] == 1
    [reason] = [row["CompareFailReason"] for row in rows if "/dropout/1/output" in row["NPUDumpPath"]]
    assert "draws random numbers" in reason
    assert all(is_random(name) for name in ("dropout_", "NativeDropoutBackward0", "rand_like", "randn"))
    assert not any(is_random(name) for name in ("norm", "ReluBackward0"))
    (tmp_path / "nan").mkdir()
    nan = [("dropout", 1, {"input": x}, {"result": x * np.float32(np.nan)})]
    assert run(tmp_path / "nan", nan, [drop[1]])[2]["first"]["name"] == "dropout"
    (tmp_path / "wrong").mkdir()
    status, _, data = run(tmp_path / "wrong", [drop[0], neg[1]], [drop[1], neg[0]])
    assert status == 1 and data["first"]["name"] == "neg" and "first wrong operator is neg" in capsys.readouterr().out


def test_reordered_operators_are_matched_by_the_graph(tmp_path):
    status, _, data = run(tmp_path, network(swap=True, noise=1e-7), network())
    assert status == 0 and data["counts"]["unmatched"] == 0


@pytest.mark.parametrize("drop", [0, 14, 23])
def test_a_missing_operator_does_not_shift_the_others(tmp_path, drop):
    status, rows, data = run(tmp_path, network(noise=1e-7, drop=drop), network())
    assert status == 0
    assert data["counts"]["unmatched"] == 1
    assert next(row for row in rows if row["Verdict"] == "unmatched")["NPUDumpPath"] == "NaN"


def test_names_of_other_devices_are_the_same_operator(tmp_path):
    x = np.ones((2, 3), np.float32)
    mine = [("NpuConvolutionBackward", 1, {"input": x}, {"result": x}), ("NativeBatchNormBackward", 2, {"eps": 1e-5}, {"r": x})]
    golden = [
        ("CudnnConvolutionBackward", 7, {"self": x}, {"result": x}),
        ("CudnnBatchNormBackward", 9, {"epsilon": 1e-5}, {"r": x}),
    ]
    status, _, data = run(tmp_path, mine, golden)
    assert status == 0 and data["counts"]["pass"] == 2


def test_half_and_float_are_compared_by_the_coarser_type(tmp_path):
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    status, rows, _ = run(tmp_path, [("a", 1, {}, {"r": x.astype(np.float16)})], [("a", 1, {}, {"r": x})])
    assert status == 0 and rows[0]["DataType"] == "float16"


def test_types_and_shapes_that_do_not_match_have_a_reason(tmp_path):
    x = np.ones(6, np.float32)
    mine = [("a", 1, {}, {"r": x.astype(np.int64)}), ("b", 2, {}, {"r": x[:4]})]
    status, rows, _ = run(tmp_path, mine, [("a", 1, {}, {"r": x}), ("b", 2, {}, {"r": x})])
    assert status == 1
    assert [row["CompareFailReason"] for row in rows] == [
        "the data types differ: int64 and float32", "the shapes differ: [4] and [6]",
    ]  # fmt: skip


def test_an_index_may_follow_from_rounding_of_the_inputs(tmp_path):
    x = np.linspace(0, 1, 100, dtype=np.float32)
    index = np.arange(100)
    wrong = index.copy()
    wrong[7] += 1
    near = x * np.float32(1 + 2**-22)
    golden = [("sort", 1, {"self": x}, {"indices": index})]
    status, _, data = run(tmp_path, [("sort", 1, {"self": near}, {"indices": wrong})], golden)
    assert status == 0 and data["counts"]["warning"] == 1
    for folder, given, found in (("equal", x, wrong), ("many", near, index + 1)):
        (tmp_path / folder).mkdir()
        status, _, data = run(tmp_path / folder, [("sort", 1, {"self": given}, {"indices": found})], golden)
        assert status == 1 and data["first"]["name"] == "sort"


def test_numbers_follow_the_formulas(tmp_path):
    golden, mine = np.array([1.0, 2.0, 0.0, 4.0]), np.array([1.0, 2.5, 1.0, 4.0])
    _, rows, _ = run(tmp_path, [("a", 1, {}, {"r": mine})], [("a", 1, {}, {"r": golden})])
    row = rows[0]
    assert float(row["CosineSimilarity"]) == pytest.approx(
        mine @ golden / np.linalg.norm(mine) / np.linalg.norm(golden), abs=1e-6
    )
    assert float(row["MaxAbsoluteError"]) == 1
    assert float(row["AccumulatedRelativeError"]) == 0.25 and float(row["MaxRelativeError"]) == 0.25
    assert float(row["MeanAbsoluteError"]) == 0.375
    assert float(row["RelativeEuclideanDistance"]) == pytest.approx(np.sqrt(1.25 / 21), abs=1e-6)
    assert row["StandardDeviation"] == f"({mine.mean():.3f};{mine.std():.3f}),({golden.mean():.3f};{golden.std():.3f})"


def test_zero_and_nan_tensors(tmp_path):
    zero, one, nan = np.zeros(3, np.float32), np.ones(3, np.float32), np.full(3, np.nan, np.float32)
    mine = [("a", 1, {}, {"r": zero}), ("b", 2, {}, {"r": zero}), ("c", 3, {}, {"r": nan}), ("d", 4, {}, {"r": nan})]
    golden = [("a", 1, {}, {"r": zero}), ("b", 2, {}, {"r": one}), ("c", 3, {}, {"r": nan}), ("d", 4, {}, {"r": one})]
    status, rows, data = run(tmp_path, mine, golden)
    assert status == 1 and data["first"]["name"] == "b"
    assert [row["CosineSimilarity"] for row in rows] == ["1.000000", "NaN", "NaN", "NaN"]
    assert [row["Verdict"] for row in rows] == ["pass", "error", "warning", "error"]
    assert all(row["CompareFailReason"] for row in rows[1:])


def test_algorithms_ranges_and_filter(tmp_path):
    write_h5(tmp_path / "a.h5", network(wrong=5))
    write_h5(tmp_path / "b.h5", network())
    both = ["compare", "-m", str(tmp_path / "a.h5"), "-g", str(tmp_path / "b.h5"), "-out"]
    assert cli.main([*both, str(tmp_path / "one"), "-alg", "0", "MaxAbsoluteError", "-r", "1,4,1"]) == 0
    (table,) = (tmp_path / "one").glob("*.csv")
    head, *rows = list(csv.reader(table.open()))
    assert head[6:9] == ["CosineSimilarity", "MaxAbsoluteError", "CompareFailReason"] and {row[0] for row in rows} == set("0123")
    assert cli.main([*both, str(tmp_path / "two"), "-p", "1", "-s", "5"]) == 1
    (found,) = (tmp_path / "two").glob("*_filtered/filtered_result.csv")
    assert len(found.read_text().splitlines()) - 1 == len(list(found.parent.glob("NPUDump*.npy")))


def test_an_algorithm_of_the_user(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/alg_Sum.py").write_text("def compare(mine, golden, args):\n    return mine.sum() * int(args.by), ''\n")
    x = np.ones(3, np.float32)
    write_h5(tmp_path / "a.h5", [("a", 1, {}, {"r": x})])
    path = str(tmp_path / "a.h5")
    words = ["compare", "-m", path, "-g", path, "-c", str(tmp_path / "scripts"), "-a", "Sum:by=2", "-out", str(tmp_path / "o")]
    assert cli.main(words) == 0
    (table,) = (tmp_path / "o").glob("*.csv")
    assert next(csv.DictReader(table.open()))["Sum"] == "6.000000"


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def not_h5(path: Path) -> None:
    path.write_bytes(b"no dump")


def no_sides(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_group("/add/1")


def other_layout(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["weights"] = np.ones(3)


def empty(path: Path) -> None:
    h5py.File(path, "w").close()


@pytest.mark.parametrize("damage", [cut, not_h5, no_sides, other_layout, empty, Path.unlink])
def test_a_bad_file_is_one_sentence_with_its_name(tmp_path, capsys, damage):
    write_h5(tmp_path / "good.h5", network())
    write_h5(tmp_path / "bad.h5", network())
    damage(tmp_path / "bad.h5")
    status = cli.main(["compare", "-m", str(tmp_path / "bad.h5"), "-g", str(tmp_path / "good.h5"), "-out", str(tmp_path)])
    told = capsys.readouterr().err
    assert status > 1 and str(tmp_path / "bad.h5") in told and len(told.splitlines()) == 1


def test_a_run_of_another_model_is_reported(tmp_path, capsys):
    x = np.ones(3, np.float32)
    status, _, _ = run(tmp_path, [("a", 1, {}, {"r": x})], [("b", 1, {}, {"r": x})])
    assert status == 1 and "same model" in capsys.readouterr().out


def test_a_run_with_few_common_operators_is_reported(tmp_path, capsys):
    x = np.ones(3, np.float32)
    shared = ("a", 1, {"x": x}, {"r": x})
    golden = [shared, *((f"op{i}", i, {"x": x * i}, {"r": x}) for i in range(2, 5))]
    status, *_ = run(tmp_path, [shared], golden)
    assert (
        status == 0
        and "most operators have no partner; are they the same model? (1 pass, 3 unmatched)" in capsys.readouterr().out
    )


def test_an_unwritable_folder_is_one_sentence(tmp_path, capsys):
    write_h5(tmp_path / "a.h5", network())
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "a.h5")
    assert cli.main(["compare", "-m", path, "-g", path, "-out", str(tmp_path / "file" / "x")]) == 19
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["-f", "x.json"], ["-op", "mm"], ["-map"], ["-alg", "77"], ["-r", "3,1"], ["-r", "1", "-s", "1"], ["-s", "999"]]
)
def test_options_that_do_not_apply_are_refused(tmp_path, capsys, words):
    path = str(write_h5(tmp_path / "a.h5", network()))
    assert cli.main(["compare", "-m", path, "-g", path, "-out", str(tmp_path), *words]) > 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_alignment_of_a_long_chain_with_many_gaps(tmp_path):
    ops = network(layers=40)
    kept = [op for op in ops if op[1] % 7]
    mine, golden = open_run(write_h5(tmp_path / "a.h5", kept)), open_run(write_h5(tmp_path / "b.h5", ops))
    pairs, only_mine, only_golden = align(mine.ops, golden.ops)
    assert not only_mine and len(only_golden) == len(ops) - len(kept)
    assert all(left.number == right.number for left, right in pairs)


@pytest.mark.parametrize(("kind", "step"), [("float32", 2.0**-23), ("float16", 2.0**-10), ("float64", 2.0**-52)])
def test_a_verdict_depends_on_the_precision(kind, step):
    x = np.linspace(1, 2, 32).astype(kind)
    assert judge((x * (1 + step)).astype(kind), x, kind, kind).state == "pass"
    assert judge((x.astype(np.float64) * (1 + step * 2**22)).astype(kind), x, kind, kind).state == "error"


@pytest.mark.parametrize(("differing", "state"), [(1, "error"), (4, "error"), (40, "warning")])
def test_a_random_operator_is_wrong_where_both_runs_drew_alike(tmp_path, differing, state):
    x, kept = np.ones(2048, np.float32), np.where(np.arange(2048) % 3, 1.5, 0).astype(np.float32)
    mine = kept.copy()
    mine[1 : 1 + differing] = 7
    status, _, data = run(tmp_path, *([("dropout", 1, {"input": x}, {"result": y})] for y in (mine, kept)))
    assert data["operators"][0]["state"] == state and status == (state == "error")
