"""ResNet-34 in the style of early PyTorch: Variable, tensor types, .data."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim
import torchvision.models as models
from torch.autograd import Variable

parser = argparse.ArgumentParser(description="ResNet-34")
parser.add_argument("--batchSize", type=int, default=8)
parser.add_argument("--imageSize", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.0003)
parser.add_argument("--manualSeed", type=int, default=111)
opt = parser.parse_args()

torch.manual_seed(opt.manualSeed)
FloatTensor = torch.cuda.FloatTensor
LongTensor = torch.cuda.LongTensor

net = models.resnet34(num_classes=10, zero_init_residual=True)
criterion = nn.CrossEntropyLoss()
net.cuda()
criterion.cuda()

input = FloatTensor(opt.batchSize, 3, opt.imageSize, opt.imageSize)
label = LongTensor(opt.batchSize)
input = Variable(input)
label = Variable(label)
optimizer = optim.SGD(net.parameters(), lr=opt.lr, momentum=0.9, weight_decay=1e-4)

net.train()
for i in range(3):
    real_cpu = torch.randn(opt.batchSize, 3, opt.imageSize, opt.imageSize)
    label_cpu = torch.LongTensor(opt.batchSize).random_(0, 10)
    input.data.resize_(real_cpu.size()).copy_(real_cpu)
    label.data.resize_(label_cpu.size()).copy_(label_cpu)
    net.zero_grad()
    output = net(input)
    loss = criterion(output, label.type(LongTensor))
    loss.backward()
    optimizer.step()
    _, predicted = torch.max(output.data, 1)
    correct = predicted.eq(label.data).cpu().sum()
    print(f"step {i} loss {loss.data.item():.6f} correct {int(correct)}/{opt.batchSize}")
