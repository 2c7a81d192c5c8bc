"""Random sampling."""

import torch

from ._define import check, op


@op("npu_top_k_top_p(Tensor logits, Tensor? p=None, Tensor? k=None) -> Tensor")
def npu_top_k_top_p(logits, p=None, k=None):
    """logits [batch, words], with -inf for words that are not among the k[b] highest, or not among the most likely words whose
    probabilities add up to p[b]. The most likely word is always kept."""
    name = "npu_top_k_top_p"
    check(p is not None or k is not None, name, "give p, k or both")
    values, order = logits.sort(dim=-1, stable=True)
    if k is not None:
        least = values.gather(1, (values.size(1) - k.long()).unsqueeze(1))
        values = values.masked_fill(values < least, float("-inf"))
    if p is not None:
        unlikely = values.float().softmax(-1).cumsum(-1) <= 1 - p.unsqueeze(1)
        unlikely[:, -1] = False
        values = values.masked_fill(unlikely, float("-inf"))
    return torch.empty_like(values).scatter(-1, order, values)


@op("npu_sim_exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor(a!)")
def npu_sim_exponential_(self, lambd=1.0, *, generator=None):
    """self.exponential_(lambd)."""
    return self.exponential_(lambd, generator=generator)


@op("npu_random_choice_with_mask(Tensor x, int count=256, int seed=0, int seed2=0) -> (Tensor, Tensor)")
def npu_random_choice_with_mask(x, count=256, seed=0, seed2=0):
    """(indices [count, dimensions] in int32, bool [count]): `count` random positions of True elements. If there are fewer, the
    rest is 0 and False."""
    name = "npu_random_choice_with_mask"
    check(x.dtype == torch.bool, name, f"x is bool, not {x.dtype}")
    check(seed == 0 and seed2 == 0, name, "seeds are not offered; torch.manual_seed sets the generator")
    chance = torch.where(x.flatten(), torch.rand(x.numel(), device=x.device), -1.0)
    best = chance.argsort(descending=True)[:count]
    found = x.flatten()[best]
    missing = count - found.numel()
    best, found = torch.nn.functional.pad(torch.where(found, best, 0), (0, missing)), torch.nn.functional.pad(found, (0, missing))
    shape = [max(size, 1) for size in x.shape]  # an empty tensor has no positions
    return torch.stack(torch.unravel_index(best, shape), -1).to(torch.int32), found
