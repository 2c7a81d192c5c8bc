"""Modules, parameters and threads move between devices as on CUDA: parameters stay the same objects."""

import copy
import pickle
import threading

import pytest
import torch
import torch_npu
from torch import nn

from tests.compare import on_both
from tests.support import two_devices


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def trained(net, optimizer, device, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.linspace(-1, 1, 15).view(5, 3).to(device)).pow(2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_an_optimizer_made_before_the_move_stays_valid(name):
    def run(device):
        net = network()
        optimizer = getattr(torch.optim, name)(net.parameters(), lr=0.1)
        if name == "Adagrad" and device == "npu":  # its state is created in the constructor and stays on the CPU
            optimizer = torch.optim.Adagrad(net.npu().parameters(), lr=0.1)
        before = [id(parameter) for parameter in net.parameters()]
        net.to(device)
        assert [id(parameter) for parameter in net.parameters()] == before
        trained(net, optimizer, device)
        return list(net.parameters()), list(net.buffers())

    on_both(run)


def test_modules_come_and_go_with_their_gradients():
    net = network()
    weight, identity = net[0].weight, id(net[0].weight)
    trained(net.npu(), torch.optim.SGD(net.parameters(), lr=0.1), "npu", steps=1)
    gradient = weight.grad.cpu()
    net.cpu()
    assert id(net[0].weight) == identity
    assert weight.device.type == weight.grad.device.type == "cpu"
    assert torch.equal(weight.grad, gradient)
    net.to("npu", torch.float64)
    assert weight.is_npu
    assert weight.dtype == weight.grad.dtype == torch.float64


@pytest.mark.parametrize("move", [lambda net: net.npu(), lambda net: net.npu("npu:0"), lambda net: net.to("npu")])
def test_a_module_moves_before_its_parameters_are_made(move):
    net = move(nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)))
    x = torch.linspace(-1, 1, 50).view(1, 2, 5, 5).npu()
    made = net(x)
    assert all(tensor.is_npu for tensor in (made, *net.parameters(), *net.buffers()))
    torch.testing.assert_close(copy.deepcopy(net).cpu().train()(x.cpu()), made.cpu())


def test_a_criterion_moves_with_its_weight():
    output, target = torch.linspace(-1, 1, 12).view(4, 3), torch.tensor([0, 2, 1, 2])

    def run(device):
        criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.3, 0.5]))
        criterion = criterion.npu() if device == "npu" else criterion
        assert criterion.weight.device.type == device
        return criterion(output.to(device), target.to(device))

    on_both(run)


def test_weights_keep_their_formats():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Linear(4, 2)).npu()
    formats = [torch_npu.get_npu_format(parameter) for parameter in net.parameters()]
    for device in ("npu", torch.device("npu:0"), 0, None, "cpu"):
        assert net.cast_weight(device) is None
    assert [torch_npu.get_npu_format(parameter) for parameter in net.parameters()] == formats
    with pytest.raises(RuntimeError, match="device string: nothing"):
        net.cast_weight("nothing")


def test_the_data_of_a_parameter_may_be_on_another_device():
    parameter = nn.Parameter(torch.ones(3))
    identity = id(parameter)
    parameter.data = parameter.data.npu()
    assert parameter.is_npu
    assert (id(parameter), parameter.is_leaf) == (identity, True)
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [2, 2, 2]
    parameter.grad = None
    parameter.data = parameter.data.cpu()
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3, 3, 3]


def test_the_data_of_a_gradient_may_be_replaced():
    """ShuffleNet samples do this to change the layout of a gradient inside backward."""

    class Shuffle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(2, 3).t().contiguous().view(6)

        @staticmethod
        def backward(ctx, grad_output):
            grad_output.data = grad_output.data.view(3, 2).t().contiguous().view(6)
            return grad_output

    def run(device):
        x = torch.arange(6.0).to(device).requires_grad_()
        (Shuffle.apply(x) * torch.arange(6.0).to(device)).sum().backward()
        return x.grad

    on_both(run)


@pytest.fixture(params=["swap", "overwrite"])
def conversion(request):
    if request.param == "swap":
        setting = torch.__future__.set_swap_module_params_on_conversion
    else:
        setting = torch.__future__.set_overwrite_module_params_on_conversion
    setting(True)
    yield request.param
    setting(False)


def test_other_ways_to_convert(conversion):
    net = network()
    first = net[0].weight
    net.npu()
    assert (net[0].weight is first) == (conversion == "swap")
    assert all(x.is_npu for x in [*net.parameters(), *net.buffers()])
    assert isinstance(net[0].weight, nn.Parameter)
    trained(net, torch.optim.SGD(net.parameters(), lr=0.1), "npu")


def test_tensors_of_two_devices_are_swapped():
    first, second = torch.ones(2), torch.zeros(3, device="npu")
    torch.utils.swap_tensors(first, second)
    assert (first.device.type, second.device.type) == ("npu", "cpu")
    assert (first.tolist(), second.tolist()) == ([0, 0, 0], [1, 1])


def test_shared_parameters_stay_shared():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    net.npu()
    assert net[1].weight is net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight
    assert pickle.loads(pickle.dumps(net))[1].weight.is_npu


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.MultiheadAttention])
def test_modules_are_copied_and_pickled(kind):
    torch.manual_seed(0)
    net = kind(4, 4 if kind is nn.MultiheadAttention else 2).npu().eval()
    x = torch.rand(3, 2, 4, device="npu")
    arguments = (x, x, x) if kind is nn.MultiheadAttention else (x,)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), copy.copy(net)):
        assert all(parameter.is_npu for parameter in twin.parameters())
        assert torch.equal(twin(*arguments)[0], net(*arguments)[0])
    copied = copy.deepcopy(net)
    with torch.no_grad():
        next(copied.parameters()).zero_()
    assert next(net.parameters()).abs().sum().item() > 0


@two_devices
def test_between_npus():
    net = network().npu()
    identity = id(net[0].weight)
    net.to("npu:1")
    assert (id(net[0].weight), net[0].weight.device.index) == (identity, 1)
    trained(net, torch.optim.Adam(net.parameters()), "npu:1")
    net.npu(0)
    assert net[0].weight.device.index == 0


def test_states_are_loaded_across_devices():
    source, target = network().npu(), network()
    with torch.no_grad():
        source[0].weight.fill_(7)
    target.load_state_dict(source.state_dict())
    assert target[0].weight.device.type == "cpu"
    assert torch.equal(target[0].weight, source[0].weight.cpu())
    optimizer = torch.optim.Adam(source.parameters())
    trained(source, optimizer, "npu")
    other = torch.optim.Adam(target.parameters())
    other.load_state_dict(optimizer.state_dict())
    assert all(state["exp_avg"].device.type == "cpu" for state in other.state.values())


@pytest.mark.parametrize("choose", ["set_device", "to", "context"])
def test_threads_work_on_devices_of_their_own(choose):
    """Each thread has its own current device and gets the results of the CPU."""
    count = min(torch.npu.device_count(), 4)
    expected = network()
    trained(expected, torch.optim.SGD(expected.parameters(), lr=0.05), "cpu")
    nets, failures, start = [network() for _ in range(count)], [], threading.Barrier(count)

    def work(index):
        try:
            start.wait()
            if choose == "set_device":
                torch.npu.set_device(index)
                net, device = nets[index].npu(), "npu"
            elif choose == "context":
                with torch.npu.device(index):
                    net, device = nets[index].npu(), f"npu:{index}"
            else:
                net, device = nets[index].to(f"npu:{index}"), f"npu:{index}"
            trained(net, torch.optim.SGD(net.parameters(), lr=0.05), device)
            assert net[0].weight.device.index == index
            assert torch.npu.current_device() == (index if choose == "set_device" else 0)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert torch.npu.current_device() == 0
    for net in nets:
        torch.testing.assert_close(net[0].weight.cpu(), expected[0].weight, rtol=1e-4, atol=1e-5)


def test_a_module_is_shared_by_threads():
    net, x = network().npu().eval(), torch.linspace(-1, 1, 15).view(5, 3).npu()
    expected, seen = net(x), []
    threads = [threading.Thread(target=lambda: seen.append(net(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(torch.equal(one, expected) for one in seen)
