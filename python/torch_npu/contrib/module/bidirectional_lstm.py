"""An LSTM in both directions."""

import torch
from torch import nn


class BiLSTM(nn.Module):
    """Maps [steps, batch, input_size] to [steps, batch, 2 * hidden_size] by two LSTMs, fw_rnn and bw_rnn."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.fw_rnn = nn.LSTM(input_size, hidden_size)
        self.bw_rnn = nn.LSTM(input_size, hidden_size)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        forward, _ = self.fw_rnn(inputs)
        backward, _ = self.bw_rnn(inputs.flip(0))
        return torch.cat((forward, backward.flip(0)), 2)
