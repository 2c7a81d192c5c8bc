"""The transplant tool converts the scripts of transplant_corpus/converted to the texts beside them (NAME.npu.py), leaves those of
transplant_corpus/unchanged alone, and changes nothing in its own results. Converted programs do what they do on the CPU."""

import ast
import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from torch_npu.contrib import transfer_to_npu

pytest.importorskip("libcst")

from torch_npu.tools.transplant.convert import convert_python
from torch_npu.tools.transplant.project import read
from torch_npu.tools.transplant.settings import Settings

CORPUS = Path(__file__).with_name("transplant_corpus")
PROGRAMS = Path(__file__).with_name("programs")
CONVERTED = sorted(path.name.removesuffix(".npu.py") for path in CORPUS.glob("converted/*.npu.py"))
UNCHANGED = sorted(path.stem for path in CORPUS.glob("unchanged/*.py"))
NOT_ON_NPU = {
    "amp_training": "compares the state of torch.npu.amp.GradScaler with that of torch.amp.GradScaler",
    "device_questions": "asks for the compute capability",
    "streams_and_events": "calls torch.cuda.cudart",
}


def convert(text, **options):
    result = convert_python("script.py", text, Settings(**options), read([text]))
    assert result.problem == ""
    return result


def test_the_corpus_is_complete():
    originals = {path.stem for path in CORPUS.glob("converted/*.py") if not path.name.endswith(".npu.py")}
    assert originals == set(CONVERTED) and len(CONVERTED) + len(UNCHANGED) >= 60


@pytest.mark.parametrize("name", CONVERTED)
def test_a_script_is_converted(name):
    result = convert((CORPUS / "converted" / f"{name}.py").read_text())
    assert result.text == (CORPUS / "converted" / f"{name}.npu.py").read_text()
    ast.parse(result.text)
    assert all(change.confidence in ("high", "medium") for change in result.changes if change.applied)
    assert all(change.confidence == "low" for change in result.changes if not change.applied)


@pytest.mark.parametrize("name", CONVERTED)
def test_a_second_conversion_changes_nothing(name):
    result = convert((CORPUS / "converted" / f"{name}.npu.py").read_text())
    assert result.text is None and not [change for change in result.changes if change.applied]


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_script_is_left_alone(name):
    result = convert((CORPUS / "unchanged" / f"{name}.py").read_text())
    assert result.text is None and not [change for change in result.changes if change.applied]


def test_an_uncertain_place_is_reported_and_not_changed():
    text = (CORPUS / "converted" / "unknown_object_beside_a_user_class.py").read_text()
    (todo,) = [change for change in convert(text).changes if not change.applied]
    assert (todo.start, todo.confidence) == (10, "low") and ".cuda() of an unknown object" in todo.message


@pytest.fixture
def result_of(monkeypatch, capfd, tmp_path):
    def run(name, text):
        monkeypatch.setattr(sys, "argv", [name, "--gpu", "0"])
        torch.compiler.reset()
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        runpy.run_path(str(path), run_name="__main__")
        return json.loads(capfd.readouterr().out.splitlines()[-1])

    return run


def close(found, expected, tolerance):
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(close(found[key], expected[key], tolerance) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(close(*pair, tolerance) for pair in zip(found, expected, strict=True))
    return found == (pytest.approx(expected, rel=tolerance, abs=tolerance) if isinstance(expected, float) else expected)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore:CUDA is not available")
@pytest.mark.parametrize("name", sorted({path.stem for path in PROGRAMS.glob("*.py")} - NOT_ON_NPU.keys()))
def test_a_converted_program_does_on_npu_what_the_original_does_on_the_cpu(result_of, name):
    transfer_to_npu.undo()
    original = (PROGRAMS / f"{name}.py").read_text()
    converted = convert(original).text
    assert "npu" in converted
    assert close(result_of(name, converted), result_of(name, original), 1e-4)
