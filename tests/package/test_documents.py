"""The commands and programs of README.md and CONTRIBUTING.md work as written; links and paths of all documents exist."""

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks(document, language):
    """The code blocks of a language in the order of the document."""
    fence = re.compile(rf"^( *)```{language}\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(match[2]) for match in fence.finditer((ROOT / document).read_text())]


def section(title):
    return (ROOT / "CONTRIBUTING.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=3000, **options)


def first_program():
    (program,) = blocks("README.md", "python")
    return program


def test_the_first_program_runs(python):
    done = python(first_program())
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"Ascend\w+ torch.Size\(\[4, 3\]\) \{\}\n", done.stdout)


@pytest.mark.full
def test_the_first_program_runs_where_only_the_wheel_was_installed(tmp_path):
    (wheel,) = (ROOT / "build" / "dist").glob("torch_npu-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "venv", check=True)
    python = tmp_path / "venv" / "bin" / "python"
    installed = run(python, "-m", "pip", "install", "--quiet", wheel)
    assert installed.returncode == 0, installed.stderr
    done = run(python, "-c", first_program(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("{}\n")


def copy_tree(target):
    """Copies the source tree without build outputs; .venv is a link to this environment."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    (target / ".venv").symlink_to(sys.prefix)


def rows():
    """Table -> the row of steps 1 and 2."""
    return dict(block.removeprefix("# ").splitlines() for block in blocks_of_steps("yaml"))


def take_rows_out(tree):
    for table, row in rows().items():
        text = (tree / table).read_text()
        assert text.count(f"\n{row}\n") == 1, row
        (tree / table).write_text(text.replace(f"\n{row}\n", "\n"))


def add_rows(tree):
    for table, row in rows().items():
        (tree / table).write_text(f"{(tree / table).read_text()}{row}\n")


def blocks_of_steps(language):
    inside = section("Add an op in five minutes")
    return [block for block in blocks("CONTRIBUTING.md", language) if block.splitlines()[0] in inside]


def test_an_op_is_added_by_two_rows(tmp_path):
    copy_tree(tmp_path)
    take_rows_out(tmp_path)
    generate = ".venv/bin/python codegen/plugin_ops.py --out generated"
    assert "`lgamma.out` falls back to CPU, but no reason is given" in run("bash", "-c", generate, cwd=tmp_path).stderr
    add_rows(tmp_path)
    *quick, slow = blocks_of_steps("sh")[-1].splitlines()
    assert slow == "scripts/ops-docs"  # takes minutes; test_op_coverage.py tests it
    for line in [*quick, generate]:
        done = run("bash", "-c", line, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "aclnnSoftLgamma" in (tmp_path / "docs" / "aclnn.md").read_text()
    adapters = "".join(path.read_text() for path in (tmp_path / "generated").rglob("adapters_*.cpp"))
    assert "call::aclnnSoftLgamma(self, op.output(0));" in adapters


@pytest.mark.full
def test_an_op_that_was_added_works(tmp_path):
    copy_tree(tmp_path)
    take_rows_out(tmp_path)
    add_rows(tmp_path)
    (build,) = blocks_of_steps("sh")[0].splitlines()
    built = run("bash", "-c", f"{build} --no-install", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    (wheel,) = (tmp_path / "build" / "dist").glob("torch_npu-*.whl")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel, check=True)
    (program,) = blocks_of_steps("python")
    done = run(sys.executable, "-c", program, cwd=tmp_path / "site", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stderr


def documents():
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / line for line in listed.splitlines()]


def headings(document):
    """The anchors of a document."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_link_points_to_a_file_and_a_heading():
    for document in documents():
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
            path = document.parent / target if target else document
            assert path.exists(), f"{document}: {target}"
            assert not anchor or anchor in headings(path), f"{document}: {target}#{anchor}"


def test_every_path_of_the_repository_exists():
    folders = "bench|cmake|codegen|csrc|docs|examples|include|packages|python|scripts|softnpu|tests"
    for document in documents():
        for path in re.findall(rf"`((?:{folders})/[\w./*-]*)", document.read_text()):
            assert list(ROOT.glob(path)), f"{document}: {path}"


def test_the_features_name_existing_tests():
    rows = re.findall(r"^\|.*\| ([^|]*) \|$", (ROOT / "docs" / "features.md").read_text(), re.MULTILINE)[1:]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(names) >= len(rows) > 10
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert [name for name in names if name not in tests] == []
