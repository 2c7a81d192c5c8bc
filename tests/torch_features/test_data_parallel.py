"""torch.nn.DataParallel over several NPUs trains as one module on the CPU."""

import copy

import pytest
import torch
from torch import nn


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def train(model, inputs, targets):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("devices", [None, [0], [1, 0], ["npu:0", torch.device("npu", 2)]], ids=str)
@pytest.mark.parametrize("where", ["cpu", "npu"])
def test_training_over_several_devices_equals_training_on_the_cpu(devices, where):
    model = make()
    expected_model = copy.deepcopy(model)
    inputs, targets = torch.randn(17, 6), torch.randint(0, 3, (17,))
    expected = train(expected_model, inputs, targets)
    first = torch.device(0) if devices is None else torch.device(devices[0])
    parallel = nn.DataParallel(model.to(first), device_ids=devices)
    inputs = inputs if where == "cpu" else inputs.to(first)
    output = parallel(inputs)
    assert output.device == first
    torch.testing.assert_close(output.cpu(), make()(inputs.cpu()))
    assert train(parallel, inputs, targets.to(first)) == pytest.approx(expected, rel=1e-4)
    for one, other in zip(parallel.module.parameters(), expected_model.parameters(), strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_outputs_may_be_gathered_on_the_cpu():
    parallel = nn.DataParallel(make().npu(), device_ids=[0, 1], output_device=1)
    x = torch.randn(5, 6)
    assert parallel(x.npu()).device == torch.device("npu:1")
    parts = [x[:2].to("npu:0"), x[2:].to("npu:1")]
    assert torch.equal(nn.parallel.gather(parts, "cpu"), x)


def test_the_functions_of_comm():
    comm = nn.parallel.comm
    x = torch.arange(6.0).reshape(3, 2).npu()
    assert [(each.device.index, each.tolist()) for each in comm.broadcast(x, [0, 1])] == [(0, x.tolist()), (1, x.tolist())]
    out = [torch.empty(1, 2, device="npu:0"), torch.empty(2, 2, device="npu:1")]
    comm.scatter(x, out=out)
    assert torch.equal(torch.cat([each.cpu() for each in out]), x.cpu())
    assert torch.equal(comm.gather(out, out=torch.empty(3, 2, device="npu:1")).cpu(), x.cpu())
    assert torch.equal(comm.reduce_add([x, x.to("npu:1")], 0).cpu(), 2 * x.cpu())
    chunks = comm.scatter(x, [0, 1], chunk_sizes=[1, 2])
    assert [chunk.shape[0] for chunk in chunks] == [1, 2]


def test_it_names_the_faster_way_once(child):
    done = child(
        """
        import warnings
        import torch

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.nn.DataParallel(torch.nn.Linear(1, 1).npu())
        print(sum("DistributedDataParallel" in str(each.message) for each in caught))
        """
    )
    assert done.stdout == "1\n", done.stderr
