"""Runs each program in a forked process that has imported torch, but not torch_npu. This is much faster than a new Python.

The fixture `child` of conftest.py uses it. It reads requests from stdin, one JSON object per line: {"program", "arguments",
"environment", "folder", "stdout", "stderr"}; the last two are paths of files. It answers with the exit status of the process,
negative if a signal killed it. The child first loads the backends that register themselves with torch, as `import torch` does.
Then it executes the program as __main__ and exits as any Python process does. It is killed after `LIMIT` seconds.
"""

import gc
import json
import os
import signal
import sys

LIMIT = 300


def serve():
    """Answers requests. Returns the request in a forked child, and None in the server at the end of stdin."""
    import torch  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            return json.loads(line)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def become(request):
    """Makes this process equal to `python -c program arguments` after its `import torch`."""
    import torch

    signal.alarm(LIMIT)
    for descriptor, path in ((0, os.devnull), (1, request["stdout"]), (2, request["stderr"])):
        os.dup2(os.open(path, os.O_RDWR), descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]
    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()
    # A forked child creates autograd's engine at first use, without a lock; see device/repeat_program.py.
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()


_request = serve()
if _request is not None:
    become(_request)
    exec(compile(_request["program"], "<string>", "exec"), globals())
