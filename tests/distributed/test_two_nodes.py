"""The settings of a training on two nodes: master address on both, HCCL_IF_IP, whitelist.

Two nodes are two loopback addresses, and also two network namespaces if this user may make them. Ranks of different nodes share
no memory."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.distributed import nodes
from tests.distributed.rank_processes import free_port

PROGRAM = str(ROOT / "tests" / "distributed" / "node_program.py")


@pytest.fixture(params=["namespaces", "loopback"])
def network(request):
    """(addresses of the nodes, for each node the prefix of a command that runs on it)."""
    if request.param == "loopback":
        return ["127.0.1.1", "127.0.1.2"], [[], []]
    if reason := nodes.make():
        pytest.skip(reason)
    return [nodes.address(node) for node in range(2)], [["ip", "netns", "exec", nodes.name(node)] for node in range(2)]


def run(network, commands, environments):
    """Runs a command on all nodes at the same time. Returns their output."""
    addresses, prefixes = network
    processes = []
    for node, (command, variables) in enumerate(zip(commands, environments, strict=True)):
        own = {"HCCL_IF_IP": addresses[node], "SOFTNPU_HCCL_HOST": f"node{node}", "HCCL_CONNECT_TIMEOUT": "30"}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **own, **variables}
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        processes.append(subprocess.Popen([*prefixes[node], sys.executable, *command], env=environment, **output))
    return [(process.communicate(timeout=300)[0], process.returncode) for process in processes]


def ranks(master_addresses):
    port = str(free_port())
    return [
        {"RANK": str(node), "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": address, "MASTER_PORT": port}
        for node, address in enumerate(master_addresses)
    ]


@pytest.mark.full
def test_torchrun_on_two_nodes_without_a_whitelist(network, tmp_path):
    """With HCCL_WHITELIST_DISABLE=1, a whitelist without the other node has no effect."""
    (tmp_path / "whitelist").write_text(json.dumps({"host_ip": ["10.1.2.3"]}))
    whitelist = {"HCCL_WHITELIST_DISABLE": "1", "HCCL_WHITELIST_FILE": str(tmp_path / "whitelist")}
    address, port = network[0][0], str(free_port())
    launcher = [
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "2",
        "--nproc-per-node",
        "1",
        "--master-addr",
        address,
        "--master-port",
        port,
    ]
    commands = [[*launcher, "--node-rank", str(node), PROGRAM] for node in range(2)]
    for output, code in run(network, commands, [whitelist, whitelist]):
        assert code == 0 and "sum 3.0" in output, output


@pytest.mark.full
def test_the_whitelist_is_on_and_empty_by_default(network):
    for output, code in run(network, [[PROGRAM]] * 2, ranks([network[0][0]] * 2)):
        assert code == 0 and "sum 3.0" in output, output


@pytest.mark.full
@pytest.mark.parametrize("lists_all", [True, False])
def test_only_nodes_of_the_whitelist_connect(network, tmp_path, lists_all):
    addresses = network[0]
    (tmp_path / "whitelist").write_text(json.dumps({"host_ip": [*addresses, "127.0.0.1"] if lists_all else [addresses[0]]}))
    variables = [{**each, "HCCL_WHITELIST_FILE": str(tmp_path / "whitelist")} for each in ranks([addresses[0]] * 2)]
    outcomes = run(network, [[PROGRAM]] * 2, variables)
    if lists_all:
        assert all(code == 0 and "sum 3.0" in output for output, code in outcomes), outcomes
        return
    assert all(code != 0 and "DistBackendError" in output for output, code in outcomes), outcomes
    assert re.search("whitelist|rank 1 of 2 did not connect", outcomes[0][0]), outcomes


@pytest.mark.full
def test_each_node_needs_the_address_of_the_master(network):
    """Node 1 has its own address as MASTER_ADDR, where no process listens."""
    variables = ranks(network[0])
    output, code = run((network[0][1:], network[1][1:]), [[PROGRAM]], [variables[1]])[0]
    assert code != 0
    assert f"{network[0][1]}:{variables[1]['MASTER_PORT']}" in output, output
