"""Every write raises version counters as on the CPU, so that autograd refuses a saved tensor that was overwritten.

The sweep (tests/ops) tests the operators of PyTorch's database; this file tests lists, optimizers, views, inference tensors and
the in-place operators of the namespace npu.
"""

import contextlib
import copy
import importlib
import itertools
import pkgutil

import pytest
import torch
import torch_npu
from torch.testing._internal import common_methods_invocations as database
from torch.testing._internal.common_optimizers import optim_db
from torch.utils import _pytree

FOREACH = [
    info
    for kind in ("unary", "binary", "pointwise", "other")
    for info in getattr(database, f"foreach_{kind}_op_db")
    if info.inplace_variant is not None
]
MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


def tensors_of(nest):
    return [leaf for leaf in _pytree.tree_leaves(nest) if isinstance(leaf, torch.Tensor)]


def moved(nest, device):
    return _pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone().to(device), nest)


def written(arguments, call):
    """The increase of each tensor's version counter by the call."""
    tensors = tensors_of(arguments)
    before = [tensor._version for tensor in tensors]
    call()
    return [tensor._version - start for tensor, start in zip(tensors, before, strict=True)]


@pytest.mark.parametrize("info", FOREACH, ids=lambda info: info.name)
def test_foreach_operators_raise_versions_as_on_the_cpu(info):
    checked = 0
    for dtype in (torch.float32, torch.int64):
        samples = info.sample_inputs("cpu", dtype, num_input_tensors=[3])
        for sample in itertools.islice(samples, 12):
            found = []
            for device in ("cpu", "npu"):
                arguments = moved((sample.input, sample.args, sample.kwargs), device)
                try:
                    found.append(written(arguments, lambda a=arguments: info.inplace_variant(a[0], *a[1], **a[2])))
                except Exception as error:
                    found.append(type(error))
            assert found[1] == found[0], sample
            checked += isinstance(found[0], list)
    assert checked


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_foreach_operators_raise_versions_in_every_mode(mode):
    for device in ("cpu", "npu"):
        base = torch.ones(4, 3, device=device)
        views = [base[0], base[1:3]]
        with mode():
            inner = torch.ones(3, device=device)
            torch._foreach_add_([base, inner], 1.0)
            torch._foreach_mul_(views, 2.0)
            torch._foreach_copy_(views, [torch.zeros_like(view) for view in views])
            assert inner.is_inference() == (mode is torch.inference_mode)
        assert base._version == 1 + 2 + 2
        assert views[0]._version == base._version


@contextlib.contextmanager
def refused():
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode is not allowed"):
        yield


def test_inference_tensors_are_not_written_outside_of_inference_mode():
    for device in ("cpu", "npu"):
        with torch.inference_mode():
            tensor = torch.ones(3, device=device)
        other = torch.ones(3, device=device)
        calls = [
            lambda t, o: torch._foreach_add_([t], 1.0),
            lambda t, o: torch._foreach_mul_([t], o[0]),
            lambda t, o: torch._foreach_copy_([t], [o]),
            lambda t, o: torch._foreach_addcmul_([t], [o], [o], [1.0]),
            lambda t, o: t.add_(1),
            lambda t, o: t.copy_(o),
            lambda t, o: t.normal_(),
            lambda t, o: torch.add(o, o, out=t),
        ]
        for call in calls:
            with refused():
                call(tensor, other)
            with torch.inference_mode():
                call(tensor, other)


WRITES = {
    "add_": lambda t, o: t.add_(o),
    "mul_": lambda t, o: t.mul_(2),
    "relu_": lambda t, o: t.relu_(),
    "zero_": lambda t, o: t.zero_(),
    "fill_": lambda t, o: t.fill_(o.flatten()[0]),
    "copy_": lambda t, o: t.copy_(o),
    "copy_ from the host": lambda t, o: t.copy_(o.cpu()),
    "normal_": lambda t, o: t.normal_(),
    "uniform_": lambda t, o: t.uniform_(),
    "bernoulli_": lambda t, o: t.bernoulli_(0.5),
    "random_": lambda t, o: t.random_(),
    "index_put_": lambda t, o: t.index_put_((torch.tensor([0], device=t.device),), o[0]),
    "setitem": lambda t, o: t.__setitem__(0, o[0]),
    "masked_fill_": lambda t, o: t.masked_fill_(o > 0, 1.0),
    "clamp_": lambda t, o: t.clamp_(0, 1),
    "addcmul_": lambda t, o: t.addcmul_(o, o),
    "add out": lambda t, o: torch.add(o, o, out=t),
    "mm out": lambda t, o: torch.mm(o, o, out=t),
    "cumsum out": lambda t, o: torch.cumsum(o, 0, out=t),
    "sort out": lambda t, o: torch.sort(o, out=(t, torch.empty(0, dtype=torch.long, device=t.device))),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_to_a_view_raises_the_version_of_its_base(write, mode):
    found = []
    for device in ("cpu", "npu"):
        base = torch.zeros(2, 3, 3, device=device)
        other = torch.ones(3, 3, device=device)
        view, beside = base[0], base[1]
        with mode():
            found.append(written((base, view, beside, other), lambda v=view, o=other: write(v, o)))
    assert found[1] == found[0]
    assert found[0][:3] == [1, 1, 1]


def optimizer_cases():
    for info in optim_db:
        name = info.optim_cls.__name__
        if name in ("SparseAdam", "LBFGS"):  # sparse gradients; a closure
            continue
        for kind in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            if next(iter(kind)) in info.supported_impls:
                yield pytest.param(info, kind, id=f"{name}-{next(iter(kind))}-{next(iter(kind.values()))}")


@pytest.mark.parametrize(("info", "kind"), optimizer_cases())
def test_optimizers_raise_versions_as_on_the_cpu(info, kind):
    for config in info.optim_inputs_func(device="cpu"):
        if config.kwargs.get("capturable") or isinstance(config.kwargs.get("lr"), torch.Tensor):
            continue
        found = []
        for device in ("cpu", "npu"):
            params = [torch.ones(4, 3, device=device, requires_grad=True), torch.ones(3, 2, device=device, requires_grad=True)]
            for param in params:
                param.grad = torch.full_like(param, 0.5)
            optimizer = info.optim_cls(params, **copy.deepcopy(config.kwargs), **kind)
            optimizer.step()  # creates the state
            states = [t for param in params for t in optimizer.state[param].values() if isinstance(t, torch.Tensor) and t.dim()]
            found.append(written((params, [param.grad for param in params], states), optimizer.step))
        assert found[1] == found[0], config.kwargs


def backward_after_step(make, device):
    w = torch.ones(3, device=device, requires_grad=True)
    x = torch.ones(3, device=device, requires_grad=True)
    optimizer = make([w])
    loss = (w * x).sum()  # autograd saves w for the gradient of x
    w.grad = torch.ones_like(w)
    optimizer.step()
    loss.backward()


STEPS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=1.0),
    "Adam": lambda params: torch.optim.Adam(params),
    "AdamW": lambda params: torch.optim.AdamW(params),
    "NpuFusedSGD": lambda params: torch_npu.optim.NpuFusedSGD(params, lr=1.0),
    "NpuFusedAdam": lambda params: torch_npu.optim.NpuFusedAdam(params),
    "NpuFusedAdamW": lambda params: torch_npu.optim.NpuFusedAdamW(params),
    "NpuFusedLamb": lambda params: torch_npu.optim.NpuFusedLamb(params, lr=1.0),
    "NpuFusedRMSprop": lambda params: torch_npu.optim.NpuFusedRMSprop(params),
    "NpuFusedAdadelta": lambda params: torch_npu.optim.NpuFusedAdadelta(params),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_between_forward_and_backward_is_noticed(name):
    for device in ("npu",) if name.startswith("Npu") else ("cpu", "npu"):
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            backward_after_step(STEPS[name], device)


@pytest.mark.parametrize("clip", [torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_])
def test_clipping_raises_versions_of_gradients(clip):
    found = []
    for device in ("cpu", "npu"):
        param = torch.ones(3, device=device, requires_grad=True)
        param.grad = torch.ones(3, device=device)
        found.append(written(param.grad, lambda p=param: clip([p], 0.1)))
    assert found[1] == found[0]


def indices(*values):
    return torch.tensor(values, dtype=torch.int32)


# Operator -> its positional and named arguments. It writes those that its schema marks.
NPU_OPS = {
    "npu_sim_exponential_": lambda: ([torch.ones(3)], {}),
    "npu_dtype_cast_": lambda: ([torch.zeros(3), torch.ones(3)], {}),
    "npu_silu_": lambda: ([torch.ones(3)], {}),
    "one_": lambda: ([torch.zeros(3)], {}),
    "copy_memory_": lambda: ([torch.zeros(3), torch.ones(3)], {}),
    "npu_scatter_nd_update_": lambda: ([torch.zeros(4, 3), torch.tensor([[1], [2]]), torch.ones(2, 3)], {}),
    "scatter_update_": lambda: ([torch.zeros(2, 4, 3), indices(0, 1), torch.ones(2, 1, 3), 1], {}),
    "npu_quant_scatter_": lambda: (
        [torch.zeros(3, 2, 6, 4, dtype=torch.int8), indices(4, 1), torch.ones(2, 2, 2, 4).half(), torch.ones(4).half()],
        {},
    ),
    "npu_add_rms_norm_v2": lambda: ([torch.ones(2, 4), torch.ones(2, 4), torch.ones(4)], {}),
    "npu_advance_step_flashattn": lambda: (
        [*(torch.ones(shape, dtype=torch.long) for shape in ((2,), (2, 1), (2,), (2,), (2,), (2, 2))), 2, 2, 4],
        {},
    ),
    "npu_gather_pa_kv_cache": lambda: (
        [torch.ones(2, 2, 1, 4), torch.ones(2, 2, 1, 4), indices(0, 1).view(1, 2), indices(3), torch.zeros(3, 1, 4),
         torch.zeros(3, 1, 4)],
        {},
    ),
    "npu_scatter_pa_kv_cache": lambda: (
        [torch.ones(3, 2, 8), torch.ones(3, 2, 8), torch.zeros(2, 4, 2, 8), torch.zeros(2, 4, 2, 8), indices(6, 0, 3)],
        {"cache_mode": "Norm"},
    ),
    "npu_recurrent_gated_delta_rule": lambda: (
        [torch.ones(5, 2, 4), torch.ones(5, 2, 4), torch.ones(5, 4, 3), torch.ones(7, 4, 3, 4)],
        {},
    ),
    "npu_fused_causal_conv1d": lambda: (
        [torch.ones(7, 4), torch.ones(3, 4), torch.ones(4, 2, 4)],
        {"query_start_loc": indices(0, 4, 5, 7), "cache_indices": indices(2, 0, 1)},
    ),
    "npu_mla_prolog_v3": lambda: (
        [torch.ones(shape) for shape in ((3, 12), (12, 8), (8, 20), (2, 6, 16), (12, 20), (8,), (16,), (3, 4), (3, 4),
                                         (3, 1, 16), (3, 1, 4))],
        {"cache_mode": "TND"},
    ),
    "npu_nsa_compress_infer": lambda: (
        [torch.ones(5, 3, 2, 4).half(), torch.ones(4, 2).half(), torch.tensor([2, 0]), 4, 2, 3],
        {"block_table": indices(4, 1, 0, 2, 3, -1).view(2, 3), "actual_seq_len": [8, 5], "cache": torch.ones(3, 2, 4).half()},
    ),
}  # fmt: skip


def is_written(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


@pytest.mark.parametrize("name", NPU_OPS)
def test_npu_operators_raise_versions_of_written_arguments(name):
    positional, named = moved(NPU_OPS[name](), "npu")
    views = _pytree.tree_map_only(torch.Tensor, lambda t: t.view_as(t), (positional, named))
    public = getattr(torch_npu, name)  # imports its family
    packet = getattr(torch.ops.npu, name)
    schema = getattr(packet, packet.overloads()[0])._schema
    given = {**dict(zip([argument.name for argument in schema.arguments], positional, strict=False)), **named}
    expected = {argument.name for argument in schema.arguments if is_written(argument)}
    tensors = {key: value for key, value in given.items() if isinstance(value, torch.Tensor)}
    counts = written(tensors, lambda: public(*positional, **named))
    assert {key for key, count in zip(tensors, counts, strict=True) if count > 0} == expected
    assert [view._version for view in tensors_of(views)] == [tensor._version for tensor in tensors.values()]


ADAM_OPS = {
    "npu_apply_adam": lambda grad: [0.9, 0.99, 0.1, 0.9, 0.99, 1e-6, grad, False, False],
    "npu_bert_apply_adam": lambda grad: [0.1, 0.9, 0.99, 1e-6, grad, 2.0, 8.0, 0.01],
}


@pytest.mark.parametrize("form", ["out", "old"])
@pytest.mark.parametrize("name", ADAM_OPS)
def test_adam_operators_raise_versions_of_their_state(name, form):
    state = {key: torch.zeros(3, device="npu") for key in ("var", "m", "v")}
    grad = torch.ones(3, device="npu")
    step, rest = getattr(torch_npu, name), ADAM_OPS[name](grad)

    def call():
        return step(*rest, out=tuple(state.values())) if form == "out" else step(*state.values(), *rest)

    assert [count > 0 for count in written({**state, "grad": grad}, call)] == [True, True, True, False]


def test_all_npu_operators_that_write_are_tested():
    for family in pkgutil.iter_modules(torch_npu.ops.__path__):
        importlib.import_module(f"torch_npu.ops.{family.name}")
    writing = set()
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("npu::") and ".out" not in name:
            schema = torch._C._get_schema(*name.partition(".")[::2])
            if any(map(is_written, schema.arguments)):
                writing.add(schema.name.removeprefix("npu::"))
    unwritten = {"npu_format_cast_", "npu_dropoutV2"}  # they write no element
    assert writing == {*NPU_OPS, *ADAM_OPS, *unwritten}
