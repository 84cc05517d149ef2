"""What is installed is what a site may choose from."""

import pytest

from appliance.adapters.site.content import known_content
from appliance.adapters.site.files import load_site
from tests.site_cases import EXAMPLE


def test_the_example_fits_what_is_installed() -> None:
    assert load_site(EXAMPLE).settings.appliance_release in known_content().releases


def test_releases_are_offered_with_their_operating_systems() -> None:
    known = known_content()
    assert "debian-12" in known.releases["k8s-1.23.5-r1"]
    assert len(known.releases) >= 1
    with pytest.raises(KeyError):
        known.releases["k8s-0.0.0"]


def test_roles_are_offered_with_their_public_variables() -> None:
    known = known_content()
    assert len(known.roles) > 3
    assert all(v.startswith("docker_engine_") for v in known.roles["docker_engine"])
    assert known.roles["docker_engine"]
    with pytest.raises(KeyError):
        known.roles["no_such_role"]
