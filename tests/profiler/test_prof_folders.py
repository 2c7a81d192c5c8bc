"""Folders PROF_* of torch.npu.profile and the prof_* functions: order of calls, paths, full disks, killed processes."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from torch_npu.profiler.records import read_raw


def test_the_default_path_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with torch.npu.profile() as recorded:
        torch.ones(2, device="npu").sin()
    assert recorded.result_path == "./" and not recorded.use_e2e_profiler
    assert [path.name[:5] for path in tmp_path.iterdir()] == ["PROF_"]


def test_a_missing_path_is_made_and_a_wrong_one_is_named(tmp_path):
    with torch.npu.profile(str(tmp_path / "a" / "b")):
        pass
    assert len(list((tmp_path / "a" / "b").iterdir())) == 1
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"file/x for results of the profiler cannot be made"):
        torch.npu.profile(str(tmp_path / "file" / "x")).__enter__()
    with torch.npu.profile(str(tmp_path)):  # the failure left nothing open
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_path_that_cannot_be_written_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written: permission denied"):
        torch.npu.prof_init(str(tmp_path))


def test_wrong_orders_are_named(tmp_path):
    for call, message in (
        (torch.npu.prof_start, r"call prof_init\(path\) first"),
        (torch.npu.prof_stop, "no recording is active"),
        (torch.npu.prof_finalize, r"call prof_init\(path\) first"),
        (torch.npu.iteration_start, r"call prof_start\(\) first"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()
    torch.npu.prof_init(str(tmp_path))
    with pytest.raises(RuntimeError, match="a profile is already open"):
        torch.npu.prof_init(str(tmp_path))
    with pytest.raises(ValueError, match="aicore_metrics must be 0, 1, 2, 3, 4 or 255"):
        torch.npu.prof_start(2, 9)
    torch.npu.prof_start()
    with pytest.raises(RuntimeError, match="a recording is already active"):
        torch.npu.prof_start()
    with pytest.raises(RuntimeError, match="iteration_end was called without iteration_start"):
        torch.npu.iteration_end()
    torch.npu.iteration_start()
    with pytest.raises(RuntimeError, match="iteration_start was called twice"):
        torch.npu.iteration_start()
    torch.npu.prof_finalize()  # also stops the recording
    [folder] = tmp_path.iterdir()
    assert "complete" not in read_raw(folder).info


def test_one_profile_may_have_several_recordings(tmp_path):
    torch.npu.prof_init(str(tmp_path))
    for name in ("sin", "cos"):
        torch.npu.prof_start(0x2)
        getattr(torch.ones(2, device="npu"), name)()
        torch.npu.prof_stop()
    torch.npu.prof_finalize()
    first, second = sorted(tmp_path.iterdir())
    names = [{task.name for task in read_raw(folder).tasks} for folder in (first, second)]
    assert "aclnnSin" in names[0] and "aclnnCos" not in names[0] and "aclnnCos" in names[1]


def test_an_exception_of_the_program_passes_and_ends_the_profile(tmp_path):
    with pytest.raises(KeyError, match="mine"), torch.npu.profile(str(tmp_path), use_e2e_profiler=True):
        torch.ones(2, device="npu").sin()
        raise KeyError("mine")
    [folder] = tmp_path.iterdir()
    assert "aten::sin" in {row.name for row in read_raw(folder).operators}


def test_a_full_disk_is_named_and_the_next_profile_works(tmp_path):
    recorded = torch.npu.profile(str(tmp_path / "full"))
    recorded.__enter__()
    [folder] = (tmp_path / "full").iterdir()
    (folder / "host" / "end.json").symlink_to("/dev/full")
    with pytest.raises(RuntimeError, match="No space left on device"):
        recorded.__exit__(None, None, None)
    with torch.npu.profile(str(tmp_path / "next")):
        torch.ones(2, device="npu").sin()
    [folder] = (tmp_path / "next").iterdir()
    assert "aclnnSin" in {task.name for task in read_raw(folder).tasks}


def test_a_failed_task_is_reported_and_ends_the_profile(tmp_path):
    x, index = torch.ones(4, device="npu"), torch.tensor([9], device="npu")
    with pytest.raises((RuntimeError, IndexError)), torch.npu.profile(str(tmp_path)):
        x.index_select(0, index)
        torch.npu.synchronize()
    with torch.npu.profile(str(tmp_path)):
        (x + 1).sum()
    newest = max(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert any(task.name.startswith("aclnnAdd") for task in read_raw(newest).tasks)


def test_a_killed_process_leaves_what_was_written(python, tmp_path):
    program = """
        import os, signal, sys, time, torch, torch_npu
        from pathlib import Path
        torch.npu.prof_init(sys.argv[1])
        torch.npu.prof_start()
        torch.ones(4, device="npu").sin()
        torch.npu.synchronize()
        while not any("aclnnSin" in path.read_text() for path in Path(sys.argv[1]).rglob("tasks.jsonl")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    assert python(program, tmp_path).returncode == -signal.SIGKILL
    [folder] = tmp_path.iterdir()
    tasks = folder / "device_0" / "tasks.jsonl"
    tasks.write_text(tasks.read_text() + '{"name": "aclnnCos", "sta')  # a line that was cut
    records = read_raw(folder)
    assert [task.name for task in records.tasks if task.kind == "kernel"].count("aclnnSin") == 1
    assert records.info["complete"] is False


def test_work_of_other_threads_and_streams_is_recorded(tmp_path):
    import threading

    def work():
        with torch.npu.stream(torch.npu.Stream()):
            torch.ones(2, device="npu").sin()
            torch.npu.current_stream().synchronize()

    with torch.npu.profile(str(tmp_path)):
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    [folder] = tmp_path.iterdir()
    sines = [task for task in read_raw(folder).tasks if task.name == "aclnnSin"]
    assert len(sines) == 3 and len({task.stream for task in sines}) == 3 and len({task.thread for task in sines}) == 3


def test_replays_of_a_graph_are_recorded(tmp_path):
    x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.sin()
    with torch.npu.profile(str(tmp_path)):
        graph.replay()
        graph.replay()
    [folder] = tmp_path.iterdir()
    assert [task.name for task in read_raw(folder).tasks].count("aclnnSin") == 2


def test_the_folder_names_the_process_and_the_host(tmp_path):
    with torch.npu.profile(str(tmp_path)):
        pass
    [folder] = tmp_path.iterdir()
    info = json.loads((folder / "host" / "info.json").read_text())
    assert info["process"] == os.getpid() and info["processors"] >= 1 and "governor" in info


def test_profile_of_one_step_ends_the_program(child, tmp_path):
    program = """
        import sys, torch
        from torch_npu.utils.profiler import Profile
        profile = Profile(save_path=sys.argv[1])
        assert Profile() is profile
        x = torch.ones(3, device="npu")
        for step in range(5):
            profile.start()
            print("step", step)
            x.sin()
            profile.end()
        print("end")
        """
    for kind, pattern in (
        ("TORCH", "torch_prof_*.json"),
        ("CANN", "PROF_*"),
        ("GE", "PROF_*"),
        ("ASCEND_PROFILER", "*_ascend_pt"),
    ):
        target = tmp_path / kind
        done = child(program, target, PROFILE_START_STEP="2", PROFILE_TYPE=kind)
        assert (done.returncode, done.stdout) == (0, "step 0\nstep 1\n"), done.stderr
        [found] = target.glob(pattern)
        assert kind != "TORCH" or "aclnnSin" in found.read_text()
    done = child(program, tmp_path / "none", PROFILE_START_STEP="2")
    assert done.stdout.endswith("step 4\nend\n") and not (tmp_path / "none").exists()
    done = child(program, tmp_path / "none", PROFILE_START_STEP="x", PROFILE_TYPE="TORCH")
    assert "PROFILE_START_STEP must be a whole number of at least 1, not 'x'" in done.stderr


def test_libraries_of_another_folder_make_their_own_profile(child, tmp_path):
    libraries = Path(torch.npu.library_info()["path"]).parent
    for name in ("libascendcl.so", "libopapi.so", "libmsprofiler.so"):
        (tmp_path / name).symlink_to((libraries / name).resolve())
    program = """
        import sys, torch, torch_npu
        with torch.npu.profile(sys.argv[1]):
            torch.ones(2, device="npu").sin()
        print(torch.npu.library_info()["origin"])
        """
    done = child(program, tmp_path / "result", TORCH_NPU_LIBRARY_PATH=str(tmp_path / "libascendcl.so"))
    assert done.stdout == "env\n", done.stderr
    [folder] = (tmp_path / "result").iterdir()
    assert read_raw(folder).info["devices"] == [0]
    (tmp_path / "libmsprofiler.so").unlink()
    done = child(program, tmp_path / "none", TORCH_NPU_LIBRARY_PATH=str(tmp_path / "libascendcl.so"))
    assert "there is no libmsprofiler.so beside it" in done.stderr
