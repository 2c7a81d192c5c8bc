"""Profiles of unchanged programs, and profiles that start while a program runs."""

import json
from pathlib import Path

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler.folder import read_any

SCRIPT = """
import os, sys, torch
os.chdir("/")
print(torch.ones(2).npu().sum().item(), sys.argv[1:])
if sys.argv[1] == "fail":
    raise ValueError("on purpose")
if sys.argv[1] == "interrupt":
    raise KeyboardInterrupt
sys.exit(3)
"""
RUN = "import os, sys; os.chdir(sys.argv[1]); from torch_npu.profile import main; sys.exit(main(sys.argv[2:]))"


@pytest.mark.parametrize(("word", "status"), [("exit", 3), ("fail", 1), ("interrupt", 130)])
def test_one_command_profiles_a_program_as_it_is(child, tmp_path, word, status):
    (tmp_path / "s.py").write_text(SCRIPT)
    done = child(RUN, tmp_path, "--out", "out", "--memory", "s.py", word, "--deep")
    assert (done.stdout, done.returncode) == (f"2.0 ['{word}', '--deep']\n", status), done.stderr
    [page] = tmp_path.glob("out/*_ascend_pt/advice.html")
    assert f"page: {page}" in done.stderr and ("on purpose" in done.stderr) == (word == "fail")
    assert "aten::sum" in {row.name for row in read_any(tmp_path / "out").operators}


def test_threads_of_a_program_end_before_its_profile(child, tmp_path):
    """The end of Python waits for them as well; workers of a pool end later."""
    (tmp_path / "s.py").write_text(
        "import concurrent.futures, threading, time, torch\n"
        "x = torch.ones(2).npu()\n"
        "def late():\n    time.sleep(0.5)\n    x.cos()\n    print('late', flush=True)\n"
        "pool = concurrent.futures.ThreadPoolExecutor(1)\n"
        "pool.submit(x.sin).result()\n"
        "threading.Thread(target=late).start()\n"
        "raise SystemExit(3)\n"
    )
    done = child(RUN, tmp_path, "--no-stack", "s.py")
    assert (done.stdout, done.returncode) == ("late\n", 3), done.stderr
    assert {"aten::sin", "aten::cos"} <= {row.name for row in read_any(tmp_path / "npu_profile").operators}


def test_a_module_is_profiled_with_its_arguments(child, tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "main.py").write_text("import sys, torch\nprint(sys.argv[1:], torch.ones(2).npu().sum().item())\n")
    done = child(RUN.replace("os.chdir(sys.argv[1])", "sys.path.insert(0, sys.argv[1]); os.chdir(sys.argv[1])"),
                 tmp_path, "--no-stack", "-m", "inside.main", "-x")  # fmt: skip
    assert (done.stdout, done.returncode) == ("['-x'] 2.0\n", 0), done.stderr
    assert len(list(tmp_path.glob("npu_profile/*_ascend_pt/advice.html"))) == 1


def test_wrong_calls_of_the_command_are_named(child, tmp_path):
    done = child(RUN, tmp_path, "none.py")
    assert done.returncode == 2 and "there is no file none.py" in done.stderr
    (tmp_path / "s.py").write_text("print(1)\n")
    (tmp_path / "file").touch()
    done = child(RUN, tmp_path, "--out", "file/x", "s.py")
    assert done.returncode == 1 and "cannot be made: Not a directory" in done.stderr and done.stdout == ""


def test_a_program_that_is_terminated_has_a_result(child, tmp_path):
    """SIGTERM ends a child of the program, as it does without a profile."""
    (tmp_path / "s.py").write_text(
        "import os, signal, time, torch\n"
        "torch.ones(2).npu().sin()\n"
        "child = os.fork()\n"
        "if not child:\n    time.sleep(60)\n"
        "os.kill(child, signal.SIGTERM)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    done = child(RUN, tmp_path, "--no-stack", "s.py")
    assert (done.stdout, done.returncode) == ("-15\n", 143), done.stderr
    assert "aten::sin" in {row.name for row in read_any(tmp_path / "npu_profile").operators}


def test_a_changed_file_starts_a_dynamic_profile(tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile
    monkeypatch.setattr(dynamic, "_SECONDS", 0)
    dynamic.init(str(tmp_path))
    dynamic.step()
    path = Path(tmp_path, "profiler_config.json")
    config = json.loads(path.read_text()) | {"prof_dir": str(tmp_path / "out"), "active": 1}
    path.write_text(json.dumps(config))
    dynamic.step()
    torch.ones(2, device="npu").sin()
    dynamic.step()
    [folder] = (tmp_path / "out").iterdir()
    assert "aten::sin" in {row.name for row in read_any(folder).operators}
    path.write_text('{"speed": 1}')
    with pytest.warns(UserWarning, match="unknown setting 'speed'"):
        dynamic.step()


DYNAMIC = """
    import json, sys, torch, torch_npu
    from pathlib import Path
    folder = Path(sys.argv[1])
    from torch_npu.profiler import dynamic_profile
    dynamic_profile._SECONDS = 0
    model, other = torch.nn.Linear(2, 2).npu(), torch.nn.Linear(2, 2).npu()
    first, second = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.Adam(other.parameters())

    def step(operator):
        (operator(model(torch.ones(1, 2, device="npu"))) + other(torch.ones(1, 2, device="npu"))).sum().backward()
        first.step()
        second.step()

    step(torch.sin)
    config = json.loads((folder / "profiler_config.json").read_text())
    config |= {"prof_dir": str(folder / "out"), "active": int(sys.argv[2]), "metadata": {}}
    (folder / "profiler_config.json").write_text(json.dumps(config))
    step(torch.cos)
    step(torch.exp)
    step(torch.tanh)
    """


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_an_environment_variable_profiles_steps_of_the_optimizer(child, tmp_path, steps):
    """The first optimizer ends the steps. A recording that is active at the end of the program is written."""
    done = child(DYNAMIC, tmp_path, steps, PROF_CONFIG_PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    [folder] = (tmp_path / "out").iterdir()
    found = {row.name for row in read_any(folder).operators}
    assert "aten::exp" in found and not {"aten::sin", "aten::cos"} & found
    assert ("aten::tanh" in found) == (steps > 1)


def test_a_folder_that_cannot_be_written_does_not_stop_the_program(child, tmp_path):
    (tmp_path / "file").touch()
    done = child("import torch, torch_npu; print(1)", PROF_CONFIG_PATH=str(tmp_path / "file" / "x"))
    assert (done.stdout, done.returncode) == ("1\n", 0)
    assert "PROF_CONFIG_PATH has no effect" in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"active": 0}, "active must be a whole number of at least 1, but is 0"),
        ({"activities": ["GPU"]}, "activities may be CPU and NPU, not 'GPU'"),
        ({"experimental_config": {"aic_metrics": "SPEED"}}, "aic_metrics must be one of"),
        ({"prof_dir": "/dev/null/x"}, "cannot be made"),
        ({"prof_dir": 5}, "prof_dir must be a text, but is 5"),
        ({"experimental_config": []}, r"experimental_config must be an object, but is \[\]"),
        ({"experimental_config": {"speed": 1}}, "unexpected keyword argument 'speed'"),
        ({"is_rank": True, "rank_list": 5}, "rank_list must be a list, but is 5"),
        ({"analyse": "false"}, "analyse must be true or false, but is 'false'"),
        ({"active": True}, "active must be a whole number, but is True"),
        ([], "it must contain a JSON object"),
        ({"prof_dir": "a\0b"}, "embedded null byte"),
        ({"is_rank": True, "rank_list": ["0"]}, "rank_list must hold whole numbers, but has '0'"),
    ],
)
def test_wrong_settings_of_a_dynamic_profile_are_a_warning(change, message, tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile
    monkeypatch.setattr(dynamic, "_state", dynamic._State())
    dynamic.init(str(tmp_path))
    path = tmp_path / "other.json"
    path.write_text(json.dumps(change))
    with pytest.warns(UserWarning, match=message):
        dynamic.start(str(path))
        dynamic.step()
    torch.ones(2, device="npu").sin()
    dynamic.step()


def test_other_ranks_are_not_recorded(tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile
    monkeypatch.setattr(dynamic, "_state", dynamic._State())
    monkeypatch.setenv("RANK", "1")
    dynamic.init(str(tmp_path))
    path = tmp_path / "other.json"
    for ranks, folders in (([0], 0), ([0, 1], 1)):
        path.write_text(json.dumps({"is_rank": True, "rank_list": ranks, "prof_dir": str(tmp_path / "out")}))
        dynamic.start(str(path))
        dynamic.step()
        dynamic.step()
        assert len(list(tmp_path.glob("out/*_ascend_pt"))) == folders
    [info] = tmp_path.glob("out/*_ascend_pt/profiler_info_1.json")
    assert json.loads(info.read_text())["rank_id"] == 1


def test_a_file_may_name_choices_by_their_constants_and_carry_metadata(tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile
    monkeypatch.setattr(dynamic, "_state", dynamic._State())
    dynamic.init(str(tmp_path))
    path = tmp_path / "other.json"
    choices = {"profiler_level": "Level1", "aic_metrics": "MemoryUB", "export_type": ["Text", "db"], "gc_detect_threshold": None}
    path.write_text(
        json.dumps({"prof_dir": str(tmp_path / "out"), "experimental_config": choices, "metadata": {"model": ["a", 1]}})
    )
    dynamic.start(str(path))
    dynamic.step()
    torch.ones(2, device="npu").sin()
    dynamic.step()
    [folder] = (tmp_path / "out").iterdir()
    names = {file.name for file in (folder / "ASCEND_PROFILER_OUTPUT").iterdir()}
    assert {"ascend_pytorch_profiler_0.db", "trace_view.json"} <= names
    stored = json.loads((folder / "profiler_info_0.json").read_text())["config"]["experimental_config"]
    assert stored["_aic_metrics"] == profiler.AiCMetrics.MemoryUB
    assert json.loads((folder / "profiler_metadata.json").read_text())["model"] == ["a", 1]


def test_a_full_disk_does_not_stop_a_training(tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile

    def full(prof):
        raise OSError(28, "the profile cannot be written to x: No space left on device")

    monkeypatch.setattr(dynamic, "_state", dynamic._State())
    monkeypatch.setattr(dynamic, "tensorboard_trace_handler", lambda *_, **__: full)
    dynamic.init(str(tmp_path))
    dynamic.start()
    dynamic.step()
    with pytest.warns(UserWarning, match="dynamic_profile: the profile cannot be written to x: No space left"):
        dynamic.step()
    assert dynamic._state.prof is None
    dynamic.step()


def test_a_file_that_vanishes_does_not_stop_a_training(tmp_path, monkeypatch):
    dynamic = profiler.dynamic_profile
    monkeypatch.setattr(dynamic, "_state", dynamic._State())
    monkeypatch.setattr(dynamic, "_SECONDS", 0)
    dynamic.init(str(tmp_path))
    first = (tmp_path / "profiler_config.json").stat().st_mtime_ns
    dynamic.init(str(tmp_path))  # a second rank does not change the file
    assert (tmp_path / "profiler_config.json").stat().st_mtime_ns == first
    (tmp_path / "profiler_config.json").unlink()
    dynamic.step()
    assert dynamic._state.waiting is None
