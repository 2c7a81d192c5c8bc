"""Without HCCL, distributed names exist and say what to use instead."""

import pytest
import torch
from torch_npu import distributed
from torch_npu.distributed import fsdp, pipelining, run
from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions
from torch_npu.distributed.tensor import experimental


def test_hccl_is_not_available():
    assert not distributed.is_available()
    assert not distributed.is_hccl_available()


def test_torch_distributed_has_the_hccl_functions(child):
    assert torch.distributed.is_hccl_available is distributed.is_hccl_available
    assert torch.distributed.reinit_process_group is distributed.reinit_process_group
    assert not hasattr(torch.distributed, "absent")
    done = child(
        """
        import sys, torch
        print("torch_npu.distributed" in sys.modules)
        from torch.distributed import is_hccl_available
        print(is_hccl_available())
        """
    )
    assert done.stdout == "False\nFalse\n", done.stderr


@pytest.mark.parametrize(
    "call",
    [
        lambda: distributed.reinit_process_group(),
        lambda: distributed.all_gather_into_tensor_uneven(torch.ones(2), torch.ones(1)),
        lambda: distributed.reduce_scatter_tensor_uneven(torch.ones(1), torch.ones(2)),
        lambda: fsdp.fully_shard(torch.nn.Linear(1, 1)),
        lambda: pipelining.pipeline(torch.nn.Linear(1, 1), ()),
        lambda: experimental.context_parallel(None),
    ],
)
def test_calls_that_need_hccl_say_what_to_use(call):
    with pytest.raises(NotImplementedError, match=r"HCCL is not implemented yet; use init_process_group\(\"gloo\"\)"):
        call()


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
