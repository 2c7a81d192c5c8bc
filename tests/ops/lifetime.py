"""The check of freed arguments: a call that has not run yet must not depend on tensors that the program frees.

The check holds the stream, calls the operator, frees its arguments, and fills their memory with other values: device memory by
new tensors, which the allocator puts there, host memory by blocks of malloc. Then it releases the stream. A kernel that reads
freed host memory, or memory of another tensor, gives a wrong result.

Operators that wait for the device are called without holding the stream; only their launches after the last wait can be pending.
The cases need the allocator's cache; environment.py sets the variables.
"""

import contextlib
import ctypes

import torch

from ..held_stream import HeldStream
from .checks import attempt, difference, refusal, samples_of, values_are_free
from .compare import Tolerance
from .placement import Placement

FILL = 0x5A
# glibc keeps up to 7 freed blocks of each of these sizes for the thread that freed them.
HOST_SIZES = range(24, 1033, 16)
HOST_BLOCKS = 8
# The allocator of pinned memory has blocks of these sizes.
PINNED_SIZES = [1 << bits for bits in range(3, 15)]
PINNED_BLOCKS = 3


@contextlib.contextmanager
def no_waiting():
    """Inside the block, a call that waits for the device raises."""
    torch.npu.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.npu.set_sync_debug_mode("default")


def fill_freed_host_memory():
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    blocks = [libc.malloc(size) for size in HOST_SIZES for _ in range(HOST_BLOCKS)]
    for index, block in enumerate(blocks):
        libc.memset(block, FILL, HOST_SIZES[index // HOST_BLOCKS])
    for block in blocks:
        libc.free(block)
    pinned = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for size in PINNED_SIZES for _ in range(PINNED_BLOCKS)]
    for block in pinned:
        block.fill_(FILL)


def call_and_free(sample, op, held):
    """The result of a call whose arguments are freed before it runs, with or without holding the stream."""
    placement = Placement(sample, "npu")
    sizes = placement.nbytes()
    torch.npu.synchronize()
    with contextlib.ExitStack() as stack:
        if held:
            stack.enter_context(HeldStream())
            stack.enter_context(no_waiting())
        result = placement.call(op)
        del placement
        others = [torch.empty(size, dtype=torch.uint8, device="npu").fill_(FILL) for size in sizes]
        fill_freed_host_memory()
    del others
    return result


def freed(info, dtype, count):
    """The results of a call whose arguments are freed, and their memory used again, before it runs."""
    tolerance = Tolerance.of(info)
    for sample in samples_of(info, dtype, count):
        cpu = attempt("cpu", Placement(sample, "cpu").call_of(info.op))
        if cpu.error:
            continue
        npu = attempt("npu", lambda s=sample: call_and_free(s, info.op, held=True))
        if npu.error and "waits for the device" in str(npu.error):
            npu = attempt("npu", lambda s=sample: call_and_free(s, info.op, held=False))
        found = refusal(npu, cpu) or difference(npu.result, cpu.result, tolerance)
        if found and not npu.error and values_are_free(sample, lambda p: p.call(info.op)):
            found = None
        yield sample, found
