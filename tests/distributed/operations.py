"""The collectives that the tests call: what each rank puts in, the call of torch.distributed, and what the model expects.

`OPERATIONS` has them by name. `run` carries out one call and compares it with the model.
"""

import contextlib
import functools
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed as dist

from tests.distributed import model

PERIOD = 65521  # a prime number, so that no part of a collective begins at a repetition of the numbers
GUARD = 3  # elements in front of and behind each tensor, so that no tensor is aligned and writes beyond it are seen
REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "band": dist.ReduceOp.BAND,
    "bor": dist.ReduceOp.BOR,
    "bxor": dist.ReduceOp.BXOR,
}


def reduce_op(name):
    return dist._make_nccl_premul_sum(model.PREMUL_FACTOR) if name == "premul_sum" else REDUCTIONS[name]


@functools.cache
def _table(dtype, is_factor):
    """PERIOD numbers, repeated once."""
    numbers = torch.randint(-4, 5, (PERIOD,), generator=torch.Generator().manual_seed(0), dtype=torch.int8).repeat(2)
    if dtype == torch.bool:
        return numbers > 0
    if is_factor:
        numbers = 1 + numbers % 2
    if dtype.is_complex:
        return torch.complex(numbers.double(), numbers.flip(0).double()).to(dtype)
    if not dtype.is_signed:
        numbers = numbers.abs()
    return numbers.float().to(dtype) if dtype.is_floating_point else numbers.to(dtype)


def draw(dtype, count, *seed, reduction="sum"):
    """Small whole numbers, the same for the same seed, whose sums are exact in every dtype. Products are powers of two."""
    start = zlib.crc32(repr(seed).encode()) % PERIOD
    numbers = _table(dtype, reduction == "product")[start:]
    return numbers[:count] if count <= PERIOD else numbers[:PERIOD].repeat(-(-count // PERIOD))[:count]


@functools.cache
def guard_of(dtype):
    return torch.full((GUARD,), 77).to(dtype)


@dataclass
class Call:
    """One call. Ranks and the root are numbers in the group. `count` is the size of one tensor, in elements."""

    group: Any
    rank: int
    size: int
    device: torch.device
    dtype: torch.dtype = torch.float32
    count: int = 1
    reduction: str = "sum"
    root: int = 0
    asynchronous: bool = False
    seed: int = 0
    buffers: list = field(default_factory=list)

    def __str__(self):
        asynchronous = ", asynchronous" if self.asynchronous else ""
        what = f"{self.dtype}, {self.count} elements, {self.reduction}, root {self.root}, seed {self.seed}{asynchronous}"
        return f"{what}; rank {self.rank} of {self.size} on {self.device}"

    def draw(self, count, *seed):
        return draw(self.dtype, count, self.seed, *seed, reduction=self.reduction)

    def output(self, count):
        """An uninitialised tensor between guards."""
        buffer = torch.full((count + 2 * GUARD,), 77, device=self.device).to(self.dtype)
        self.buffers.append(buffer)
        return buffer[GUARD : GUARD + count]

    def place(self, tensor):
        """Copies a tensor and guards around it to the device, in one copy."""
        guard = guard_of(self.dtype)
        buffer = torch.cat([guard, tensor, guard]).to(self.device)
        self.buffers.append(buffer)
        return buffer[GUARD : GUARD + tensor.numel()]

    def read(self):
        """Checks the guards and returns the tensors on the CPU, in the order in which they were made."""
        guard, found = guard_of(self.dtype), []
        for buffer in self.buffers:
            host = buffer.cpu()
            assert same_bits(host[:GUARD], guard), "an element before the tensor was written"
            assert same_bits(host[len(host) - GUARD :], guard), "an element behind the tensor was written"
            found.append(host[GUARD : len(host) - GUARD])
        return found

    def uneven(self, sender, receiver):
        """The number of elements from one rank to another in operations with different sizes."""
        return self.count * ((sender + 2 * receiver) % 3 + 1) // 2

    @property
    def common(self):
        return {"group": self.group, "async_op": self.asynchronous}

    @property
    def reduce_op(self):
        return reduce_op(self.reduction)


def same_bits(one, other):
    """Whether two CPU tensors are equal bit by bit."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


class Operation:
    """A collective with one tensor per rank that is changed in place. Others derive from it."""

    reduces = False
    rooted = False
    alone = True  # works in a group of one

    def __init__(self, tensors=1):
        self.tensors = tensors

    def inputs(self, call, rank):
        """The CPU tensors that a rank puts in."""
        return [call.draw(call.count + number, rank, number) for number in range(self.tensors)]

    def launch(self, call, tensors):
        """Calls torch.distributed. Returns an object with wait() or None, and the tensors with the outputs."""
        raise NotImplementedError

    def expected(self, call, inputs):
        """The outputs of all ranks. Only the outputs of call.rank are used."""
        raise NotImplementedError


class AllReduce(Operation):
    reduces = True

    def launch(self, call, tensors):
        return dist.all_reduce(tensors[0], call.reduce_op, **call.common), tensors

    def expected(self, call, inputs):
        return model.all_reduce(inputs, call.reduction)


class AllReduceCoalesced(AllReduce):
    def launch(self, call, tensors):
        return dist.all_reduce_coalesced(tensors, call.reduce_op, **call.common), tensors


class AllReduceManaged(AllReduce):
    def launch(self, call, tensors):
        with coalescing(call) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor, call.reduce_op, group=call.group)
        return manager, tensors


class Reduce(Operation):
    reduces = rooted = True

    def launch(self, call, tensors):
        return dist.reduce(tensors[0], op=call.reduce_op, group_dst=call.root, **call.common), tensors

    def expected(self, call, inputs):
        return model.reduce(inputs, call.reduction, call.root)


class Broadcast(Operation):
    rooted = True

    def launch(self, call, tensors):
        return dist.broadcast(tensors[0], group_src=call.root, **call.common), tensors

    def expected(self, call, inputs):
        return model.broadcast(inputs, call.root)


class AllGather(Operation):
    def launch(self, call, tensors):
        outputs = [call.output(call.count) for _ in range(call.size)]
        return dist.all_gather(outputs, tensors[0], **call.common), outputs

    def expected(self, call, inputs):
        return model.all_gather(inputs)


class AllGatherUneven(AllGather):
    def inputs(self, call, rank):
        return [call.draw(call.uneven(rank, 0), rank)]

    def launch(self, call, tensors):
        outputs = [call.output(call.uneven(rank, 0)) for rank in range(call.size)]
        return dist.all_gather(outputs, tensors[0], **call.common), outputs


class AllGatherIntoTensor(Operation):
    def launch(self, call, tensors):
        outputs = [call.output(call.size * call.count)]
        return dist.all_gather_into_tensor(outputs[0], tensors[0], **call.common), outputs

    def expected(self, call, inputs):
        return model.all_gather_into_tensor(inputs)


class AllGatherIntoTensorManaged(AllGatherIntoTensor):
    def launch(self, call, tensors):
        outputs = [call.output(call.size * tensor.numel()) for tensor in tensors]
        with coalescing(call) as manager:
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.all_gather_into_tensor(output, tensor, group=call.group)
        return manager, outputs


class ReduceScatter(Operation):
    reduces = True

    def count(self, call, receiver):
        return call.count

    def part(self, call, rank, receiver):
        return call.draw(self.count(call, receiver), rank, receiver)

    def inputs(self, call, rank):
        return [self.part(call, rank, receiver) for receiver in range(call.size)]

    def launch(self, call, tensors):
        outputs = [call.output(self.count(call, call.rank))]
        return dist.reduce_scatter(outputs[0], tensors, call.reduce_op, **call.common), outputs

    def expected(self, call, inputs):
        return model.all_reduce([[self.part(call, rank, call.rank)] for rank in range(call.size)], call.reduction)


class ReduceScatterUneven(ReduceScatter):
    def count(self, call, receiver):
        return call.uneven(0, receiver)


class ReduceScatterTensor(Operation):
    reduces = True

    def parts(self, call, rank, receiver):
        return [call.draw(call.count + number, rank, number, receiver) for number in range(self.tensors)]

    def inputs(self, call, rank):
        return [
            torch.cat(parts) for parts in zip(*(self.parts(call, rank, receiver) for receiver in range(call.size)), strict=True)
        ]

    def launch(self, call, tensors):
        outputs = [call.output(call.count)]
        return dist.reduce_scatter_tensor(outputs[0], tensors[0], call.reduce_op, **call.common), outputs

    def expected(self, call, inputs):
        return model.all_reduce([self.parts(call, rank, call.rank) for rank in range(call.size)], call.reduction)


class ReduceScatterTensorManaged(ReduceScatterTensor):
    def launch(self, call, tensors):
        outputs = [call.output(tensor.numel() // call.size) for tensor in tensors]
        with coalescing(call) as manager:
            for output, tensor in zip(outputs, tensors, strict=True):
                dist.reduce_scatter_tensor(output, tensor, call.reduce_op, group=call.group)
        return manager, outputs


class Gather(Operation):
    rooted = True

    def launch(self, call, tensors):
        outputs = [call.output(call.count) for _ in range(call.size)] if call.rank == call.root else []
        return dist.gather(tensors[0], outputs or None, group_dst=call.root, **call.common), outputs

    def expected(self, call, inputs):
        return model.gather(inputs, call.root)


class Scatter(Operation):
    rooted = True

    def inputs(self, call, rank):
        return [call.draw(call.count, receiver) for receiver in range(call.size)] if rank == call.root else []

    def launch(self, call, tensors):
        outputs = [call.output(call.count)]
        return dist.scatter(outputs[0], tensors or None, group_src=call.root, **call.common), outputs

    def expected(self, call, inputs):
        return model.scatter(inputs, call.root)


class AllToAll(Operation):
    def inputs(self, call, rank):
        return [call.draw(call.uneven(rank, receiver), rank, receiver) for receiver in range(call.size)]

    def launch(self, call, tensors):
        outputs = [call.output(call.uneven(sender, call.rank)) for sender in range(call.size)]
        return dist.all_to_all(outputs, tensors, **call.common), outputs

    def expected(self, call, inputs):
        return model.all_to_all(inputs)


class AllToAllSingle(Operation):
    def splits(self, call):
        return [[call.count] * call.size] * call.size

    def inputs(self, call, rank):
        return [call.draw(sum(self.splits(call)[rank]), rank)]

    def launch(self, call, tensors):
        outputs = [call.output(call.count * call.size)]
        return dist.all_to_all_single(outputs[0], tensors[0], **call.common), outputs

    def expected(self, call, inputs):
        return model.all_to_all_single(inputs, self.splits(call))


class AllToAllSingleUneven(AllToAllSingle):
    def splits(self, call):
        return [[call.uneven(sender, receiver) for receiver in range(call.size)] for sender in range(call.size)]

    def launch(self, call, tensors):
        splits = self.splits(call)
        received = [splits[sender][call.rank] for sender in range(call.size)]
        outputs = [call.output(sum(received))]
        return dist.all_to_all_single(outputs[0], tensors[0], received, splits[call.rank], **call.common), outputs


class SendReceive(Operation):
    """Each rank sends to the next one: the first rank sends before it receives, the others receive first."""

    alone = False

    def expected(self, call, inputs):
        return model.shift(inputs, 1)

    def launch(self, call, tensors):
        outputs = [call.output(tensor.numel()) for tensor in tensors]
        following, previous = (call.rank + 1) % call.size, (call.rank - 1) % call.size
        return self.exchange(call, tensors, outputs, following, previous), outputs

    def exchange(self, call, tensors, outputs, following, previous):
        send, receive = (dist.isend, dist.irecv) if call.asynchronous else (dist.send, dist.recv)
        works = []
        if call.rank == 0:
            works.append(send(tensors[0], group=call.group, group_dst=following))
        works.append(receive(outputs[0], group=call.group, group_src=previous))
        if call.rank != 0:
            works.append(send(tensors[0], group=call.group, group_dst=following))
        return Works(works) if call.asynchronous else None


class BatchSendReceive(SendReceive):
    def exchange(self, call, tensors, outputs, following, previous):
        sent = [dist.P2POp(dist.isend, tensor, group=call.group, group_peer=following) for tensor in tensors]
        received = [dist.P2POp(dist.irecv, output, group=call.group, group_peer=previous) for output in outputs]
        works = Works(dist.batch_isend_irecv(sent + received))
        if call.asynchronous:
            return works
        works.wait()
        return None


class Barrier(Operation):
    def inputs(self, call, rank):
        return []

    def launch(self, call, tensors):
        return dist.barrier(**call.common), []

    def expected(self, call, inputs):
        return inputs


class Works:
    def __init__(self, works):
        self._works = works

    def wait(self):
        for work in self._works:
            work.wait()


@contextlib.contextmanager
def coalescing(call):
    with dist._coalescing_manager(call.group, call.device, async_ops=call.asynchronous) as manager:
        yield manager if call.asynchronous else None


OPERATIONS = {
    "all_reduce": AllReduce(),
    "all_reduce_coalesced": AllReduceCoalesced(3),
    "all_reduce_managed": AllReduceManaged(3),
    "reduce": Reduce(),
    "broadcast": Broadcast(),
    "all_gather": AllGather(),
    "all_gather_uneven": AllGatherUneven(),
    "all_gather_into_tensor": AllGatherIntoTensor(),
    "all_gather_into_tensor_managed": AllGatherIntoTensorManaged(3),
    "reduce_scatter": ReduceScatter(),
    "reduce_scatter_uneven": ReduceScatterUneven(),
    "reduce_scatter_tensor": ReduceScatterTensor(),
    "reduce_scatter_tensor_managed": ReduceScatterTensorManaged(3),
    "gather": Gather(),
    "scatter": Scatter(),
    "all_to_all": AllToAll(),
    "all_to_all_single": AllToAllSingle(),
    "all_to_all_single_uneven": AllToAllSingleUneven(),
    "send_receive": SendReceive(),
    "batch_send_receive": BatchSendReceive(2),
    "barrier": Barrier(),
}


def check(outputs, expected):
    """Compares outputs with the outputs of the model, bit by bit."""
    assert len(outputs) == len(expected)
    for number, (output, wanted) in enumerate(zip(outputs, expected, strict=True)):
        found = output.cpu()
        if same_bits(found, wanted):
            continue
        where = torch.nonzero(found.view(-1) != wanted.view(-1)).view(-1)[:5].tolist() if found.shape == wanted.shape else []
        raise AssertionError(
            f"output {number}: {found.dtype}{tuple(found.shape)}, expected {wanted.dtype}{tuple(wanted.shape)}; "
            f"first differences at {where}: {[found.view(-1)[i].item() for i in where]} instead of "
            f"{[wanted.view(-1)[i].item() for i in where]}"
        )


class Everybody:
    """The inputs of all ranks. The inputs of a rank are drawn at their first use."""

    def __init__(self, operation, call):
        self._operation, self._call = operation, call
        self._drawn = {}

    def __len__(self):
        return self._call.size

    def __getitem__(self, rank):
        number = range(len(self))[rank]  # an IndexError ends a loop over the ranks
        if number not in self._drawn:
            self._drawn[number] = self._operation.inputs(self._call, number)
        return self._drawn[number]


def run(operation, call):
    """Carries out one call on this rank and compares outputs, guards and inputs with the model."""
    try:
        everybody = Everybody(operation, call)
        tensors = [call.place(tensor) for tensor in everybody[call.rank]]
        work, outputs = operation.launch(call, tensors)
        assert (work is not None) == call.asynchronous, work
        if work is not None:
            work.wait()
        is_in_place = any(output is tensor for output in outputs for tensor in tensors)
        expected = operation.expected(call, everybody)[call.rank]
        found = call.read()
        if expected is not None:
            check(found if is_in_place else found[len(tensors) :], expected)
        if not is_in_place:
            check(found[: len(tensors)], everybody[call.rank])
    except Exception as error:
        raise AssertionError(f"{type(operation).__name__}, {call}: {error}") from error
