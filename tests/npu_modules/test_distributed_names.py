"""Names of torch_npu.distributed in a process without a group."""

import pytest
import torch
import torch_npu
from torch_npu import distributed
from torch_npu.distributed import pipelining, run
from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions


def test_hccl_is_available_and_the_backend_of_npu():
    assert distributed.is_available() and distributed.is_hccl_available()
    assert torch.distributed.Backend.default_device_backend_map["npu"] == "hccl"
    assert torch.distributed.is_backend_available("hccl")


def test_torch_distributed_has_the_hccl_functions(child):
    assert torch.distributed.is_hccl_available is distributed.is_hccl_available
    assert torch.distributed.reinit_process_group is distributed.reinit_process_group
    assert torch.distributed.ProcessGroupHCCL is torch_npu._C._distributed_c10d.ProcessGroupHCCL
    assert not hasattr(torch.distributed, "absent")
    done = child(
        """
        import sys, torch
        print("torch_npu.distributed" in sys.modules)
        from torch.distributed import is_hccl_available
        print(is_hccl_available())
        """
    )
    assert done.stdout == "False\nTrue\n", done.stderr


@pytest.mark.parametrize("name", ["mode", "atomic_units"])
def test_a_pipeline_refuses_arguments_that_torch_lacks(name):
    with pytest.raises(NotImplementedError, match=f"pipeline does not offer the argument {name}; leave it out"):
        pipelining.pipeline(torch.nn.Linear(1, 1), (torch.ones(1),), **{name: 1})


def test_settings_of_a_communicator_are_checked():
    options = torch.distributed.ProcessGroupHCCL.Options(is_high_priority_stream=True)
    options.hccl_config = {"hccl_buffer_size": 100, "hccl_algo": "level0:NA"}
    store = torch.distributed.HashStore()
    group = torch.distributed.ProcessGroupHCCL(store, 0, 1, options)
    assert (group.name(), group.options.is_high_priority_stream, group.supports_splitting) == ("hccl", True, True)
    options.hccl_config = {"hccl_bufer_size": 100}
    with pytest.raises(ValueError, match=r"there is no key 'hccl_bufer_size'; the keys are .*hccl_buffer_size"):
        torch.distributed.ProcessGroupHCCL(store, 0, 1, options)
    options.hccl_config = {"hccl_buffer_size": -1}
    with pytest.raises(ValueError, match="'hccl_buffer_size' must be a whole number"):
        torch.distributed.ProcessGroupHCCL(store, 0, 1, options)


def test_options_of_remote_calls_map_devices_one_to_one():
    options = NPUTensorPipeRpcBackendOptions(device_maps={"other": {"npu:0": "npu:1"}}, devices=["npu:0"], rpc_timeout=5)
    options.set_device_map("other", {"npu:1": "npu:0"})
    npu = [torch.device("npu", index) for index in range(2)]
    assert options.device_maps == {"other": {npu[0]: npu[1], npu[1]: npu[0]}}
    assert (options.devices, options.rpc_timeout, options.num_worker_threads) == ([npu[0]], 5, 16)
    with pytest.raises(ValueError, match="one to one, but npu:2 to npu:1 comes after npu:0 to npu:1"):
        options.set_device_map("other", {"npu:2": "npu:1"})
    with pytest.raises(ValueError, match="one to one, but npu:0 to npu:3 comes after npu:0 to npu:1"):
        options.set_device_map("other", {"npu:0": "npu:3"})
    with pytest.raises(ValueError, match="set_devices takes devices of npu, not cpu"):
        options.set_devices(["cpu"])


def test_arguments_of_run_are_those_of_torchrun(capsys):
    parsed = run.parse_args(["--nproc_per_node=2", "train.py", "--lr", "0.1"])
    assert (parsed.nproc_per_node, parsed.training_script, parsed.training_script_args) == ("2", "train.py", ["--lr", "0.1"])
    with pytest.raises(SystemExit):
        run.parse_args(["--enable_tiered_parallel_tcpstore=true", "train.py"])
    assert "is not offered: leave it out" in capsys.readouterr().err
