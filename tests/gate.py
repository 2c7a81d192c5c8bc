"""A gate that holds a stream."""

import ctypes

import torch


class Gate:
    """Holds what is launched after it on a stream until the end of the block: `with Gate(stream): ...`"""

    def __init__(self, stream=None):
        stream = stream or torch.npu.current_stream()
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)
        self._libc.sem_init(self._semaphore, 0, 0)
        device = ctypes.CDLL(torch.npu.library_info()["path"])
        code = device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), self._libc.sem_wait, self._semaphore)
        assert code == 0, code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._libc.sem_post(self._semaphore)
        torch.npu.synchronize()
