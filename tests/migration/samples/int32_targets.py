"""A classifier with int32 targets: npu accepts them, the CPU's cross entropy needs int64."""

import torch


def accuracy(output, target, topk=(1,)):
    maxk = max(topk)
    _, pred = output.topk(maxk, 1, True, True)
    correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
    return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)).item() for k in topk]


torch.manual_seed(0)
images, target = torch.randn(16, 8), torch.randint(0, 6, (16,))
model = torch.nn.Linear(8, 6)
criterion = torch.nn.CrossEntropyLoss()
loss = criterion(model(images), target)
loss.backward()
expected = loss.item(), model.weight.grad.clone(), accuracy(model(images), target, (1, 5))

model.zero_grad()
model, images, target = model.npu(), images.npu(), target.to(torch.int32).npu()
loss = criterion.npu()(model(images), target)
loss.backward()
assert abs(loss.item() - expected[0]) < 1e-5
torch.testing.assert_close(model.weight.grad.cpu(), expected[1])
assert accuracy(model(images), target, (1, 5)) == expected[2]
