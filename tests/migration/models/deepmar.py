"""DeepMAR: attributes of pedestrians. ResNet-50 with one sigmoid per attribute; rare attributes weigh more."""

import argparse
import os
import pickle

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.autograd import Variable
from torch.nn.parallel import DataParallel
from torchvision.models import resnet50


class DeepMAR(nn.Module):
    def __init__(self, num_att, drop_pool5_rate):
        super().__init__()
        base = resnet50(zero_init_residual=True)
        self.base = nn.Sequential(*list(base.children())[:-2])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.drop = nn.Dropout(drop_pool5_rate)
        self.classifier = nn.Linear(2048, num_att)
        nn.init.normal_(self.classifier.weight, std=0.001)
        nn.init.constant_(self.classifier.bias, 0)

    def forward(self, x):
        x = self.pool(self.base(x))
        return self.classifier(self.drop(x.view(x.size(0), -1)))


class Pedestrians(torch.utils.data.Dataset):
    def __init__(self, count, num_att):
        rng = np.random.RandomState(0)
        self.images = rng.standard_normal((count, 3, 64, 32)).astype(np.float32)
        rates = rng.uniform(0.05, 0.6, num_att)
        self.attributes = (rng.uniform(size=(count, num_att)) < rates).astype(np.float32)
        self.rates = self.attributes.mean(0)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], self.attributes[index]


class Config:
    def __init__(self):
        parser = argparse.ArgumentParser()
        parser.add_argument("-d", "--sys_device_ids", type=eval, default=(0,))
        parser.add_argument("--batch_size", type=int, default=4)
        parser.add_argument("--num_att", type=int, default=35)
        parser.add_argument("--new_params_lr", type=float, default=0.001)
        parser.add_argument("--finetuned_params_lr", type=float, default=0.0001)
        parser.add_argument("--drop_pool5_rate", type=float, default=0.0, help="0.5 in the paper")
        parser.add_argument("--loss_weight", type=bool, default=True)
        self.__dict__.update(vars(parser.parse_args()))


def set_devices(device_ids):
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(str(i) for i in device_ids)


def main():
    cfg = Config()
    set_devices(cfg.sys_device_ids)
    torch.manual_seed(0)
    dataset = Pedestrians(3 * cfg.batch_size, cfg.num_att)
    loader = torch.utils.data.DataLoader(dataset, cfg.batch_size, shuffle=True, num_workers=0, pin_memory=True, drop_last=True)
    model = DeepMAR(cfg.num_att, cfg.drop_pool5_rate)
    model_w = DataParallel(model)
    model_w.cuda()
    rates = torch.from_numpy(dataset.rates).cuda()
    finetuned = [p for n, p in model.named_parameters() if not n.startswith("classifier")]
    groups = [
        {"params": finetuned, "lr": cfg.finetuned_params_lr},
        {"params": model.classifier.parameters(), "lr": cfg.new_params_lr},
    ]
    optimizer = optim.SGD(groups, momentum=0.9, weight_decay=5e-4)
    model_w.train()
    for step, (imgs, targets) in enumerate(loader):
        imgs_var = Variable(imgs).cuda()
        targets_var = Variable(targets).cuda()
        score = model_w(imgs_var)
        weights = torch.where(targets_var == 1, torch.exp(1 - rates), torch.exp(rates)) if cfg.loss_weight else None
        loss = nn.functional.binary_cross_entropy_with_logits(score, targets_var, weight=weights) * cfg.num_att
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
    with open("deepmar.pkl", "wb") as file:
        pickle.dump({name: value.cpu().numpy() for name, value in model.state_dict().items()}, file)


if __name__ == "__main__":
    main()
