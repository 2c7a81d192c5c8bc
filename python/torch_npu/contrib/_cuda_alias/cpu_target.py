"""CUDA programs run on the CPU: "cuda" means the CPU, and tensors remember which of the two a program put them on.

    with CudaOnCpu() as places:
        x = torch.ones(2, device="cuda") + 1     # a tensor of the CPU
        x.device, x.is_cuda                      # cuda:0, True
        places.holds(x)                          # True: the program has it on CUDA
        places.holds(x.cpu())                    # False

No device is needed, neither CUDA nor npu. Tools use it to see what a program for CUDA does before it is moved to npu: the
operator record of torch_npu.coverage and the reference run of torch_npu.tools.verify. One device is shown. What is redirected:
calls that name a device, torch.cuda (cpu_torch_cuda.py), autocast, checkpoints and process groups (nccl becomes gloo).
C++ extensions with CUDA kernels and TorchScript that moves tensors to CUDA are not.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from . import cpu_torch_cuda, profilers
from .replacement import Replacement

CUDA = torch.device("cuda", 0)
Observer = Callable[[Any, tuple[Any, ...], dict[str, Any], Any, bool], None]
"""Is called after each operator with its overload, arguments, result and whether it is on CUDA."""
_MISSING = object()
_MOVES = ("to", "cuda", "cpu", "type")


class Places:
    """The tensors that a program has on CUDA, by their memory: views and .data of a tensor are where it is."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self._limit = 1024

    def holds(self, tensor: torch.Tensor) -> bool:
        storage = _storage_of(tensor)
        known = self._storages.get(storage._cdata) if storage is not None else None
        return known is not None and not known.expired()

    def put(self, tensor: torch.Tensor, on_cuda: bool) -> None:
        storage = _storage_of(tensor)
        if storage is None:
            return
        if not on_cuda:
            self._storages.pop(storage._cdata, None)
            return
        if len(self._storages) > self._limit:
            self._storages = {key: known for key, known in self._storages.items() if not known.expired()}
            self._limit = max(1024, 2 * len(self._storages))
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = StorageWeakRef(storage)


def _storage_of(tensor: torch.Tensor) -> Any:
    """The memory that stands for a tensor. That of a sparse tensor is the memory of its values. None if it has none."""
    with torch._C.DisableTorchFunction(), contextlib.suppress(NotImplementedError, RuntimeError):
        if tensor.layout == torch.sparse_coo:
            tensor = tensor._values()
        elif tensor.layout != torch.strided:
            tensor = tensor.values()
        return tensor.untyped_storage()
    return None


def tensors_in(*values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in _pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class _Following(TorchDispatchMode):
    """A result is on CUDA if an argument of its operator is, or if the call names CUDA."""

    def __init__(self, places: Places, observe: Observer | None) -> None:
        super().__init__()
        self._places, self._observe = places, observe

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        on_cuda = any(map(self._places.holds, tensors_in(args, kwargs)))
        if kwargs.get("device") is not None and _is_cuda(kwargs["device"]):
            on_cuda, kwargs = True, {**kwargs, "device": "cpu"}
        result = func(*args, **kwargs)
        if on_cuda:
            for tensor in tensors_in(result):
                self._places.put(tensor, True)
        if self._observe is not None:
            self._observe(func, args, kwargs, result, on_cuda)
        return result


class _Redirecting(TorchFunctionMode):
    """Calls that name CUDA run on the CPU, and their results are on CUDA. A copy between the two copies."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._places = places

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        source = args[0] if args and isinstance(args[0], torch.Tensor) else None
        target: bool | None = None
        if name in _MOVES and source is not None:
            if name == "cuda":
                return self._move(source, True, torch.Tensor.to, "cpu", **_only(kwargs, "non_blocking", "memory_format"))
            if name == "cpu":
                return self._move(source, False, func, **kwargs)
            if name == "to":
                args, target = self._without_cuda(args)
                if len(args) > 1 and isinstance(args[1], torch.Tensor):
                    target = self._places.holds(args[1])
        if kwargs.get("device") is not None:
            target = _is_cuda(kwargs["device"])
            kwargs["device"] = "cpu" if target else kwargs["device"]
        if target is None:
            return func(*args, **kwargs)
        if name == "to" and source is not None:
            return self._move(source, target, func, *args[1:], **kwargs)
        result = func(*args, **kwargs)
        for tensor in tensors_in(result):
            self._places.put(tensor, target)
        return result

    @staticmethod
    def _without_cuda(args: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool | None]:
        target = None
        words = list(args)
        for index, word in enumerate(words[1:2], 1):
            if isinstance(word, (str, torch.device)) or (isinstance(word, int) and not isinstance(word, bool)):
                target = _is_cuda(word)
                words[index] = "cpu" if target else word
        return tuple(words), target

    def _move(self, source: torch.Tensor, target: bool, move: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        was = self._places.holds(source)
        result = move(source, *args, **kwargs)
        if was == target:
            return result
        if _storage_of(result) is not None and _storage_of(result)._cdata == _storage_of(source)._cdata:
            result = result.clone()
        self._places.put(result, target)
        return result


def _is_cuda(device: Any) -> bool:
    """A number means CUDA, as it does where CUDA is the accelerator."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, int) or str(device).partition(":")[0] == "cuda"


def _only(values: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


class CudaOnCpu:
    """A context manager: inside it "cuda" means the CPU. Not for several threads at once."""

    def __init__(self, observe: Observer | None = None) -> None:
        self.places = Places()
        self._observe = observe
        self._restore = contextlib.ExitStack()

    def __enter__(self) -> Places:
        with contextlib.ExitStack() as stack:
            package = (17, lambda storage: None, self._load)
            torch.serialization.register_package(*package)
            stack.callback(lambda: torch.serialization._package_registry.remove(package))
            for replacement in self._replacements():
                stack.callback(_replace(*replacement))
            stack.enter_context(_Following(self.places, self._observe))
            stack.enter_context(_Redirecting(self.places))
            self._restore = stack.pop_all()
        return self.places

    def __exit__(self, *error: Any) -> None:
        self._restore.close()

    def _load(self, storage: Any, location: str) -> Any:
        """Loads a storage whose location, in the checkpoint or by map_location, is CUDA."""
        if not str(location).startswith("cuda"):
            return None
        self.places.put(torch.empty(0, dtype=torch.uint8).set_(storage), True)
        return storage

    def _replacements(self) -> Iterator[Replacement]:
        yield from cpu_torch_cuda.replacements(self.places)
        ranges = (torch.cuda.nvtx, torch.autograd.profiler.emit_nvtx)
        yield from (each for each in profilers.replacements() if any(each[0] is owner for owner in ranges))
        yield from self._tensors()
        yield from _libraries()
        yield threading.Thread, "run", _in_modes(threading.Thread.run, self.places, self._observe)

    def _tensors(self) -> Iterator[Replacement]:
        places, Tensor = self.places, torch.Tensor
        own_device, own_type = Tensor.device, Tensor.type

        def device(self: torch.Tensor) -> torch.device:
            if places.holds(self):
                return CUDA
            with torch._C.DisableTorchFunction():
                return own_device.__get__(self)

        @functools.wraps(own_type)
        def type_(self: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
            if dtype is None:
                with torch._C.DisableTorchFunction():  # torch would look the method up by its name, and find this one
                    found = own_type(self)
                return found.replace("torch.", "torch.cuda.", 1) if places.holds(self) else found
            name = getattr(dtype, "cuda_name", dtype)
            if isinstance(name, str) and name.startswith("torch.cuda."):
                with torch._C.DisableTorchFunction():
                    there = own_type(self, name.replace("torch.cuda.", "torch."))
                return there.cuda()
            with torch._C.DisableTorchFunction():
                return own_type(self, dtype, *args, **kwargs)

        pinned = Places()

        def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
            found = self if pinned.holds(self) else self.clone()
            pinned.put(found, True)
            return found

        yield Tensor, "device", property(device)
        yield Tensor, "is_cuda", property(places.holds)
        yield Tensor, "is_cpu", property(lambda self: not places.holds(self))
        yield Tensor, "get_device", lambda self: 0 if places.holds(self) else -1
        yield Tensor, "type", type_
        yield Tensor, "record_stream", lambda self, stream: None
        yield Tensor, "pin_memory", pin_memory
        yield Tensor, "is_pinned", lambda self, device=None: pinned.holds(self)


def _in_modes(run: Callable[..., None], places: Places, observe: Observer | None) -> Callable[..., None]:
    """Modes belong to a thread; a thread of the program gets its own."""

    @functools.wraps(run)
    def run_in_modes(self: threading.Thread) -> None:
        with _Following(places, observe), _Redirecting(places):
            run(self)

    return run_in_modes


def _libraries() -> Iterator[Replacement]:
    def with_gloo(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            words = ["gloo" if _is_nccl(word) else word for word in args]
            kwargs = {name: "gloo" if name == "backend" and _is_nccl(word) else word for name, word in kwargs.items()}
            kwargs.pop("device_id", None)
            return function(*words, **kwargs)

        return call

    def _is_nccl(word: Any) -> bool:
        return isinstance(word, str) and "nccl" in word.lower()

    if torch.distributed.is_available():
        c10d = torch.distributed.distributed_c10d
        for name in ("init_process_group", "new_group"):
            twin = with_gloo(getattr(c10d, name))
            yield c10d, name, twin
            yield torch.distributed, name, twin
        for module in (c10d, torch.distributed):
            yield module, "is_nccl_available", lambda: True
    yield torch.nn.DataParallel, "forward", lambda self, *args, **kwargs: self.module(*args, **kwargs)
    yield torch, "compile", _uncompiled


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """torch.compile: the program runs operator by operator."""
    return model if model is not None else lambda function: function


def _replace(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Sets a name and returns a function that restores it."""
    old = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    if old is _MISSING:
        return lambda: delattr(owner, name)
    return lambda: setattr(owner, name, old)
