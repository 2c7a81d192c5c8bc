"""Pairs of tensors on CPU and npu, decorators that skip tests, and stored durations of tests."""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import json
import os
import threading
import unittest
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

PERF_TEST_ENABLE = os.getenv("PERF_TEST_ENABLE", "").upper() in ("1", "ON", "YES", "TRUE", "Y")
PERF_BASELINE_FILE = os.path.abspath(os.getenv("PERF_BASELINE_FILE", "performance_baseline.json"))


@contextlib.contextmanager
def freeze_rng_state() -> Iterator[None]:
    """Context manager: restores the random state of the CPU and of the current npu at its end."""
    devices = [torch.npu.current_device()] if torch.npu.is_initialized() else []
    with torch.random.fork_rng(devices, device_type="npu"):
        yield


def iter_indices(tensor: torch.Tensor) -> Iterable[Any]:
    """The indices of all elements: ints for a vector, tuples for more dimensions, nothing for a scalar."""
    if tensor.dim() < 2:
        return range(tensor.numel() if tensor.dim() else 0)
    return itertools.product(*map(range, tensor.shape))


def is_iterable(obj: Any) -> bool:
    try:
        iter(obj)
    except TypeError:
        return False
    return True


def get_npu_device() -> str:
    """npu:N, where N is SET_NPU_DEVICE, 0 by default."""
    number = os.getenv("SET_NPU_DEVICE", "0")
    if not number.isdecimal():
        raise ValueError(f"SET_NPU_DEVICE is {number!r}, but must be the number of a device, such as 0")
    return f"npu:{number}"


def set_npu_device() -> str:
    """Makes get_npu_device() the current device and returns its name."""
    device = get_npu_device()
    torch.npu.set_device(device)
    return device


def create_common_tensor(
    item: tuple[Any, int, Sequence[int]], minValue: float, maxValue: float, device: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same random tensor on the CPU and on npu. item: (dtype of numpy or torch, format or -1, shape)."""
    import numpy

    dtype, npu_format, shape = item
    values = numpy.random.uniform(minValue, maxValue, shape)
    if isinstance(dtype, torch.dtype):
        return _pair(torch.as_tensor(values).to(dtype), npu_format, device)
    return _pair(torch.as_tensor(values.astype(dtype)), npu_format, device)


def create_dtype_tensor(
    shape: Sequence[int],
    dtype: torch.dtype,
    npu_format: int = -1,
    min_value: int = -5,
    max_value: int = 5,
    no_zero: bool = False,
    device: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same random tensor on the CPU and on npu, of a torch dtype. no_zero: zeros are replaced by ones."""
    import numpy

    if dtype == torch.bool:
        values = numpy.random.randint(0, 2, size=shape)
    elif dtype.is_floating_point:
        values = numpy.random.uniform(min_value, max_value, shape)
    else:
        values = numpy.random.randint(min_value, max_value + 1, size=shape)
    cpu = torch.as_tensor(values).to(dtype)
    if no_zero:
        cpu = torch.where(cpu == 0, torch.ones_like(cpu), cpu)
    return _pair(cpu, npu_format if dtype in (torch.float32, torch.float16) else -1, device)


def _pair(cpu: torch.Tensor, npu_format: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    npu = cpu.to(get_npu_device() if device is None else device)
    if npu_format != -1:
        import torch_npu

        npu = torch_npu.npu_format_cast(npu, npu_format)
    return cpu, npu


def test_2args_broadcast(fn: Callable[..., Any]) -> list[list[Any]]:
    """Results of fn(x, y) with broadcasting, as [array on the CPU, array on npu], for a y of one element and for a smaller y."""
    results = []
    for shape in ((1, 1, 1), (4, 5)):
        x, y = torch.rand(2, 3, 4, 5), torch.rand(shape)
        device = get_npu_device()
        results.append([fn(x, y).numpy(), fn(x.to(device), y.to(device)).cpu().numpy()])
    return results


test_2args_broadcast.__test__ = False  # type: ignore[attr-defined]  # pytest collects names that begin with test_


def check_operators_in_prof(
    expected_operators: Iterable[str], prof: Any, unexpected_operators: Iterable[str] | None = None
) -> bool:
    """Whether a profile has all of the expected operators, and none of the others."""
    found = {event.key.replace("cached_", "") for event in prof.key_averages()}
    return set(expected_operators) <= found and not found & set(unexpected_operators or ())


class SkipIfNoLapack:
    """Decorates a test: `@SkipIfNoLapack()`."""

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return unittest.skipUnless(torch._C.has_lapack, "torch was built without LAPACK")(fn)


class SkipIfNotRegistered:
    """Decorates a test of Caffe2 operators, which torch no longer has: the test is skipped."""

    def __call__(self, message: str) -> Callable[..., Any]:
        return unittest.skip("torch has no caffe2")


class SupportedDevices:
    """Decorates a test for some chips: `@SupportedDevices(["Ascend910B"])`."""

    def __init__(self, supported_devices: Sequence[str]) -> None:
        self.supported_devices = supported_devices

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return _skip_unless(fn, self._reason)

    def _reason(self) -> str | None:
        name = torch.npu.get_device_name(0)
        length = 12 if name.startswith("Ascend910_") else 9 if name.startswith("Ascend950") else 10
        if name[:length] not in self.supported_devices:
            return f"only for {self.supported_devices}, but the device is {name[:length]}"
        return None


class SkipIfNotGteCANNVersion:
    """Decorates a test for a version or newer: `@SkipIfNotGteCANNVersion("8.0.0")`."""

    def __init__(self, base_version: str, module: str = "CANN") -> None:
        self.base_version, self.module = base_version, module

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return _skip_unless(fn, self._reason)

    def _reason(self) -> str | None:
        found = torch.npu.utils.get_cann_version(self.module)
        if _version(found) < _version(self.base_version):
            return f"only for {self.module} {self.base_version} or newer, but it is {found}"
        return None


def _skip_unless(fn: Callable[..., Any], reason: Callable[[], str | None]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        why = reason()
        if why:
            raise unittest.SkipTest(why)
        return fn(*args, **kwargs)

    return run


def _version(text: str) -> list[int]:
    digits = "".join(character if character.isdecimal() else " " for character in text)
    return [int(number) for number in digits.split()[:3]]


class Baseline:
    """The durations of tests in seconds, in a JSON file."""

    def __init__(self, baselineFile: str) -> None:
        self._file, self._values, self._lock = baselineFile, {}, threading.Lock()
        if os.path.exists(baselineFile):
            with open(baselineFile) as file:
                self._values = json.load(file)

    def get_baseline(self, resourceId: str) -> float | None:
        return self._values.get(resourceId)

    def set_baseline(self, resourceId: str, baseline: float) -> None:
        with self._lock:
            self._values[resourceId] = baseline

    def save_baseline(self) -> None:
        with self._lock, open(self._file, "w") as file:
            json.dump(self._values, file)


PerfBaseline = Baseline(PERF_BASELINE_FILE)


@atexit.register
def dump_baseline() -> None:
    """Writes the durations of this run, if PERF_TEST_ENABLE is set."""
    if PERF_TEST_ENABLE:
        PerfBaseline.save_baseline()


@functools.lru_cache
def get_cycles_per_ms() -> float:
    """The measured number of units of torch.npu._sleep per millisecond."""

    def measure() -> float:
        begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
        begin.record()
        torch.npu._sleep(1_000_000)
        end.record()
        end.synchronize()
        return 1_000_000 / begin.elapsed_time(end)

    measured = sorted(measure() for _ in range(10))[2:-2]
    return sum(measured) / len(measured)
