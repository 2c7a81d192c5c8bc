"""ASCEND_GLOBAL_LOG_LEVEL=0 and 1 write a line for each operator to the log; the other levels do not."""

import re

import pytest

PROGRAM = """
import torch

x = torch.ones(2, 3, dtype=torch.float16, device="npu")
y = x.relu()
z = torch.cat([y, x])
print(z.sum().item())
"""


def launches(child, folder, **environment):
    done = child(PROGRAM, ASCEND_PROCESS_LOG_PATH=str(folder), **environment)
    assert (done.stdout, done.returncode) == ("12.0\n", 0), done.stderr
    lines = [line for path in folder.rglob("*.log") for line in path.read_text().splitlines()]
    return [line for line in lines if " launch:" in line]


@pytest.mark.parametrize("level", ["0", "1"])
def test_debug_and_info_log_each_operator_with_shapes_and_dtypes(child, tmp_path, level):
    lines = launches(child, tmp_path, ASCEND_GLOBAL_LOG_LEVEL=level)
    for pattern in (
        r"^\[INFO\] APP\(.*launch:aclnnRelu\(Half\[2, 3\], Half\[2, 3\]\) on stream 0 of npu:0  # <string>:5 in <module>$",
        r"launch:aclnnCat\(2 tensors \[Half\[2, 3\], Half\[2, 3\]\], 0, Half\[4, 3\]\) on stream 0",
    ):
        assert sum(bool(re.search(pattern, line)) for line in lines) == 1, (pattern, lines)


@pytest.mark.parametrize("level", ["2", "3", "4", ""])
def test_other_levels_log_no_operator(child, tmp_path, level):
    assert launches(child, tmp_path, ASCEND_GLOBAL_LOG_LEVEL=level) == []


def test_the_line_goes_to_stdout_too_where_that_is_asked_for(child, tmp_path):
    done = child(PROGRAM, ASCEND_PROCESS_LOG_PATH=str(tmp_path), ASCEND_GLOBAL_LOG_LEVEL="1", ASCEND_SLOG_PRINT_TO_STDOUT="1")
    assert "launch:aclnnRelu(Half[2, 3], Half[2, 3])" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("ASCEND_GLOBAL_LOG_LEVEL", "info", "0 (debug), 1 (info), 2 (warning), 3 (error) or 4 (none); 3 is used"),
        ("HCCL_ALGO", "fast", "settings separated by semicolons, such as level0:NA;level1:ring; none is used"),
        ("HCCL_DETERMINISTIC", "maybe", "true, false, strict, 1 or 0; false is used"),
    ],
)
def test_a_bad_value_of_a_variable_of_cann_is_named(child, name, value, allowed):
    done = child("import torch; print(torch.npu.device_count() > 0)", **{name: value})
    assert done.stdout == "True\n", done.stderr
    assert f"the environment variable {name} is '{value}', but must be {allowed}." in done.stderr


def test_values_that_programs_set_are_accepted_silently(child):
    usual = {
        "HCCL_WHITELIST_DISABLE": "1",
        "HCCL_IF_IP": "127.0.0.1",
        "HCCL_CONNECT_TIMEOUT": "1200",
        "HCCL_DETERMINISTIC": "1",
        "HCCL_ALGO": "level0:NA;level1:H-D_R",
        "ASCEND_DEVICE_ID": "0",
    }
    done = child("import torch; print(torch.npu.device_count() > 0)", **usual)
    assert (done.stdout, done.stderr) == ("True\n", "")
