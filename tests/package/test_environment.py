"""Environment variables: each is documented, has its documented effect, and a bad value is named."""

import ast
import json
import os
import re
from pathlib import Path

import pytest
import torch_npu

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "environment.md").read_text()


def tables():
    """The rows of the plugin's table and of the device's: name, values, default, effect."""
    device = [tuple(line.split("\t")) for line in torch_npu.softnpu.control("options").splitlines()]
    return list(torch_npu._C._option_docs()), device


def section(*titles):
    parts = re.split(r"^## (.*)$", DOCUMENT, flags=re.MULTILINE)
    return "".join(text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title in titles)


def listed(text):
    return re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)


def test_the_document_has_each_row_of_the_tables_once_and_no_other():
    plugin, device = tables()
    assert sorted(listed(section("softnpu"))) == sorted(row[0] for row in device)
    assert sorted(listed(section("The plugin", "The plugin: variables without effect"))) == sorted(row[0] for row in plugin)
    for name, values, default, effect in plugin + device:
        assert f"| `{name}` | {values} | {default} | {effect} |\n" in DOCUMENT


def mentioned(source):
    """Strings of a Python file that look like variable names, if the file reads the environment."""
    if "environ" not in source and "getenv" not in source:
        return set()
    direct = set(re.findall(r"(?:getenv|environ\.\w+)\(\s*[\"'](\w+)[\"']", source))
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return direct | {text for text in texts if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+", text)}


def test_python_reads_no_variable_that_is_not_documented():
    documented = set(re.findall(r"`(\w+)`", DOCUMENT))
    for path in (ROOT / "python").rglob("*.py"):
        assert mentioned(path.read_text()) <= documented, path
    assert mentioned("os.environ['SOME_NAME'], os.getenv('WORD')") == {"SOME_NAME", "WORD"}


def test_cpp_reads_variables_in_one_place_for_each_library():
    places = [*(ROOT / "csrc").rglob("*.cpp"), *(ROOT / "csrc").rglob("*.h"), *(ROOT / "softnpu").rglob("*.cpp")]
    readers = {path.relative_to(ROOT) for path in places if re.search(r"\b(secure_)?getenv\(", path.read_text())}
    readers = {path for path in readers if "tests" not in path.parts}
    passes_on = Path("csrc/acl/visible_devices.cpp")  # CUDA programs set this variable while they run
    libraries = {Path("csrc/base/options.cpp"), Path("softnpu/runtime/base/options.cpp"), Path("softnpu/hccl/options.cpp")}
    assert readers == libraries | {passes_on}
    for path in readers:
        literal = set(re.findall(r'getenv\("(\w+)"', (ROOT / path).read_text()))
        assert literal <= set(re.findall(r"`(\w+)`", DOCUMENT)), path


def test_each_bad_value_is_named_once_with_what_is_allowed(child):
    free = (
        "file",
        "folder",
        "regular expression",
        "names of operators",
        "settings separated",
        "bytes, or",
        "key:value",
        "the same",
        "softnpu",
    )
    rows = [row for row in tables()[0] if not any(words in row[1] for words in free) and not row[0].endswith("ALLOC_CONF")]
    assert len(rows) > 40
    silent = {"TORCH_NPU_WARNING_DISABLE", "TORCH_NPU_DISABLED_WARNING"}
    done = child("import torch; print(torch.ones(2, device='npu').sum().item())", **{row[0]: "nonsense" for row in rows})
    assert (done.stdout, done.returncode) == ("2.0\n", 0), done.stderr
    for name, values, *_ in rows:
        assert done.stderr.count(f"environment variable {name} is 'nonsense', but must be {values};") == 1, name
    assert silent <= {row[0] for row in rows}


def result(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


FAILING = """
import json, torch
from torch_npu import softnpu

x = torch.ones(4, device="npu")
torch.npu.synchronize()
with softnpu.faults("launch:1"):
    try:
        y = x.relu()
        raised = "later"
        torch.npu.synchronize()
        raised = "never"
    except RuntimeError:
        raised = locals().get("raised", "at once")
print(json.dumps([raised, (x + 1).tolist()]))
"""


@pytest.mark.parametrize(
    ("environment", "raised"),
    [
        ({}, "later"),
        ({"TASK_QUEUE_ENABLE": "0"}, "at once"),
        ({"TASK_QUEUE_ENABLE": "2"}, "later"),
        ({"TASK_QUEUE_ENABLE": "2", "ASCEND_LAUNCH_BLOCKING": "1"}, "at once"),
        ({"RESUME_MODE_ENABLE": "1"}, "never"),
    ],
)
def test_settings_choose_the_call_that_raises_a_failure(child, environment, raised):
    done = child(FAILING, **environment)
    assert result(done) == [raised, [2.0] * 4]
    assert ("RESUME_MODE_ENABLE=1: the program goes on" in done.stderr) == (raised == "never")


OVERFLOW = """
import json, torch, torch_npu

half = torch.tensor([60000.0, -60000.0, float("nan"), 1.0]).half().npu()
found = {"twice": (half * 2).tolist(), "cast": torch.tensor([1e6]).npu().half().tolist()}
found["single"] = (half.float() * 1e38).tolist()[0]
found["supported"] = torch_npu._C._npu_is_support_inf_nan()
found["product"] = ((torch.full((1, 2), 300.0).half().npu()) @ torch.full((2, 1), 300.0).half().npu()).item()
print(json.dumps(found))
"""


def test_overflows_saturate_if_forced(child):
    found = result(child(OVERFLOW, INF_NAN_MODE_ENABLE="0", INF_NAN_MODE_FORCE_DISABLE="1"))
    assert found == {
        "twice": [65504.0, -65504.0, 0.0, 2.0],
        "cast": [65504.0],
        "single": float.fromhex("0x1.fffffep+127"),
        "supported": False,
        "product": 65504.0,
    }


def test_a_chip_with_infinity_does_not_saturate_by_one_variable_alone(child):
    done = child(OVERFLOW, INF_NAN_MODE_ENABLE="0")
    assert done.returncode != 0
    assert "Unset it, or set INF_NAN_MODE_FORCE_DISABLE=1" in done.stderr


def test_a_chip_without_infinity_ignores_the_mode(child):
    found = result(child(OVERFLOW, INF_NAN_MODE_ENABLE="0", SOFTNPU_SOC_NAME="Ascend910A"))
    assert (found["cast"], found["supported"]) == ([float("inf")], False)


def test_one_saturating_device_leaves_the_others_as_they_are(child):
    program = """
    import ctypes, json, torch
    halves = [torch.tensor([60000.0]).half().to(f"npu:{i}") for i in range(2)]
    library = ctypes.CDLL(torch.npu.library_info()["path"])
    library.aclrtSetDevice(1), library.aclrtSetDeviceSatMode(0)
    before = [(half * 2).item() for half in halves]
    library.aclrtSetDevice(1), library.aclrtSetDeviceSatMode(1)
    print(json.dumps([before, [(half * 2).item() for half in halves]]))
    """
    infinity = float("inf")
    assert result(child(program)) == [[infinity, 65504.0], [infinity, infinity]]


SEEN = """
import json, torch, torch_npu
count = torch.npu.device_count()
held = [torch.ones(1 << 20, device=f"npu:{index}") for index in range(count)]
lines = [line.split() for line in torch_npu.softnpu.control("usage").splitlines()]
print(json.dumps([torch.npu.is_available(), count, [int(line[1]) for line in lines if line[0] == "device" and int(line[2]) > 0]]))
"""


@pytest.mark.parametrize(
    ("devices", "used", "warns"),
    [("5,2", [2, 5], False), ("", [], False), ("1,9,2", [1], True), ("x", [], True)],
)
def test_devices_are_chosen_and_renumbered(child, devices, used, warns, tmp_path):
    done = child(SEEN, ASCEND_RT_VISIBLE_DEVICES=devices, SOFTNPU_LEDGER_DIR=str(tmp_path))
    assert result(done) == [bool(used), len(used), used]
    assert (f"bad value '{devices}' of ASCEND_RT_VISIBLE_DEVICES" in done.stderr) == warns


def test_waits_have_time_limits(child):
    program = """
    import ctypes, json, time, torch
    libc, device = ctypes.CDLL(None), ctypes.CDLL(torch.npu.library_info()["path"])
    gate = ctypes.create_string_buffer(64)
    libc.sem_init(gate, 0, 0)
    x = torch.ones(4, device="npu")
    stream = torch.npu.current_stream()
    torch.npu.synchronize()
    errors = []
    assert device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), libc.sem_wait, gate) == 0
    y = x + 1
    for wait in (stream.synchronize, torch.npu.synchronize):
        try:
            wait()
        except RuntimeError as error:
            errors.append(str(error).splitlines()[0])
    libc.sem_post(gate)
    while not stream.query():
        time.sleep(0.05)
    print(json.dumps([errors, y.tolist()]))
    """
    errors, values = result(child(program, ACL_STREAM_TIMEOUT="100", ACL_DEVICE_SYNC_TIMEOUT="1"))
    assert values == [2.0] * 4
    assert "more than 100 milliseconds, which ACL_STREAM_TIMEOUT allows" in errors[0]
    assert "more than 1000 milliseconds, which ACL_DEVICE_SYNC_TIMEOUT allows" in errors[1]


SETTINGS = """
import json, os, torch
from torch_npu import softnpu

x = torch.arange(24.0, device="npu").view(4, 6)
torch.npu.synchronize()
with softnpu.faults("count"):
    copied = x.t()[::2].contiguous()
    launches = softnpu.fault_counts()["launch"]
found = {
    "streams": len({torch.npu.Stream().stream_id for _ in range(40)}),
    "strict": torch.npu.is_strict_fallback(),
    "capability": torch.npu.get_device_capability(),
    "cores": sorted(os.sched_getaffinity(0)),
    "copy": [launches, copied.tolist()],
    "transfer": torch.device("cuda").type == "npu",
}
print(json.dumps(found))
"""


def test_settings_of_the_plugin(child):
    core = min(os.sched_getaffinity(0))
    usual = result(child(SETTINGS))
    done = child(
        SETTINGS,
        STREAMS_PER_DEVICE="8",
        TORCH_NPU_FALLBACK_CPU_DISABLE="1",
        TORCH_NPU_DEVICE_CAPABILITY="8.0",
        CPU_AFFINITY_CONF=f"1,npu0:{core}-{core}",
        TORCH_TRANSFER_TO_NPU="1",
        COMBINED_ENABLE="1",
        TRI_COMBINED_ENABLE="1",
        RI_COMBINED_ENABLE="1",
        PTCOPY_ENABLE="1",
    )
    assert done.stderr == "transfer_to_npu: cuda means npu from now on (undo() ends it)\n"
    values = [[float(row + 6 * column) for column in range(4)] for row in (0, 2, 4)]
    assert usual == {
        "streams": 32,
        "strict": False,
        "capability": None,
        "cores": sorted(os.sched_getaffinity(0)),
        "copy": [1, values],
        "transfer": False,
    }
    assert result(done) == {
        "streams": 8,
        "strict": True,
        "capability": [8, 0],
        "cores": [core],
        "copy": [1, values],
        "transfer": True,
    }


LOGGED = """
import torch
x = torch.ones(1 << 22, device="npu")
torch.linalg.qr(torch.eye(3, device="npu"), mode="r")
del x
torch.npu.empty_cache()
try:
    torch.npu.synchronize()
    torch_npu = __import__("torch_npu")
    with torch_npu.softnpu.faults("launch:1"):
        torch.ones(2, device="npu").relu()
        torch.npu.synchronize()
except RuntimeError as error:
    pass
"""


def lines(done):
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("[torch_npu] ")]


def test_parts_of_the_plugin_log_what_they_do(child):
    logged = lines(child(LOGGED, TORCH_NPU_LOGS="memory,+dispatch,env,acl"))
    for pattern in (
        r"INFO env: TORCH_NPU_LOGS=memory,\+dispatch,env,acl",
        r"INFO acl: the device library is .*libascendcl\.so",
        r"INFO acl: npu:0 is in use",
        r"INFO memory: took \d{8,} bytes",
        r"INFO memory: gave back \d{8,} bytes",
        r"DEBUG dispatch: aclnn\w+\(.*\) on stream 0 of npu:0  # <string>:\d+",
        r"ERROR acl: aclrtSynchronize\w+ failed with",
    ):
        assert any(re.search(pattern, line) for line in logged), (pattern, logged)
    assert lines(child(LOGGED)) == []


def test_logs_are_filtered_by_words_and_levels(child):
    logged = lines(child(LOGGED, TORCH_NPU_LOGS="all", TORCH_NPU_LOGS_FILTER="+bytes,-gave"))
    assert len(logged) > 0
    assert all("took" in line for line in logged)
    errors = lines(child(LOGGED, TORCH_NPU_LOGS="-all"))
    assert len(errors) > 0
    assert all(line.startswith("[torch_npu] ERROR acl:") for line in errors)


def test_warnings_can_be_turned_off(child):
    program = "import torch; print(torch.npu.device_count())"
    assert "must be 0 or 1" in child(program, TORCH_NPU_DEBUG="2").stderr
    for name in ("TORCH_NPU_WARNING_DISABLE", "TORCH_NPU_DISABLED_WARNING"):
        assert child(program, TORCH_NPU_DEBUG="2", **{name: "1"}).stderr == ""


def test_errors_can_be_short_and_are_then_whole_in_the_log(child, tmp_path):
    program = """
    import torch
    torch._assert_async(torch.zeros((), device="npu"), "it vanished")
    try:
        torch.npu.synchronize()
    except RuntimeError as error:
        print(error)
    """
    done = child(program, TORCH_NPU_COMPACT_ERROR_OUTPUT="1", ASCEND_PROCESS_LOG_PATH=str(tmp_path), SOFTNPU_LAUNCH="queue")
    assert done.stdout.count("\n") == 1, done.stderr
    assert "it vanished" in done.stdout
    advice = "ASCEND_LAUNCH_BLOCKING=1 to make that line raise the error"
    assert advice not in done.stdout
    assert advice in "".join(path.read_text() for path in tmp_path.rglob("*.log"))


def test_a_core_range_without_cores_warns(child):
    done = child("import torch; print(torch.ones(2, device='npu').sum().item())", CPU_AFFINITY_CONF="1,npu0:1000-1001")
    assert done.stdout == "2.0\n"
    assert "CPU_AFFINITY_CONF names no core for npu:0" in done.stderr
