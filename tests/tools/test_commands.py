"""Commands whose output cannot be written or encoded print one line or end silently, without a traceback."""

import os
import shlex
import subprocess
import sys

import pytest

COMMANDS = {
    "smi": ["torch_npu.tools.smi", "info"],
    "smi without a command": ["torch_npu.tools.smi"],
    "smi of no device": ["torch_npu.tools.smi", "info", "-i", "99"],
    "smi with wrong arguments": ["torch_npu.tools.smi", "nothing"],
    "version of smi": ["torch_npu.tools.smi", "-v"],
    "doctor": ["torch_npu.doctor"],
    "doctor for programs": ["torch_npu.doctor", "--json"],
    "help of doctor": ["torch_npu.doctor", "--help"],
    "collect_env": ["torch_npu.utils.collect_env"],
    "help of transplant": ["torch_npu.transplant", "--help"],
}
FULL = "No space left on device"
CLOSED = "the standard output is closed"
OUTPUTS = {
    "closed": (">&-", CLOSED),
    "errors closed": ("2>&-", ""),
    "both closed": (">&- 2>&-", ""),
    "a full disk": (">/dev/full", FULL),
    "errors on a full disk": ("2>/dev/full", ""),
    "both on a full disk": (">/dev/full 2>/dev/full", ""),
    "a closed pipe": ("| true", ""),
    "a pipe that ends early": ("| head -1", ""),
}
WRITES = ("smi", "doctor", "doctor for programs", "collect_env")


def run(command, redirection="", **environment):
    line = f"{shlex.join([sys.executable, '-m', *command])} {redirection}"
    return subprocess.run(["sh", "-c", line], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("name", "output"),
    [("smi", output) for output in OUTPUTS]
    + [(name, output) for name in COMMANDS if "smi" in name and name != "smi" for output in ("closed", "a full disk")]
    + [("doctor", "a full disk"), ("doctor for programs", "closed"), ("help of doctor", "a full disk")]
    + [("collect_env", "closed"), ("collect_env", "a pipe that ends early")]
    + [("help of transplant", "closed"), ("help of transplant", "a full disk")],
)
def test_output_that_cannot_be_written(name, output):
    redirection, words = OUTPUTS[output]
    done = run(COMMANDS[name], redirection)
    text = done.stdout + done.stderr
    assert "Traceback" not in text and "Exception ignored" not in text and "Fatal" not in text
    if words and name in WRITES:
        assert done.stderr.splitlines()[-1].startswith(COMMANDS[name][0])
        assert words in done.stderr and len(done.stderr.splitlines()) == 1
        assert done.returncode == 1


ASCII = {
    "PYTHONIOENCODING": {"PYTHONIOENCODING": "ascii"},
    "locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "strict": {"PYTHONIOENCODING": "ascii:strict"},
}


@pytest.mark.parametrize(
    ("name", "encoding"), [*(("smi", encoding) for encoding in ASCII), ("doctor", "strict"), ("collect_env", "PYTHONIOENCODING")]
)
def test_output_in_ascii_shows_names_by_number(name, encoding, tmp_path):
    folder = tmp_path / "grün"
    folder.mkdir()
    environment = {"TORCH_NPU_LIBRARY_PATH": str(folder), "PYTORCH_NPU_ALLOC_CONF": "", **ASCII[encoding]}
    done = run(COMMANDS[name], **environment)
    text = done.stdout + done.stderr
    assert "Traceback" not in text and "UnicodeEncodeError" not in text
    assert text.isascii()
    if name in ("smi", "doctor"):
        assert "gr\\xfcn" in text or "gr\\udcc3\\udcbcn" in text


def test_a_name_that_is_no_text_is_shown_by_its_bytes(tmp_path):
    """A folder whose name is not UTF-8."""
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)
    line = [sys.executable, "-m", "torch_npu.tools.smi", "info"]
    environment = {**{os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()}, b"TORCH_NPU_LIBRARY_PATH": folder}
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert done.stderr.startswith("npu-smi: TORCH_NPU_LIBRARY_PATH is ") and "Traceback" not in done.stderr
