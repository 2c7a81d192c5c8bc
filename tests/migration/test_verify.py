"""`python -m torch_npu.tools.verify`: a converted project trains as the original, or the answer says where not."""

import json

import pytest
import torch
from torch_npu.tools.verify import command
from torch_npu.tools.verify.compare import compare
from torch_npu.tools.verify.randomness import CpuRandom

NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4 * 36, 5)

    def forward(self, x):
        x = torch.nn.functional.dropout(self.norm(self.conv(x)).relu(), 0.3, self.training)
        return self.head(x.flatten(1))
"""
TRAIN = """
import sys
import torch
from net import Net

def main():
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=float(sys.argv[1]))
    for step in range(100):
        x = torch.randn(4, 3, 8, 8, device="cuda")
        loss = torch.nn.functional.cross_entropy(model(x), torch.randint(5, (4,)).cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def projects(tmp_path):
    """The folders of an original and of its conversion."""
    for name in ("original", "converted"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(NET)
    (tmp_path / "original" / "train.py").write_text(TRAIN)
    (tmp_path / "converted" / "train.py").write_text("import torch_npu\n" + TRAIN.replace("cuda", "npu"))
    return tmp_path / "original", tmp_path / "converted"


def verify(projects, *options, arguments=("0.001",)):
    return command.main([*map(str, projects), *options, "--", *arguments])


def test_a_good_conversion_agrees(projects, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert verify(projects, "--steps", "2", "--json", str(out), "--html", str(tmp_path / "out.html")) == 0, capsys.readouterr()
    assert "the same: 2 steps" in capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    assert all(row["same"] for row in rows)
    assert {"Net.conv.weight", "Net.head.bias"} <= {row["name"] for row in rows if row["kind"] == "gradient"}
    assert [row["kind"] for row in rows].count("loss") == 2
    assert not list(projects[1].rglob("*.pyc"))


def test_the_first_difference_is_named(projects, capsys):
    net = projects[1] / "net.py"
    net.write_text(net.read_text().replace(".relu()", ".relu().mul(1.01)"))
    assert verify(projects) == 1
    told = capsys.readouterr().out
    assert "step 1: the first difference is the output of module Net.head" in told
    assert "losses and gradients differ" in told


def test_a_conversion_that_fails_on_npu(projects, capsys):
    train = projects[1] / "train.py"
    train.write_text(train.read_text().replace("optimizer.step()", "raise OSError('no such thing')"))
    assert verify(projects) == 3
    told = capsys.readouterr().err
    assert "the converted project fails on npu: OSError at" in told and "train.py:15: no such thing" in told


def test_files_that_do_not_compile_or_import(projects, capsys):
    (projects[1] / "bad.py").write_text("import no_such_module\n")
    assert verify(projects) == 3
    assert "bad cannot be imported: ModuleNotFoundError" in capsys.readouterr().err
    (projects[1] / "bad.py").write_text("def broken(:\n")
    assert verify(projects) == 3
    assert "bad.py:1 does not compile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["missing", "converted"], "missing does not exist"),
        (["original", "converted", "--main", "no.py"], "no.py does not exist"),
        (["original", "empty"], "empty has 0 scripts with __main__ (none); choose one with --main"),
        (["original", "converted", "--steps", "0"], "--steps is at least 1"),
        (["original"], "required: converted"),
    ],
)
def test_bad_input_is_one_sentence(projects, tmp_path, monkeypatch, capsys, given, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit) as end:
        command.main(given)
    assert end.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "draw",
    [
        lambda device: torch.rand(5, device=device),
        lambda device: torch.randint(9, (4,), device=device),
        lambda device: torch.randperm(9, device=device),
        lambda device: torch.empty(6, device=device).normal_(),
        lambda device: torch.nn.functional.dropout(torch.ones(64, device=device), 0.4),
        lambda device: torch.multinomial(torch.ones(5, device=device), 3),
        lambda device: torch.rand(3, generator=torch.Generator(device).manual_seed(3), device=device),
        lambda device: torch.rand(4, out=torch.empty(4, device=device)),
        lambda device: torch.nn.init.kaiming_uniform_(torch.empty(4, 4, device=device)),
    ],
)
def test_random_operators_of_npu_draw_from_the_generator_of_the_cpu(draw):
    torch.manual_seed(5)
    expected = [draw("cpu"), draw("cpu")]
    torch.manual_seed(5)
    with CpuRandom():
        found = [draw("npu"), draw("npu")]
    for one, other in zip(expected, found, strict=True):
        assert other.device.type == "npu"
        torch.testing.assert_close(other.cpu(), one)


def run_of(**changes):
    step = {"losses": [1.0], "parameters": {"w": torch.ones(2)}, "gradients": {"w": torch.ones(2)}, "outputs": []}
    return {"steps": [{**step, **changes}]}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"losses": [1.001]}, "the loss of backward() 1"),
        ({"losses": [float("nan")]}, "the loss of backward() 1"),
        ({"losses": []}, "the number of losses"),
        ({"gradients": {"w": torch.tensor([1.0, 1.1])}}, "the gradient w: 1 in the original, 1.1 on npu (0.1 at element 1"),
        ({"gradients": {"w": torch.tensor([1.0, float("nan")])}}, "the gradient w"),
        ({"gradients": {"w": torch.ones(3)}}, "shape (2,) in the original, shape (3,)"),
        ({"gradients": {}}, "the gradient w: present in the original, missing"),
        ({"parameters": {"w": torch.zeros(2)}}, "the parameter w"),
    ],
)
def test_differences(changes, words):
    found = compare(run_of(), run_of(**changes), 1e-4)
    assert not found.same and words in found.sentences[0]


def test_equal_runs_and_rounding_agree():
    assert compare(run_of(), run_of(), 0).same
    assert compare(run_of(), run_of(losses=[1.00001], gradients={"w": torch.tensor([1.0, 1.0001])}), 1e-4).same
    nan = {"losses": [float("nan")], "gradients": {"w": torch.tensor([float("nan"), float("inf")])}}
    assert compare(run_of(**nan), run_of(**nan), 1e-4).same
    assert not compare({"steps": []}, {"steps": []}, 1e-4).same
