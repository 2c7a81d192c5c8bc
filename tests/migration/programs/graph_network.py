"""Networks on graphs: sparse matrices, and attention by scatter. Prints the losses."""

import json

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(42)
if torch.cuda.is_available():
    torch.cuda.manual_seed(42)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
nodes = 30
edges = torch.cat([torch.randint(0, nodes, (2, 90)), torch.arange(nodes).repeat(2, 1)], 1)
weights = 1 / torch.bincount(edges[0], minlength=nodes)[edges[0]].float()
features, labels = torch.rand(nodes, 6), torch.arange(nodes) % 3


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, adjacency):
        return torch.spmm(adjacency, self.linear(x))


class Attention(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear, self.score = nn.Linear(inputs, outputs), nn.Linear(2 * outputs, 1)

    def forward(self, x, edges):
        source, target = edges
        z = self.linear(x)
        score = F.leaky_relu(self.score(torch.cat([z[source], z[target]], 1)).squeeze(1), 0.2)
        largest = torch.full((len(x),), -torch.inf, device=x.device).scatter_reduce(0, target, score.detach(), "amax")
        share = (score - largest[target]).exp()
        share = share / torch.zeros(len(x), device=x.device).scatter_add(0, target, share)[target]
        return torch.zeros_like(z).index_add(0, target, share[:, None] * z[source])


first, second = Convolution(6, 16).to(device), Attention(16, 3).to(device)
adjacency = torch.sparse_coo_tensor(edges, weights, (nodes, nodes), check_invariants=False)
if device.type == "cuda":
    features, labels, edges, adjacency = features.cuda(), labels.cuda(), edges.cuda(), adjacency.cuda()
    assert adjacency.is_sparse and adjacency.is_cuda and adjacency.coalesce().indices().is_cuda
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
losses = []
for _ in range(6):
    loss = F.nll_loss(F.log_softmax(second(F.relu(first(features, adjacency)), edges), 1), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(losses))
