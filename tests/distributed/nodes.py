"""Two nodes of a network. A node is a network namespace. There is a link between the nodes, and a link from each node to this
process.

    nodes.make()                       # once per process; removed at its end
    nodes.enter(nodes.name(1))         # moves this process to node 1; the process must have one thread
    nodes.address(1)                   # the address of node 1 on the link between the nodes
    nodes.store_address(1)             # the address at which node 1 reaches the process that made the nodes
    nodes.link("down")                 # cuts the link between the nodes

Only root may make nodes. The nodes share memory, processes and files of the machine. So ranks of different nodes also need
different values of SOFTNPU_HCCL_HOST, which forbids shared memory between them.
"""

import atexit
import ctypes
import functools
import os
import shutil
import subprocess

CLONE_NEWNET = 0x40000000
COUNT = 2
_number = os.getpid() % 250  # of this process, so that two runs of the tests do not share addresses


# `node` may be the text "{node}", which rank_processes.py replaces.


def name(node):
    return f"npu{os.getpid()}n{node}"


def address(node):
    return f"10.199.{_number}.1{node}"


def store_address(node):
    return f"10.198.{_number}.1{node}"


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@functools.cache
def make():
    """Makes the nodes. Returns None, or the reason why nodes cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and the program ip"
    atexit.register(_remove, os.getpid())
    try:
        for node in range(COUNT):
            _ip("netns", "add", name(node))
            _ip("-n", name(node), "link", "set", "lo", "up")
        _ip("-n", name(0), "link", "add", "other", "type", "veth", "peer", "name", "other", "netns", name(1))
        for node in range(COUNT):
            _ip("-n", name(node), "address", "add", f"{address(node)}/28", "dev", "other")
            _ip("-n", name(node), "link", "set", "other", "up")
            interface, here, there = f"npu{os.getpid()}v{node}", store_address(node), f"10.198.{_number}.2{node}"
            _ip("link", "add", interface, "type", "veth", "peer", "name", "store", "netns", name(node))
            _ip("address", "add", here, "peer", there, "dev", interface)
            _ip("link", "set", interface, "up")
            _ip("-n", name(node), "address", "add", there, "peer", here, "dev", "store")
            _ip("-n", name(node), "link", "set", "store", "up")
    except subprocess.CalledProcessError as error:
        _remove(os.getpid())
        return f"network namespaces cannot be made: {error.stderr.strip()}"
    return None


def link(state):
    """Turns the link between the nodes "up" or "down". A connection over a link that is down gets no error and sends no data."""
    _ip("-n", name(1), "link", "set", "other", state)


def environment():
    """Environment variables of a rank. {node} stands for the number of its node, see rank_processes.py."""
    return (
        ("RANK_NETWORK", name("{node}")),
        ("RANK_STORE", store_address("{node}")),
        ("SOFTNPU_HCCL_HOST", "node{node}"),
        ("HCCL_IF_IP", address("{node}")),
        ("HCCL_WHITELIST_DISABLE", "1"),
    )


def _remove(pid):
    if os.getpid() != pid:
        return
    for node in range(COUNT):
        subprocess.run(["ip", "netns", "del", name(node)], capture_output=True, check=False)


def enter(namespace):
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")
    os.close(descriptor)
