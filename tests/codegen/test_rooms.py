"""codegen/rooms.py names each line that uses a room without permission, and each mistake in the table."""

import subprocess
import sys
from pathlib import Path

import pytest
from rooms import problems, read_rooms, uses_of
from table_rows import TableError

ROOT = Path(__file__).resolve().parents[2]

TREE = {
    "csrc/base/log.h": "",
    "csrc/core/device.h": '#include "base/log.h"\n',
    "csrc/core/device.cpp": '#include "core/device.h"\n#include <vector>\n#include "acl/acl.h"\n',
    "python/torch_npu/__init__.py": "",
    "python/torch_npu/npu/__init__.py": "from .. import version\n",
    "python/torch_npu/version.py": "",
    "python/torch_npu/tools/smi.py": "def main():\n    from ..npu import something\n",
}
GOOD = """
csrc/base: {about: low}
csrc/core: {about: high, uses: [csrc/base]}
python/torch_npu: {about: root}
python/torch_npu/npu: {about: torch.npu, uses: [python/torch_npu]}
python/torch_npu/tools: {about: commands, uses: [python/torch_npu/npu]}
"""


@pytest.fixture
def check(tmp_path):
    """Writes the tree and a table, and returns the problems."""

    def run(table=GOOD, **changes):
        for name, text in {**TREE, **changes}.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        (tmp_path / "rooms.yaml").write_text(table)
        subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
        rooms = read_rooms(tmp_path / "rooms.yaml", tmp_path)
        return problems(rooms, uses_of(rooms, tmp_path))

    return run


def test_allowed_lines_are_accepted(check):
    assert check() == []


def test_an_include_without_permission_is_named_with_file_and_line(check):
    (problem,) = check(**{"csrc/base/log.h": '#pragma once\n#include "core/device.h"\n'})
    assert problem.startswith('csrc/base/log.h, line 2: `#include "core/device.h"` uses csrc/core, which csrc/base may not use')


def test_an_include_of_softnpu_by_the_plugin_is_named(check):
    table = GOOD.replace(", uses: [csrc/base]", "") + "softnpu/runtime: {about: device}\n"
    files = {"softnpu/runtime/profiler.h": "", "csrc/core/device.h": '#include "runtime/profiler.h"\n'}
    (problem,) = check(table, **files)
    assert problem.startswith('csrc/core/device.h, line 1: `#include "runtime/profiler.h"` uses softnpu/runtime')


def test_an_import_inside_a_function_counts(check):
    (problem,) = check(GOOD.replace("commands, uses: [python/torch_npu/npu]", "commands"))
    assert problem.startswith("python/torch_npu/tools/smi.py, line 2: `from ..npu import something` uses python/torch_npu/npu")


def test_an_absolute_import_counts(check):
    (problem,) = check(**{"python/torch_npu/version.py": "import torch_npu.npu\n"})
    assert problem.startswith("python/torch_npu/version.py, line 1:")


def test_a_permission_that_no_line_needs_is_named(check):
    (problem,) = check(GOOD.replace("csrc/base: {about: low}", "csrc/base: {about: low, uses: [csrc/core]}"))
    assert "line 2: csrc/base may use csrc/core, but no line does" in problem


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (GOOD.replace("uses: [csrc/base]", "uses: [csrc/bas]"), r"line 3, row `csrc/core`: `csrc/bas` is no room of this table"),
        (GOOD + "csrc/atem: {about: typo}\n", r"line 7, row `csrc/atem`: there is no such folder"),
        (GOOD + "csrc/base: {about: again}\n", r"declared twice, first in line 2"),
        (GOOD.replace("about: low", "abuot: low"), r"line 2, row `abuot`: unknown word; known are about, uses"),
        (GOOD.replace("uses: [csrc/base]", "uses: [csrc/core]"), r"line 3, row `csrc/core`: a room may always use itself"),
    ],
)
def test_a_mistake_in_the_table_is_one_sentence_with_the_line(check, table, sentence):
    with pytest.raises(TableError, match=sentence):
        check(table)


def test_the_repository_keeps_its_rooms():
    done = subprocess.run(
        [sys.executable, ROOT / "codegen" / "rooms.py", "--check", ROOT / "docs" / "architecture.md"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
