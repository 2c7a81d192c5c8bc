"""What can be recorded."""

import torch.profiler


def supported_activities():
    """ProfilerActivity.CPU and ProfilerActivity.NPU."""
    return {torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1}
