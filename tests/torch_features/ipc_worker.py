"""A process that receives tensors and calls functions on them. Spawned processes import this module."""

import gc
import traceback

import torch
import torch.multiprocessing

KEPT = {}  # name -> tensor that the process keeps


def serve(requests, replies):
    """Runs in the process: calls the requested functions, and answers with their results or tracebacks."""
    while True:
        request = requests.get()
        if request is None:
            return
        try:
            function, *arguments = request
            replies.put(function(*arguments))
        except Exception:
            replies.put(traceback.format_exc())
        del request, function, arguments
        gc.collect()


class Worker:
    """The process, as its parent sees it. ask() sends a function and its arguments, answer() waits for the result."""

    def __init__(self):
        context = torch.multiprocessing.get_context("spawn")
        self.requests, self.replies = context.SimpleQueue(), context.Queue()
        self.process = context.Process(target=serve, args=(self.requests, self.replies))
        self.process.start()

    def ask(self, function, *arguments):
        self.requests.put((function, *arguments))

    def answer(self):
        return self.replies.get(timeout=120)

    def call(self, function, *arguments):
        self.ask(function, *arguments)
        return self.answer()


def describe(x):
    return (x.device, x.dtype, x.shape, x.stride(), x.storage_offset(), x.requires_grad, type(x), x.detach().cpu())


def keep(name, x):
    KEPT[name] = x


def drop(name):
    del KEPT[name]


def value_of(name):
    return KEPT[name].tolist()


def fill(name, value):
    KEPT[name].fill_(value)
    torch.npu.synchronize()


def receive_when_the_sender_ends(connection, queue, ends):
    torch.ones(1, device="npu")
    connection.send("ready")
    ends.wait()
    print(queue.get().tolist(), connection.recv().tolist(), flush=True)
