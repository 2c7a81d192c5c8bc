"""The tables describe the ABI of existing programs. A mistake in a table stops the generator with one sentence."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "codegen" / "abi.py"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")
C11 = ("gcc", "-std=c11", *WARNINGS)
CXX20 = ("g++", "-std=c++20", *WARNINGS)

# Numbers that compiled programs contain. They are repeated here to detect a mistake in the table.
PINNED = {
    "ACL_SUCCESS": 0, "ACL_ERROR_INVALID_PARAM": 100000, "ACL_ERROR_UNINITIALIZE": 100001,
    "ACL_ERROR_REPEAT_INITIALIZE": 100002, "ACL_ERROR_REPEAT_FINALIZE": 100037, "ACL_ERROR_RT_PARAM_INVALID": 107000,
    "ACL_ERROR_RT_INVALID_DEVICEID": 107001, "ACL_ERROR_RT_CONTEXT_NULL": 107002, "ACL_ERROR_RT_STREAM_CONTEXT": 107003,
    "ACL_ERROR_RT_INVALID_HANDLE": 107017, "ACL_ERROR_RT_DEVICE_TASK_ABORT": 107022,
    "ACL_ERROR_RT_FEATURE_NOT_SUPPORT": 207000, "ACL_ERROR_RT_MEMORY_ALLOCATION": 207001, "ACL_ERROR_BAD_ALLOC": 200000,
    "ACL_ERROR_INTERNAL_ERROR": 500000, "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT": 507046,
    "ACL_ERROR_RT_EVENT_SYNC_TIMEOUT": 507047, "ACL_ERROR_RT_DEVICE_MEM_ERROR": 507053, "ACL_ERROR_RT_LINK_ERROR": 507056,
    "ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED": 545002, "ACLNN_ERR_PARAM_NULLPTR": 161001,
    "ACLNN_ERR_INNER_NULLPTR": 561103, "ACLNN_ERR_INNER_STATIC_BLOCK_DIM_INVALID": 561119, "ACL_FLOAT": 0, "ACL_INT64": 9,
    "ACL_BOOL": 12, "ACL_BF16": 27, "ACL_COMPLEX32": 33, "ACL_FORMAT_ND": 2, "ACL_FORMAT_FRACTAL_NZ": 29,
    "ACL_FORMAT_NCL": 47, "ACL_MEMCPY_DEVICE_TO_DEVICE": 3, "ACL_MEM_MALLOC_HUGE1G_ONLY": 6, "ACL_HBM_MEM": 1,
    "ACL_HBM_MEM_HUGE": 4, "ACL_EVENT_SYNC": 1, "ACL_EVENT_TIME_LINE": 8, "ACL_EVENT_EXTERNAL": 0x20, "ACL_EVENT_IPC": 0x40,
    "ACL_STREAM_FAST_LAUNCH": 1, "ACL_STREAM_FAST_SYNC": 2, "ACL_STOP_ON_FAILURE": 1,
    "ACL_EVENT_RECORDED_STATUS_COMPLETE": 1, "ACL_STREAM_STATUS_NOT_READY": 1, "ACL_HOST_REG_PINNED": 0x10000000,
    "ACL_MEM_LOCATION_TYPE_DEVICE": 1, "ACL_UNKNOWN_RANK": -2, "ACL_IPC_HANDLE_SIZE": 65,
    "sizeof(aclCANNPackageVersion)": 512, "sizeof(aclrtErrorInfo)": 2576, "sizeof(aclrtIpcEventHandle)": 64,
    "sizeof(aclrtPtrAttributes)": 28, "offsetof(aclrtPhysicalMemProp, location)": 12,
    "offsetof(aclrtPhysicalMemProp, reserve)": 24, "sizeof(aclrtStreamAttrValue)": 16,
    "offsetof(aclrtUtilizationInfo, utilizationExtend)": 16, "sizeof(aclrtMemUsageInfo)": 112,
    "sizeof(aclrtMallocAttribute)": 12,
}  # fmt: skip


def generate(*arguments, **environment):
    command = [sys.executable, str(GENERATOR), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def compile_source(compiler, source, include_dirs):
    return subprocess.run([*compiler, *(f"-I{folder}" for folder in include_dirs), str(source)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    out = tmp_path_factory.mktemp("generated")
    result = generate("--out", out)
    assert result.returncode == 0, result.stderr
    return out


def snapshot(folder):
    return {path.relative_to(folder): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("compiler", "suffix"), [(C11, "c"), (CXX20, "cpp")])
def test_layout_holds_in_both_languages(generated, compiler, suffix):
    result = compile_source(compiler, generated / "src" / f"abi_layout_check.{suffix}", [generated / "include"])
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("compiler", "suffix"), [(C11, "c"), (CXX20, "cpp")])
def test_each_header_stands_alone(generated, tmp_path, compiler, suffix):
    for header in sorted((generated / "include").rglob("*.h")):
        source = tmp_path / f"alone.{suffix}"
        source.write_text(f'#include "{header.relative_to(generated / "include")}"\ntypedef int not_empty;\n')
        result = compile_source(compiler, source, [generated / "include"])
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(("compiler", "suffix"), [(C11, "c"), (CXX20, "cpp")])
def test_pinned_values(generated, tmp_path, compiler, suffix):
    source = tmp_path / f"pinned.{suffix}"
    keyword = "_Static_assert" if suffix == "c" else "static_assert"
    checks = [f'{keyword}({name} == {value}, "{name}");' for name, value in PINNED.items()]
    source.write_text("\n".join(["#include <stddef.h>", '#include "acl/acl.h"', '#include "aclnn/aclnn_base.h"', *checks, ""]))
    result = compile_source(compiler, source, [generated / "include"])
    assert result.returncode == 0, result.stderr


def test_codes_are_constant_expressions_in_c(generated, tmp_path):
    source = tmp_path / "case.c"
    body = "int f(aclError e) { switch (e) { case ACL_ERROR_RT_MEMORY_ALLOCATION: return 1; default: return 0; } }"
    source.write_text(f'#include "acl/acl.h"\n{body}\n')
    result = compile_source(C11, source, [generated / "include"])
    assert result.returncode == 0, result.stderr


def test_entry_points_check_in_order(generated):
    text = (generated / "src" / "entries.cpp").read_text()
    body = text[text.index("aclError aclrtEventElapsedTime(") :].split("\n}\n")[0]
    order = [
        "ready()",
        'null_argument("ms")',
        "resolve_event(startEvent",
        "resolve_event(endEvent",
        "api::aclrtEventElapsedTime(",
    ]
    positions = [body.index(step) for step in order]
    assert positions == sorted(positions)


def test_every_function_is_answered_once(generated):
    """Each function of the device library is a generated entry point, or hand-written because it does not return aclError."""
    text = (generated / "src" / "entries.cpp").read_text()
    entries = re.findall(r"^aclError (\w+)\(", text, re.M)
    assert len(entries) == len(set(entries)) == 157
    behaviours = re.findall(r"^Status (\w+)\(", (generated / "src" / "api.h").read_text(), re.M)
    assert sorted(behaviours) == sorted(set(entries) - set(re.findall(r'refuse\("(\w+)"\)', text)))
    for by_hand in ("aclrtGetSocName", "aclAppLog", "aclGetRecentErrMsg", "aclrtGetLastError", "aclrtPeekAtLastError"):
        assert by_hand not in entries


def test_counts_per_status():
    text = (ROOT / "docs" / "acl.md").read_text()
    assert "290 functions: 280 works, 10 not supported." in text


def test_documentation_is_in_step():
    result = generate("--check", ROOT / "docs" / "acl.md")
    assert result.returncode == 0, result.stderr


def test_stale_documentation_is_named(tmp_path):
    stale = tmp_path / "acl.md"
    stale.write_text("old\n")
    result = generate("--check", stale)
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"{stale}: out of step with the tables, run `python codegen/abi.py --docs docs/acl.md`."
    ]


def test_generation_is_deterministic(generated, tmp_path):
    assert generate("--out", tmp_path, PYTHONHASHSEED="7").returncode == 0
    assert snapshot(tmp_path) == snapshot(generated)


def test_unchanged_files_are_left_alone(tmp_path):
    assert generate("--out", tmp_path).returncode == 0
    header = tmp_path / "include" / "acl" / "acl_rt.h"
    entries = tmp_path / "src" / "entries.cpp"
    entries.write_text("edited\n")
    os.utime(header, ns=(1, 1))
    assert generate("--out", tmp_path).returncode == 0
    assert header.stat().st_mtime_ns == 1
    assert entries.read_text() != "edited\n"


# file, text to replace, replacement, what the sentence must name
MISTAKES = {
    "unknown status": ("functions.yaml", "aclrtSetDevice(int32_t deviceId): works", "aclrtSetDevice(int32_t deviceId): maybe",
                       ("aclrtSetDevice", "unknown word `maybe`")),
    "unknown flag": ("functions.yaml", "aclFinalize(void): works anytime", "aclFinalize(void): works sometimes",
                     ("aclFinalize", "unknown word `sometimes`")),
    "unknown key": ("functions.yaml", "  library: opapi", "  libary: opapi", ("libary", "unknown word")),
    "missing key": ("functions.yaml", "  header: acl/acl_mdl.h\n", "", ("section", "`header` is missing beside it")),
    "unknown argument type": ("functions.yaml", "aclrtGetDevice(int32_t *deviceId)", "aclrtGetDevice(device_t *deviceId)",
                              ("aclrtGetDevice", "the type `device_t` is not declared")),
    "unknown return type": ("functions.yaml", "aclError aclrtDestroyEvent", "aclEror aclrtDestroyEvent",
                            ("aclrtDestroyEvent", "the type `aclEror` is not declared")),
    "nullable number": ("functions.yaml", "aclrtSetDevice(int32_t deviceId)", "aclrtSetDevice(int32_t deviceId?)",
                        ("aclrtSetDevice", "`deviceId?` is neither a pointer nor a handle")),
    "unnamed argument": ("functions.yaml", "aclrtFree(void *devPtr)", "aclrtFree(void *)", ("aclrtFree", "not a named argument")),
    "function twice": ("functions.yaml", "aclError aclrtDestroyStreamForce(aclrtStream stream): works",
                       "aclError aclrtDestroyStream(aclrtStream other): works", ("aclrtDestroyStream", "declared twice")),
    "refusal without an error code": ("functions.yaml", "const char *aclrtGetSocName(void): works anytime",
                                    "const char *aclrtGetSocName(void): refuses", ("aclrtGetSocName", "can refuse")),
    "opaque struct by value": ("functions.yaml", "(const aclrtExceptionInfo *info): works anytime\n",
                               "(aclrtExceptionInfo info): works anytime\n", ("ExceptionInfo", "has no size")),
    "unlisted header": ("functions.yaml", "  header: acl/acl_mdl.h", "  header: acl/acl_model.h",
                        ("header", "`acl/acl_model.h`")),
    "wrong offset": ("types.yaml", "      aclrtMemLocationType type: 4\n", "      aclrtMemLocationType type: 8\n",
                     ("aclrtMemLocationType type", "the offset is 4 by the fields above it, not 8")),
    "wrong size": ("types.yaml", "struct aclrtMemLocation size 8 align 4", "struct aclrtMemLocation size 12 align 4",
                   ("aclrtMemLocation", "its fields make size 8 and align 4")),
    "unknown field type": ("types.yaml", "      aclrtMemLocationType type: 4\n", "      aclrtPlace type: 4\n",
                           ("aclrtPlace type", "the type `aclrtPlace` is not declared")),
    "unknown array length": ("types.yaml", "cmoInfo[ACL_RT_CMO_MAX_BARRIER_NUM]", "cmoInfo[ACL_RT_CMO_MAX]",
                             ("cmoInfo", "`ACL_RT_CMO_MAX`")),
    "enum constant twice": ("types.yaml", "{ACL_CALLBACK_NO_BLOCK: 0, ", "{ACL_HOST: 0, ", ("ACL_HOST", "declared twice")),
    "enum constant twice in one enum": ("types.yaml", "{ACL_DEVICE: 0, ACL_HOST: 1}", "{ACL_DEVICE: 0, ACL_DEVICE: 1}",
                                        ("ACL_DEVICE", "declared twice")),
    "type twice": ("types.yaml", "    aclrtMbuf: void *", "    aclError: void *", ("aclError", "declared twice")),
    "not a number": ("types.yaml", "ACL_EVENT_SYNC: 1u", "ACL_EVENT_SYNC: one", ("ACL_EVENT_SYNC", "`one` is not a number")),
    "include from below": ("types.yaml", "Graphs captured from streams, includes: [acl/acl_rt.h]",
                           "Graphs captured from streams, includes: [acl/acl.h]", ("acl/acl_mdl.h", "`acl/acl.h`")),
    "broken YAML": ("types.yaml", "sections:\n", "sections: [\n", ("types.yaml, line", "not YAML")),
    "no rows": ("types.yaml", "    aclrtMemAllocationType: {ACL_MEM_ALLOCATION_TYPE_PINNED: 0}", "    aclrtMemAllocationType: 0",
                ("aclrtMemAllocationType", "indented rows are expected")),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_named_in_one_sentence(tmp_path, mistake):
    name, old, new, expected = MISTAKES[mistake]
    tables = tmp_path / "include"
    shutil.copytree(ROOT / "include", tables)
    text = (tables / name).read_text()
    assert old in text
    (tables / name).write_text(text.replace(old, new, 1))
    out = tmp_path / "out"
    result = generate("--tables", tables, "--out", out)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert name in result.stderr
    for part in expected:
        assert part in result.stderr
    assert not out.exists(), "nothing is written from a wrong table"


def test_missing_table_is_named(tmp_path):
    result = generate("--tables", tmp_path, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"{tmp_path / 'types.yaml'}: cannot be read, No such file or directory."]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("types.yaml", "- a\n", "types.yaml, line 1: rows such as `key: value` are expected."),
        ("types.yaml", "headers: {}\nsections: [a]\n", "types.yaml, line 1, row `headers`: indented rows are expected."),
        ("functions.yaml", "a: b\n", "functions.yaml, line 1: a list of sections is expected."),
        ("functions.yaml", "\n- a\n", "functions.yaml, line 2: a section with rows such as `key: value` is expected."),
    ],
)
def test_a_file_of_another_form_is_named(tmp_path, name, content, sentence):
    tables = tmp_path / "include"
    shutil.copytree(ROOT / "include", tables)
    (tables / name).write_text(content)
    result = generate("--tables", tables, "--out", tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [f"{tables}/{sentence}"]
