"""The wheel of apex: its contents, its requirements, and the programs of docs/apex.md."""

import importlib.metadata
import inspect
import re
from pathlib import Path

from apex import amp

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "packages" / "apex" / "src"


def test_the_wheel_has_every_source_and_the_licence():
    files = {str(file) for file in importlib.metadata.files("apex")}
    for source in SOURCES.rglob("*.py"):
        assert str(source.relative_to(SOURCES)) in files
    assert any(name.endswith("/LICENSE") for name in files)
    assert (ROOT / "packages" / "apex" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


def test_version_and_requirements():
    assert importlib.metadata.version("apex") == "0.1+ascend"
    assert importlib.metadata.requires("apex") == ["torch>=2.11"]
    assert f'"{importlib.metadata.version("apex")}"' in (SOURCES / "apex" / "__init__.py").read_text()


def test_the_programs_of_the_document_run(child):
    programs = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "apex.md").read_text(), re.MULTILINE | re.DOTALL)
    # The second one needs a loss that was not used and a dynamic scale.
    again = "amp.uninitialize()\nmodel, optimizer = amp.initialize(model, optimizer, opt_level='O1', verbosity=0)\n"
    again += "loss = torch.nn.functional.cross_entropy(model(images), target)\n"
    done = child("import torch_npu\n" + programs[0] + again + programs[1])
    assert done.returncode == 0, done.stderr
    assert re.search(r"elements of the gradient of \S+ in \S+ \(\w+\), used by \w+, overflowed\n$", done.stdout)


def test_the_document_names_every_option_and_function():
    text = (ROOT / "docs" / "apex.md").read_text()
    options = set(inspect.signature(amp.initialize).parameters) - {"models", "optimizers", "unknown"}
    assert not [name for name in options if f"`{name}`" not in text]
    assert not [name for name in amp.__all__ if name not in ("_amp_state", "init") and name not in text]
