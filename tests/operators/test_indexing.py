"""npu checks indices when an operator runs: a wrong one is named with its operator, and no memory outside is written."""

import os

import pytest
import torch
import torch.nn.functional as F

from tests.compare import assert_same

ROWS, COLUMNS = 7, 3


def at(*values):
    return torch.tensor(values, device="npu")


def row():
    return torch.ones(1, COLUMNS, device="npu")


def one():
    return torch.ones(1, 1, device="npu")


aten = torch.ops.aten
# Name -> (call on a table of 7 rows and 3 columns, the wrong index).
WRONG = {
    "embedding": (lambda x: F.embedding(at(1, 9), x), 9),
    "embedding, negative": (lambda x: F.embedding(at(1, -1), x), -1),
    "embedding_renorm": (lambda x: F.embedding(at(1, 9), x, max_norm=1.0), 9),
    "embedding_dense_backward": (lambda x: aten.embedding_dense_backward(row(), at(9), ROWS, -1, False), 9),
    "embedding_dense_backward, scaled": (lambda x: aten.embedding_dense_backward(row(), at(90000), ROWS, -1, True), 90000),
    "embedding_dense_backward, half": (lambda x: aten.embedding_dense_backward(row().half(), at(-3), ROWS, -1, False), -3),
    "embedding_bag": (lambda x: F.embedding_bag(at(9).view(1, 1), x), 9),
    "embedding_bag, max": (lambda x: F.embedding_bag(at(-3).view(1, 1), x, mode="max"), -3),
    "gather": (lambda x: x.gather(0, at(9).view(1, 1)), 9),
    "scatter": (lambda x: x.scatter_(0, at(9).view(1, 1), one()), 9),
    "scatter, number": (lambda x: x.scatter_(0, at(-8).view(1, 1), 2.0), -8),
    "scatter_add": (lambda x: x.scatter_add_(0, at(9).view(1, 1), one()), 9),
    "scatter_reduce": (lambda x: x.scatter_reduce_(0, at(9).view(1, 1), one(), "amax"), 9),
    "index": (lambda x: x[at(9)], 9),
    "index, negative": (lambda x: x[at(-8)], -8),
    "index_put": (lambda x: x.index_put_((at(9),), row()), 9),
    "index_put, accumulated": (lambda x: x.index_put_((at(-8),), row(), accumulate=True), -8),
    "index_add": (lambda x: x.index_add_(0, at(9), row()), 9),
    "index_copy": (lambda x: x.index_copy_(0, at(9), row()), 9),
    "index_fill": (lambda x: x.index_fill_(0, at(-8), 2.0), -8),
    "index_select": (lambda x: x.index_select(0, at(9)), 9),
    "index_select, last": (lambda x: x.index_select(1, at(3)), 3),
    "index_select, vector": (lambda x: x[:, 0].index_select(0, at(-1)), -1),
    "take": (lambda x: x.take(at(21)), 21),
    "put": (lambda x: x.put_(at(-22), one()), -22),
    "nll_loss": (lambda x: F.nll_loss(x, at(0, 1, 2, 3, 0, 0, 0)), 3),
    "nll_loss, each": (lambda x: F.nll_loss(x, at(0, 1, 2, -1, 0, 0, 0), reduction="none"), -1),
    "nll_loss2d": (lambda x: F.nll_loss(torch.ones(1, 3, 2, 2, device="npu"), at(0, 1, 2, 3).view(1, 2, 2)), 3),
    "one_hot": (lambda x: F.one_hot(at(0, 5), 3), 5),
    "ctc_loss": (lambda x: F.ctc_loss(torch.ones(5, 1, 4, device="npu"), at(9).view(1, 1), (5,), (1,)), 9),
    "max_unpool2d": (lambda x: F.max_unpool2d(one().view(1, 1, 1, 1), at(99).view(1, 1, 1, 1), 2), 99),
    "max_unpool3d": (lambda x: F.max_unpool3d(one().view(1, 1, 1, 1, 1), at(99).view(1, 1, 1, 1, 1), 2), 99),
    "max_pool2d_backward": (
        lambda x: aten.max_pool2d_with_indices_backward(
            one().view(1, 1, 1, 1), x[:2, :2].reshape(1, 1, 2, 2), [2, 2], [2, 2], [0, 0], [1, 1], False, at(4).view(1, 1, 1, 1)
        ),
        4,
    ),
    "adaptive_max_pool2d_backward": (
        lambda x: aten.adaptive_max_pool2d_backward(
            one().view(1, 1, 1, 1), x[:2, :2].reshape(1, 1, 2, 2), at(-2).view(1, 1, 1, 1)
        ),
        -2,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_index_is_reported_with_operator_and_value(name):
    call, index = WRONG[name]
    table = torch.ones(ROWS, COLUMNS, device="npu")
    with pytest.raises((RuntimeError, IndexError), match=rf"(?s)task 'aclnn\w+' failed.*(?<![\w-]){index}\b"):
        call(table)
        torch.npu.synchronize()
    assert_same(torch.ones(2, device="npu") + 1, torch.full((2,), 2.0))


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (IndexError, lambda x: x[at(9)]),
        (IndexError, lambda x: F.embedding(at(9), x)),
        (RuntimeError, lambda x: x.gather(0, at(9).view(1, 1))),
        (RuntimeError, lambda x: x.masked_scatter_(x > 0, x[0])),
    ],
)
def test_a_call_that_runs_at_once_raises_as_on_the_cpu(error, call):
    if os.environ.get("SOFTNPU_LAUNCH") in ("queue", "shuffle"):
        pytest.skip("no call runs at once")
    table = torch.ones(ROWS, COLUMNS, device="npu")
    torch.npu.synchronize()
    with pytest.raises(error):
        call(table)


def test_an_index_of_the_host_is_taken_by_index_fill():
    x = torch.zeros(3, 2, device="npu")
    assert x.index_fill_(0, torch.tensor([2]), 1).tolist() == [[0, 0], [0, 0], [1, 1]]
    with pytest.raises(RuntimeError, match="complex Scalar"):
        x.index_fill_(0, torch.tensor([2]), 1j)


def test_an_empty_index_adds_nothing():
    x, none = torch.ones(3, 2, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    assert x.index_add(0, none, x[:0]).tolist() == x.tolist()
    assert x.index_reduce(0, none, x[:0], "prod").tolist() == x.tolist()


def test_a_negative_count_is_reported():
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(at(-1, 2))
        torch.npu.synchronize()


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    "call",
    [
        lambda x, put: put(x, (torch.tensor([0, 1], device=x.device),), x[:3].clone()),
        lambda x, put: put(
            x, (torch.tensor([0, 1], device=x.device), torch.tensor([0, 1, 2], device=x.device)), x[0, 0, 0].clone()
        ),
        lambda x, put: put(x, (None, torch.tensor([0, 1], device=x.device)), x[:, :3].clone()),
        lambda x, put: put(x, (torch.zeros(3, 4, dtype=torch.bool, device=x.device),), x[0].clone()),
    ],
)
def test_what_does_not_fit_is_refused_at_the_call(call, accumulate):
    words = []
    for device in ("cpu", "npu"):
        with pytest.raises((RuntimeError, IndexError)) as caught:
            call(torch.ones(4, 5, 6, device=device), lambda x, where, what: torch.ops.aten.index_put_(x, where, what, accumulate))
        words.append((caught.type, str(caught.value).splitlines()[0]))
    assert words[0] == words[1]


PUTS = {
    "rows": lambda x: ((torch.tensor([0, 0, 1], device=x.device),), x[:1].clone()),
    "hole": lambda x: ((None, torch.tensor([1, 1, 2], device=x.device)), x[0, 0, 0].clone()),
    "apart": lambda x: (
        (torch.tensor([0, 0], device=x.device), None, torch.tensor([1, 1], device=x.device)),
        x[0, :, :2].mT.clone(),
    ),
    "grid": lambda x: ((torch.tensor([[0], [1]], device=x.device), torch.tensor([0, 1, 2], device=x.device)), x[0, 0].clone()),
    "mask": lambda x: ((x[:, :, 0] > 0,), x[0, 0].clone()),
    "host": lambda x: ((torch.tensor([-1]),), torch.ones((), dtype=x.dtype)),
    "none": lambda x: ((torch.zeros(0, dtype=torch.int64, device=x.device),), x[:1].clone()),
}


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("name", PUTS)
def test_index_put(name, dtype, accumulate):
    base = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0)).mul(3).to(dtype)
    results = []
    for x in (base.clone(), base.npu()):
        where, what = PUTS[name](x)
        results.append(torch.ops.aten.index_put_(x, where, what, accumulate))
    assert_same(results[1], results[0])
