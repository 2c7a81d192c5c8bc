"""Public names: those of the real package import with their signature and offer what docs/api.md says; those of torch.cuda
exist or have a reason."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.cuda
import yaml

from tests import api
from tests.support import TORCH

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_has_its_signature():
    problems = {name: api.difference(name, signature) for name, signature in api.public().items()}
    assert {name: problem for name, problem in problems.items() if problem} == {}


def test_every_operator_has_its_schema():
    # The file lacks overloads with named dimensions, which torch no longer has, and npu_fusion_attention_v3.out.
    rows = (api.FOLDER / "schemas.txt").read_text().splitlines()
    assert [row for row in rows if torch._C.parse_schema(f"npu::{row}") != _operator(row.split("(")[0])._schema] == []


def _operator(name):
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.npu, base), overload or "default")


def test_the_document_lists_what_each_name_offers(tmp_path):
    """In a process of its own: torch replaces methods of optimizer classes when they are first used."""
    command = [sys.executable, "-m", "tests.api", "--docs", str(tmp_path / "api.md")]
    subprocess.run(command, cwd=ROOT, check=True)
    assert (ROOT / "docs" / "api.md").read_text() == (tmp_path / "api.md").read_text(), (
        "run python -m tests.api --docs docs/api.md"
    )


NOT_OFFERED = {name: reason for name, (state, reason) in api.offers().items() if state == "not offered"}


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_a_name_that_is_not_offered_raises_with_its_reason(name):
    with pytest.raises(NotImplementedError, match=f"is not offered: {re.escape(NOT_OFFERED[name])}"):
        api.resolve(name)()


def test_every_working_name_is_used_by_a_test():
    used = set().union(*(re.findall(r"\w+", path.read_text()) for path in ROOT.glob("tests/**/*.py")))
    assert {name for name, (state, _) in api.offers().items() if state == "works" and name.split(".")[-1] not in used} == set()


def cuda_modules():
    """torch.cuda and its public submodules that say what is public, by name; "" is torch.cuda itself."""
    modules = {"": torch.cuda}
    for info in pkgutil.iter_modules(torch.cuda.__path__):
        module = None if info.name.startswith("_") else importlib.import_module(f"torch.cuda.{info.name}")
        if module and getattr(module, "__all__", None):
            modules[info.name] = module
    return modules


def lacking():
    """Public names of torch.cuda that neither torch.npu nor the real package has."""
    names = {f"{prefix}.{name}".lstrip(".") for prefix, module in cuda_modules().items() for name in module.__all__}
    return {name for name in names if not has(name) and f"torch_npu.npu.{name}" not in api.public()}


def has(name):
    found = torch.npu
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


REASONS = yaml.safe_load((api.FOLDER / "cuda.yaml").read_text())


def test_every_name_of_torch_cuda_exists_or_has_a_reason():
    parts = {name: set(name.split(".")) for name in lacking()}
    assert {name for name in parts if not parts[name] & REASONS.keys()} == set()
    if TORCH >= (2, 13):  # older versions have fewer names
        assert REASONS.keys() - set().union(*parts.values()) == set()


def test_a_reason_is_a_sentence():
    assert all(isinstance(reason, str) and reason.endswith(".") and " " in reason for reason in REASONS.values())
