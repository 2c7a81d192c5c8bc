"""torch_npu.profiler records the host as torch.profiler does, with the names and argument checks of the real package; the
autograd profiler has device times too."""

import json
import threading

import pytest
import torch
from torch_npu import profiler
from torch_npu.profiler import ProfilerAction, _ExperimentalConfig, profile
from torch_npu.utils.profiler import Singleton, _Profile


def names(prof):
    return {event.key for event in prof.key_averages()}


def test_operators_of_every_thread_are_recorded():
    x = torch.ones(4, device="npu")
    with profile(record_shapes=True, with_flops=True) as prof:
        other = threading.Thread(target=lambda: x.cos())
        other.start()
        other.join()
        x.sin()
    assert {"aten::sin", "aten::cos"} <= names(prof)
    assert [event.input_shapes for event in prof.events() if event.name == "aten::sin"] == [[[4]]]


@pytest.mark.parametrize("switch", [{"use_device": "npu"}, {"use_npu": True}])
def test_the_profiler_of_autograd_has_times_of_the_device(switch, capfd):
    weight = torch.ones(300, 300, device="npu", requires_grad=True)
    with torch.autograd.profiler.profile(**switch) as recorded:
        (weight @ weight).sum().backward()
    times = {event.key: event.device_time_total for event in recorded.key_averages()}
    assert times["aten::mm"] > 0
    assert "NPU total" in recorded.key_averages().table()
    assert "not enabled" not in capfd.readouterr().err


def test_a_schedule_says_which_steps_are_recorded(tmp_path):
    x = torch.ones(4, device="npu")
    steps = [torch.sin, torch.cos, torch.exp, torch.tanh, torch.sqrt]
    traces = profiler.tensorboard_trace_handler(tmp_path, "me")
    with profile(schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1), on_trace_ready=traces) as prof:
        for step in steps:
            step(x)
            prof.step()
    [folder] = tmp_path.iterdir()
    assert folder.name.startswith("me_") and folder.name.endswith("_ascend_pt")
    trace = json.loads((folder / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text())
    found = {event["name"] for event in trace["traceEvents"]}
    assert {"aten::exp", "aten::tanh"} <= found and not {"aten::sin", "aten::cos", "aten::sqrt"} & found


def test_start_and_stop_need_no_with(tmp_path):
    prof = profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU])
    prof.set_custom_trace_id_callback(lambda: "42")
    prof.start()
    torch.ones(2, device="npu").sin()
    prof.stop()
    assert "aten::sin" in names(prof) and prof.get_trace_id() == "42"
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


@pytest.mark.parametrize("skip_first", [0, 2])
@pytest.mark.parametrize("skip_first_wait", [0, 1])
@pytest.mark.parametrize("repeat", [0, 1])
def test_a_schedule_is_that_of_torch(skip_first, skip_first_wait, repeat):
    options = {"warmup": 1, "repeat": repeat, "skip_first": skip_first, "skip_first_wait": skip_first_wait}
    expected = torch.profiler.schedule(wait=2, active=3, **options)
    mine = profiler.schedule(2, 3, **options)
    assert [mine(step) for step in range(20)] == [expected(step) for step in range(20)]
    assert ProfilerAction.RECORD_AND_SAVE in {mine(step) for step in range(20)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait": -1, "active": 1}, "wait must be a whole number of at least 0, not -1"),
        ({"wait": 0, "active": 0}, "active must be a whole number of at least 1, not 0"),
        ({"wait": 0, "active": 1, "repeat": 1.5}, r"repeat must be a whole number of at least 0, not 1\.5"),
    ],
)
def test_bad_schedules_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        profiler.schedule(**options)


def test_settings_of_the_device_are_checked_and_kept():
    levels, metrics = profiler.ProfilerLevel, profiler.AiCMetrics
    assert profiler.supported_profiler_level() == {levels.Level0, levels.Level1, levels.Level2, levels.Level_none}
    assert len(profiler.supported_ai_core_metrics()) == 9 and metrics.MemoryUB in profiler.supported_ai_core_metrics()
    assert profiler.supported_export_type() == {"text", "db"}
    assert profiler.supported_activities() == {profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU}
    assert _ExperimentalConfig().aic_metrics == metrics.AiCoreNone
    config = _ExperimentalConfig(
        levels.Level1, metrics.Memory, export_type=["db", "text"], host_sys=["cpu"], gc_detect_threshold=0
    )
    assert (config.aic_metrics, config.export_type, config.with_gc) == (metrics.Memory, ["db", "text"], True)
    with profile(experimental_config=config) as prof:
        torch.ones(2, device="npu").sin()
    assert "aten::sin" in names(prof)


def test_host_activities_are_chosen_by_name():
    parts = [profiler.HostSystem.CPU, profiler.HostSystem.MEM, profiler.HostSystem.NUMA]
    assert _ExperimentalConfig(host_sys=parts).host_sys == ["cpu", "mem", "numa"]
    with pytest.raises(ValueError, match=r"host_sys must be one of HostSystem\.CPU, HostSystem\.MEM, .*, not 'gpu'"):
        _ExperimentalConfig(host_sys=["gpu"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profiler_level": 1}, r"profiler_level must be one of ProfilerLevel\.Level0, .* not 1"),
        ({"aic_metrics": "memory"}, r"aic_metrics must be one of AiCMetrics\.PipeUtilization"),
        ({"l2_cache": 1}, "l2_cache must be True or False, not 1"),
        ({"export_type": ["csv"]}, r"export_type must be one of ExportType\.Text, ExportType\.Db, not 'csv'"),
        ({"host_sys": "cpu"}, "host_sys must be a list of strings"),
        ({"gc_detect_threshold": -1}, "gc_detect_threshold must be None or milliseconds"),
        ({"gc_detect_threshold": float("nan")}, "gc_detect_threshold must be None or milliseconds"),
        ({"export_type": []}, "export_type must name at least one of"),
        ({"mstx_domain_include": ["a"], "mstx_domain_exclude": ["b"]}, "not both"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        _ExperimentalConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activities": ["cpu"]}, r"activities must be a list of ProfilerActivity\.CPU and ProfilerActivity\.NPU"),
        ({"schedule": 3}, "schedule must be callable, not 3"),
        ({"experimental_config": {}}, r"must be a torch_npu\.profiler\._ExperimentalConfig"),
    ],
)
def test_bad_arguments_of_profile_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        profile(**options)


def test_child_threads_need_no_call():
    assert profile.enable_profiler_in_child_thread(record_shapes=True) is None
    with pytest.raises(TypeError, match="with_stack must be True or False"):
        profile.enable_profiler_in_child_thread(with_stack=1)


def test_a_singleton_is_made_once():
    made = Singleton(list)
    assert made("ab") is made("cd") and made() == ["a", "b"]


def test_all_calls_of_profile_share_one_recording(python, tmp_path):
    program = """
        import sys, torch
        from torch_npu.utils.profiler import Profile
        for step in range(9):
            Profile(start_step=3, save_path=sys.argv[1], profile_type="TORCH").start()
            torch.ones(2, device="npu").sin()
            print(step, flush=True)
            Profile().end()
        """
    done = python(program, tmp_path)
    assert (done.stdout, done.returncode) == ("0\n1\n2\n", 0), done.stderr
    assert len(list(tmp_path.glob("torch_prof_*.json"))) == 1


@pytest.mark.parametrize(("kind", "pattern"), [("TORCH", "torch_prof_*.json"), ("ASCEND_PROFILER", "*/*/trace_view.json")])
def test_a_step_is_recorded_and_ends_the_program(tmp_path, kind, pattern):
    one = _Profile(start_step=2, save_path=str(tmp_path), profile_type=kind, with_stack=False)

    def run(operator):
        one.start()
        operator(torch.ones(2, device="npu"))
        one.end()

    run(torch.sin)
    with pytest.raises(SystemExit):
        run(torch.cos)
    [trace] = tmp_path.glob(pattern)
    found = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert "aten::cos" in found and "aten::sin" not in found


def test_without_a_type_nothing_is_recorded():
    one = _Profile(start_step=2)
    for _ in range(4):
        one.start()
        one.end()
    with pytest.raises(RuntimeError, match=r"end\(\) was called without start\(\)"):
        one.end()
    one.start()
    with pytest.raises(RuntimeError, match=r"start\(\) was called twice"):
        one.start()


def test_types_and_options_of_a_step_are_checked():
    with pytest.raises(ValueError, match="profile_type must be None, TORCH, CANN, GE, ASCEND_PROFILER, not 'torch'"):
        _Profile(profile_type="torch")
    with pytest.raises(ValueError, match="TORCH has no option schedule; it takes enabled, "):
        _Profile(profile_type="TORCH", schedule=None)


def test_the_environment_chooses_the_step_and_the_type(monkeypatch, tmp_path):
    monkeypatch.setenv("PROFILE_START_STEP", "1")
    monkeypatch.setenv("PROFILE_TYPE", "CANN")
    one = _Profile(save_path=str(tmp_path))
    one.start()
    torch.ones(2, device="npu").sin()
    with pytest.raises(SystemExit):
        one.end()
    assert len(list(tmp_path.glob("PROF_*"))) == 1
    monkeypatch.setenv("PROFILE_START_STEP", "soon")
    with pytest.raises(ValueError, match="PROFILE_START_STEP must be a whole number of at least 1, not 'soon'"):
        _Profile()
