"""--trace and --verify of ms_fmk_transplt: the program of a converted project is run."""

import pytest

pytest.importorskip("libcst")
pytest.importorskip("openpyxl")

from torch_npu.tools.transplant import cli

PROGRAM = """\
import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(3, 4).cuda()).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(PROGRAM)
    return tmp_path / "project"


def convert(project, *options):
    arguments = ["-i", project, "-o", project.parent / "out", "--no-support-check", *options]
    return cli.main([str(argument) for argument in arguments])


def test_a_program_is_traced_and_verified(project, capfd):
    assert convert(project, "--trace", "train.py", "--verify", "train.py") == 0
    shown = capfd.readouterr().out
    assert "aten::addmm" in shown and "run success" in shown


def test_a_program_that_trains_differently_is_a_finding(project, capfd):
    different = PROGRAM.replace(".mean()", ".mean().mul(2 if net.weight.device.type == 'npu' else 1)")
    (project / "train.py").write_text(different)
    assert convert(project, "--verify", "train.py") == 3
    assert "loss" in capfd.readouterr().out


@pytest.mark.parametrize("option", ["--trace", "--verify"])
def test_an_entry_file_that_is_missing_is_refused_before_anything_is_written(project, capsys, option):
    assert convert(project, option, "none.py") == 1
    assert f"the entry file none.py of {option} is no Python file below" in capsys.readouterr().err
    assert not (project.parent / "out").exists()


def test_verify_needs_an_output(project, capsys):
    with pytest.raises(SystemExit):
        cli.main(["-i", str(project), "--dry-run", "--verify", "train.py"])
    assert "--verify compares the input with the output" in capsys.readouterr().err
