import click
import pytest
import torch

DEVICE = {True: "cuda", False: "cpu"}[torch.cuda.is_available()]
device = torch.cuda.is_available() and "cuda" or "cpu"
cuda = torch.device("cuda", 0)
cuda1 = torch.device(f"{'cuda' if torch.cuda.is_available() else 'cpu'}:{1}")
x = torch.ones(1).to(cuda).to(DEVICE)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test(device, name):
    assert device in ["cuda", "cpu"] and name


@click.command()
@click.option("--device", default="cuda", help="cuda")
@click.option("--colour", default="cuda")
def main(device, colour):
    with torch.cuda.device(0), torch.device("cuda"):
        x.cuda(device=device)
