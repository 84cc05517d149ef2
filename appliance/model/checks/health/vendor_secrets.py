"""Logins and secrets of Run:ai: none is the vendor's published one, and researchers must log in."""

from __future__ import annotations

from typing import Final

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.documents.pages import page
from appliance.model.state.cluster.cluster import RunaiLogins
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE
from appliance.model.state.findings import Finding

RELEASES: Final = (("runai-backend", BACKEND_RELEASE), ("runai", CLUSTER_RELEASE))


def vendor_secrets(inputs: HealthInputs) -> Answers:
    """No release of Run:ai has a secret that stands in the vendor's published files."""
    if inputs.cluster is None or not inputs.has_backend:
        yield Skipped("Run:ai is not installed yet")
        return
    for namespace, name in RELEASES:
        release = inputs.cluster.release(namespace, name)
        if release is None:
            continue
        if release.vendor_defaults is None:
            yield Finding(
                "cluster",
                "vendor_secrets",
                "warning",
                f"release {name}, whose secrets nobody has compared with the vendor's",
                "a release that step runai has looked at",
                "appliance install --only runai --again",
            )
        elif release.vendor_defaults:
            yield Finding(
                "cluster",
                "vendor_secrets",
                "error",
                f"the vendor's published secret in release {name}: "
                f"{', '.join(release.vendor_defaults)}",
                "secrets of this site alone",
                f"less {page('runai-secrets')}",
            )
        else:
            yield f"{name} has none"
    yield from _first_passwords(inputs.cluster.runai_logins)


def _first_passwords(logins: RunaiLogins) -> Answers:
    """The vendor's first passwords were tried, and none logs in."""
    if logins.first_passwords is None:
        yield Finding(
            "cluster",
            "vendor_secrets",
            "warning",
            "a backend on which the vendor's first passwords were not tried",
            "a backend that refuses them",
            "appliance install --only runai --again",
        )
    elif logins.first_passwords:
        yield Finding(
            "cluster",
            "vendor_secrets",
            "error",
            f"the vendor's first password logs in {', '.join(logins.first_passwords)}",
            "a password of this site for each user",
            f"less {page('runai-secrets')}",
        )
    else:
        yield "the backend refuses the vendor's first passwords"


def researcher_login(inputs: HealthInputs) -> Answers:
    """Run:ai itself asks researchers for a login, as the API server does."""
    if not inputs.runai.access.enabled:
        yield Skipped("runai.access is not enabled")
    elif inputs.cluster is None or not inputs.has_backend:
        yield Skipped("Run:ai is not installed yet")
    elif inputs.cluster.runai_logins.researchers:
        yield "Researcher Authentication is on"
    elif inputs.runai.access.switched_on:
        yield "Researcher Authentication is on, by site.yml"
    else:
        asked = inputs.cluster.runai_logins.researchers is not None
        yield Finding(
            "cluster",
            "researcher_login",
            "warning",
            "a backend that has no call for Researcher Authentication"
            if asked
            else "a backend that was not asked to switch on Researcher Authentication",
            "Researcher Authentication switched on: without it, Run:ai takes jobs without a login",
            f"switch it on in the backend's General settings, then write switched_on: true under "
            f"runai.access in site.yml: less {page('access')}"
            if asked
            else "appliance install --only runai --again",
        )
