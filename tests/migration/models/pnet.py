"""PNet, the proposal network of MTCNN: a fully convolutional network with three heads (face, box, landmarks)."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.Linear)):
        nn.init.xavier_uniform_(m.weight.data)
        nn.init.constant_(m.bias, 0.1)


class PNet(nn.Module):
    def __init__(self, use_cuda=True):
        super().__init__()
        self.use_cuda = use_cuda
        self.pre_layer = nn.Sequential(
            nn.Conv2d(3, 10, kernel_size=3, stride=1),
            nn.PReLU(10),
            nn.MaxPool2d(kernel_size=2, stride=2),
            nn.Conv2d(10, 16, kernel_size=3, stride=1),
            nn.PReLU(16),
            nn.Conv2d(16, 32, kernel_size=3, stride=1),
            nn.PReLU(32),
        )
        self.conv4_1 = nn.Conv2d(32, 1, kernel_size=1, stride=1)
        self.conv4_2 = nn.Conv2d(32, 4, kernel_size=1, stride=1)
        self.conv4_3 = nn.Conv2d(32, 10, kernel_size=1, stride=1)
        self.apply(weights_init)

    def forward(self, x):
        x = self.pre_layer(x)
        return torch.sigmoid(self.conv4_1(x)), self.conv4_2(x), self.conv4_3(x)


class LossFn:
    """Labels: 1 face, 0 background, -1 part of a face, -2 landmarks."""

    def __init__(self, cls_factor=1.0, box_factor=0.5, landmark_factor=0.5):
        self.cls_factor, self.box_factor, self.landmark_factor = cls_factor, box_factor, landmark_factor
        self.loss_cls = nn.BCELoss()
        self.loss_box = nn.MSELoss()
        self.loss_landmark = nn.MSELoss()

    def cls_loss(self, gt_label, pred_label):
        pred_label, gt_label = torch.squeeze(pred_label), torch.squeeze(gt_label)
        mask = torch.ge(gt_label, 0)
        valid_gt = torch.masked_select(gt_label, mask)
        valid_pred = torch.masked_select(pred_label, mask)
        return self.loss_cls(valid_pred, valid_gt) * self.cls_factor

    def box_loss(self, gt_label, gt_offset, pred_offset):
        chosen = torch.nonzero(torch.ne(gt_label, 0) & torch.ne(gt_label, -2)).view(-1)
        return self.loss_box(torch.squeeze(pred_offset)[chosen, :], gt_offset[chosen, :]) * self.box_factor

    def landmark_loss(self, gt_label, gt_landmark, pred_landmark):
        chosen = torch.nonzero(torch.eq(gt_label, -2)).view(-1)
        return self.loss_landmark(torch.squeeze(pred_landmark)[chosen, :], gt_landmark[chosen, :]) * self.landmark_factor


def compute_accuracy(prob_cls, gt_cls):
    prob_cls, gt_cls = torch.squeeze(prob_cls), torch.squeeze(gt_cls)
    mask = torch.ge(gt_cls, 0)
    valid_gt, valid_prob = torch.masked_select(gt_cls, mask), torch.masked_select(prob_cls, mask)
    right = torch.eq(torch.ge(valid_prob, 0.6).float(), valid_gt.float()).sum()
    return torch.div(right.float(), float(valid_gt.numel()))


def train_pnet(batch_size, base_lr, use_cuda):
    lossfn = LossFn()
    net = PNet(use_cuda=use_cuda)
    net.train()
    if use_cuda:
        net.cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=base_lr)
    for step in range(3):
        image = torch.rand(batch_size, 3, 12, 12) * 2 - 1
        label = torch.tensor([1.0, 0.0, -1.0, -2.0]).repeat(batch_size // 4)
        box = torch.randn(batch_size, 4) * 0.1
        landmark = torch.rand(batch_size, 10)
        if use_cuda:
            image, label, box, landmark = image.cuda(), label.cuda(), box.cuda(), landmark.cuda()
        cls_pred, box_pred, landmark_pred = net(image)
        all_loss = (
            lossfn.cls_loss(label, cls_pred)
            + lossfn.box_loss(label, box, box_pred)
            + lossfn.landmark_loss(label, landmark, landmark_pred)
        )
        optimizer.zero_grad()
        all_loss.backward()
        optimizer.step()
        show = compute_accuracy(cls_pred, label).data.cpu().numpy()
        print(f"step {step} loss {all_loss.data.cpu().numpy():.6f} accuracy {show:.2f}")
    with torch.no_grad():
        assert net(F.pad(image, (0, 12, 0, 8)))[0].shape[2:] == (5, 7)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train PNet")
    parser.add_argument("--lr", dest="lr", default=0.01, type=float)
    parser.add_argument("--batch_size", default=64, type=int)
    parser.add_argument("--gpu", dest="use_cuda", default=True, type=bool)
    args = parser.parse_args()
    torch.manual_seed(12)
    train_pnet(args.batch_size, args.lr, args.use_cuda)
