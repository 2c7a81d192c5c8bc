"""Fine-tunes VGG-16: the first layers are frozen, the head is new and learns faster."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset
from torchvision import models


def set_parameter_requires_grad(modules, value):
    for module in modules:
        for parameter in module.parameters():
            parameter.requires_grad = value


def initialize_model(num_classes):
    model_ft = models.vgg16(weights=None)
    set_parameter_requires_grad([model_ft.features[:5]], False)
    model_ft.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 128), nn.ReLU(True), nn.Linear(128, num_classes))
    return model_ft


def train_model(model, dataloaders, criterion, optimizer, device):
    best_acc, best_weights = -1.0, None
    step = 0
    for phase in ("train", "val"):
        model.train(phase == "train")
        correct = seen = 0
        for inputs, labels in dataloaders[phase]:
            inputs, labels = inputs.to(device), labels.to(device)
            optimizer.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                outputs = model(inputs)
                loss = criterion(outputs, labels)
                _, preds = torch.max(outputs, 1)
                if phase == "train":
                    loss.backward()
                    optimizer.step()
                    print(f"step {step} loss {loss.item():.6f}")
                    step += 1
            correct += torch.sum(preds == labels.data)
            seen += inputs.size(0)
        accuracy = correct.double() / seen
        if phase == "val" and accuracy > best_acc:
            best_acc, best_weights = accuracy, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_weights)
    return model


def loader_of(count, batch_size):
    dataset = TensorDataset(torch.randn(count, 3, 64, 64), torch.randint(0, 10, (count,)))
    return DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=0, pin_memory=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    args = parser.parse_args()
    torch.manual_seed(123)
    torch.cuda.manual_seed(123)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model_ft = initialize_model(10).to(device)
    head = [p for n, p in model_ft.named_parameters() if n.startswith("classifier")]
    body = [p for n, p in model_ft.named_parameters() if not n.startswith("classifier") and p.requires_grad]
    optimizer_ft = optim.SGD([{"params": body}, {"params": head, "lr": 10 * args.lr}], lr=args.lr, momentum=0.9)
    loaders = {"train": loader_of(3 * args.batch_size, args.batch_size), "val": loader_of(args.batch_size, args.batch_size)}
    train_model(model_ft, loaders, nn.CrossEntropyLoss(), optimizer_ft, device)
