"""DataLoader feeds npu: pinned memory, workers by fork and by spawn, prefetching."""

from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate, get_worker_info

SIZE = 24


class Numbers(Dataset):
    def __len__(self):
        return SIZE

    def __getitem__(self, index):
        return {"x": torch.full((3,), float(index)), "y": index}


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, SIZE, info.num_workers) if info else range(SIZE))


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


def as_pair(samples):
    batch = default_collate(samples)
    return Pair(batch["x"], batch["y"])


def total(loader):
    """The sum over all batches, computed on npu."""
    result = torch.zeros((), device="npu")
    for batch in loader:
        assert batch["x"].is_pinned() == loader.pin_memory
        x = batch["x"].to("npu", non_blocking=True)
        result += x.sum()
    return result.item()


EXPECTED = 3 * sum(range(SIZE))


@pytest.mark.parametrize("pin_memory", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_arrive(workers, pin_memory):
    """The device was used before; forked workers do not use it."""
    torch.ones(1, device="npu")
    loader = DataLoader(Numbers(), batch_size=5, num_workers=workers, pin_memory=pin_memory, shuffle=True)
    assert total(loader) == EXPECTED


@pytest.mark.parametrize("pin_memory", [True, False])
def test_a_last_batch_that_is_smaller_may_be_left_out(pin_memory):
    loader = DataLoader(Numbers(), batch_size=5, shuffle=True, drop_last=True, pin_memory=pin_memory)
    shapes = [batch["x"].to("npu", non_blocking=True).shape for batch in loader]
    assert shapes == [(5, 3)] * (SIZE // 5)


def test_workers_may_be_spawned_and_kept():
    options = {"multiprocessing_context": "spawn", "persistent_workers": True, "prefetch_factor": 3}
    loader = DataLoader(Numbers(), batch_size=5, num_workers=1, pin_memory=True, **options)
    assert [total(loader) for _ in range(2)] == [EXPECTED] * 2


def test_streams_of_samples():
    loader = DataLoader(Stream(), batch_size=4, num_workers=2, pin_memory=True)
    batches = list(loader)
    assert all(batch.is_pinned() for batch in batches)
    assert sorted(number for batch in batches for number in batch.npu().tolist()) == list(range(SIZE))


def test_structures_are_pinned_throughout():
    for workers in (0, 1):
        loader = DataLoader(Numbers(), batch_size=5, collate_fn=as_pair, pin_memory=True, num_workers=workers)
        batch = next(iter(loader))
        assert type(batch) is Pair
        assert batch.x.is_pinned()
        assert batch.y.is_pinned()


@pytest.mark.filterwarnings("ignore:pin_memory_device is deprecated")
def test_the_device_to_pin_for_may_be_named():
    loader = DataLoader(Numbers(), batch_size=5, pin_memory=True, pin_memory_device="npu")
    assert total(loader) == EXPECTED


def test_shuffling_by_a_generator_of_npu():
    def order():
        generator = torch.Generator("npu").manual_seed(3)
        sampler = torch.utils.data.RandomSampler(range(SIZE), generator=torch.Generator().manual_seed(3))
        return list(sampler), torch.randperm(SIZE, generator=generator, device="npu").tolist()

    assert order() == order()
    assert sorted(order()[1]) == list(range(SIZE))


def test_a_prefetcher_copies_on_a_stream_of_its_own():
    stream, loader = torch.npu.Stream(), iter(DataLoader(Numbers(), batch_size=5, pin_memory=True))

    def following():
        batch = next(loader, None)
        if batch is None:
            return None
        with torch.npu.stream(stream):
            return batch["x"].to("npu", non_blocking=True)

    result, batch = torch.zeros((), device="npu"), following()
    while batch is not None:
        torch.npu.current_stream().wait_stream(stream)
        batch.record_stream(torch.npu.current_stream())
        current, batch = batch, following()
        result += current.sum()
    assert result.item() == EXPECTED


class OnDevice(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.ones(2, device="npu")


def test_a_worker_that_uses_the_device_is_told_what_to_do():
    torch.ones(1, device="npu")
    with pytest.raises(RuntimeError, match="spawn"):
        list(DataLoader(OnDevice(), num_workers=1))
