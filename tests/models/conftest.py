import gc

import pytest
import torch


@pytest.fixture(autouse=True)
def memory_is_freed(request):
    """Frees the memory of a test that is marked full before the next one: its networks are large."""
    yield
    if "full" not in request.keywords:
        return
    gc.collect()
    torch.npu.empty_cache()
