"""Batches from workers, pinned, copied while the device works. Prints the sums."""

import json

import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    data = TensorDataset(torch.arange(64.0).reshape(16, 4), torch.arange(16))
    sums = []
    for workers, options in ((0, {}), (2, {"persistent_workers": True}), (0, {"pin_memory_device": "cuda"} if cuda else {})):
        for values, indices in DataLoader(data, batch_size=4, num_workers=workers, pin_memory=cuda, **options):
            assert values.is_pinned() == cuda
            values = values.cuda(non_blocking=True) if cuda else values
            indices = indices.to(device, non_blocking=True)
            assert values.device.type == device.type and indices.is_cuda == cuda
            sums.append((values.sum() + indices.sum()).item())
    if cuda:
        assert torch.ones(2).pin_memory("cuda").is_pinned("cuda")
    print(json.dumps(sums))


if __name__ == "__main__":
    main()
