"""torch.npu and torch.accelerator: number, properties and choice of devices."""

import pytest
import torch
from torch_npu.npu import _soc

from tests.support import two_devices


def test_devices_are_counted_and_available():
    assert torch.npu.is_available()
    assert torch.npu.device_count() >= 1
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == torch.npu.device_count()


def test_the_library_in_use_can_be_asked_for():
    info = torch.npu.library_info()
    assert info["path"].endswith("libascendcl.so")
    assert info["origin"] in ("env", "cann", "softnpu")
    assert torch.npu.get_device_name() == info["soc"]


def test_properties_describe_the_device():
    properties = torch.npu.get_device_properties(0)
    assert properties.name.startswith("Ascend")
    assert properties.total_memory > 0
    assert properties.name in repr(properties)
    assert torch.npu.get_device_properties("npu:0").uuid == properties.uuid
    free, total = torch.npu.mem_get_info()
    assert 0 <= free <= total


def test_npu_is_a_device_by_name_and_index():
    assert torch.device("npu:1") == torch.device("npu", 1)
    assert torch.ones(1, device="npu").device == torch.device("npu", torch.npu.current_device())


@two_devices
def test_tensors_are_created_on_the_current_device():
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
        with torch.npu.device(None), torch.npu.device("npu:0"):
            assert torch.npu.current_device() == 0
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0
    torch.npu.set_device("npu:1")
    try:
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.npu.set_device(0)


@two_devices
def test_a_device_may_be_set_by_every_spelling():
    try:
        for spelling, index in (("npu:1", 1), ("npu:0", 0), (1, 1), (torch.device("npu:0"), 0), (torch.device("npu", 1), 1)):
            torch.npu.set_device(spelling)
            assert torch.npu.current_device() == index
        for current in ("npu", torch.device("npu")):
            torch.npu.set_device(current)
            assert torch.npu.current_device() == 1
    finally:
        torch.npu.set_device(0)


@two_devices
def test_a_thread_may_begin_with_any_device_and_change_it(child):
    done = child(
        """
        import torch
        weights = [torch.full((2, 2), float(i), device=f"npu:{i}", requires_grad=True) for i in (1, 0)]
        print(torch.npu.current_device())
        for weight in weights:
            with torch.npu.device(weight.device):
                loss = (weight @ torch.ones(2, 2, device="npu")).sum()
            loss.backward()
        print([weight.grad.sum().item() for weight in weights], (weights[0].grad.cpu() + weights[1].grad.cpu()).sum().item())
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("0\n[8.0, 8.0] 16.0\n", "", 0)


@two_devices
def test_backward_on_the_cpu_starts_no_device(child):
    done = child(
        """
        import torch
        def run(move):
            x = torch.ones(20, 10).requires_grad_()
            y = move(x).sum()
            y.backward(torch.ones_like(y))
            return x.grad.sum().item(), y.device.type, torch.npu.is_initialized()
        print(*run(lambda x: x))
        torch.npu.set_device("npu:1")
        print(*run(lambda x: x.npu()), torch.npu.current_device())
        """
    )
    assert (done.stdout, done.stderr, done.returncode) == ("200.0 cpu False\n200.0 npu True 1\n", "", 0)


def test_cudnn_settings_are_accepted_and_change_no_result():
    cudnn = torch.backends.cudnn
    x, weight = torch.linspace(-1, 1, 75).view(1, 3, 5, 5), torch.linspace(-1, 1, 54).view(2, 3, 3, 3)
    before = cudnn.benchmark, cudnn.deterministic
    try:
        for cudnn.benchmark, cudnn.deterministic in ((True, False), (False, True)):
            y = torch.nn.functional.conv2d(x.npu(), weight.npu())
            torch.testing.assert_close(y.cpu(), torch.nn.functional.conv2d(x, weight))
    finally:
        cudnn.benchmark, cudnn.deterministic = before


@two_devices
def test_device_of_follows_a_tensor():
    there = torch.ones(1, device="npu:1")
    with torch.npu.device_of(there):
        assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.ones(1)):
        assert torch.npu.current_device() == 0


@two_devices
def test_work_on_another_device_leaves_the_current_one_alone():
    there = torch.arange(6.0, device="npu:1").reshape(2, 3)
    assert (there @ there.T).sum().item() == 83.0
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("wrong", ["cuda:0", "cpu", torch.device("cpu")])
def test_a_device_of_another_type_is_refused(wrong):
    with pytest.raises(ValueError, match="type npu is needed"):
        torch.npu.set_device(wrong)


def test_an_argument_that_is_not_a_device_is_refused():
    with pytest.raises(TypeError, match="a device is an int"):
        torch.npu.synchronize(1.5)
    with pytest.raises(ValueError, match="a device is needed"):
        torch.npu.set_device(None)


def test_visible_devices_are_renumbered(child):
    done = child("import torch; print(torch.npu.device_count())", ASCEND_RT_VISIBLE_DEVICES="0,2")
    assert done.stdout == "2\n", done.stderr


def test_a_process_without_devices_says_so(child):
    done = child(
        """
        import torch
        print(torch.npu.is_available(), torch.npu.device_count(), torch.accelerator.is_available())
        torch.manual_seed(0)
        torch.ones(2, device="npu")
        """,
        ASCEND_RT_VISIBLE_DEVICES="",
    )
    assert done.stdout == "False 0 False\n"
    assert "there is no NPU in this process" in done.stderr


FORKED = """
import os, torch
{before}
child = os.fork()
if child == 0:
    try:
        print(torch.npu.device_count() > 0, torch.ones(2, device="npu").sum().item(), flush=True)
    except RuntimeError as error:
        print(str(error).splitlines()[0], flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_forked_before_the_first_use_has_the_device(child):
    assert child(FORKED.format(before="torch.npu.device_count()")).stdout == "True 2.0\n"


def test_a_child_forked_after_the_first_use_is_told_to_spawn(child):
    assert "'spawn'" in child(FORKED.format(before="torch.ones(1, device='npu')")).stdout


def test_properties_have_the_attributes_that_cuda_programs_read():
    properties = torch.npu.get_device_properties()
    assert properties.cube_core_num > 0
    assert properties.vector_core_num > 0
    assert properties.L2_cache_size > 0
    assert properties.multi_processor_count == properties.cube_core_num
    placeholders = ["major", "minor", "is_multi_gpu_board", "is_integrated", "warp_size", "gcnArchName"]
    for name in [*placeholders, "max_threads_per_multi_processor", "regs_per_multiprocessor"]:
        assert getattr(properties, name) is None


def test_an_absent_device_is_refused_with_the_number_of_devices(child):
    count = torch.npu.device_count()
    for call in (
        torch.npu.get_device_properties,
        torch.npu.get_device_name,
        torch.npu.get_device_capability,
        torch.npu.utilization,
    ):
        with pytest.raises(ValueError, match=f"no device npu:{count}; this process has {count}.*ASCEND_RT_VISIBLE_DEVICES"):
            call(count)
    done = child("import torch; torch.npu.set_device(1)", ASCEND_RT_VISIBLE_DEVICES="2")
    assert "this process has 1 NPU, npu:0. ASCEND_RT_VISIBLE_DEVICES" in done.stderr


def test_a_device_index_above_127_is_refused():
    for index in (128, 255, 256, 1 << 31, 1 << 70):
        for call in (torch.npu.set_device, torch.npu.Stream, torch.npu.synchronize, torch.npu.memory_allocated, torch.npu.device):
            with pytest.raises(RuntimeError, match=f"invalid device npu:{index}: this process has .*ASCEND_RT_VISIBLE_DEVICES"):
                call(index)


def test_the_capability_is_what_the_environment_says(child):
    program = "import torch; print(torch.npu.get_device_capability(), torch.npu.get_device_capability('npu:0'))"
    assert child(program).stdout == "None None\n"
    assert child(program, TORCH_NPU_DEVICE_CAPABILITY="9.0").stdout == "(9, 0) (9, 0)\n"
    for wrong in ("9", "9.0x"):
        done = child(program, TORCH_NPU_DEVICE_CAPABILITY=wrong)
        assert done.stdout == "None None\n"
        assert "TORCH_NPU_DEVICE_CAPABILITY" in done.stderr


def test_chip_names_map_to_soc_versions(child):
    numbers = {
        "Ascend910A": 102,
        "Ascend910B3": 223,
        "Ascend910B4-1": 225,
        "Ascend910_9391": 250,
        "Ascend950PR": 260,
        "Other": -1,
    }
    assert {name: _soc.number_of(name) for name in numbers} == numbers
    program = "import torch; print(torch.npu.get_soc_version(), torch.npu.get_arch_list())"
    assert child(program, SOFTNPU_SOC_NAME="Ascend310P3").stdout == "202 ['Ascend310P3']\n"


def test_utilization_is_a_percentage():
    x = torch.ones(1 << 20, device="npu")
    torch.npu.synchronize()
    assert torch.npu.utilization() in range(101)
    assert torch.npu.memory_usage() in range(101)
    assert torch.npu.device_memory_used() >= x.nbytes


@two_devices
def test_devices_can_access_each_other():
    assert torch.npu.can_device_access_peer(0, 1)
    assert torch.npu.can_device_access_peer("npu:1", peer_device_id="npu:0")
    assert not torch.npu.can_device_access_peer(0, 0)
    with pytest.raises(ValueError, match="no device npu:99"):
        torch.npu.can_device_access_peer(0, 99)


def test_attributes_that_programs_probe_exist():
    assert torch.npu.native_device == "npu"
    assert torch.npu.current_blas_handle() is None
    assert torch.npu.is_tf32_supported() is False
    assert torch.npu.utils.check_uce_in_memory(0) == 0
    assert torch.npu.library_info()["version"] == torch.npu.aclnn.version()


def test_a_lazy_call_runs_when_the_device_is_initialized(child):
    done = child(
        """
        import torch
        said = []
        torch.npu._lazy_call(lambda: said.append("started"))
        print(said, torch.npu.is_initialized())
        torch.npu.init()
        print(said, torch.npu.is_initialized())
        """
    )
    assert done.stdout == "[] False\n['started'] True\n", done.stderr


def test_a_function_that_is_not_offered_says_what_to_use():
    for call, words in (
        (torch.npu.stress_detect, "debug.compare"),
        (lambda: torch.npu.obfuscation_finalize(0), "use the model without obfuscation"),
        (lambda: torch.npu.npugraph_ex.compile_fx(None), "torch.compile"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            call()


def test_torch_npu_npu_and_torch_npu_are_one_module(child):
    done = child(
        """
        import torch.npu.graphs, torch.npu.amp.grad_scaler
        import torch_npu
        assert torch.npu.graphs is torch_npu.npu.graphs
        assert torch.npu.amp.grad_scaler is torch_npu.npu.amp.grad_scaler
        assert torch.npu.graphs.__spec__.name == "torch_npu.npu.graphs"
        import torch.npu.mstx
        torch.npu.mstx.mark("still the class")
        try:
            import torch.npu.nothing
        except ModuleNotFoundError as error:
            print(error.name)
        """
    )
    assert done.stdout == "torch.npu.nothing\n", done.stderr
