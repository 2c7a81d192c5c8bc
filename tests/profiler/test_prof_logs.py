"""Lines of the log about operators: their form, the published reader of such lines, and our own reader."""

import os
import re
import subprocess
import sys

import pytest
from torch_npu.tools import op_info

LINE = re.compile(
    r"\[INFO\] ASCENDCL\(\d+,[^)]+\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} \[\w+\.cpp:\d+\]\d+ "
    r"aclopCompile::aclOp = OpType: (\w+), (.*\]) "
)
TENSOR = re.compile(r"(?:InputDesc|OutputDesc)\[\d+\]: \w+ \w+ \[[\d,]*\]")
PROGRAM = """
    import torch, torch_npu
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for size in (2, 2, 3, 2):
        loss = model(torch.ones(size, 3, 8, 8, device="npu")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")
    """


def logs(folder):
    return [line for path in sorted(folder.glob("plog/*.log")) for line in path.read_text().splitlines()]


@pytest.fixture
def trained(child, tmp_path):
    """Trains with a log of level INFO, which also goes to stdout."""
    done = child(PROGRAM, ASCEND_GLOBAL_LOG_LEVEL="1", ASCEND_PROCESS_LOG_PATH=str(tmp_path), ASCEND_SLOG_PRINT_TO_STDOUT="1")
    assert done.returncode == 0, done.stderr
    return tmp_path, done.stdout.splitlines()


def test_each_signature_has_one_line_of_the_published_form(trained):
    folder, printed = trained
    lines = [line for line in logs(folder) if line.startswith("[INFO] ASCENDCL") and "aclopCompile::aclOp" in line]
    found = [LINE.fullmatch(line) for line in lines]
    assert lines and all(found)
    signatures = [(match[1], match[2]) for match in found]
    assert len(set(signatures)) == len(signatures)
    assert all(TENSOR.sub("", parameters).strip() == "" for _, parameters in signatures)
    assert ("Convolution", "2,3,8,8") in {
        (kind, (re.search(r"\[([\d,]*)\]\s", f"{rest} ") or [0, ""])[1]) for kind, rest in signatures
    }
    assert set(lines) <= set(printed)  # the lines go to the log and to stdout


def test_a_later_signature_is_followed_by_a_note_without_the_marker(trained):
    folder, _ = trained
    lines = [line for line in logs(folder) if line.startswith("[INFO] ASCENDCL")]
    kinds, notes = set(), 0
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if "aclopCompile::aclOp" not in line:
            continue
        kind = LINE.fullmatch(line)[1]
        noted = "Match op inputs/type failed" in following and f"To compile op: {kind}" in following
        assert noted == (kind in kinds)
        assert "aclopCompile::aclOp" not in following or "OpType: " in following
        kinds.add(kind)
        notes += noted
    assert notes > 0 and "Convolution" in kinds


def test_our_reader_lists_the_types_and_parameters(trained, tmp_path, monkeypatch):
    folder, _ = trained
    monkeypatch.chdir(tmp_path)
    assert op_info.main(["--host_log_folder", str(folder / "plog")]) == 0
    listed = (tmp_path / "ascend_op_info_summary.txt").read_text().splitlines()
    found = [LINE.fullmatch(line) for line in logs(folder) if "aclopCompile::aclOp" in line]
    assert sorted(listed) == sorted(f"{match[1]} {match[2]}" for match in found)


@pytest.mark.parametrize("level", ["2", "3"])
def test_other_levels_write_no_such_line(level, child, tmp_path):
    done = child(PROGRAM, ASCEND_GLOBAL_LOG_LEVEL=level, ASCEND_PROCESS_LOG_PATH=str(tmp_path))
    assert done.returncode == 0 and "ASCENDCL" not in done.stdout + "".join(logs(tmp_path))


def test_an_error_of_an_operator_is_found_by_the_word_error(child, tmp_path):
    program = """
        import torch, torch_npu
        x = torch.ones(4, device="npu")
        try:
            x.index_select(0, torch.tensor([9], device="npu")).cpu()
        except (RuntimeError, IndexError):
            print("raised")
        """
    done = child(program, ASCEND_PROCESS_LOG_PATH=str(tmp_path))
    assert done.stdout == "raised\n", done.stderr
    errors = [line for line in logs(tmp_path) if line.startswith("[ERROR]")]
    assert any("aclnnIndexSelect" in line and "9" in line for line in errors)


@pytest.mark.full
def test_the_published_script_reads_the_log(trained, tmp_path):
    script = os.environ.get("ASCEND_OP_INFO_SCRIPT")
    if not script:
        pytest.skip("ASCEND_OP_INFO_SCRIPT does not name get_ascend_op_info.py")
    folder, _ = trained
    subprocess.run([sys.executable, script, "--host_log_folder", str(folder / "plog")], cwd=tmp_path, check=True)
    published = sorted((tmp_path / "ascend_op_info_summary.txt").read_text().splitlines())
    assert published == sorted(op_info.operators(folder / "plog")) and published
