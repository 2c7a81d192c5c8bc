"""If a rank dies, stops or fails, every other rank gets an error that names the rank and the operation, and nothing is left
behind."""

import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch_npu.distributed import report

from tests.conftest import ROOT
from tests.distributed.faults import DEAD, KINDS, PATIENCE, TCP, TIMEOUT, arguments, provoke
from tests.distributed.rank_processes import Setting, free_port

QUICK = ("kill", "stop", "exception", "corrupt")


def assert_noticed(outcome, world):
    assert outcome.left == []
    assert len(outcome.errors) == world - 1
    for text, seconds in outcome.errors:
        assert re.search("all_?reduce", text, re.IGNORECASE), text
        assert f"rank {world - 1}" in text, text
        # The machine may be busy. tests/distributed/faults.py prints the seconds.
        assert seconds < (TIMEOUT if outcome.kind in DEAD else TIMEOUT + 10), text


@pytest.mark.parametrize("kind", [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.full) for kind in KINDS])
def test_survivors_name_the_rank_and_the_operation(kind):
    assert_noticed(provoke(kind, world=3), 3)


@pytest.mark.full
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_survivors_over_tcp_name_the_rank_and_the_operation(kind, world):
    if (kind, world) == ("unplug", 4):
        pytest.skip("two ranks are behind the link, and wait for the others")
    assert_noticed(provoke(kind, world, TCP), world)


@pytest.mark.full
@pytest.mark.parametrize("mode", ["0", "1", "2", "3"])
def test_modes_of_error_handling(mode):
    """Without the watchdog's abort the timeout of libhccl ends the wait."""
    environment = (("TORCH_HCCL_ASYNC_ERROR_HANDLING", mode), ("HCCL_EXEC_TIMEOUT", "8"))
    assert_noticed(provoke("stop", 3, environment), 3)
    assert_noticed(provoke("kill", 3, environment), 3)


@pytest.mark.parametrize("given", ["--runs 0", "--ranks 1", "--kinds flood"])
def test_the_program_refuses_runs_without_a_fault(given, capsys):
    with pytest.raises(SystemExit):
        arguments(given.split())
    assert given.split()[0] in capsys.readouterr().err


def looks_away(rank):
    """Rank 1 does not call the second collective, and rank 0 does not read the error."""
    rank.join("looks away", timeout=datetime.timedelta(seconds=2))
    dist.all_reduce(torch.ones(3, device=rank.device))
    torch.npu.synchronize()
    work = dist.all_reduce(torch.ones(3, device=rank.device), async_op=True) if rank.rank == 0 else None
    time.sleep(70 if rank.rank == 0 else 45)  # rank 0 ends after 32 s; then the test waits 30 s for the answer of rank 1
    return work


@pytest.mark.full
def test_a_process_that_takes_no_notice_of_a_failure_ends(rank_sets):
    with rank_sets.fresh(Setting("hccl", 2, join=False)) as ranks:
        (good, text), other = ranks.outcomes(looks_away, limit=120)
    assert other == (True, None)
    assert not good and "status -6" in text
    assert re.search("all_reduce number 2.*timeout of 2000 ms.*did not notice it for 30 s", text), text


def test_a_stopped_rank_is_in_the_report(tmp_path, capsys):
    trace = tmp_path / "trace"
    trace.mkdir()
    environment = (
        ("TORCH_HCCL_DUMP_ON_TIMEOUT", "1"),
        ("TORCH_HCCL_TRACE_BUFFER_SIZE", "20"),
        ("TORCH_HCCL_DEBUG_INFO_TEMP_FILE", f"{trace}/rank_"),
    )
    assert_noticed(provoke("stop", 3, environment, folder=tmp_path), 3)
    assert sorted(path.name for path in trace.iterdir()) == ["rank_0", "rank_1"]
    report.main([str(trace)])
    text = capsys.readouterr().out
    assert re.search("Rank 2 of the group has no record", text), text
    assert re.search(r"Rank 0 reported: .*rank 2.*its process is stopped", text), text


def success_of_works(rank):
    """is_success() of two collectives: the first is done before rank 1 ends, and no call waits for the second."""
    rank.join("success", timeout=datetime.timedelta(seconds=TIMEOUT))
    works = [dist.all_reduce(torch.ones(3, device=rank.device), async_op=True)]
    torch.npu.synchronize()
    time.sleep(0.5)  # the watchdog looks ten times per second
    if rank.rank == 1:
        os._exit(0)
    works.append(dist.all_reduce(torch.ones(3, device=rank.device), async_op=True))
    end = time.monotonic() + 30
    while not works[1].is_completed() and time.monotonic() < end:
        time.sleep(0.01)
    found = [(work.is_completed(), work.is_success()) for work in works]
    with contextlib.suppress(RuntimeError):
        works[1].wait()
    dist.destroy_process_group()
    return found


def test_a_failed_collective_has_no_success(rank_sets):
    with rank_sets.fresh(Setting("hccl", 2, join=False)) as ranks:
        assert ranks.outcomes(success_of_works)[0] == (True, [(True, True), (True, False)])


def entry(rank, number, *, retired, name="hccl:all_reduce", size=5):
    return {
        "pg_id": "0", "is_p2p": False, "rank": rank, "group_size": 2, "collective_seq_id": number, "profiling_name": name,
        "input_sizes": [[size]], "input_dtypes": ["Float"], "retired": retired,
    }  # fmt: skip


def write(folder, rank, *entries):
    Path(folder, f"trace{rank}").write_text(json.dumps({"comm_lib": "hccl", "entries": entries}))


def test_the_report_names_the_late_rank(tmp_path):
    write(tmp_path, 0, entry(0, 1, retired=True), entry(0, 2, retired=False))
    write(tmp_path, 1, entry(1, 1, retired=True))
    text = report.describe(tmp_path)
    assert "Rank 1 was behind: the last call was all_reduce number 1 of Float[5]" in text
    assert "rank 0 called all_reduce number 2" in text


def test_the_report_names_different_calls(tmp_path):
    write(tmp_path, 0, entry(0, 1, retired=False))
    write(tmp_path, 1, entry(1, 1, retired=False, name="hccl:broadcast", size=7))
    assert "rank 1 called broadcast number 1 of Float[7]" in report.describe(tmp_path)


def test_the_report_of_a_failed_collective(tmp_path):
    for rank in range(2):
        write(tmp_path, rank, entry(rank, 1, retired=True) | {"state": "failed"})
    assert "All ranks called all_reduce number 1 of Float[5], and ranks 0, 1 did not finish it." in report.describe(tmp_path)


def test_the_report_of_finished_ranks(tmp_path):
    write(tmp_path, 0, entry(0, 1, retired=True))
    write(tmp_path, 1, entry(1, 1, retired=True))
    assert "No rank was behind" in report.describe(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "is empty"),
        ("some text", "none of the 1 files"),
        ('{"comm_lib": "nccl", "entries": []}', "none of the 1 files"),
        ('{"comm_lib": "hccl", "entries": [{"pg', "none of the 1 files"),
        ('{"comm_lib": "hccl", "entries": [{"pg_id": 5}]}', "none of the 1 files"),
        ('{"comm_lib": "hccl", "entries": []}', "have no calls"),
        ("[" * 100_000, "none of the 1 files"),
        (json.dumps({"comm_lib": "hccl", "entries": [entry(5, 1, retired=False)]}), "none of the 1 files"),
        (json.dumps({"comm_lib": "hccl", "entries": [entry(0, 1, retired=False) | {"group_size": 10**12}]}), "none of the 1"),
    ],
)
def test_a_report_of_a_bad_folder_is_one_sentence(tmp_path, content, words):
    if content is not None:
        (tmp_path / "rank0").write_text(content)
    with pytest.raises(SystemExit, match=words) as caught:
        report.main([str(tmp_path)])
    assert "\n" not in str(caught.value)


def test_a_truncated_record_is_named_and_left_out(tmp_path):
    write(tmp_path, 0, entry(0, 2, retired=False))
    write(tmp_path, 1, entry(1, 1, retired=True))
    text = (tmp_path / "trace1").read_text()
    (tmp_path / "trace1").write_text(text[: len(text) // 2])
    report_text = report.describe(tmp_path)
    assert "Rank 1 of the group has no record" in report_text
    assert report_text.splitlines()[-1] == "Skipped, because they are not complete records of hccl: trace1."


@pytest.mark.parametrize(("name", "words"), [("none", "is not a folder"), ("x" * 5000, "cannot be read: File name too long")])
def test_a_report_of_no_folder(tmp_path, name, words):
    with pytest.raises(SystemExit, match=words):
        report.main([str(tmp_path / name)])


def test_a_report_among_many_foreign_files_names_ten_of_them(tmp_path, capsys):
    write(tmp_path, 0, entry(0, 1, retired=False))
    for number in range(15):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/foreign\xff%d" % number)).write_bytes(b"\x80")
    report.main([str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.count("foreign") == 10 and last.endswith(" and 5 more.")


def test_the_report_names_messages_that_were_not_finished(tmp_path):
    message = {"is_p2p": True, "profiling_name": "hccl:recv", "input_sizes": [], "input_dtypes": []}
    received = {"output_sizes": [[7]], "output_dtypes": ["Int"]}
    write(tmp_path, 0, entry(0, 0, retired=True) | message)
    assert report.describe(tmp_path).startswith("No rank was behind: there were only messages")
    write(tmp_path, 1, entry(1, 0, retired=False) | message | received)
    assert report.describe(tmp_path) == "Rank 1 did not finish recv of Int[7] in the group '0'."


def threads_after(rank, name, times):
    """Threads of the process after many groups."""
    counts, store = [], rank.store(name)  # all groups use one connection, because connecting may take seconds
    for number in range(times):
        rank.join(store=dist.PrefixStore(str(number), store))
        dist.all_reduce(torch.ones(3, device=rank.device))
        dist.destroy_process_group()
        if number in (4, times - 1):
            time.sleep(0.5)
            counts.append(len(os.listdir("/proc/self/task")))
    return counts


@pytest.mark.parametrize("times", [20, pytest.param(150, marks=pytest.mark.full)])
def test_threads_of_groups_end_with_the_groups(rank_sets, times):
    for first, last in rank_sets.get(Setting("hccl", 2, join=False)).run(threads_after, f"again {times}", times):
        assert last <= first + 4


# torchrun starts the ranks again after a fault.


def launch(folder, fault, *arguments):
    program = ROOT / "tests" / "distributed" / "restart_program.py"
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", "--max_restarts=2", f"--master_port={free_port()}"]
    return subprocess.run(
        [sys.executable, *launcher, str(program), str(folder), fault, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=PATIENCE * 4,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    done = launch(folder, "none")
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / "final.pt")


@pytest.mark.full
@pytest.mark.parametrize("fault", ["kill", "exception"])
def test_torchrun_continues_from_the_checkpoint(undisturbed, tmp_path, fault):
    done = launch(tmp_path, fault)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "harmed").exists()
    final = torch.load(tmp_path / "final.pt")
    assert final.keys() == undisturbed.keys()
    for name, value in final.items():
        assert torch.equal(value, undisturbed[name]), name
