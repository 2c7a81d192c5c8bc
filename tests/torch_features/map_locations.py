"""Values of map_location for a checkpoint of npu:1."""

import torch

# Name -> (map_location, device of the loaded tensor).
MAPS = {
    "none": (None, "npu:1"),
    "cpu": ("cpu", "cpu"),
    "npu": ("npu", "npu:0"),
    "npu:0": ("npu:0", "npu:0"),
    "device": (torch.device("npu:0"), "npu:0"),
    "cpu device": (torch.device("cpu"), "cpu"),
    "dict": ({"npu:1": "npu:0"}, "npu:0"),
    "dict to cpu": ({"npu:1": "cpu"}, "cpu"),
    "dict of others": ({"npu:7": "cpu"}, "npu:1"),
    "function": (lambda storage, location: storage.npu(0), "npu:0"),
    "function to cpu": (lambda storage, location: storage, "cpu"),
    "function without answer": (lambda storage, location: None, "npu:1"),
}
