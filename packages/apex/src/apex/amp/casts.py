"""The casts of O1, made by torch's autocast.

O1 turns autocast on for the devices of the models, outside of any `with torch.autocast(...)`. So a program can use both: in a
region of torch.autocast that region decides, also with enabled=False. Autocast knows most functions of apex.amp.lists. The
rest are patched: those that autocast of a device treats differently, those that the program added to or removed from the
lists, and those of register_half_function and its like. A patched function casts only while autocast is on for the device of
its first floating tensor.

Autocast is off during backward passes, whose operators have the dtypes of the forward pass, but on in the Python code of a
torch.autograd.Function. The state of autocast belongs to a thread: the models turn it on in each thread that calls them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from .lists import functional_overrides, tensor_overrides, torch_overrides
from .patches import Patches, cast_tensors, device_of, floating_dtypes

_LISTS = (functional_overrides, torch_overrides, tensor_overrides)
_DEFAULTS = {
    (module.MODULE, name): kind
    for module in _LISTS
    for kind in ("FP16_FUNCS", "FP32_FUNCS", "CASTS", "SEQUENCE_CASTS")
    for name in getattr(module, kind, [])
}

# What autocast("npu") does not cast as the lists say.
_NPU_GAPS = {
    "FP32_FUNCS": {
        *("cpu", "cross_entropy", "ctc_loss", "gelu", "grid_sample", "local_response_norm", "multilabel_soft_margin_loss"),
        *("std", "var"),
    }
}
# Autocast("cpu") leaves float16 arguments of most functions of FP32_FUNCS as they are.
_CPU_GAPS = {"FP16_FUNCS": {"addmv", "addr", "mv"}, "CASTS": {"bilinear", "cross", "dot"}}

_on_thread = threading.local()


class Casts:
    """The casts of O1 in this process, from amp.initialize to amp.uninitialize."""

    def __init__(self, devices: set[str], registered: list[tuple[Any, str, str]], user_cast_preferred: bool) -> None:
        """registered: (module, name, kind) of the functions that the program registered; kind as in patches.Patches."""
        self.devices: set[str] = set()
        self.patches = Patches()
        self._user_cast_preferred = user_cast_preferred
        self._registered: set[tuple[int, str]] = set()  # id of the owner: it may have no hash
        self._saved: dict[str, tuple[bool, torch.dtype]] = {}
        self._saved_cache = torch.is_autocast_cache_enabled()
        self._is_backward_cast = True
        try:
            for owner, name, kind in registered:
                self.register(owner, name, kind)
            self._patch_engine()
            self.add_devices(devices)
        except BaseException:
            self.close()
            raise

    def add_devices(self, devices: set[str]) -> None:
        """Casts for these device types too."""
        for device in devices - self.devices:
            self._saved[device] = (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        self.devices |= devices
        self._patch_lists()
        self._start_thread(force=True)

    def register(self, owner: Any, name: str, kind: str) -> None:
        """Patches a function that the program registered. If it is on a list too, the cast of the list comes first, unless
        user_cast_preferred."""
        listed = _listed(owner, name)
        first = None if self._user_cast_preferred or listed is None else listed
        self._registered.add((id(owner), name))
        self.patches.remove(owner, name)
        self.patches.cast(owner, name, kind, first)

    def close(self) -> None:
        """Undoes everything, in the calling thread and in the functions."""
        self.patches.undo()
        for device, (enabled, dtype) in self._saved.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self._saved_cache)
        torch.clear_autocast_cache()
        _on_thread.casts = None

    def is_active(self) -> bool:
        """Whether functions are cast here and now."""
        self._start_thread()
        return any(torch.is_autocast_enabled(device) for device in self.devices)

    @contextmanager
    def switched(self, enabled: bool) -> Iterator[None]:
        """Turns the casts on or off in this thread."""
        before = {device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in self.devices}
        for device in before:
            torch.set_autocast_enabled(device, enabled)
            if enabled:
                torch.set_autocast_dtype(device, torch.float16)
        try:
            yield
        finally:
            for device, (was_enabled, dtype) in before.items():
                torch.set_autocast_enabled(device, was_enabled)
                torch.set_autocast_dtype(device, dtype)

    def watch(self, model: torch.nn.Module) -> list[Callable[[], None]]:
        """Makes the model turn the casts on in the thread that calls it, and cast each weight once per call. Returns the undo."""
        handles = [
            model.register_forward_pre_hook(_EnterModel()),
            model.register_forward_hook(_LeaveModel(), always_call=True),
        ]
        return [handle.remove for handle in handles]

    def _start_thread(self, force: bool = False) -> None:
        # In a backward pass, which may have a thread of its own, the casts are as the pass says.
        if not force and (getattr(_on_thread, "casts", None) is self or _is_backward()):
            return
        _on_thread.casts, _on_thread.depth = self, 0
        for device in self.devices:
            torch.set_autocast_enabled(device, True)
            torch.set_autocast_dtype(device, torch.float16)
        # Outside of a model's call nothing would empty the cache of cast weights.
        torch.set_autocast_cache_enabled(False)

    def _patch_lists(self) -> None:
        current = {
            (module.MODULE, name): kind
            for module in _LISTS
            for kind in ("FP16_FUNCS", "FP32_FUNCS", "CASTS", "SEQUENCE_CASTS")
            for name in getattr(module, kind, [])
        }
        for (owner, name), kind in current.items():
            if (id(owner), name) in self._registered or not hasattr(owner, name):
                continue
            default = _DEFAULTS.get((owner, name))
            if default != kind or self._is_gap(name, kind):
                self.patches.cast(owner, name, _KINDS[kind])
        for owner, name in _DEFAULTS.keys() - current.keys():
            if (id(owner), name) not in self._registered:
                self.patches.without_autocast(owner, name)
        for name, message in functional_overrides.BANNED_FUNCS:
            self.patches.ban(functional_overrides.MODULE, name, message)
        if "cpu" in self.devices:
            self.patches.replace(torch._VF, "lstm", _lstm_on_cpu)

    def _is_gap(self, name: str, kind: str) -> bool:
        if "npu" in self.devices and name in _NPU_GAPS.get(kind, ()):
            return True
        return "cpu" in self.devices and (kind == "FP32_FUNCS" or name in _CPU_GAPS.get(kind, ()))

    def _patch_engine(self) -> None:
        def without_casts(run: Callable[..., Any]) -> Callable[..., Any]:
            def backward(*args: Any, **kwargs: Any) -> Any:
                if not _is_backward():
                    self._is_backward_cast = self.is_active()
                with self.switched(False):
                    return run(*args, **kwargs)

            return backward

        def with_casts(run: Callable[..., Any]) -> Callable[..., Any]:
            def apply(node: Any, *args: Any) -> Any:
                if not self._is_backward_cast:
                    return run(node, *args)
                with self.switched(True):
                    return run(node, *args)

            return apply

        self.patches.replace(torch.autograd, "backward", without_casts)
        self.patches.replace(torch.autograd, "grad", without_casts)
        self.patches.replace(BackwardCFunction, "apply", with_casts)


def _is_backward() -> bool:
    """Whether a backward pass runs in this thread."""
    return torch._C._current_graph_task_id() != -1


_KINDS = {"FP16_FUNCS": "half", "FP32_FUNCS": "float", "CASTS": "promote", "SEQUENCE_CASTS": "promote"}


def _listed(owner: Any, name: str) -> str | None:
    for module in _LISTS:
        if module.MODULE is owner:
            for listing, kind in _KINDS.items():
                if name in getattr(module, listing, []):
                    return kind
    return None


class _EnterModel:
    """A forward pre-hook: see Casts.watch."""

    def __call__(self, model: torch.nn.Module, args: Any) -> None:
        from ._amp_state import _amp_state

        if _amp_state.handle is None:
            return
        _amp_state.handle._start_thread()
        if getattr(_on_thread, "casts", None) is not _amp_state.handle:
            return
        _on_thread.depth += 1
        if _on_thread.depth == 1 and torch.is_grad_enabled():
            torch.set_autocast_cache_enabled(True)


class _LeaveModel:
    """A forward hook: see Casts.watch."""

    def __call__(self, model: torch.nn.Module, args: Any, result: Any) -> None:
        if getattr(_on_thread, "casts", None) is None:
            return
        _on_thread.depth = max(0, _on_thread.depth - 1)
        if _on_thread.depth == 0:
            torch.clear_autocast_cache()
            torch.set_autocast_cache_enabled(False)


def _lstm_on_cpu(lstm: Callable[..., Any]) -> Callable[..., Any]:
    # oneDNN, which autocast("cpu") calls, has no LSTM in float16 on most CPUs.
    def wrapper(*args: Any) -> Any:
        if device_of(args, {}) != "cpu" or not torch.is_autocast_enabled("cpu"):
            return lstm(*args)
        dtype = torch.get_autocast_dtype("cpu")
        onednn = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            with torch.autocast("cpu", enabled=False):
                return lstm(*cast_tensors(args, dtype, floating_dtypes - {torch.float64}))
        finally:
            torch._C._set_mkldnn_enabled(onednn)

    return wrapper
