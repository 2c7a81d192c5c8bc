"""Options of the transplant tool: rules of the user, -s, -sim, -a, -v, --device-agnostic and distributed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("libcst")

from torch_npu.tools.transplant import cli, custom_rules, launcher, session, support
from torch_npu.tools.transplant.convert import convert_python
from torch_npu.tools.transplant.project import read
from torch_npu.tools.transplant.settings import Settings

SAMPLE = """\
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)

    def title(self):
        return "net"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    val_loader = DataLoader(data, batch_size=8)
    model = Net().cuda(0)
    loss_of = nn.CrossEntropyLoss().to("cuda:0")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(model(x.cuda(0)), y.cuda(0))
            loss.backward()
            optimizer.step()
    seen = sum(len(x) for x, _ in val_loader)
    print(model.title(), loss.device, seen, len(model.state_dict()), flush=True)


if __name__ == "__main__":
    main()
"""


def converted(text, rules=None, **options):
    settings = Settings(**options)
    if rules is not None:
        settings.rules = rules
    result = convert_python("main.py", text, settings, read([text]))
    assert result.problem == ""
    return text if result.text is None else result.text


def rules(tmp_path, **kinds):
    path = tmp_path / "rule.json"
    path.write_text(json.dumps({"rules": kinds}))
    return custom_rules.load(path)


def test_the_sample_of_the_documents_is_valid():
    text = """
    {"rules": {"ArgsModifyRule": [{"func_name": "name1", "arg_idx": 0, "arg_new": "agrs0"}],
     "FuncNameModifyRule": [{"old_name": "func", "new_name": "new_func"}],
     "ModuleNameModifyRule": [{"old_name": "module", "new_name": "new_module", "parent_module": "parent_module"}]}}
    """
    found = custom_rules._Reader(Path("rule.json"), text).rules(json.loads(text))
    assert found.words() == ["name1", "func", "module"]


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ({"arg_idx": 0, "arg_new": "b"}, "f(a, 1)", "f(b, 1)"),
        ({"arg_idx": 1, "arg_new": "key=b"}, "m.f(a, 1)", "m.f(a, key=b)"),
        ({"arg_idx": 0, "arg_new": ""}, "f(a, 1)", "f(1)"),
        ({"arg_idx": 1, "arg_new": ""}, "f(a, 1)", "f(a)"),
        ({"arg_idx": 2, "arg_new": "b"}, "f(a, 1)", "f(a, 1)"),
        ({"arg_idx": 1, "arg_new": "b"}, "f(*a, 1)", "f(*a, 1)"),
        ({"arg_keyword": "k", "arg_new": "b"}, "f(1, k=a)", "f(1, k=b)"),
        ({"arg_idx": 0, "arg_new": "b", "white_list": ["^a"]}, "f(abc), f(c)", "f(abc), f(b)"),
    ],
)
def test_a_rule_for_arguments(tmp_path, rule, before, after):
    found = rules(tmp_path, ArgsModifyRule=[{"func_name": "f", **rule}])
    assert converted(f"import m\n{before}\n", found) == f"import m\n{after}\n"


def test_a_rule_for_a_function_with_its_full_name(tmp_path):
    found = rules(tmp_path, ArgsModifyRule=[{"func_name": "torch.zeros", "arg_idx": 0, "arg_new": "5"}])
    text = "import torch as t\nimport other\nt.zeros(1)\nother.zeros(1)\n"
    assert converted(text, found).endswith("t.zeros(5)\nother.zeros(1)\n")


def test_a_rule_that_renames_a_function(tmp_path):
    found = rules(tmp_path, FuncNameModifyRule=[{"old_name": "func", "new_name": "new_func"}])
    text = "from m import func\n\n\ndef use(func_name):\n    return func(1), x.func(2), func_name\n\n\n"
    text += "def other(func):\n    return func\n"
    assert converted(text, found) == (
        "from m import new_func\n\n\ndef use(func_name):\n    return new_func(1), x.new_func(2), func_name\n\n\n"
        "def other(func):\n    return func\n"
    )
    assert converted("def func():\n    pass\n\n\nfunc()\n", found) == "def new_func():\n    pass\n\n\nnew_func()\n"


def test_a_rule_that_renames_a_module(tmp_path):
    found = rules(tmp_path, ModuleNameModifyRule=[{"old_name": "amp", "new_name": "my_amp", "parent_module": "torch.cuda"}])
    text = "import torch\nfrom torch.cuda.amp import autocast\nx = torch.cuda.amp.GradScaler()\namp = other.amp\n"
    assert converted(text, found) == (
        "import torch_npu\nimport torch\nfrom torch.npu.my_amp import autocast\n"
        "x = torch.npu.my_amp.GradScaler()\namp = other.amp\n"
    )


def test_a_rule_wins_over_the_tool(tmp_path):
    found = rules(tmp_path, FuncNameModifyRule=[{"old_name": "cuda", "new_name": "to_my_device"}])
    assert "torch.ones(1).to_my_device()" in converted("import torch\nx = torch.ones(1).cuda()\n", found)


def test_the_device_of_the_environment(tmp_path):
    text = converted(SAMPLE, specify_device=True)
    assert text.count("NPU_CALCULATE_DEVICE") == 1 and 'nn.CrossEntropyLoss().to("npu")' in text and "x.npu()" in text
    assert converted(text, specify_device=True) == text
    (tmp_path / "main.py").write_text(text)
    environment = {**os.environ, "NPU_CALCULATE_DEVICE": "1"}
    done = subprocess.run([sys.executable, tmp_path / "main.py"], env=environment, capture_output=True, text=True, timeout=300)
    if torch.npu.device_count() > 1:
        assert done.stdout.splitlines()[-1:] == ["net npu:1 32 2"], done.stderr


def test_importing_a_converted_file_selects_no_device():
    text = "import torch\n\n\ndef f(x):\n    return x.cuda(1)\n"
    assert converted(text, specify_device=True) == "import torch_npu\nimport torch\n\n\ndef f(x):\n    return x.npu()\n"


def test_indices_are_dropped_only_with_the_option():
    text = (
        'import torch\na = torch.device("cuda", 1)\nb = "cuda:%d" % 1\nx = torch.ones(1, device=b)\ntorch.cuda.set_device(gpu)\n'
    )
    assert converted(text, specify_device=True) == (
        'import os\nimport torch_npu\nimport torch\na = torch.device("npu")\nb = "npu"\nx = torch.ones(1, device=b)\n'
        'torch.npu.set_device(int(os.environ.get("NPU_CALCULATE_DEVICE", "0")))\n'
    )


def test_similar_functions_replace_only_what_is_not_supported():
    text = "import torch.nn as nn\npad = nn.ReflectionPad2d(1)\nnet = nn.SyncBatchNorm.convert_sync_batchnorm(net)\n"
    assert converted(text, similar=True) == text
    every = frozenset(("torch.nn.ReflectionPad2d", "torch.nn.SyncBatchNorm"))
    assert "pad = nn.ZeroPad2d(1)\nnet = net\n" in converted(text, similar=True, replaceable=every)


def test_similar_functions_for_an_old_version_need_no_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(support, "ask", lambda names: pytest.fail("asked torch_npu"))
    (tmp_path / "a.py").write_text("import torch.nn as nn\npad = nn.ReflectionPad2d(1)\n")
    arguments = ["-i", str(tmp_path / "a.py"), "-o", str(tmp_path / "b.py"), "-sim", "-v", "1.8.1", "--no-support-check"]
    assert cli.main(arguments) == 0 and "ZeroPad2d" in (tmp_path / "b.py").read_text()
    assert "gives other values" in (tmp_path / "change_list.csv").read_text()


def test_the_import_of_version_1_5():
    assert converted("import torch\nx = torch.ones(1).cuda()\n", version="1.5.0").startswith("import torch.npu\nimport torch\n")


AMP = """\
import torch
from torch.cuda.amp import GradScaler, autocast

model = torch.nn.Linear(2, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = GradScaler()
for x in data:
    with autocast():  # half
        # the loss
        loss = model(x).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
"""


def test_apex_instead_of_torch_amp():
    text = converted(AMP, amp_model="model")
    assert text == (
        "from apex import amp\nimport torch_npu\nimport torch\nfrom torch.npu.amp import GradScaler, autocast\n\n"
        "model = torch.nn.Linear(2, 1).npu()\noptimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        'model, optimizer = amp.initialize(model, optimizer, opt_level="O2", loss_scale=32.0)\n'
        "for x in data:\n    # the loss\n    loss = model(x).sum()\n    with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
        "        scaled_loss.backward()\n    optimizer.step()\n"
    )
    assert converted(text, amp_model="model") == text


def test_device_agnostic_code_runs_where_there_is_no_cuda(tmp_path):
    text = converted(SAMPLE, agnostic=True)
    assert "npu" not in text and "cuda" not in text and text.count("DEVICE_TYPE =") == 1
    assert converted(text, agnostic=True) == text
    (tmp_path / "main.py").write_text(text)
    program = "import runpy, sys, torch_npu; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "main.py"], capture_output=True, text=True, timeout=300)
    assert done.stdout == "net npu:0 32 2\n", done.stderr


def test_device_agnostic_forms():
    text = converted(
        "import torch\nfrom torch.cuda.amp import GradScaler, autocast\n\nd = 'cuda:%d' % 1\n"
        "x = torch.ones(1, device=d).cuda(1)\n"
        "with autocast(True), torch.cuda.amp.autocast(dtype=torch.half):\n    y = not x.is_cuda\n"
        "torch.distributed.init_process_group('nccl')\ns = GradScaler()\n",
        agnostic=True,
    )
    assert text.split("\n", 3)[3] == (
        '\nd = (DEVICE_TYPE + ":%d") % 1\nx = torch.ones(1, device=d).to(f"{DEVICE_TYPE}:1")\n'
        "with autocast(DEVICE_TYPE, enabled=True), torch.amp.autocast(DEVICE_TYPE, dtype=torch.half):\n"
        "    y = not (x.device.type == DEVICE_TYPE)\n"
        "torch.distributed.init_process_group(torch.distributed.get_default_backend_for_device(DEVICE_TYPE))\n"
        "s = GradScaler(DEVICE_TYPE)\n"
    )


def test_distributed_code():
    options = {"distributed": True, "main": "main.py"}
    text = converted(SAMPLE, **options)
    assert 'torch.distributed.init_process_group("hccl")' in text
    assert "DistributedSampler(data, shuffle=True)" in text and text.count("DistributedSampler") == 1
    assert "        loader.sampler.set_epoch(epoch)\n        for x, y in loader:" in text
    assert "model.module.title()" in text and "model.module.state_dict()" in text and "model.parameters()" in text
    assert text.index("DistributedDataParallel(") < text.index("optimizer = ")
    assert converted(text, **options) == text


def test_distributed_code_for_data_parallel():
    text = "import torch\nmodel = torch.nn.Linear(2, 2)\nmodel = torch.nn.DataParallel(model)\nmodel.cuda()\n"
    found = converted(text, distributed=True, main="main.py")
    assert "DataParallel(model)" not in found and found.index("model.npu()\n") < found.index("DistributedDataParallel")


def test_the_launcher_asks_for_required_arguments():
    text = (
        'p.add_argument("data")\np.add_argument("--lr", required=True)\np.add_argument("--x")\np.add_argument("y", nargs="?")\n'
    )
    assert launcher.required_arguments(text) == ["data", "--lr LR"]
    script = launcher.script("main.py", text)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "usage: bash run_distributed_npu.sh data --lr LR [ARGUMENTS]" in done.stderr


@pytest.mark.full
@pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two devices")
def test_the_launcher_trains_on_two_devices(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "main.py").write_text(SAMPLE)
    arguments = ["-i", str(root), "-o", str(tmp_path), "--no-support-check", "distributed", "-m", "main.py"]
    assert cli.main(arguments) == 0
    result = tmp_path / "project_msft_multi"
    environment = {**os.environ, "NPUS": "0 1", "PYTHON": sys.executable, "MASTER_PORT": "29755"}
    done = subprocess.run(
        ["bash", result / "run_distributed_npu.sh"], env=environment, capture_output=True, text=True, timeout=300
    )
    logs = [(result / f"output_npu_{device}.log").read_text() for device in range(2)]
    assert done.returncode == 0, (done.stderr, logs)
    assert ["net npu:0 32 2" in logs[0], "net npu:1 32 2" in logs[1]] == [True, True], logs


def test_support_that_cannot_be_asked_is_a_warning(tmp_path, monkeypatch, capsys):
    def fail(names):
        raise support.Unavailable("ModuleNotFoundError: No module named 'torch'")

    monkeypatch.setattr(session.support, "ask", fail)
    (tmp_path / "a.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    assert cli.main(["-i", str(tmp_path / "a.py"), "-o", str(tmp_path / "b.py")]) == 0
    assert "unsupported operators are not listed, because torch_npu cannot be asked" in capsys.readouterr().err
