import torch_npu
import torch


async def run(queue):
    async for x in queue:
        yield x.npu(non_blocking=True)
    y = await move(torch.ones(1).npu())
    async with torch.npu.stream(torch.npu.Stream()):
        pass
