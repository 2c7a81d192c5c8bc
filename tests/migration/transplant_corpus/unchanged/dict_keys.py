import torch

speeds = {"cuda": 3, "cpu": 1, "cuda:0": 4}
print(speeds["cuda"], speeds.get("cuda"), "cuda" in speeds, torch.__version__)
