"""No source that is written by hand has more than 450 lines, and no test file more than 500."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".c", ".cpp", ".h", ".inc", ".py"}


def test_files_are_short():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    files = [Path(line) for line in listed if Path(line).suffix in SUFFIXES and (ROOT / line).is_file()]
    lines = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files}
    assert len(files) > 1000
    assert [file for file in files if lines[file] > (500 if "tests" in file.parts else 450)] == []
