"""What tests of several folders share: the real bundle, built once a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands import succeed

RELEASE, OS = "k8s-1.23.5-r1", "debian-12"


@pytest.fixture(scope="session")
def bundle_directory() -> Path:
    """The bundle, built (or taken from the cache) by the real command."""
    from appliance.cli.lab_parts import default_bundle

    if given := os.environ.get("APPLIANCE_TEST_BUNDLE"):
        return Path(given)
    directory = default_bundle(RELEASE)
    succeed("bundle", "build", "--release", RELEASE, "--os", OS, str(directory), timeout=3600)
    return directory
