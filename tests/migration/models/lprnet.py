"""LPRNet reads licence plates: small basic blocks, 3D max pooling over channels, global context, CTC."""

import argparse

import torch
import torch.nn as nn
from torch import optim
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset


class SmallBasicBlock(nn.Module):
    def __init__(self, ch_in, ch_out):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(ch_in, ch_out // 4, kernel_size=1),
            nn.ReLU(),
            nn.Conv2d(ch_out // 4, ch_out // 4, kernel_size=(3, 1), padding=(1, 0)),
            nn.ReLU(),
            nn.Conv2d(ch_out // 4, ch_out // 4, kernel_size=(1, 3), padding=(0, 1)),
            nn.ReLU(),
            nn.Conv2d(ch_out // 4, ch_out, kernel_size=1),
        )

    def forward(self, x):
        return self.block(x)


class LPRNet(nn.Module):
    def __init__(self, class_num, dropout_rate, width):
        super().__init__()
        self.class_num = class_num
        self.backbone = nn.Sequential(
            nn.Conv2d(3, width, kernel_size=3, stride=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),  # 2: context
            nn.MaxPool3d(kernel_size=(1, 3, 3), stride=(1, 1, 1)),
            SmallBasicBlock(width, 2 * width),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),  # 6: context
            nn.MaxPool3d(kernel_size=(1, 3, 3), stride=(2, 1, 2)),
            SmallBasicBlock(width, 4 * width),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            SmallBasicBlock(4 * width, 4 * width),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),  # 13: context
            nn.MaxPool3d(kernel_size=(1, 3, 3), stride=(4, 1, 2)),
            nn.Dropout(dropout_rate),
            nn.Conv2d(width, 4 * width, kernel_size=(1, 4), stride=1),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            nn.Dropout(dropout_rate),
            nn.Conv2d(4 * width, class_num, kernel_size=(13, 1), stride=1),
            nn.BatchNorm2d(class_num),
            nn.ReLU(),  # 22: context
        )
        self.container = nn.Conv2d(7 * width + class_num, class_num, kernel_size=1)

    def forward(self, x):
        keep = []
        for i, layer in enumerate(self.backbone.children()):
            x = layer(x)
            if i in (2, 6, 13, 22):
                keep.append(x)
        context = []
        for i, f in enumerate(keep):
            if i in (0, 1):
                f = nn.AvgPool2d(kernel_size=5, stride=5)(f)
            if i == 2:
                f = nn.AvgPool2d(kernel_size=(4, 10), stride=(4, 2))(f)
            f = torch.div(f, torch.mean(torch.pow(f, 2)))
            context.append(f)
        x = self.container(torch.cat(context, 1))
        return torch.mean(x, dim=2)


class Plates(Dataset):
    def __init__(self, count, classes, length=7):
        self.images = torch.randn(count, 3, 24, 94)
        self.labels = torch.randint(0, classes - 1, (count, length))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.labels[index], len(self.labels[index])


def collate_fn(batch):
    images, labels, lengths = zip(*batch, strict=True)
    return torch.stack(images, 0), torch.cat(labels).int(), lengths


def get_parser():
    parser = argparse.ArgumentParser(description="parameters to train net")
    parser.add_argument("--class_num", default=20, type=int)
    parser.add_argument("--dropout_rate", default=0.0, type=float, help="dropout rate, 0.5 in the paper")
    parser.add_argument("--learning_rate", default=0.00005, type=float)
    parser.add_argument("--train_batch_size", default=4, type=int)
    parser.add_argument("--width", default=16, type=int, help="64 in the paper")
    parser.add_argument("--cuda", default=True, type=bool, help="use cuda to train model")
    return parser.parse_args()


def xavier(module):
    for key, value in module.state_dict().items():
        if key.split(".")[-1] == "weight":
            if value.dim() > 1:
                nn.init.kaiming_normal_(value, mode="fan_out")
            else:
                value.fill_(1.0)
        elif key.split(".")[-1] == "bias":
            value.fill_(0.01)


def train():
    args = get_parser()
    torch.manual_seed(2021)
    lprnet = LPRNet(args.class_num, args.dropout_rate, args.width)
    lprnet.backbone.apply(xavier)
    lprnet.container.apply(xavier)
    device = torch.device("cuda:0" if args.cuda else "cpu")
    lprnet.to(device)
    optimizer = optim.RMSprop(lprnet.parameters(), lr=args.learning_rate, alpha=0.9, eps=1e-2, momentum=0.9, weight_decay=2e-5)
    ctc_loss = nn.CTCLoss(blank=args.class_num - 1, reduction="mean")
    batches = iter(DataLoader(Plates(3 * args.train_batch_size, args.class_num), args.train_batch_size, collate_fn=collate_fn))
    for iteration in range(3):
        images, labels, lengths = next(batches)
        if args.cuda:
            images = Variable(images, requires_grad=False).cuda()
            labels = Variable(labels, requires_grad=False).cuda()
        else:
            images = Variable(images, requires_grad=False)
            labels = Variable(labels, requires_grad=False)
        logits = lprnet(images)
        log_probs = logits.permute(2, 0, 1).log_softmax(2).requires_grad_()
        optimizer.zero_grad()
        loss = ctc_loss(log_probs, labels, input_lengths=(log_probs.shape[0],) * len(lengths), target_lengths=lengths)
        loss.backward()
        optimizer.step()
        print("step " + repr(iteration) + " loss " + format(loss.item(), ".6f"))


if __name__ == "__main__":
    train()
