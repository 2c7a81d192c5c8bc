"""Indices and targets of int32 give the results of int64, forward and backward. The CPU refuses some of them."""

import pytest
import torch
import torch.nn.functional as F


def at(*values, dtype, shape=None):
    return torch.tensor(values, dtype=dtype, device="npu").reshape((len(values),) if shape is None else shape)


# Name -> (call, shapes of its tensors). A call gets the dtype of its indices, and the tensors.
CALLS = {
    "index_select": (lambda i, x: x.index_select(0, at(3, 0, 5, 3, dtype=i)), [(6, 5)]),
    "gather": (lambda i, x: x.gather(0, at(3, 0, 5, 2, 1, dtype=i, shape=(1, 5))), [(6, 5)]),
    "take": (lambda i, x: x.take(at(3, -1, 29, 3, dtype=i, shape=(2, 2))), [(6, 5)]),
    "put": (lambda i, x, s: x.put(at(3, 0, dtype=i), s), [(6, 5), (2,)]),
    "put, accumulated": (lambda i, x, s: x.put(at(3, 3, dtype=i), s, accumulate=True), [(6, 5), (2,)]),
    "index": (lambda i, x: x[at(3, 0, -1, dtype=i)], [(6, 5)]),
    "index, two": (lambda i, x: x[at(3, 0, 5, dtype=i), at(1, 0, 4, dtype=i)], [(6, 5)]),
    "index, second": (lambda i, x: x[:, at(3, 0, 0, dtype=i)], [(6, 5)]),
    "index_put": (lambda i, x, s: x.index_put((at(3, 0, dtype=i),), s), [(6, 5), (2, 5)]),
    "index_put, accumulated": (lambda i, x, s: x.index_put((at(3, 3, dtype=i),), s, accumulate=True), [(6, 5), (2, 5)]),
    "index_add": (lambda i, x, s: x.index_add(0, at(3, 0, dtype=i), s), [(6, 5), (2, 5)]),
    "index_fill": (lambda i, x: x.index_fill(1, at(3, 0, dtype=i), 2.0), [(6, 5)]),
    "index_reduce": (lambda i, x, s: x.index_reduce(0, at(3, 0, dtype=i), s, "mean"), [(6, 5), (2, 5)]),
    "scatter": (lambda i, x, s: x.scatter(0, at(3, 0, 5, 2, 1, dtype=i, shape=(1, 5)), s), [(6, 5), (1, 5)]),
    "scatter, number": (lambda i, x: x.scatter(0, at(3, 0, 5, 2, 1, dtype=i, shape=(1, 5)), 2.0), [(6, 5)]),
    "scatter_add": (lambda i, x, s: x.scatter_add(0, at(3, 0, 5, 2, 1, dtype=i, shape=(1, 5)), s), [(6, 5), (1, 5)]),
    "scatter_reduce": (
        lambda i, x, s: x.scatter_reduce(0, at(3, 0, 5, 2, 1, dtype=i, shape=(1, 5)), s, "mean"),
        [(6, 5), (1, 5)],
    ),
    "embedding": (lambda i, w: F.embedding(at(3, 0, 5, 3, dtype=i), w, padding_idx=0), [(6, 5)]),
    "embedding, scaled": (lambda i, w: F.embedding(at(3, 0, 3, dtype=i), w, scale_grad_by_freq=True), [(6, 5)]),
    "embedding_bag": (lambda i, w: F.embedding_bag(at(3, 0, 5, 3, dtype=i), w, at(0, 2, dtype=i)), [(6, 5)]),
}  # fmt: skip

WEIGHT = [0.5, 2.0, 1.0, 0.25, 3.0]
TARGETS = {
    "vector": ((3, 0, 2), (3,), (3, 5)),
    "image": ((3, 0, 2, 1, 4, 0), (1, 3, 2), (1, 5, 3, 2)),
    "one": ((3,), (), (5,)),
}
LOSSES = {"nll_loss": F.nll_loss, "cross_entropy": F.cross_entropy}
OPTIONS = {
    "plain": {},
    "weight": {"weight": WEIGHT},
    "ignored": {"ignore_index": 0, "reduction": "sum"},
    "ignored and weight": {"ignore_index": 0, "weight": WEIGHT, "reduction": "none"},
}


def run(call, shapes, dtype):
    """The result and the gradients of the tensors."""
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).npu().requires_grad_() for shape in shapes]
    result = call(dtype, *tensors)
    gradient = torch.randn(result.shape, generator=generator).npu()
    return [result, *torch.autograd.grad(result, tensors, gradient)]


def assert_same_for_both(call, shapes):
    for narrow, wide in zip(run(call, shapes, torch.int32), run(call, shapes, torch.int64), strict=True):
        assert narrow.dtype == wide.dtype
        assert torch.equal(narrow.cpu(), wide.cpu())


@pytest.mark.parametrize("name", CALLS)
def test_indices(name):
    assert_same_for_both(*CALLS[name])


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LOSSES)
def test_targets(name, target, options):
    values, shape, scores = TARGETS[target]
    given = {key: torch.tensor(value).npu() if key == "weight" else value for key, value in OPTIONS[options].items()}
    assert_same_for_both(lambda dtype, x: LOSSES[name](x, at(*values, dtype=dtype, shape=shape), **given), [scores])


def test_label_smoothing():
    def call(dtype, x):
        return F.cross_entropy(
            x, at(3, 0, 2, dtype=dtype), label_smoothing=0.1, weight=torch.tensor(WEIGHT).npu(), ignore_index=0
        )

    assert_same_for_both(call, [(3, 5)])


def test_predictions_of_int64_are_compared_with_targets_of_int32():
    scores, target = torch.eye(4).npu(), at(0, 1, 3, 2, dtype=torch.int32)
    found = scores.topk(2)[1].t()
    right = found.eq(target.view(1, -1).expand_as(found))
    assert right[:1].reshape(-1).float().sum(0, keepdim=True).tolist() == [2.0]


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32])
@pytest.mark.parametrize("name", ["take", "index_select", "index_fill", "gather"])
def test_indices_of_other_dtypes_are_refused_by_the_call(name, dtype):
    with pytest.raises((RuntimeError, IndexError), match=r"(?i)(int64|long)"):
        run(*CALLS[name], dtype)
