"""Runs programs in processes that are born with torch imported, and without torch_npu: much quicker than from nothing.

A server, one JSON object per line: {"program", "arguments", "environment", "folder", "stdout", "stderr"}, the last two of them
files, in; the status of the process (negative: killed by that signal) out. A child is a fork of the server. It ends `import
torch` as torch does, by loading the backends that register themselves, and executes the program as its __main__; then it ends as
any Python process ends. After `LIMIT` seconds it is killed.
"""

import gc
import json
import os
import signal
import sys

LIMIT = 300


def serve():
    """Ends with the request in a child, and with None when there are no more."""
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
    """This process is what `python -c program arguments` would be, after its `import torch`."""
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
    # A forked child makes autograd's engine anew at its first use, without a lock; see nursery.py.
    torch.autograd.Variable._execution_engine.is_checkpoint_valid()


_request = serve()
if _request is not None:
    become(_request)
    exec(compile(_request["program"], "<string>", "exec"), globals())
