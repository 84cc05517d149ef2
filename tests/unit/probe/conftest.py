"""The probe reads certificates with the openssl command, recorded machines or not."""

from __future__ import annotations

import pytest

from tests.prerequisites import require


@pytest.fixture(scope="session", autouse=True)
def openssl() -> None:
    """Bring it where it is missing."""
    require("openssl")
