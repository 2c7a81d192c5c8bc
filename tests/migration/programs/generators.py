"""Random numbers with generators, states and seeds. Prints what has to be equal on every device: which draws repeat."""

import json

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
generator = torch.Generator(device=device)
assert generator.device.type == device


def draws(generator):
    return torch.cat(
        [
            torch.rand(3, generator=generator, device=device),
            torch.randn(3, generator=generator, device=device),
            torch.randperm(5, generator=generator, device=device).float(),
            torch.randint(0, 9, (3,), generator=generator, device=device).float(),
            torch.empty(3, device=device).normal_(generator=generator),
        ]
    )


def repeats(seed, again):
    seed()
    first = draws(None)
    again()
    return torch.equal(first, draws(None))


results = {"generator": torch.equal(draws(generator.manual_seed(7)), draws(generator.manual_seed(7)))}
results["other seed"] = torch.equal(draws(generator.manual_seed(7)), draws(generator.manual_seed(8)))
state = generator.get_state()
first = draws(generator)
generator.set_state(state)
results["state of the generator"] = torch.equal(first, draws(generator))
results["torch.manual_seed"] = repeats(lambda: torch.manual_seed(1), lambda: torch.manual_seed(1))
if device == "cuda":
    states = torch.cuda.get_rng_state_all()
    results["torch.cuda"] = repeats(lambda: torch.cuda.manual_seed(2), lambda: torch.cuda.manual_seed(2))
    torch.cuda.manual_seed_all(3)
    state = torch.cuda.get_rng_state("cuda")
    results["state"] = repeats(lambda: None, lambda: torch.cuda.set_rng_state(state, "cuda:0"))
    torch.cuda.set_rng_state_all(states)
    assert torch.cuda.default_generators[0].device == torch.device("cuda:0")
    assert torch.cuda.random.get_rng_state is torch.cuda.get_rng_state
else:
    results["torch.cuda"] = results["state"] = True
torch.manual_seed(4)
with torch.random.fork_rng(devices=[0] if device == "cuda" else []):
    first = draws(None)
results["fork_rng"] = torch.equal(first, draws(None))
print(json.dumps(results))
