"""Each switch and metric of torch.npu.profileConfig: its records in PROF_*, and its columns in the results of msprof."""

import csv
import json

import pytest
import torch
from torch_npu.profiler import msprof, names
from torch_npu.profiler.records import COLLECTIVE, KERNEL, read_raw

SWITCHES = (
    *("ACL_PROF_ACL_API", "ACL_PROF_TASK_TIME", "ACL_PROF_AICORE_METRICS", "ACL_PROF_AICPU", "ACL_PROF_L2CACHE"),
    *("ACL_PROF_HCCL_TRACE", "ACL_PROF_TRAINING_TRACE"),
)
METRICS = {
    0: "mac_fp16_ratio mac_int8_ratio vec_fp32_ratio vec_fp16_ratio vec_int32_ratio vec_misc_ratio",
    1: "vec_ratio mac_ratio scalar_ratio mte1_ratio mte2_ratio mte3_ratio icache_miss_rate",
    2: "ub_read_bw ub_write_bw l1_read_bw l1_write_bw l2_read_bw l2_write_bw main_mem_read_bw main_mem_write_bw",
    3: "scalar_ld_ratio scalar_st_ratio l0a_read_bw l0a_write_bw l0b_read_bw l0b_write_bw l0c_read_bw l0c_write_bw",
    4: "vec_bankgroup_cflt_ratio vec_bank_cflt_ratio vec_resc_cflt_ratio mte1_iq_full_ratio mte2_iq_full_ratio "
    "mte3_iq_full_ratio cube_iq_full_ratio vec_iq_full_ratio iq_full_ratio",
    255: "",
}


def recorded(path, config=None, work=None, **options):
    """The folder PROF_* of a short program."""
    x = torch.arange(6.0, device="npu")
    with torch.npu.profile(str(path), config=config, **options):
        torch.npu.iteration_start()
        (x + 1).sum()
        x.sort()
        if work is not None:
            work()
        torch.npu.iteration_end()
    [folder] = path.glob("PROF_*")
    return folder


def only(name):
    return torch.npu.profileConfig(**{switch: switch == name for switch in SWITCHES})


def found(folder):
    """The kinds of records in a folder."""
    records = read_raw(folder)
    kernels = [task for task in records.tasks if task.kind == KERNEL]
    kinds = {"calls": records.calls, "steps": records.steps}
    kinds["collectives"] = [task for task in records.tasks if task.kind == COLLECTIVE]
    kinds["ai_cpu"] = [task for task in kernels if names.core(task) == "AI_CPU"]
    kinds["kernels"] = [task for task in kernels if names.core(task) != "AI_CPU"]
    return {kind for kind, rows in kinds.items() if rows}


def rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("switch", "kinds"),
    [
        ("ACL_PROF_ACL_API", {"calls"}),
        ("ACL_PROF_TASK_TIME", {"kernels"}),
        ("ACL_PROF_AICORE_METRICS", set()),
        ("ACL_PROF_AICPU", {"ai_cpu"}),
        ("ACL_PROF_L2CACHE", set()),
        ("ACL_PROF_TRAINING_TRACE", {"steps"}),
    ],
)
def test_a_switch_records_only_its_own_kind(switch, kinds, tmp_path):
    assert found(recorded(tmp_path, only(switch))) == kinds


def test_hccl_trace_records_only_collectives(child, tmp_path):
    program = """
        import sys, torch, torch_npu
        import torch.distributed as dist
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        x = torch.ones(4, device="npu")
        dist.all_reduce(x)
        for folder, on in (("on", True), ("off", False)):
            names = ("ACL_API", "TASK_TIME", "AICORE_METRICS", "AICPU")
            config = torch.npu.profileConfig(**{f"ACL_PROF_{name}": not on for name in names}, ACL_PROF_HCCL_TRACE=on)
            with torch.npu.profile(f"{sys.argv[1]}/{folder}", config=config):
                dist.all_reduce(x)
        dist.destroy_process_group()
        """
    done = child(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert found(next(tmp_path.glob("on/PROF_*"))) == {"collectives"}
    assert "collectives" not in found(next(tmp_path.glob("off/PROF_*")))


def test_the_defaults_match_the_documents(tmp_path):
    config, defaults = torch.npu.profileConfig(), (True, True, True, True, False, True, False)
    assert tuple(getattr(config, switch) for switch in SWITCHES) == defaults
    explicit = torch.npu.profileConfig(**dict(zip(SWITCHES, defaults, strict=True)), aiCoreMetricsType=0)
    assert vars(config) == vars(explicit)
    folder = recorded(tmp_path)
    assert found(folder) == {"calls", "kernels", "ai_cpu"}
    assert read_raw(folder).info["config"]["bits"] == config.NpuEventConfig
    assert not read_raw(folder).operators  # use_e2e_profiler is False


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_has_its_columns_without_values(metric, tmp_path):
    folder = recorded(tmp_path, torch.npu.profileConfig(aiCoreMetricsType=metric))
    assert msprof.main(["--export=on", f"--output={folder}"]) == 0
    summary = rows(folder / "summary" / "op_summary.csv")
    columns = METRICS[metric].split()
    assert list(summary[0])[len(msprof.SUMMARY_COLUMNS) :] == columns
    assert {row[name] for row in summary for name in columns} <= {"N/A"}
    assert [row["OP Type"] for row in summary if row["OP Type"] == "Sort"] == ["Sort"]


def test_without_the_switch_no_metric_is_written(tmp_path):
    folder = recorded(tmp_path, torch.npu.profileConfig(ACL_PROF_AICORE_METRICS=False, aiCoreMetricsType=1))
    assert read_raw(folder).info["config"]["metrics"] == "ACL_AICORE_NONE"


def test_l2cache_and_training_trace_have_tables(tmp_path):
    folder = recorded(tmp_path, torch.npu.profileConfig(ACL_PROF_L2CACHE=True, ACL_PROF_TRAINING_TRACE=True))
    assert msprof.main(["--export=on", f"--output={tmp_path}"]) == 0
    assert {row["Hit Rate"] for row in rows(folder / "summary" / "l2_cache.csv")} == {"N/A"}
    [step] = rows(folder / "summary" / "step_trace.csv")
    assert step["Step"] == "1" and float(step["Computing"]) > 0


def test_tasks_have_shapes_and_the_call_that_launched_them(tmp_path):
    records = read_raw(recorded(tmp_path))
    [add] = [task for task in records.tasks if task.name == "aclnnAdds"] or [
        task for task in records.tasks if task.name.startswith("aclnnAdd")
    ]
    assert add.inputs[0] == [[6], "FLOAT", "ND"] and add.outputs == [[[6], "FLOAT", "ND"]]
    assert 0 < add.enqueue_ns <= add.start_ns < add.end_ns
    [call] = [call for call in records.calls if call.correlation == add.correlation]
    assert call.name == add.name and call.start_ns <= add.enqueue_ns <= call.end_ns


def test_e2e_merges_operators_with_the_device(tmp_path):
    with torch.npu.mstx.annotate("outer", domain="mine"):
        pass
    folder = recorded(tmp_path, use_e2e_profiler=True, work=lambda: torch.npu.mstx.mark("here", domain="mine"))
    records = read_raw(folder)
    assert {"aten::add", "aten::sum", "aten::sort"} <= {row.name for row in records.operators}
    assert [(mark.name, mark.domain) for mark in records.marks] == [("here", "mine")]
    assert msprof.main(["--export=on", f"--output={folder}"]) == 0
    events = json.loads((folder / "timeline" / "msprof_0.json").read_text())["traceEvents"]
    layers = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    shown = {layers[event["pid"]] for event in events if event["ph"] == "X"}
    assert shown == set(msprof.LAYERS)
