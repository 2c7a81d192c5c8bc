"""Programs for test_memory_check.py. Each case runs in a forked child of its own, before any use of the device.

`python memory_faults.py CASE@CHECK...` prints one JSON object: CASE@CHECK -> [exit code, stderr]. CHECK is a value of
SOFTNPU_MEMORY_CHECK, or off: then SOFTNPU_FAULT_REPORT is 0.
"""

import ctypes
import faulthandler
import json
import os
import sys
import tempfile

import torch

LIBC = ctypes.CDLL(None)


class Driver(ctypes.Structure):
    """The beginning of SoftnpuDriver."""

    _fields_ = [
        ("version", ctypes.c_uint32),
        ("device_begin", ctypes.c_size_t),
        ("device_end", ctypes.c_size_t),
        ("alias_offset", ctypes.c_ssize_t),
    ]


def runtime():
    return ctypes.CDLL(torch.npu.library_info()["path"])


def kernel_address(address):
    """The address at which kernels see a device address. Tests write through it outside of a tensor."""
    library = runtime()
    library.softnpuDriver.restype = ctypes.POINTER(Driver)
    driver = next(filter(None, map(library.softnpuDriver, range(1, 100))))  # any version
    return address + driver.contents.alias_offset


def write_beside(tensor, offset):
    ctypes.memset(kernel_address(tensor.data_ptr()) + offset, 0x11, 1)


class Gate:
    """Holds a stream until open() is called, without Python's global lock."""

    def __init__(self, stream):
        self.semaphore = ctypes.create_string_buffer(64)
        assert LIBC.sem_init(self.semaphore, 0, 0) == 0
        wait = ctypes.cast(LIBC.sem_wait, ctypes.c_void_p)
        assert runtime().aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), wait, self.semaphore) == 0

    def open(self):
        LIBC.sem_post(self.semaphore)


def tensor_and_address():
    x = torch.ones(16, device="npu")
    return x, x.data_ptr()


def read_live():
    x, address = tensor_and_address()
    ctypes.string_at(address + 16, 4)
    del x


def write_live():
    x, address = tensor_and_address()
    ctypes.memset(address + 16, 1, 1)
    del x


def read_freed():
    x, address = tensor_and_address()
    del x
    torch.npu.empty_cache()
    ctypes.string_at(address, 4)


def write_freed():
    x, address = tensor_and_address()
    del x
    torch.npu.empty_cache()
    ctypes.memset(address, 1, 1)


def read_as_array():
    import numpy

    x, address = tensor_and_address()
    print(numpy.frombuffer((ctypes.c_float * 16).from_address(address), dtype=numpy.float32).sum(), file=sys.stderr)
    del x


def read_with_faulthandler_before():
    faulthandler.enable()
    read_live()


def read_with_faulthandler_after():
    x, address = tensor_and_address()
    faulthandler.enable()
    ctypes.string_at(address, 4)
    del x


def elsewhere():
    tensor_and_address()
    ctypes.string_at(64, 4)


def stale_stream():
    """A kernel of a side stream runs after its input was freed without record_stream()."""
    side = torch.npu.Stream()
    x = torch.ones(1000, device="npu")
    gate = Gate(side)
    with torch.npu.stream(side):
        y = x * 1
    del x
    gate.open()
    side.synchronize()
    print(y.view(torch.int32).unique().tolist(), file=sys.stderr)


def recorded_stream():
    side = torch.npu.Stream()
    x = torch.ones(1000, device="npu")
    gate = Gate(side)
    with torch.npu.stream(side):
        y = x * 1
    x.record_stream(side)
    del x
    torch.ones(1000, device="npu")
    gate.open()
    side.synchronize()
    print(y.unique().tolist(), file=sys.stderr)


def damage(offset):
    """Writes beside a tensor and frees it."""
    x = torch.ones(100, device="npu")
    write_beside(x, offset)
    del x


def damage_raised_by_the_next_synchronisation():
    for offset in (400, 450, -1):
        damage(offset)
        try:
            torch.npu.synchronize()
        except RuntimeError as error:
            print(error, file=sys.stderr)
        torch.npu.synchronize()


def damage_raised_by_the_next_launch():
    x = torch.ones(3, device="npu")
    damage(400)
    try:
        x + 1
    except RuntimeError as error:
        print(error, file=sys.stderr)
    print((x + 1).tolist(), file=sys.stderr)


def damage_printed_at_exit():
    damage(400)
    sys.exit(0)


def damage_names_the_operator():
    x = torch.ones(100, device="npu")
    y = x + 1
    write_beside(y, 400)
    try:
        torch.mul(x, 2, out=y)
        torch.npu.synchronize()
    except RuntimeError as error:
        print(error, file=sys.stderr)
    torch.mul(x, 2, out=y)
    print(y.sum().item(), file=sys.stderr)
    del y
    torch.npu.synchronize()


def run(case, check):
    """Runs the case in a forked child. Returns the exit code and stderr."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 2)
            os.environ["SOFTNPU_MEMORY_CHECK"] = "none" if check == "off" else check
            os.environ["SOFTNPU_FAULT_REPORT"] = "0" if check == "off" else "1"
            case()
            sys.stderr.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        output.seek(0)
        return os.waitstatus_to_exitcode(status), output.read().decode()


def main():
    answers = {}
    for argument in sys.argv[1:]:
        name, check = argument.split("@")
        answers[argument] = run(globals()[name], check)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
