"""On a busy machine a server that is well may take longer than the others' head start."""

from __future__ import annotations

import pytest

from appliance.adapters.kubernetes.connection import first as kubernetes_first


@pytest.fixture(autouse=True)
def the_first_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that are about the others set it themselves."""
    monkeypatch.setattr(kubernetes_first, "HEAD_START", 60.0)
