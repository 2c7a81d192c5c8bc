"""Holding a stream."""

import ctypes

import torch


class HeldStream:
    """Tasks that are launched on the stream inside the block wait until its end: `with HeldStream(stream): ...`

    The stream waits for a semaphore in a host function, without Python's global lock. The default is the current stream.
    """

    def __init__(self, stream=None):
        stream = stream or torch.npu.current_stream()
        self._libc = ctypes.CDLL(None)
        self._semaphore = ctypes.create_string_buffer(64)
        self._libc.sem_init(self._semaphore, 0, 0)
        device = ctypes.CDLL(torch.npu.library_info()["path"])
        code = device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), self._libc.sem_wait, self._semaphore)
        assert code == 0, code

    def release(self):
        """Lets the stream go on. Any thread may call it."""
        self._libc.sem_post(self._semaphore)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
        torch.npu.synchronize()
