"""Steps of Adam that change their tensors in place. There is a newer form of the call and an older one:

    torch_npu.npu_bert_apply_adam(lr, 0.9, 0.999, 1e-8, grad, max_grad_norm, global_grad_norm, decay, out=(var, m, v))
    torch.npu_bert_apply_adam(var, m, v, lr, 0.9, 0.999, 1e-8, grad, max_grad_norm, global_grad_norm, decay)

Both return (var, m, v), the given tensors: the parameter and the means of the gradient and of its square.
"""

import torch

from ._define import check, function, op

_STATE = "Tensor(a!) var, Tensor(b!) m, Tensor(c!) v"
_RESULT = "(Tensor(a!), Tensor(b!), Tensor(c!))"
_BERT = (
    "Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad, Scalar max_grad_norm, Scalar global_grad_norm,"
    " Scalar weight_decay, Scalar? step_size=None, int adam_mode=0"
)
_ADAM = (
    "Scalar beta1_power, Scalar beta2_power, Scalar lr, Scalar beta1, Scalar beta2, Scalar epsilon, Tensor grad,"
    " bool? use_locking, bool? use_nesterov"
)


@op(f"npu_bert_apply_adam.out({_BERT}, *, {_STATE}) -> {_RESULT}")
def bert_apply_adam(
    lr,
    beta1,
    beta2,
    epsilon,
    grad,
    max_grad_norm,
    global_grad_norm,
    weight_decay,
    step_size=None,
    adam_mode=0,
    *,
    var,
    m,
    v,
):
    name = "npu_bert_apply_adam"
    _check(name, grad, var, m, v)
    check(adam_mode in (0, 1), name, f"adam_mode is 0 (BERT) or 1 (fairseq), not {adam_mode}")
    with torch.no_grad():
        if max_grad_norm > 0 and global_grad_norm > max_grad_norm:
            grad = grad * (max_grad_norm / global_grad_norm)
        update = _moments(grad, m, v, beta1, beta2, epsilon)
        if adam_mode == 0:
            var.sub_(update.add_(var, alpha=weight_decay), alpha=lr)
        else:
            var.mul_(1 - lr * weight_decay).sub_(update, alpha=lr if step_size is None else step_size)
    return var, m, v


@op(f"npu_bert_apply_adam.old({_STATE}, {_BERT}) -> {_RESULT}")
def bert_apply_adam_old(var, m, v, *rest):
    return bert_apply_adam(*rest, var=var, m=m, v=v)


@op(f"npu_apply_adam.out({_ADAM}, *, {_STATE}) -> {_RESULT}")
def apply_adam(beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking, use_nesterov, *, var, m, v):
    _check("npu_apply_adam", grad, var, m, v)
    with torch.no_grad():
        update = _moments(grad, m, v, beta1, beta2, epsilon)
        if use_nesterov:
            update = (beta1 * m + (1 - beta1) * grad) / v.sqrt().add_(epsilon)
        var.sub_(update, alpha=lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power))
    return var, m, v


@op(f"npu_apply_adam.old({_STATE}, {_ADAM}) -> {_RESULT}")
def apply_adam_old(var, m, v, *rest):
    return apply_adam(*rest, var=var, m=m, v=v)


@function
def npu_bert_apply_adam(*args, out=None, **kwargs):
    """npu_bert_apply_adam(lr, beta1, beta2, epsilon, grad, max_grad_norm, global_grad_norm, weight_decay, step_size=None,
    adam_mode=0, *, out=(var, m, v)): (var, m, v) after a step without bias correction.

    With adam_mode 0, as in BertAdam, var -= lr (m / (sqrt(v) + epsilon) + weight_decay var). With adam_mode 1, as in fairseq,
    var -= lr weight_decay var, then var -= step_size m / (sqrt(v) + epsilon). If global_grad_norm exceeds max_grad_norm > 0, the
    gradient is first scaled to that norm."""
    return _call("npu_bert_apply_adam", args, out, kwargs)


@function
def npu_apply_adam(*args, out=None, **kwargs):
    """npu_apply_adam(beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad, use_locking, use_nesterov, *, out=(var, m, v)):
    (var, m, v) after a step of Adam; the powers are those of the betas by the number of the step."""
    return _call("npu_apply_adam", args, out, kwargs)


def _call(name, args, out, kwargs):
    operator = getattr(torch.ops.npu, name)
    if out is not None:
        check(len(out) == 3, name, f"out is (var, m, v), not {len(out)} tensors")
        return operator.out(*args, var=out[0], m=out[1], v=out[2], **kwargs)
    if "m" in kwargs or (len(args) > 1 and isinstance(args[1], torch.Tensor)):
        return operator.old(*args, **kwargs)
    raise TypeError(f"{name}() changes tensors in place; give them as out=(var, m, v)")


def _check(name, grad, var, m, v):
    for label, tensor in (("var", var), ("m", m), ("v", v)):
        check(tensor.shape == grad.shape, name, f"{label} has the shape of grad, {list(grad.shape)}, not {list(tensor.shape)}")


def _moments(grad, m, v, beta1, beta2, epsilon):
    """Updates m and v; returns m / (sqrt(v) + epsilon)."""
    m.mul_(beta1).add_(grad, alpha=1 - beta1)
    v.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    return m / v.sqrt().add_(epsilon)
