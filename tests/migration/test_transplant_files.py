"""Files of every kind: encodings, text that is no Python 3, packages, shell scripts, configurations and notebooks."""

import csv
import json

import pytest

pytest.importorskip("libcst")

from torch_npu.tools.transplant import cli, configs, runner, sources
from torch_npu.tools.transplant.convert import convert_python
from torch_npu.tools.transplant.project import read
from torch_npu.tools.transplant.settings import Settings

SCRIPT = "import torch\nx = torch.ones(1).cuda()\n"


def convert_tree(root, out, *options):
    status = cli.main(["-i", str(root), "-o", str(out), "--no-support-check", *options])
    return status, out / f"{root.name}_msft"


@pytest.mark.parametrize(
    ("head", "text", "encoding"),
    [
        (b"", "# größe\n" + SCRIPT, "utf-8"),
        (b"\xef\xbb\xbf", SCRIPT + "# größe\n", "utf-8"),
        (b"# -*- coding: latin-1 -*-\n", "# größe\n" + SCRIPT, "latin-1"),
        (b"# -*- coding: gbk -*-\n", "# 训练\n" + SCRIPT, "gbk"),
        (b"", "# gr\xf6\xdfe without a coding line\n" + SCRIPT, "latin-1"),
        (b"", SCRIPT.replace("\n", "\r\n") + "# CRLF\r\n", "ascii"),
        (b"", SCRIPT + "# mixed\r\ny = x\r\n", "ascii"),
        (b"", SCRIPT + "\x0cy = x  # form feed\n", "ascii"),
    ],
    ids=["utf-8", "byte order mark", "latin-1", "gbk", "undeclared latin-1", "CRLF", "mixed line ends", "form feed"],
)
def test_the_encoding_and_the_line_ends_are_kept(tmp_path, head, text, encoding):
    root = tmp_path / "src"
    root.mkdir()
    content = head + text.encode(encoding)
    (root / "a.py").write_bytes(content)
    status, result = convert_tree(root, tmp_path)
    newline = b"\r\n" if b"\r\n" in content else b"\n"
    expected = content.replace(b".cuda()", b".npu()").replace(b"import torch", b"import torch_npu" + newline + b"import torch", 1)
    assert (status, (result / "a.py").read_bytes()) == (0, expected)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"import torch\nx = torch.ones(1).cuda(\n", "a syntax error of Python 3"),
        (b"import torch\nprint torch.cuda.is_available()\n", "this is Python 2"),
        (b"import torch\nif torch.cuda.is_available():\n    raise ValueError, 'x'\n", "this is Python 2"),
        (b"import torch\n\0x = torch.ones(1).cuda()\n", "it is a binary file"),
        (b"import torch\nx = " + b"(" * 200_000 + b"1" + b")" * 200_000 + b"\n", "nested too deeply"),
        (b"{{ cookiecutter.name }} torch.cuda\nimport torch\n", "line"),
    ],
    ids=["syntax error", "print statement", "raise with a comma", "null byte", "deep nesting", "template"],
)
def test_a_file_that_cannot_be_parsed_is_copied_and_named(tmp_path, content, reason):
    root = tmp_path / "src"
    root.mkdir()
    (root / "bad.py").write_bytes(content)
    (root / "good.py").write_text(SCRIPT)
    status, result = convert_tree(root, tmp_path)
    assert status == 3 and (result / "bad.py").read_bytes() == content
    assert ".npu()" in (result / "good.py").read_text()
    with (result / "unsupported_op.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["File"] == "bad.py" and "copied without conversion" in row["Tips"] and reason in row["Tips"]


def test_a_file_that_takes_too_long_is_copied_and_named(tmp_path, monkeypatch):
    root = tmp_path / "src"
    root.mkdir()
    (root / "long.py").write_text(SCRIPT + "y = x" + ".f()" * 20_000 + "\n")
    (root / "z.py").write_text(SCRIPT)
    monkeypatch.setattr(runner, "SECONDS", 0.5)
    status, result = convert_tree(root, tmp_path)
    assert status == 3 and ".npu()" in (result / "z.py").read_text()
    assert "it takes more than 0.5 s" in (result / "unsupported_op.csv").read_text()


def test_a_huge_file_is_copied_and_a_large_one_is_converted(tmp_path, monkeypatch):
    root = tmp_path / "src"
    root.mkdir()
    (root / "large.py").write_text(SCRIPT + "y = [\n" + "    1234567890,\n" * 20_000 + "]\nz = x.cuda()\n")
    (root / "huge.py").write_text(SCRIPT + "# " + "x" * 1000 + "\n")
    monkeypatch.setattr(sources, "LIMIT", 500_000)
    (root / "huge.py").write_text(SCRIPT + "#" * 500_000 + "\n")
    _, result = convert_tree(root, tmp_path)
    assert (result / "large.py").read_text().endswith("z = x.npu()\n")
    assert (result / "huge.py").read_text() == (root / "huge.py").read_text()


def test_classes_of_other_files_decide_what_is_a_module(tmp_path):
    root = tmp_path / "src"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").write_text("from .engine import Engine\nfrom .net import Net\n")
    (root / "pkg" / "net.py").write_text(
        "import torch.nn as nn\n\n\nclass Base(nn.Module):\n    pass\n\n\nclass Net(Base):\n    pass\n"
    )
    (root / "pkg" / "engine.py").write_text("class Engine:\n    def cuda(self):\n        return 'an engine'\n")
    (root / "main.py").write_text("import torch\nfrom pkg import Engine, Net\n\nprint(Engine().cuda(), Net().cuda())\n")
    _, result = convert_tree(root, tmp_path)
    assert "print(Engine().cuda(), Net().npu())" in (result / "main.py").read_text()
    assert (result / "pkg" / "engine.py").read_text() == (root / "pkg" / "engine.py").read_text()


def test_a_parameter_of_another_file_decides_what_is_a_device(tmp_path):
    root = tmp_path / "src"
    root.mkdir()
    (root / "lib.py").write_text(
        "def build(name, device):\n    return name, device\n\n\ndef show(name, text):\n    return name, text\n"
    )
    (root / "main.py").write_text("import torch\nfrom lib import build, show\n\nbuild('cuda', 'cuda')\nshow('a', 'cuda')\n")
    _, result = convert_tree(root, tmp_path)
    assert "build('cuda', 'npu')\nshow('a', 'cuda')\n" in (result / "main.py").read_text()


def changed(name, text):
    result = configs.convert(name, text)
    assert result.problem == ""
    return text if result.text is None else result.text


def test_shell_scripts():
    text = (
        "#!/bin/bash\n# CUDA_VISIBLE_DEVICES stays in comments\nexport CUDA_VISIBLE_DEVICES=0,1  # CUDA_VISIBLE_DEVICES\n"
        "export MY_CUDA_VISIBLE_DEVICES=1\npython -m torch.distributed.launch main.py --device cuda:0 --dist-backend=nccl \\\n"
        "  --name cuda trainer.device=cuda\npython -c 'import torch; print(torch.cuda.is_available())'\nls /usr/local/cuda\n"
    )
    assert changed("run.sh", text) == (
        "#!/bin/bash\n# CUDA_VISIBLE_DEVICES stays in comments\nexport ASCEND_RT_VISIBLE_DEVICES=0,1  # CUDA_VISIBLE_DEVICES\n"
        "export MY_CUDA_VISIBLE_DEVICES=1\npython -m torch.distributed.launch main.py --device npu:0 --dist-backend=hccl \\\n"
        "  --name cuda trainer.device=npu\npython -c 'import torch; print(torch.npu.is_available())'\nls /usr/local/cuda\n"
    )


def test_yaml():
    text = (
        "# device: cuda\ndevice: cuda:0   # cuda\nname: cuda\nmodel:\n  device: 'cuda'\n  devices:\n    - cuda:0\n    - cpu\n"
        '  tags:\n    - cuda\n  device_list: [cuda:0, "cuda:1"]\nbackend: nccl\ntext: |\n  device: cuda\nenv:\n'
        "  CUDA_VISIBLE_DEVICES: 0\n"
    )
    assert changed("a.yaml", text) == (
        "# device: cuda\ndevice: npu:0   # cuda\nname: cuda\nmodel:\n  device: 'npu'\n  devices:\n    - npu:0\n    - cpu\n"
        '  tags:\n    - cuda\n  device_list: [npu:0, "npu:1"]\nbackend: hccl\ntext: |\n  device: cuda\nenv:\n'
        "  ASCEND_RT_VISIBLE_DEVICES: 0\n"
    )


def test_toml_and_ini():
    assert changed("a.toml", '[train]\ndevice = "cuda"\nname = "cuda"\n') == '[train]\ndevice = "npu"\nname = "cuda"\n'
    assert changed("a.ini", "[train]\ndevice=cuda:1\n; device=cuda\n") == "[train]\ndevice=npu:1\n; device=cuda\n"


def test_json():
    text = (
        '{\n  "device": "cuda",  \n  "name": "cuda", "devices": ["cuda:0", "cpu"],\n  "env": {"CUDA_VISIBLE_DEVICES": "0"}\n}\n'
    )
    assert changed("a.json", text) == (
        '{\n  "device": "npu",  \n  "name": "cuda", "devices": ["npu:0", "cpu"],\n'
        '  "env": {"ASCEND_RT_VISIBLE_DEVICES": "0"}\n}\n'
    )
    assert configs.convert("a.json", '{"device": "cuda"').problem == "it is not valid JSON"
    assert [change.kind for change in configs.convert("a.json", text).changes].count("TODO") == 1


def test_packages_for_cuda_are_named():
    changes = configs.convert("requirements.txt", "numpy\ncupy-cuda12x\ntorch==2.1+cu118\n").changes
    assert [change.start for change in changes] == [2, 3]


def notebook(*cells):
    content = {
        "cells": [{"cell_type": kind, "metadata": {}, "source": source.splitlines(keepends=True)} for kind, source in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1) + "\n"


def test_notebooks(tmp_path):
    text = notebook(
        ("markdown", "# Use cuda"),
        ("code", "%matplotlib inline\nimport torch\ndevice = 'cuda'"),
        ("code", "!CUDA_VISIBLE_DEVICES=0 python x.py\nx = torch.ones(1, device=device)\n"),
        ("code", "%%bash\necho cuda"),
        ("code", "if x.is_cuda:\n    !nvidia-smi\nx.cuda?"),
    )
    root = tmp_path / "src"
    root.mkdir()
    (root / "a.ipynb").write_text(text)
    status, result = convert_tree(root, tmp_path)
    assert status == 0
    assert (result / "a.ipynb").read_text() == notebook(
        ("markdown", "# Use cuda"),
        ("code", "%matplotlib inline\nimport torch_npu\nimport torch\ndevice = 'npu'"),
        ("code", "!ASCEND_RT_VISIBLE_DEVICES=0 python x.py\nx = torch.ones(1, device=device)\n"),
        ("code", "%%bash\necho cuda"),
        ("code", "if x.is_npu:\n    !nvidia-smi\nx.cuda?"),
    )


def test_the_words_of_the_user_are_not_needed_twice():
    """A file that mentions neither torch nor CUDA is not parsed."""
    text = "def broken(:\n"
    assert convert_python("a.py", text, Settings(), read([text])).problem == ""
