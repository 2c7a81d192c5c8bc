"""C++ extensions: the public symbols of the library, their behaviour, and the example of docs/extending.md."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch_npu.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "extending.md"

SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
from torch_npu.utils.cpp_extension import NpuExtension

extension = NpuExtension(
    "extension_test",
    ["usage.cpp", "symbols.cpp"],
    extra_compile_args=["-O0", "-g0", "-Wall", "-Wextra", "-DAT_PER_OPERATOR_HEADERS"],
    extra_link_args=["-Wl,-z,defs"],
)
setup(name="extension_test", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""


def build(folder):
    """Starts the build of the extension in a folder."""
    return subprocess.Popen(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CFLAGS": "-O0 -g0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def guide_files():
    """Name -> text of the code blocks of docs/extending.md whose first line is a file name."""
    found = re.findall(r"^```(?:cpp|python)\n(?://|#) (\S+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    return dict(found)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folders of both extensions, compiled at the same time."""
    test, guide = tmp_path_factory.mktemp("extension"), tmp_path_factory.mktemp("guide")
    for source in Path(__file__).with_name("extension").glob("*.cpp"):
        shutil.copy(source, test)
    (test / "setup.py").write_text(SETUP)
    for name, text in guide_files().items():
        (guide / name).write_text(text)
    builds = [build(test), build(guide)]
    for started in builds:
        output, _ = started.communicate(timeout=900)
        assert started.returncode == 0, output
        ours = [line for line in output.splitlines() if "warning:" in line and "/torch/include/" not in line]
        assert not ours, "\n".join(ours)
    return test, guide


@pytest.fixture(scope="module")
def ops(built):
    (library,) = built[0].glob("extension_test*.so")
    torch.ops.load_library(library)
    return torch.ops.extension_test


@pytest.fixture
def x():
    return torch.arange(12, dtype=torch.float32).reshape(3, 4) / 3 - 1


def test_an_operator_of_an_extension_runs_on_the_device(ops, x):
    other = torch.ones(4, 3).t()
    for alpha in (1, 2.5):
        expected = torch.add(x, other, alpha=alpha)
        assert torch.equal(ops.add(x.npu(), other.npu(), alpha).cpu(), expected)
        assert torch.equal(ops.add_by_types(x.npu(), other.npu(), alpha).cpu(), expected)


def test_a_guard_takes_a_launch_to_the_device_of_its_tensors(ops, x):
    if torch.npu.device_count() < 2:
        pytest.skip("needs a second device")
    there = x.to("npu:1")
    result = ops.add(there, there, 1)
    assert result.device == there.device
    assert torch.equal(result.cpu(), 2 * x)
    assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="npu:1"):
        ops.add_by_types(there, there, 1)


def test_every_kind_of_argument_reaches_the_device(ops, x):
    divisor = torch.full((4,), 0.7)
    *sums, declared, by_types = ops.sum_and_floor(x.npu(), [0, 1], divisor.npu())
    for each in sums:
        assert torch.equal(each.cpu(), x.double().sum())
    for each in (declared, by_types):
        assert torch.equal(each.cpu(), torch.div(x, divisor, rounding_mode="floor"))


def test_a_refused_launch_says_what_and_why(ops, x):
    with pytest.raises(RuntimeError, match=r"(?s)aclnnAdd failed.*Arguments: Float\[3, 4\], Float\[5\], 2, Float\[3, 4\]"):
        ops.add(x.npu(), torch.ones(5, device="npu"), 2)
    with pytest.raises(RuntimeError, match=r"(?s)aclnnAdd failed.*Arguments: Float\[3, 4\], Float\[5\], 2, Float\[3, 4\]"):
        ops.add_by_types(x.npu(), torch.ones(5, device="npu"), 2)
    with pytest.raises(NotImplementedError, match="has no aclnnNobodyKnows"):
        ops.call_what_is_not_there(x.npu())
    with pytest.raises(RuntimeError, match="resolve_neg"):
        ops.add_by_types(torch.view_as_complex(torch.ones(2, 2)).npu().conj().imag, torch.ones(2, device="npu"), 1)


def test_a_negated_view_is_resolved_for_an_extension(ops):
    host = torch.view_as_complex(torch.arange(8.0).reshape(4, 2)).conj().imag
    device = torch.view_as_complex(torch.arange(8.0).reshape(4, 2)).npu().conj().imag
    assert device.is_neg()
    assert torch.equal(ops.add(device, torch.ones(4, device="npu"), 1).cpu(), host + 1)


def test_streams_and_events_order_work(ops, x):
    assert torch.equal(ops.on_two_streams(x.npu(), (2 * x).npu(), True).cpu(), x * (2 * x) + x)
    ops.check_streams()
    assert ops.check_events(x.npu()) >= 0
    ops.check_shared_event()
    assert torch.npu.current_stream() == torch.npu.default_stream()
    with pytest.raises(RuntimeError, match="expected a stream of an NPU"):
        ops.refuse_stream_of_the_cpu()
    with pytest.raises(RuntimeError, match="ACL_EVENT_IPC"):
        ops.share_ordinary_event()


def test_the_race_check_reports_a_missing_wait_of_an_extension(built, python):
    program = """
        import sys, torch, torch_npu
        torch.ops.load_library(sys.argv[1])
        x = torch.ones(64, device="npu")
        for waits in (True, False):
            torch.ops.extension_test.on_two_streams(x, x, waits)
            torch.npu.synchronize()
            print(waits, len(torch_npu.softnpu.control("races").splitlines()) > 0)
        """
    done = python(program, *built[0].glob("extension_test*.so"), SOFTNPU_RACE_CHECK="report")
    assert done.stdout == "True False\nFalse True\n", done.stderr


def test_device_functions_and_acl_calls(ops):
    ops.check_devices()
    values = torch.zeros(5, dtype=torch.uint8, device="npu")
    ops.fill_bytes(values, 7)
    assert values.tolist() == [7] * 5
    with pytest.raises(RuntimeError, match=r"NPU_ACL\(aclrtMemset\).* failed with ACL_ERROR"):
        ops.fail_in_acl(values)


def test_the_mode_for_synchronising_calls(ops, capfd):
    try:
        ops.wait_in_mode(0)
        assert "synchronizing" not in capfd.readouterr().err
        ops.wait_in_mode(1)
        assert torch.npu.get_sync_debug_mode() == 1
        assert "it called a synchronizing NPU operation" in capfd.readouterr().err
        with pytest.raises(RuntimeError, match="synchronizing"):
            ops.wait_in_mode(2)
    finally:
        ops.wait_in_mode(0)


def test_generators_draw_as_those_of_torch(ops):
    torch.npu.manual_seed(11)
    expected = torch.randn(64, device="npu")
    torch.npu.manual_seed(11)
    assert torch.equal(ops.normal([64], None), expected)
    own = torch.Generator("npu").manual_seed(11)
    assert torch.equal(ops.normal([64], own), expected)
    assert own.get_offset() == 4
    ops.check_generators()


def test_op_command_runs_handlers_and_known_names(ops, x):
    assert torch.equal(ops.by_handler(x.npu(), 0).cpu(), x * x)
    with pytest.raises(RuntimeError, match="square failed"):
        ops.by_handler(x.npu(), 100000)
    assert torch.equal(ops.by_name("Relu", [x.npu()], torch.empty_like(x).npu()).cpu(), x.relu())
    assert torch.equal(ops.by_name("Less", [x.npu(), -x.npu()], torch.empty(3, 4, dtype=torch.bool).npu()).cpu(), x < -x)
    assert torch.equal(ops.by_name("Cast", [x.npu()], torch.empty(3, 4, dtype=torch.int32).npu()).cpu(), x.int())
    product = ops.matmul_of_transposed(x.npu(), (2 * x).npu(), torch.empty(3, 3).npu())
    torch.testing.assert_close(product.cpu(), x @ (2 * x).t())
    values = torch.tensor([1, 2], dtype=torch.int32)
    result = ops.with_host_inputs(values.npu(), torch.empty(2).npu())
    assert result.tolist() == [(1 + 10) * 1 - 0.5 + 100, (2 + 20) * 2 - 0.5 + 100]


def test_op_command_names_unknown_operators(ops, x):
    with pytest.raises(NotImplementedError, match=r"graph operator DeformableOffsets.*SetCustomHandler"):
        ops.by_name("DeformableOffsets", [x.npu()], x.npu())
    with pytest.raises(RuntimeError, match="Add has 2 inputs and 1 output, but was given 1 and 1"):
        ops.by_name("Add", [x.npu()], x.npu())
    with pytest.raises(RuntimeError, match="Name"):
        ops.by_name("", [x.npu()], x.npu())


def test_the_guide_lists_the_names_that_op_command_knows():
    listed = GUIDE.read_text().split("These run as aclnn functions:")[1].split(". Any other")[0]
    table = (ROOT / "csrc" / "api" / "op_command.cpp").read_text()
    assert sorted(re.findall(r"\w+", listed)) == sorted(re.findall(r'^ +\{"(\w+)"', table, re.MULTILINE))


def test_formats_and_the_mask_of_dropout(ops):
    ops.check_formats(torch.ones(2, 3, 4, 5, device="npu"))
    with pytest.raises(ValueError, match="no format 77"):
        ops.cast_to_no_format(torch.ones(2, device="npu"))
    mask = ops.dropout_mask(torch.ones(100, 100, device="npu"), 0.25)
    assert (mask.dtype, mask.shape) == (torch.uint8, (10112 // 8,))
    kept = sum(int(byte).bit_count() for byte in mask.tolist()) / 10000
    assert 0.7 < kept < 0.8


def test_the_example_of_the_guide_works(built):
    command = re.search(r"python -m (pytest \S+)", GUIDE.read_text())[1].split()
    done = subprocess.run([sys.executable, "-m", *command], cwd=built[1], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b3 passed", done.stdout)


def test_an_extension_takes_the_arguments_of_setuptools():
    made = cpp_extension.NpuExtension("name", ["a.cpp"], ["first"], library_dirs=["second"], extra_compile_args=["-std=c++23"])
    assert made.include_dirs[0] == "first"
    assert made.library_dirs[0] == "second"
    assert made.extra_compile_args == ["-std=c++23"]
    assert {"torch_npu", "torch_cpu", "c10"} <= set(made.libraries)
    assert Path(cpp_extension.include_paths()[0], "torch_npu", "extension.h").is_file()
    assert Path(cpp_extension.library_paths()[0], "libtorch_npu.so").is_file()
    assert cpp_extension.NpuExtension("name", [], extra_compile_args={"cxx": ["-O1"]}).extra_compile_args["cxx"][:2] == [
        "-O1",
        "-std=c++20",
    ]
    with pytest.raises(TypeError, match="positional"):
        cpp_extension.NpuExtension("name", [], *range(40))


@pytest.mark.full
def test_an_extension_is_compiled_while_the_program_runs(tmp_path, python):
    (tmp_path / "my_ops.cpp").write_text(guide_files()["my_ops.cpp"])
    done = python(
        """
        import sys, torch
        from torch_npu.utils.cpp_extension import load
        load("my_ops", [sys.argv[1] + "/my_ops.cpp"], build_directory=sys.argv[1], is_python_module=False)
        x = torch.ones(3, device="npu")
        print(torch.ops.my_ops.muladd(x, 2 * x, x).tolist())
        """,
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[3.0, 3.0, 3.0]\n")
