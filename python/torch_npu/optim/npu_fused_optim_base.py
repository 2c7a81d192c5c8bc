"""What the fused optimizers share: parameters, gradients and states of one dtype lie side by side in memory, so that a step is a
few operators for all of them instead of a few for each.

    optimizer = NpuFusedAdam(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.clip_grad_norm_fused_(1.0)
    optimizer.step()

The first step (or zero_grad, or clipping) after a backward pass combines: from then on every parameter with a gradient, and that
gradient, are views of the tensors that get_combined_params and get_combined_grads give. Nothing else changes for the program:
gradients may be set to None or replaced, parameters may come late, lose their gradient or be given new data; the next step
combines what has changed. The steps are those of torch.optim, and so are the names in state_dict.

A new optimizer is a `_step_chunk`: the formula of one step for a _Chunk, whose tensors are flat.
"""

import torch
from torch.optim.optimizer import Optimizer

from ..utils.combine_tensors import is_dense, move_into, split_like

_DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


class _Chunk:
    """Parameters of one group, dtype and count of steps, side by side.

    param, grad, state(name): flat tensors of all of them. step: how many steps they have made. params: the parameters."""

    def __init__(self, group, params, states, param, grad, step):
        self.group, self.params, self.states = group, params, [states[param] for param in params]
        self.param, self.grad, self.step = param, grad, step
        self._flat = {}
        self._count = None

    def state(self, name, start=0.0):
        """What the optimizer keeps per element, and what it is before the first step."""
        if name not in self._flat:
            self._flat[name] = self._combine(name, start)
        return self._flat[name]

    def has(self, name):
        return name in self._flat or any(state.get(name) is not None for state in self.states)

    def count_step(self):
        self.step += 1
        for state in self.states:
            state["step"] = self.step

    def step_tensor(self):
        """The count as the kernels of whole steps take it: one number on the device."""
        if self._count is None:
            self._count = torch.full((), float(self.step - 1), device=self.param.device)
        return self._count.add_(1)

    def per_param(self, flat):
        """The parts of a flat tensor, with the shapes of the parameters."""
        return split_like(flat, self.params)

    def spread(self, values):
        """One number for each parameter, repeated for each of its elements."""
        if not hasattr(self, "_sizes"):
            self._sizes = torch.tensor([param.numel() for param in self.params], device=self.param.device)
        return values.repeat_interleave(self._sizes, output_size=self.param.numel())

    def _combine(self, name, start):
        flat = torch.full_like(self.param, start)
        views = self.per_param(flat)
        known = [(view, state[name]) for view, state in zip(views, self.states, strict=True) if state.get(name) is not None]
        if known:
            torch._foreach_copy_(*map(list, zip(*known, strict=True)))
        for view, state in zip(views, self.states, strict=True):
            state[name] = view
        return flat


class NpuFusedOptimizerBase(Optimizer):
    """The base of the fused optimizers; not one itself."""

    is_fused_optimizer = True
    _chunks = None

    def __init__(self, params, default):
        for name, value in default.items():
            if name == "lr" and (not isinstance(value, (int, float)) or value < 0):
                raise ValueError(f"{type(self).__name__}: lr must be a number that is not negative, not {value!r}")
        super().__init__(params, default)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        self._chunks = None

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        self._chunks = None

    @torch.no_grad()
    def step(self, closure=None):
        """Makes one step. closure: computes the loss and its gradients anew; what it returns is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._combine()
        self._before_step()
        for chunk in self._chunks:
            chunk.count_step()
            self._step_chunk(chunk, chunk.group)
            # Parameters share memory with the flat tensor, but not its version counter.
            torch.autograd.graph.increment_version(chunk.params)
        return loss

    @torch.no_grad()
    def zero_grad(self, set_to_none=False):
        """Makes the gradients zero; with set_to_none they go, and the next step combines the new ones."""
        if set_to_none:
            super().zero_grad(set_to_none=True)
            return
        self._combine()
        for grad in self._grads.values():
            grad.zero_()

    def get_combined_params(self):
        """The combined parameters: float32, float16, then bfloat16 and float64 if there are any; None for a dtype without any."""
        return _in_order(self._params if self._chunks else {})

    def get_combined_grads(self):
        """The combined gradients, in the order of get_combined_params."""
        return _in_order(self._grads if self._chunks else {})

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm, norm_type=2):
        """Scales the gradients so that the norm of all of them is at most max_norm; gives the norm that they had."""
        max_norm, norm_type = float(max_norm), float(norm_type)
        self._combine()
        if not self._grads:
            return torch.tensor(0.0)
        norms = [torch.linalg.vector_norm(grad, norm_type, dtype=_wide(grad.dtype)).float() for grad in self._grads.values()]
        total = torch.linalg.vector_norm(torch.stack(norms), norm_type)
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for grad in self._grads.values():
            grad.mul_(scale)
        return total

    def _before_step(self):
        """What an optimizer needs of all gradients before the first chunk."""

    def _step_chunk(self, chunk, group):
        raise NotImplementedError(f"{type(self).__name__} has no formula: use one of the optimizers of torch_npu.optim")

    def _combine(self):
        """Brings the combined tensors up to date with the parameters that have gradients now."""
        if self._chunks is None or not self._take_new_grads():
            self._build()

    def _take_new_grads(self):
        """Copies gradients that were replaced since into the combined ones; False if it is not that alone that changed."""
        if sum(param.grad is not None for group in self.param_groups for param in group["params"]) != len(self._views):
            return False
        if len(self.state) < len(self._views):  # somebody cleared it
            return False
        old, new = [], []
        for param, address, view in self._views:
            grad = param.grad
            if grad is None or param.data_ptr() != address or param.shape != view.shape or param.dtype != view.dtype:
                return False
            if grad is not view:
                old.append((param, view))
                new.append(self._checked(grad))
        if old:
            torch._foreach_copy_([view for _, view in old], new)
            for param, view in old:
                param.grad = view
        return True

    def _build(self):
        chunks = {}
        for index, group in enumerate(self.param_groups):
            for param in group["params"]:
                if param.grad is not None:
                    self._checked(param.grad)
                    chunks.setdefault((param.dtype, index, self._steps_of(param)), []).append(param)
        members = {dtype: [] for dtype in _DTYPES}
        for (dtype, _, _), params in chunks.items():
            members[dtype] += params
        members = {dtype: params for dtype, params in members.items() if params}

        self._params, self._grads, self._views = {}, {}, []
        for dtype, params in members.items():
            self._params[dtype], self._grads[dtype] = self._flatten(params)
        offsets = dict.fromkeys(members, 0)
        self._chunks = []
        for (dtype, index, step), params in chunks.items():
            begin = offsets[dtype]
            end = offsets[dtype] = begin + sum(param.numel() for param in params)
            param, grad = self._params[dtype][begin:end], self._grads[dtype][begin:end]
            if begin < end:
                self._chunks.append(_Chunk(self.param_groups[index], params, self.state, param, grad, step))

    def _flatten(self, params):
        device = params[0].device
        for param in params:
            if param.device.type != "npu" or param.device != device:
                raise RuntimeError(
                    f"{type(self).__name__} takes parameters of one npu device, but got some on {device} and {param.device}: "
                    "move the model by .npu() before the first step, and make one optimizer for each device"
                )
            if not is_dense(param):
                param.data = param.data.contiguous()
        numel = sum(param.numel() for param in params)
        flat = torch.empty(numel, dtype=params[0].dtype, device=device)
        grads = torch.empty_like(flat)
        move_into(flat, params)
        views = split_like(grads, params)
        torch._foreach_copy_(views, [param.grad for param in params])
        for param, view in zip(params, views, strict=True):
            param.grad = view
            self._views.append((param, param.data_ptr(), view))
        return flat, grads

    def _checked(self, grad):
        if grad.layout != torch.strided:
            raise RuntimeError(f"{type(self).__name__} does not take sparse gradients: use torch.optim.SparseAdam or SGD")
        if grad.dtype not in _DTYPES:
            raise TypeError(f"{type(self).__name__} takes parameters of {', '.join(map(str, _DTYPES))}, not {grad.dtype}")
        return grad

    def _steps_of(self, param):
        state = self.state[param]
        if "step" in state:
            return int(state["step"])
        # States of torch.optim.SGD have no count; of one that is there, the first step is over.
        return int(any(value is not None for value in state.values()))


def check(optimizer, **values):
    """Refuses options that are out of their range: betas lie in [0, 1), the others are not negative."""
    for name, value in values.items():
        for number in value if name == "betas" else [value]:
            if number < 0 or (name in ("betas", "b1", "b2") and number >= 1):
                limits = "at least 0 and less than 1" if name in ("betas", "b1", "b2") else "not negative"
                raise ValueError(f"{optimizer}: {name} must be {limits}, not {value!r}")


def clip(grad, max_norm):
    """Scales a flat gradient in place to a norm of at most max_norm."""
    norm = torch.linalg.vector_norm(grad, dtype=_wide(grad.dtype))
    grad.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))


def _wide(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def _in_order(tensors):
    wanted = [dtype for dtype in _DTYPES if dtype in _DTYPES[:2] or dtype in tensors]
    return [tensors.get(dtype) for dtype in wanted]
