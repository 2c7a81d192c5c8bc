import jax

device = "cuda"
devices = jax.devices("cuda")
config = {"device": "cuda", "backend": "nccl"}
