"""LSTM and GRU per layer: weights are transposed, [in, gates * hidden], and the states of all steps are returned."""

import torch

from ._define import check, op


@op(
    "npu_lstm(Tensor input, Tensor weight, Tensor bias, Tensor seq_mask, Tensor h, Tensor c, bool has_biases, int num_layers,"
    " float dropout, bool train, bool bidirectional, bool batch_first, bool flag_seq, bool direction)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    called=lambda inputs, weight, bias, seqMask, h, c, has_biases, num_layers, dropout, train, bidirectional, batch_first,
    flagSeq, direction: ...,
)  # fmt: skip
def npu_lstm(
    input,
    weight,
    bias,
    seq_mask,
    h,
    c,
    has_biases,
    num_layers,
    dropout,
    train,
    bidirectional,
    batch_first,
    flag_seq,
    direction,
):
    """(y, h, c, i, j, f, o, tanh c), each [steps, batch, hidden], of one layer in one direction (backwards if `direction`).
    weight is [in + hidden, 4 * hidden] with the gates i, f, j, o; seq_mask is not used."""
    name = "npu_lstm"
    check(num_layers == 1 and not bidirectional, name, "one layer and one direction; torch.nn.LSTM has more")
    check(not flag_seq, name, "packed sequences are not offered; torch.nn.LSTM takes them")
    check(not batch_first, name, "the input is [steps, batch, in], not batch_first; transpose it")
    h, c = (state[0] if state.dim() == 3 else state for state in (h, c))
    steps = list(input.unbind(0))
    outputs = []
    for x in reversed(steps) if direction else steps:
        gates = torch.cat((x, h), -1) @ weight
        h, c, *rest = _step(gates + bias if has_biases else gates, c)
        outputs.append((h, h, c, *rest))
    if direction:
        outputs.reverse()
    return tuple(torch.stack(each) for each in zip(*outputs, strict=True))


@op(
    "npu_lstm_cell(Tensor input, Tensor w_ih, Tensor w_hh, Tensor h, Tensor c, Tensor? b_ih=None, Tensor? b_hh=None)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def npu_lstm_cell(input, w_ih, w_hh, h, c, b_ih=None, b_hh=None):
    """(y [1, batch, hidden], h, c, i, j, f, o, tanh c) of one step; weights are [in, 4 * hidden] and [hidden, 4 * hidden]."""
    gates = input @ w_ih + h @ w_hh
    for bias in (b_ih, b_hh):
        gates = gates if bias is None else gates + bias
    h, c, *rest = _step(gates, c)
    return h.unsqueeze(0), h.clone(), c, *(gate.unsqueeze(0) for gate in rest)


@op(
    "npu_gru(Tensor input, Tensor hx, Tensor weight_input, Tensor weight_hidden, Tensor bias_input, Tensor bias_hidden,"
    " Tensor seq_length, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def npu_gru(
    input,
    hx,
    weight_input,
    weight_hidden,
    bias_input,
    bias_hidden,
    seq_length,
    has_biases,
    num_layers,
    dropout,
    train,
    bidirectional,
    batch_first,
):
    """(y, h, update, reset, new, hidden new), each [steps, batch, hidden], of one layer; weights are [in, 3 * hidden] and
    [hidden, 3 * hidden] with the gates reset, update, new."""
    name = "npu_gru"
    check(num_layers == 1 and not bidirectional, name, "one layer and one direction; torch.nn.GRU has more")
    check(not batch_first, name, "the input is [steps, batch, in], not batch_first; transpose it")
    h = hx[0] if hx.dim() == 3 else hx
    outputs = []
    for x in input.unbind(0):
        own, old = x @ weight_input, h @ weight_hidden
        if has_biases:
            own, old = own + bias_input, old + bias_hidden
        reset, update, new = (a + b for a, b in zip(own.chunk(3, -1), (*old.chunk(3, -1)[:2], 0), strict=True))
        reset, update, hidden_new = reset.sigmoid(), update.sigmoid(), old.chunk(3, -1)[2]
        new = (new + reset * hidden_new).tanh()
        h = (1 - update) * new + update * h
        outputs.append((h, h, update, reset, new, hidden_new))
    return tuple(torch.stack(each) for each in zip(*outputs, strict=True))


def _step(gates, c):
    """(h, c, i, j, f, o, tanh c)."""
    i, f, j, o = gates.chunk(4, -1)
    i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
    c = f * c + i * j
    bent = c.tanh()
    return o * bent, c, i, j, f, o, bent
