"""Every test starts and ends without amp."""

import pytest
from apex import amp


@pytest.fixture(autouse=True)
def without_amp(monkeypatch):
    yield
    amp.uninitialize()
    monkeypatch.setattr(amp.amp, "REGISTERED", [])
