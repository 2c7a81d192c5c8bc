"""Process groups of the backend hccl: registered with torch.distributed for tensors of npu.

torch.distributed.init_process_group()            # hccl, where npu is the accelerator
torch.distributed.init_process_group("cpu:gloo,npu:hccl")
torch.distributed.ProcessGroupHCCL.Options()      # options for pg_options
torch.distributed.monitored_barrier()             # works for groups of hccl, too
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import _C

ProcessGroupHCCL = _C._distributed_c10d.ProcessGroupHCCL
_named: dict[str, str] = {}  # the name of a communicator, as get_hccl_comm_name() has returned it -> the name of its group


def register() -> None:
    if not torch.distributed.is_available():
        return
    torch.distributed.Backend.register_backend("hccl", _create, extended_api=True, devices=["npu"])
    ProcessGroupHCCL.get_hccl_comm_name = _remembered(ProcessGroupHCCL.get_hccl_comm_name)
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL torch puts a wrapper in the place of each backend.
    wrapper = getattr(torch._C._distributed_c10d, "_ProcessGroupWrapper", None)
    if wrapper is not None:
        wrapper.get_hccl_comm_name = lambda self, *args, **kwargs: self.wrapped_pg.get_hccl_comm_name(*args, **kwargs)
    group = torch.distributed.ProcessGroup
    group._register_backend = _with_default_backend(group._register_backend)
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel._check_comm_hook = _with_bfloat16(parallel._check_comm_hook)
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    rendezvous._create_c10d_store = _with_hint(rendezvous._create_c10d_store)  # type: ignore[attr-defined]
    c10d = torch.distributed.distributed_c10d
    c10d.monitored_barrier = torch.distributed.monitored_barrier = _with_hccl(c10d.monitored_barrier)
    c10d._coalescing_manager = torch.distributed._coalescing_manager = _forgetting(c10d._coalescing_manager)


def backend_of(group: Any = None) -> Any:
    """The ProcessGroupHCCL of a group; None if it has none for npu."""
    group = group or torch.distributed.distributed_c10d._get_default_group()
    npu = torch.device("npu")
    if npu not in group._device_types:
        return None
    backend = group._get_backend(npu)
    while not isinstance(backend, ProcessGroupHCCL) and hasattr(backend, "wrapped_pg"):  # TORCH_DISTRIBUTED_DEBUG=DETAIL
        backend = backend.wrapped_pg
    return backend if isinstance(backend, ProcessGroupHCCL) else None


def group_named(name: str) -> Any:
    """The process group of a communicator, by a name that get_hccl_comm_name() has returned; None for other names."""
    wanted = _named.get(name)
    for group in torch.distributed.distributed_c10d._world.pg_map if wanted is not None else ():
        backend = backend_of(group)
        if backend is not None and backend.options.group_name == wanted:
            return group
    return None


def _remembered(get_name: Callable[..., str]) -> Callable[..., str]:
    """Wraps get_hccl_comm_name(). It remembers the group of each returned name, because operators of the namespace npu get only
    the name."""

    @functools.wraps(get_name)
    def get_hccl_comm_name(self: Any, *args: Any, **kwargs: Any) -> str:
        name = get_name(self, *args, **kwargs)
        _named[name] = self.options.group_name
        return name

    return get_hccl_comm_name


def _create(request: Any, options: Any) -> Any:
    """Called by torch for a group with the backend hccl."""
    if options is not None and not isinstance(options, ProcessGroupHCCL.Options):
        raise TypeError(
            f"pg_options of the backend hccl must be a torch.distributed.ProcessGroupHCCL.Options, not {type(options).__name__}"
        )
    options = ProcessGroupHCCL.Options() if options is None else copy.copy(options)
    options._timeout = request.timeout
    options.group_name = request.group_id
    if request.global_ranks_in_group:
        options.global_ranks_in_group = request.global_ranks_in_group
    return ProcessGroupHCCL(request.store, request.group_rank, request.group_size, options)


def _with_default_backend(register_backend: Callable[..., None]) -> Callable[..., None]:
    """torch makes gloo the default backend of a group whose backends it chose itself, although such a group has only hccl, and
    sets none for "cpu:gloo,npu:hccl". destroy_process_group() fails for both."""

    @functools.wraps(register_backend)
    def _register_backend(self: Any, device: Any, backend_type: Any, *args: Any, **kwargs: Any) -> None:
        register_backend(self, device, backend_type, *args, **kwargs)
        if device.type == "npu" and backend_type == torch.distributed.ProcessGroup.BackendType.CUSTOM:
            self._set_default_backend(backend_type)

    return _register_backend


def _with_hint(create: Callable[..., Any]) -> Callable[..., Any]:
    """The errors of torch's store do not say whether the host or the port is wrong."""

    @functools.wraps(create)
    def _create_c10d_store(hostname: str, port: int, *args: Any, **kwargs: Any) -> Any:
        try:
            return create(hostname, port, *args, **kwargs)
        except torch.distributed.DistError as error:
            raise type(error)(f"{error}\n{_hint(hostname, port)}") from error

    return _create_c10d_store


def _hint(hostname: str, port: int) -> str:
    try:
        socket.getaddrinfo(hostname, port)
    except OSError:
        return f"host not found: {hostname!r} has no address. Correct MASTER_ADDR, or the host in init_method."
    return (
        f"Rank 0 must run on {hostname} and listen at port {port} (MASTER_ADDR, MASTER_PORT). If it does, a firewall may block "
        f"{hostname}:{port}: open the port."
    )


def _with_hccl(original: Callable[..., None]) -> Callable[..., None]:
    """torch.distributed.monitored_barrier refuses backends other than gloo."""

    @functools.wraps(original)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        c10d = torch.distributed.distributed_c10d
        backend = None if c10d._rank_not_in_group(group) else backend_of(group)
        if backend is None:
            return original(group, timeout, wait_all_ranks)
        if timeout is None:
            timeout = backend.options._timeout
        elif timeout.total_seconds() < 0:
            raise ValueError(f"monitored_barrier: timeout is {timeout}; it must not be negative")
        backend.monitored_barrier(timeout, wait_all_ranks)
        return None

    return monitored_barrier


def _forgetting(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps _coalescing_manager(). If its body or its end raises an error, the list of collectives is removed. torch itself keeps
    the list: it then adds later collectives of the group to it instead of launching them, or the group never ends coalescing."""

    @functools.wraps(original)
    @contextlib.contextmanager
    def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool | None = False) -> Iterator[Any]:
        c10d = torch.distributed.distributed_c10d
        has_begun = False  # else what there is belongs to an outer manager
        try:
            with original(group, device, async_ops) as works:
                has_begun = True
                yield works
        except BaseException:
            if has_begun:
                c10d._world.pg_coalesce_state.pop(group or c10d._get_default_group(), None)
                if backend := backend_of(group):
                    backend._drop_coalescing()
            raise

    return _coalescing_manager


def _with_bfloat16(check: Callable[..., None]) -> Callable[..., None]:
    """torch refuses bf16_compress_hook, by its name, for devices other than CUDA and XPU."""

    @functools.wraps(check)
    def _check_comm_hook(self: Any, hook: Any) -> None:
        if self.device_type == "npu" and getattr(hook, "__name__", "").startswith("bf16_compress"):
            hook = functools.wraps(hook)(functools.partial(hook))
            hook.__name__ = "compress_hook"
        check(self, hook)

    return _check_comm_hook
