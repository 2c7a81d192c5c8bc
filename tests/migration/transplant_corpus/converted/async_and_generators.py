import torch


async def run(queue):
    async for x in queue:
        yield x.cuda(non_blocking=True)
    y = await move(torch.ones(1).cuda())
    async with torch.cuda.stream(torch.cuda.Stream()):
        pass
