"""Bad input of ms_fmk_transplt gets one sentence, and nothing is written."""

import json
import os

import pytest

pytest.importorskip("libcst")

from torch_npu.tools.transplant import cli

RULE = {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "x"}]}}
as_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "main.py").write_text("import torch\nx = torch.ones(1).cuda()\n")
    return root


def refused(capsys, *arguments):
    """The sentence that refuses the arguments."""
    try:
        status = cli.main(
            [*map(str, arguments), "--no-support-check"] if "distributed" not in arguments else [*map(str, arguments)]
        )
    except SystemExit as end:
        status = end.code
    error = capsys.readouterr().err
    assert status in (1, 2) and "Traceback" not in error
    (line,) = [
        line
        for line in error.splitlines()
        if line.startswith(("ms_fmk_transplt: ", "ms_fmk_transplt ...")) and "usage" not in line
    ]
    return line


def test_a_missing_input(capsys, tmp_path):
    assert "nowhere does not exist" in refused(capsys, "-i", tmp_path / "nowhere", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_links_in_a_circle(capsys, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "cannot be read" in refused(capsys, "-i", tmp_path / "a", "-o", tmp_path / "out")


def test_links_inside_a_project_are_copied_and_not_followed(project, tmp_path):
    (project / "loop").symlink_to(".")
    (project / "broken").symlink_to("nowhere")
    assert cli.main(["-i", str(project), "-o", str(tmp_path / "out"), "--no-support-check"]) == 0
    result = tmp_path / "out" / "project_msft"
    assert os.readlink(result / "loop") == "." and os.readlink(result / "broken") == "nowhere"


@as_user
def test_an_unreadable_input(capsys, project, tmp_path):
    (project / "main.py").chmod(0)
    assert "cannot be read: Permission denied" in refused(capsys, "-i", project / "main.py", "-o", tmp_path / "out")


@as_user
def test_an_unwritable_output(capsys, project, tmp_path):
    (tmp_path / "out").mkdir(mode=0o500)
    assert "cannot be written" in refused(capsys, "-i", project, "-o", tmp_path / "out")


def test_an_output_that_cannot_be_created(capsys, project, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be created" in refused(capsys, "-i", project, "-o", tmp_path / "file" / "out")
    assert "is a file, but must be a folder" in refused(capsys, "-i", project, "-o", tmp_path / "file")


@pytest.mark.parametrize("inside", [".", "out", "a/b"])
def test_an_output_inside_the_input(capsys, project, inside):
    assert "is inside the input" in refused(capsys, "-i", project, "-o", project / inside)
    assert [path.name for path in project.iterdir()] == ["main.py"]


def test_an_output_file_for_a_folder(capsys, project, tmp_path):
    assert "is a file, but the input" in refused(capsys, "-i", project, "-o", tmp_path / "x.py")
    assert "--in-place changes the file itself" in refused(capsys, "-i", project / "main.py", "-o", project / "main.py")


def test_an_existing_output_file(capsys, project, tmp_path):
    (tmp_path / "x.py").write_text("mine")
    assert "exists already" in refused(capsys, "-i", project / "main.py", "-o", tmp_path / "x.py")
    assert (tmp_path / "x.py").read_text() == "mine"


def test_an_input_that_is_no_program(capsys, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0")
    assert "is no Python file" in refused(capsys, "-i", tmp_path / "a.bin", "-o", tmp_path / "out")


def test_a_missing_output_option(capsys, project):
    assert "-o is missing" in refused(capsys, "-i", project)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["distributed", "-m", "main.py", "-s"], "'-s' stands after distributed"),
        (["-m", "main.py"], "-m belongs to distributed, which comes last"),
        (["distributed"], "-m/--main"),
        (["distributed", "-m", "nowhere.py"], "the entry file nowhere.py of distributed -m is no Python file below"),
        (["distributed", "-m", "main.py", "-t", "a b"], "-t is 'a b', but must be the name of a variable"),
        (["-v", "9.9"], "'9.9' is no version of torch for npu"),
        (["-a", "1x"], "-a is '1x'"),
        (["--report", "pdf"], "'pdf' is no format"),
        (["-j", "0"], "'0' is no number of processes"),
        (["--undo", "--in-place"], "exclude each other"),
        (["--device-agnostic", "-s"], "cannot be combined"),
        (["--undo"], "has no conversion to undo"),
    ],
)
def test_wrong_arguments(capsys, project, tmp_path, arguments, words):
    assert words in refused(capsys, "-i", project, "-o", tmp_path / "out", *arguments)
    assert not (tmp_path / "out").exists()


def broken(change):
    rule = json.loads(json.dumps(RULE))
    change(rule["rules"])
    return json.dumps(rule, indent=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1: not valid JSON"),
        ("[]", 'line 1: the file must be an object with the key "rules"'),
        ('{\n "rules": {},\n "more": 1}', 'line 3: the key "more" is not known'),
        (broken(lambda rules: rules.update(Other=[])), 'line 10: "Other" is no kind of rule'),
        (broken(lambda rules: rules.update(FuncNameModifyRule={})), '"FuncNameModifyRule" must be a list'),
        (
            broken(lambda rules: rules["ArgsModifyRule"][0].pop("arg_new")),
            'line 4: a rule of ArgsModifyRule lacks the key "arg_new"',
        ),
        (
            broken(lambda rules: rules["ArgsModifyRule"][0].update(arg_idx="0")),
            'line 6: "arg_idx" is "0", but must be a whole number',
        ),
        (broken(lambda rules: rules["ArgsModifyRule"][0].update(arg_idx=-1)), 'line 6: "arg_idx" is -1, but counts from 0'),
        (
            broken(lambda rules: rules["ArgsModifyRule"][0].update(arg_new="a b")),
            'line 7: "arg_new" is "a b", but must be an argument',
        ),
        (
            broken(lambda rules: rules["ArgsModifyRule"][0].update(func_name="1f")),
            'line 5: "func_name" is "1f", but must be a name',
        ),
        (broken(lambda rules: rules["ArgsModifyRule"][0].update(colour=1)), 'line 8: ArgsModifyRule has no key "colour"'),
        (broken(lambda rules: rules["ArgsModifyRule"][0].update(arg_keyword="k")), 'either "arg_idx" or "arg_keyword"'),
        (broken(lambda rules: rules["ArgsModifyRule"][0].update(white_list=["("])), "no regular expression"),
    ],
)
def test_bad_rules(capsys, project, tmp_path, text, words):
    (tmp_path / "rule.json").write_text(text)
    assert words in refused(capsys, "-i", project, "-o", tmp_path / "out", "-r", tmp_path / "rule.json")
    assert not (tmp_path / "out").exists()


def test_a_missing_rule_file(capsys, project, tmp_path):
    assert "cannot be read: No such file" in refused(capsys, "-i", project, "-o", tmp_path / "out", "-r", tmp_path / "rule.json")


def test_nothing_is_left_after_a_failure(project, tmp_path, monkeypatch):
    from torch_npu.tools.transplant import reports

    def fail(*_):
        raise OSError(28, "No space left on device", str(tmp_path))

    monkeypatch.setattr(reports, "write", fail)
    assert cli.main(["-i", str(project), "-o", str(tmp_path / "new" / "out"), "--no-support-check"]) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["project"]
