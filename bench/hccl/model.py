"""A model that estimates the time of an all-reduce with many ranks.

    python -m bench.hccl.model                                  64 and 1,024 ranks, 8 per host, 100 Gbit/s between hosts
    python -m bench.hccl.model --ranks 64 --network 25 --memory 4

Assumptions:
- Hosts have the same number of ranks. Each rank has a core and its share of the memory bandwidth.
- A collective begins with a header from each rank to each other rank; a rank handles them one after the other.
- Within a host each rank reads its part of the others' data, then the results: 2 (k-1)/k of the bytes for k ranks of a host.
- Between hosts the connections of a host share one link, in both directions at once. TCP reaches its bandwidth.
- `hccl` is the algorithm of libhccl. Below 256 KiB each rank exchanges its part with every other rank. From 256 KiB on, partial
  results go along the hosts and results come back, in pieces (softnpu/hccl/collectives/host_chain.h).
- `ring` is a ring of the hosts, which other libraries use: 2 (H-1)/H of the bytes for H hosts.
- Reading in the host, the network and the addition overlap, so only the slowest of them counts. All ranks call at the same time.
"""

import argparse
from dataclasses import dataclass

PIECE = 256 << 10  # Exchange::kPieceBytes
HIERARCHICAL = 256 << 10  # kHierarchicalBytes


@dataclass(frozen=True)
class Machine:
    """Properties of the machines, in seconds and bytes per second."""

    memory_header: float = 0.5e-6  # time to send and check one header through shared memory
    network_header: float = 6e-6  # time for one header over TCP: a send, a receive and their share of a poll
    step: float = 20e-6  # latency from a rank to a rank of the next host
    memory: float = 5e9  # bandwidth of a rank that reads data of another rank of its host
    network: float = 100e9 / 8  # bandwidth of the link of a host


def headers(machine, ranks, per_host):
    """Seconds until a rank has exchanged its headers."""
    return (per_host - 1) * machine.memory_header + (ranks - per_host) * machine.network_header


def in_host(machine, per_host, size):
    return 2 * (per_host - 1) / per_host * size / machine.memory


def hccl(machine, ranks, per_host, size):
    hosts = ranks // per_host
    network = 0.0
    if hosts > 1 and size < HIERARCHICAL:
        network = 2 * (ranks - per_host) * machine.network_header + 2 * per_host * size / machine.network
    elif hosts > 1:
        network = size / machine.network + 2 * (hosts - 1) * (machine.step + PIECE / machine.network)
    return headers(machine, ranks, per_host) + max(in_host(machine, per_host, size), network)


def ring(machine, ranks, per_host, size):
    hosts = ranks // per_host
    network = 2 * (hosts - 1) / hosts * size / machine.network + 2 * (hosts - 1) * machine.step
    return headers(machine, ranks, per_host) + max(in_host(machine, per_host, size), network)


def table(machine, worlds, per_host):
    rows = [("ranks", "hosts", "bytes", "headers ms", "hccl ms", "ring ms")]
    for ranks in worlds:
        waited = headers(machine, ranks, per_host)
        for size in (64 << 10, 1 << 20, 32 << 20, 1 << 30):
            times = (waited, hccl(machine, ranks, per_host, size), ring(machine, ranks, per_host, size))
            rows.append((ranks, ranks // per_host, size, *(f"{1e3 * seconds:.2f}" for seconds in times)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 1024])
    parser.add_argument("--per-host", type=int, default=8)
    parser.add_argument("--network", type=float, default=100, help="Gbit/s of a host")
    parser.add_argument("--memory", type=float, default=5, help="GB/s of a rank")
    options = parser.parse_args()
    for ranks in options.ranks:
        if options.per_host < 1 or ranks < options.per_host or ranks % options.per_host:
            parser.error(f"--ranks {ranks} is not a multiple of --per-host {options.per_host}")
    machine = Machine(network=options.network * 1e9 / 8, memory=options.memory * 1e9)
    for row in table(machine, options.ranks, options.per_host):
        print(" ".join(str(field).rjust(11) for field in row))


if __name__ == "__main__":
    main()
