"""Adds npu and hccl to PyTorch's helpers of distributed tests, and counts the collectives of a test.

    teach()                                  # before the test file is imported, in a process that has used no device
    with Collectives() as collectives:
        ...                                  # runs a test; its ranks are forks of this process
    collectives.count                        # number of collectives of the rank that called hccl most often

The helpers know only CUDA, XPU and HPU. For any other device they run a test on the CPU, or skip it.
"""

import ctypes
import functools
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from unittest import mock

RANKS = 4
PR_SET_PDEATHSIG = 1
RECORDER = {"TORCH_HCCL_TRACE_BUFFER_SIZE": "1"}  # numbers the collectives; set before torch_npu is imported
_FOLDER = "TORCH_NPU_TESTS_COLLECTIVES"  # where the ranks write how many collectives they called, and their errors
_ERROR = ".error"


def is_distributed(file):
    return file.startswith("distributed/")


def has_ranks(cls):
    """Whether the ranks of the class are processes. The ranks of other classes are threads, or the class does not communicate."""
    from torch.testing._internal import common_distributed as common
    from torch.testing._internal.distributed._tensor import common_dtensor

    local = (common_dtensor.LocalDTensorTestBase, common_dtensor.LocalDTensorContinuousTestBase)
    return issubclass(cls, (common.MultiProcessTestCase, common.MultiProcContinuousTest)) and not issubclass(cls, local)


def preload():
    """Imports slow modules before the processes that run the tests are forked."""
    import torch_npu  # noqa: F401
    from torch.testing._internal import common_device_type, common_distributed, common_fsdp, common_optimizers  # noqa: F401
    from torch.testing._internal.distributed._tensor import common_dtensor  # noqa: F401


@functools.cache
def teach():
    import torch
    from torch.testing._internal import common_cuda, common_device_type
    from torch.testing._internal import common_distributed as common
    from torch.testing._internal.distributed._shard import sharded_tensor
    from torch.testing._internal.distributed._tensor import common_dtensor

    os.environ["PYTORCH_TESTING_DEVICE_FOR_CUSTOM"] = "npu"  # for classes that list their devices
    torch.multiprocessing.set_start_method("fork", force=True)  # a spawned process would import torch and the file again
    common.MultiProcessTestCase._spawn_processes = _fork_processes
    common.MultiProcessTestCase.run_test = _ends_with_parent(_counted(common.MultiProcessTestCase.run_test))
    one = common.MultiProcContinuousTest
    one._worker_loop = classmethod(_ends_with_parent(_on_own_device(one._worker_loop.__func__)))
    common.DistributedTestBase.create_pg = _on_own_device(common.DistributedTestBase.create_pg)
    sharded = sharded_tensor.ShardedTensorTestBase
    sharded.init_pg = _on_own_device(sharded.init_pg)
    common_dtensor.DTensorTestBase.init_pg = _on_own_device(_with_hccl(common_dtensor.DTensorTestBase.init_pg))
    one._run_test_given_id = classmethod(_counted(one._run_test_given_id.__func__))
    common.HAS_ACCELERATOR = True
    common.DDP_RANK_DEVICES.append("npu")
    common.requires_accelerator_dist_backend = lambda backends=None: lambda decorated: decorated
    common.skip_if_lt_x_gpu = _skip_if_lt_x_gpu
    common_dtensor.skip_if_lt_x_gpu = _skip_if_lt_x_gpu
    common.at_least_x_gpu = lambda number: torch.npu.device_count() >= number
    common.skip_if_no_gpu = lambda function: function
    common.DistributedTestBase.backend = _backend(common.DistributedTestBase.backend)
    torch.cuda.Event, torch.cuda._sleep = torch.npu.Event, torch.npu._sleep  # a helper measures the speed of _sleep
    common_cuda.PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = common_cuda.PLATFORM_SUPPORTS_FUSED_ATTENTION = True
    common_device_type.PrivateUse1TestBase.setUpClass = classmethod(_set_up_class)
    _teach_fsdp()


def _set_up_class(cls):
    """Replaces PyTorch's function, which uses the device. This process must not use it, because the ranks are its forks."""
    import torch

    cls.device_type, cls.device_mod, cls.primary_device = "npu", torch.npu, "npu:0"


def start_anew(cls):
    """Lets a class start its ranks again for each test. Such a class keeps its ranks for all its tests, but here tests run one by
    one."""
    if hasattr(cls, "_processes_spawned"):
        cls._processes_spawned = cls.poison_pill = False


def teach_module(module):
    """Replaces values that a test file has chosen for the devices that it knows."""
    for name, known, own in (("DEVICE", "cuda", "npu"), ("BACKEND", "gloo", "hccl"), ("TEST_CUDA", False, True)):
        if getattr(module, name, None) == known:
            setattr(module, name, own)


def _teach_fsdp():
    import torch
    from torch.testing._internal import common_fsdp

    common_fsdp.DEVICE_TYPE, common_fsdp.DISTRIBUTED_BACKEND = "npu", "hccl"
    common_fsdp.DEVICE_COUNT = torch.npu.device_count()  # rank r uses the device r modulo this number
    common_fsdp.FSDPTest.world_size = common_fsdp.FSDPTestMultiThread.world_size = property(lambda self: RANKS)
    common_fsdp.FSDPTestContinuous.world_size = RANKS
    common_fsdp.TEST_CUDA = True  # only the ranks read it: each selects the device with its number


def _fork_processes(self):
    import torch

    def process(target, **settings):
        return torch.multiprocessing.get_context("fork").Process(target=_reporting(target), **settings)

    self._start_processes(process)


def _reporting(run):
    """Reports an exception outside of the test, for example when the group is made. PyTorch only tells the exit status."""

    @functools.wraps(run)
    def reporting(rank, *args, **kwargs):
        try:
            return run(rank, *args, **kwargs)
        except Exception:
            Path(os.environ[_FOLDER], f"{rank}{_ERROR}").write_text(traceback.format_exc())
            raise

    return reporting


def _ends_with_parent(run):
    """Ends the ranks when the runner kills the process of a test that hangs."""

    @functools.wraps(run)
    def ending(*args, **kwargs):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        return run(*args, **kwargs)

    return ending


def _skip_if_lt_x_gpu(number, *, allow_cpu=False):
    import torch
    from torch.testing._internal import common_distributed as common

    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if torch.npu.device_count() >= number:
                return function(*args, **kwargs)
            return sys.exit(common.TEST_SKIPS[f"multi-gpu-{number}"].exit_code)

        return wrapper

    return decorator


def _on_own_device(start):
    """Selects the device of a rank, which the helpers do only for backends that they know. The rank is an attribute of the test
    or of its class, or the first argument."""

    @functools.wraps(start)
    def selecting(one, *args, **kwargs):
        import torch

        rank = getattr(one, "rank", -1)
        rank = rank if isinstance(rank, int) and rank >= 0 else args[0]
        torch.npu.set_device(rank % torch.npu.device_count())
        return start(one, *args, **kwargs)

    return selecting


def _with_hccl(init_pg):
    """Replaces the backend in classes that name the backend of CUDA."""

    @functools.wraps(init_pg)
    def with_hccl(self, eager_init, backend=None):
        backend = backend or self.backend
        return init_pg(self, eager_init, "hccl" if backend == "nccl" else backend.replace("cuda:nccl", "npu:hccl"))

    return with_hccl


def _backend(known):
    @functools.wraps(known)
    def backend(self, device):
        return "hccl" if "npu" in str(device) else known(self, device)

    return backend


def _called():
    """The number of collectives that this process has called."""
    import torch_npu

    entries = json.loads(torch_npu._C._distributed_c10d._dump_hccl_trace_json(True, False))["entries"]
    return max((entry["record_id"] + 1 for entry in entries), default=0)


def _counted(run):
    """Runs a test on a rank, and writes the number of its collectives to the folder."""

    @functools.wraps(run)
    def counting(*args, **kwargs):
        begin = _called()
        try:
            return run(*args, **kwargs)
        finally:
            Path(os.environ[_FOLDER], str(os.getpid())).write_text(str(_called() - begin))

    return counting


class Collectives:
    """Also gives the number of ranks to classes whose world size is the number of CUDA devices."""

    count = 0
    errors = ""  # of the ranks, outside of the test

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="torch_npu_upstream")
        os.environ[_FOLDER] = self._folder.name
        self._devices = mock.patch("torch.cuda.device_count", lambda: RANKS)
        self._devices.start()
        return self

    def __exit__(self, *_):
        self._devices.stop()
        files = sorted(Path(self._folder.name).iterdir())
        self.errors = "\n".join(f"rank {file.stem}: {file.read_text()}" for file in files if file.suffix == _ERROR)
        # A rank that is killed while it writes leaves an empty file.
        self.count = max((int(file.read_text() or 0) for file in files if file.suffix != _ERROR), default=0)
        self._folder.cleanup()
