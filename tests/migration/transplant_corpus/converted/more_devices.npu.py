import click
import pytest
import torch_npu
import torch

DEVICE = {True: "npu", False: "cpu"}[torch.npu.is_available()]
device = torch.npu.is_available() and "npu" or "cpu"
cuda = torch.device("npu", 0)
cuda1 = torch.device(f"{'npu' if torch.npu.is_available() else 'cpu'}:{1}")
x = torch.ones(1).to(cuda).to(DEVICE)


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("name", ["cpu", "cuda"])
def test(device, name):
    assert device in ["npu", "cpu"] and name


@click.command()
@click.option("--device", default="npu", help="cuda")
@click.option("--colour", default="cuda")
def main(device, colour):
    with torch.npu.device(0), torch.device("npu"):
        x.npu(device=device)
