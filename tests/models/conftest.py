import gc

import pytest
import torch


@pytest.fixture(autouse=True)
def memory_goes_back(request):
    """Networks are large: the next test finds the memory of the last one free."""
    yield
    if "full" not in request.keywords:
        return
    gc.collect()
    torch.npu.empty_cache()
