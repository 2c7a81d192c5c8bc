"""Sparse tensors on npu: construction, moves, arithmetic, reductions and training equal the CPU and run on the device."""

import io
import pickle

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same

INDICES = torch.tensor([[0, 2, 1, 2, 0], [1, 3, 0, 3, 2]])
VALUES = torch.tensor([1.0, -2.0, 3.0, 4.0, -5.0])


def coo(device, indices=INDICES, values=VALUES, size=(3, 4), **keywords):
    return torch.sparse_coo_tensor(indices.to(device), values.to(device), size, **keywords)


def hybrid(device):
    return coo(device, values=torch.arange(15.0).view(5, 3), size=(3, 4, 3))


def test_a_sparse_tensor_is_made_of_indices_and_values():
    npu, cpu = coo("npu"), coo("cpu")
    assert npu.is_sparse and npu.device.type == "npu" and npu._nnz() == 5 and not npu.is_coalesced()
    assert_same(npu._indices(), cpu._indices())
    assert_same(npu._values(), cpu._values())
    assert torch.sparse_coo_tensor((2, 3), device="npu")._nnz() == 0
    assert torch.empty(2, 3, layout=torch.sparse_coo, device="npu").is_sparse
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        coo("npu", size=(2, 2), check_invariants=True)


@pytest.mark.parametrize("make", [coo, hybrid])
def test_coalesce_adds_values_with_the_same_index(make):
    npu, cpu = make("npu").coalesce(), make("cpu").coalesce()
    assert_same(npu, cpu, strides=False)
    assert_same(npu.indices(), cpu.indices(), strides=False)
    assert_same(npu.values(), cpu.values())


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.float64])
def test_coalesce_of_other_types(dtype):
    values = torch.tensor([1, 2, 0, 4, 5]).to(dtype)
    npu, cpu = coo("npu", values=values).coalesce(), coo("cpu", values=values).coalesce()
    assert_same(npu.indices(), cpu.indices(), strides=False)
    assert_same(npu.values(), cpu.values())


def test_a_sparse_tensor_moves_between_devices_and_layouts():
    cpu = coo("cpu")
    assert_same(cpu.npu(), cpu, strides=False)
    back = cpu.npu().cpu()
    assert back.device.type == "cpu" and torch.equal(back._indices(), cpu._indices())
    dense = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    assert_same(dense.npu().to_sparse(), dense.to_sparse(), strides=False)
    assert_same(dense.npu().to_sparse(1), dense.to_sparse(1), strides=False)
    assert_same(cpu.npu().to_dense(), cpu.to_dense(), strides=False)
    assert_same(cpu.npu().double(), cpu.double(), strides=False)
    assert_same(cpu.npu().clone(), cpu.clone(), strides=False)
    assert_same(torch.zeros_like(cpu.npu()), torch.zeros_like(cpu), strides=False)


def test_a_sparse_tensor_is_printed_and_pickled():
    npu = coo("npu")
    assert "layout=torch.sparse_coo" in str(npu) and "device='npu:0'" in str(npu)
    assert_same(pickle.loads(pickle.dumps(npu)), coo("cpu"), strides=False)
    file = io.BytesIO()
    torch.save(npu, file)
    file.seek(0)
    assert_same(torch.load(file), coo("cpu"), strides=False)


UNARY = ["abs", "neg", "sin", "tanh", "sqrt", "sign", "floor", "log1p", "relu", "isnan"]


@pytest.mark.parametrize("name", UNARY)
def test_elementwise_functions(name):
    assert_same(getattr(torch, name)(coo("npu")), getattr(torch, name)(coo("cpu")), strides=False)


def other(device):
    return coo(device, torch.tensor([[0, 1, 2], [1, 1, 3]]), torch.tensor([10.0, 20.0, 30.0]))


DENSE = torch.arange(12.0).view(3, 4)
TWO = {
    "sparse + sparse": lambda d: coo(d) + other(d),
    "sum of coalesced": lambda d: coo(d).coalesce() + other(d).coalesce(),
    "sparse - sparse": lambda d: coo(d) - other(d),
    "add with alpha": lambda d: torch.add(coo(d), other(d), alpha=3),
    "add of nothing": lambda d: coo(d) + torch.sparse_coo_tensor((3, 4), device=d),
    "add to nothing": lambda d: torch.add(torch.sparse_coo_tensor((3, 4), device=d), other(d), alpha=2),
    "add of another type": lambda d: coo(d, values=VALUES.long()) + other(d),
    "dense + sparse": lambda d: DENSE.to(d) + coo(d),
    "dense + hybrid": lambda d: torch.ones(3, 4, 3, device=d) + hybrid(d),
    "dense.add_": lambda d: DENSE.to(d).clone().add_(coo(d), alpha=-0.5),
    "transposed dense": lambda d: DENSE.view(4, 3).t().to(d).add(coo(d)),
    "sparse.add_": lambda d: coo(d).add_(other(d)),
    "sparse * sparse": lambda d: coo(d) * other(d),
    "nothing in common": lambda d: coo(d) * coo(d, torch.tensor([[1], [1]]), torch.tensor([1.0])),
    "hybrid * hybrid": lambda d: hybrid(d) * hybrid(d),
    "sparse * dense": lambda d: coo(d).coalesce() * DENSE.to(d),
    "dense * sparse": lambda d: DENSE.to(d) * coo(d).coalesce(),
    "sparse * number": lambda d: coo(d) * 2.5,
    "sparse.mul_": lambda d: coo(d).mul_(2),
    "sparse / number": lambda d: coo(d).coalesce() / 2,
    "sparse * 0-dim": lambda d: coo(d) * torch.tensor(3.0, device=d),
    "mm": lambda d: torch.mm(coo(d), DENSE.t().to(d)),
    "matmul": lambda d: coo(d) @ DENSE.t().to(d),
    "dense @ sparse": lambda d: torch.mm(DENSE.t().to(d), coo(d)),
    "mv": lambda d: torch.mv(coo(d), DENSE[0].to(d)),
    "sparse.mm": lambda d: torch.sparse.mm(coo(d), DENSE.t().to(d)),
    "addmm": lambda d: torch.addmm(torch.ones(3, 3, device=d), coo(d), DENSE.t().to(d), beta=0.5, alpha=2),
    "addmm of a row": lambda d: torch.sparse.addmm(torch.ones(3, 3, device=d), coo(d), DENSE.t().to(d)),
    "bmm": lambda d: torch.bmm(torch.stack([DENSE, -DENSE]).to(d).to_sparse(), torch.stack([DENSE.t(), DENSE.t()]).to(d)),
    "sum": lambda d: torch.sparse.sum(coo(d)),
    "sum of rows": lambda d: torch.sparse.sum(coo(d), dim=1),
    "sum of dense dims": lambda d: torch.sparse.sum(hybrid(d), dim=(0, 2)),
    "norm": lambda d: coo(d).norm(),
    "any": lambda d: coo(d).any(),
    "transpose": lambda d: coo(d).t(),
    "permute": lambda d: hybrid(d).permute(1, 0, 2),
    "unsqueeze": lambda d: coo(d).unsqueeze(0),
    "narrow_copy": lambda d: coo(d).narrow_copy(1, 1, 2),
    "cat": lambda d: torch.cat([coo(d), other(d)]),
    "mask of dense": lambda d: DENSE.to(d).sparse_mask(coo(d).coalesce()),
    "mask of sparse": lambda d: coo(d).sparse_mask(other(d).coalesce()),
    "out=": lambda d: torch.add(coo(d), other(d), out=torch.empty(0, layout=torch.sparse_coo, device=d)),
    "select": lambda d: hybrid(d).select(0, 2),
}


@pytest.mark.parametrize("what", TWO)
def test_arithmetic(what):
    assert_same(TWO[what]("npu"), TWO[what]("cpu"), strides=False)


def test_max_counts_the_zeros():
    assert coo("npu").max().item() == 3.0
    assert (-coo("npu").abs()).max().item() == 0.0
    assert torch.tensor([[-1.0, -2.0]]).npu().to_sparse().max().item() == -1.0


WRONG = {
    "sizes": lambda d: coo(d) + coo(d, size=(4, 4)),
    "sparse + dense": lambda d: coo(d) + DENSE.to(d),
    "inner size": lambda d: torch.mm(coo(d), DENSE.to(d)),
    "dense + sparse of another size": lambda d: torch.ones(3, 5, device=d) + coo(d),
    "indices of an uncoalesced tensor": lambda d: coo(d).indices(),
    "a dense out=": lambda d: torch.add(coo(d), coo(d), out=torch.empty(3, 4, device=d)),
}


@pytest.mark.parametrize("what", WRONG)
def test_calls_that_the_cpu_refuses_are_refused(what):
    for device in ("cpu", "npu"):
        with pytest.raises(RuntimeError):
            WRONG[what](device)


@pytest.mark.fallback
def test_a_missing_sparse_operator_runs_on_the_cpu_and_is_counted():
    assert_same(torch.sparse.softmax(coo("npu"), 1), torch.sparse.softmax(coo("cpu"), 1), strides=False)
    assert "aten::_sparse_softmax" in torch.npu.fallback_stats()


def gradients(device, loss):
    torch.manual_seed(0)
    weight = torch.randn(7, 3).to(device).requires_grad_()
    loss(weight, device).backward()
    return weight.grad


LOSSES = {
    "embedding": lambda w, d: F.embedding(torch.tensor([1, 3, 1, 5], device=d), w, sparse=True).square().sum(),
    "embedding_bag": lambda w, d: (
        F.embedding_bag(torch.tensor([[1, 3], [1, 5]], device=d), w, mode="sum", sparse=True).square().sum()
    ),
    "gather": lambda w, d: w.gather(0, torch.tensor([[1, 2, 3]], device=d), sparse_grad=True).square().sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_sparse_gradients(name):
    assert_same(gradients("npu", LOSSES[name]), gradients("cpu", LOSSES[name]), strides=False)


def test_gradients_go_through_sparse_operators():
    def run(device):
        values = VALUES.to(device).clone().requires_grad_()
        dense = DENSE.t().to(device).clone().requires_grad_()
        matrix = torch.sparse_coo_tensor(INDICES.to(device), values, (3, 4))
        (torch.sparse.mm(matrix, dense).square().sum() + torch.sparse.sum(matrix, dim=0).to_dense().square().sum()).backward()
        return [values.grad, dense.grad]

    assert_same(run("npu"), run("cpu"), strides=False)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_step_by_sparse_gradients(name):
    def train(device):
        torch.manual_seed(0)
        table = torch.nn.Embedding(9, 4, sparse=True).to(device)
        optimizer = OPTIMIZERS[name](list(table.parameters()))
        for step in range(3):
            optimizer.zero_grad()
            table(torch.tensor([step, 4, step, 8], device=device)).square().sum().backward()
            optimizer.step()
        return table.weight

    assert_same(train("npu"), train("cpu"))


@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_compressed_layouts_can_be_created_and_moved(layout):
    dense = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    npu, cpu = dense.npu().to_sparse(layout=layout), dense.to_sparse(layout=layout)
    assert npu.layout == layout and npu._nnz() == 3
    assert_same(npu, cpu, strides=False)
    assert_same(npu.values(), cpu.values())
    assert_same(cpu.npu(), cpu, strides=False)
    assert_same(npu.abs(), cpu.abs(), strides=False)
    assert_same(npu.to_sparse(), cpu.to_sparse(), strides=False)
    assert npu.cpu().device.type == "cpu" and torch.equal(npu.cpu().to_dense(), dense)
    assert str(layout) in str(npu)


@pytest.mark.fallback
@pytest.mark.parametrize("reduce", ["sum", "amax"])
def test_products_of_compressed_matrices_run_on_the_cpu(reduce):
    def run(device):
        matrix = torch.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]], device=device).to_sparse_csr().requires_grad_()
        dense = torch.arange(6.0, device=device).view(3, 2).requires_grad_()
        product = torch.sparse.mm(matrix, dense, reduce)
        product.square().sum().backward()
        return [product, torch.mm(matrix.detach(), dense.detach()), matrix.grad.to_dense(), dense.grad]

    assert_same(run("npu"), run("cpu"), strides=False)
