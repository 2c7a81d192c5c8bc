import torch


def pick(fast):
    if fast:
        return "cuda"
    return "cpu"


def place(x, where):
    return x.to(where)


def show(text):
    print(text)


x = place(torch.ones(2), "cuda")
y = torch.ones(2).to(pick(True))
show("cuda")
