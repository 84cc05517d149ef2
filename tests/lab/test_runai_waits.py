"""What a backend waits for in vain is told as what it is: an image, a claim, a certificate.

The vendor bundle of these tests lacks an image that its own chart names, so the backend never gets
ready, however long somebody waits.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.cache import Cache
from appliance.lab.vendor.bundle import ingredients, write_vendor_bundle
from tests.lab.conftest import LabSite
from tests.lab.support.cluster import kubectl
from tests.lab.support.runai_site import RunaiSite, own_authority, runai_site, signed
from tests.lab.support.stillness import scene
from tests.this_run import OS

# Some minutes: the first of them brings storage and the vendor's images.
pytestmark = [pytest.mark.lab, pytest.mark.slow]

LACKING, VERSION = "backend-standin", "2.7.0"
TASK = "Wait until the backend is ready"
READY_SECONDS, SOON, LATE = 900, 30, 800


@pytest.fixture(scope="module")
def site(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> RunaiSite:
    """The lab, by a site that asks for a bundle without one of its images."""
    folder = tmp_path_factory.mktemp("waits")
    found = runai_site(installed_lab, folder)
    parts = ingredients("k8s-1.23.5-r1", OS, Cache())
    kept = tuple(image for image in parts.images if image.name != LACKING)
    assert len(kept) == len(parts.images) - 1
    path = write_vendor_bundle(VERSION, folder, dataclasses.replace(parts, images=kept))
    settings = found.settings()
    settings["runai"]["vendor_bundle"] = str(path)
    found.write(settings)
    return found


@contextmanager
def faults_last(site: RunaiSite, seconds: int) -> Iterator[None]:
    """How long a fault that waiting does not heal may last: the site's own exception."""
    before = site.settings_file.read_text()
    settings = site.settings()
    settings["role_overrides"] |= {
        "runai_backend": {
            "runai_backend_fault_seconds": seconds,
            "runai_backend_ready_seconds": READY_SECONDS,
        }
    }
    site.write(settings)
    try:
        yield
    finally:
        site.settings_file.write_text(before)


def error_of(stderr: str) -> str:
    (error,) = (line for line in stderr.splitlines() if line.startswith("error: "))
    return error


def began_waiting(site: RunaiSite) -> float:
    """When the last run came to its wait for the backend, UTC epoch seconds."""
    events = (site.lab.directory / ".appliance/runs").glob("*/runai/artifacts/events/**/*.json")
    found: list[dict[str, Any]] = [json.loads(path.read_text()) for path in events]
    starts = [
        datetime.fromisoformat(event["created"])
        for event in found
        if event["event"] == "runner_on_start" and TASK in event["event_data"]["task"]
    ]
    return max((one if one.tzinfo else one.replace(tzinfo=UTC)).timestamp() for one in starts)


def test_a_backend_that_cannot_pull_is_reported_as_such(site: RunaiSite) -> None:
    lab, image = site.lab, f"run-ai-prod/{LACKING}:{VERSION}"
    with faults_last(site, SOON):
        done = lab.install(timeout=1800)
    assert done.returncode == 1, done.stderr
    waited = time.time() - began_waiting(site)
    print(f"told {waited:.0f} s after the wait began\n{done.stderr}")  # noqa: T201 - for the log
    error = error_of(done.stderr)
    # The fault is in force: everything else of the bundle is in the registry, this is not.
    services = scene(lab).node_facts[lab.node("cp1")]
    held = services.at("registry.images")
    assert f"run-ai-prod/postgresql-standin:{VERSION}" in held
    assert image not in held
    assert f"cannot pull {site.settings()['registry']}/{image}: " in error
    assert "runai-backend: pod runai-backend-backend-" in error
    assert "are ready" not in error, "the pods that wait for it are not what is wrong"
    assert waited < READY_SECONDS / 2
    assert TASK in done.stderr, "the line task: names it"


def uninstall_backend(site: RunaiSite) -> None:
    """Take the release away with its claims, whose class cannot be changed."""
    helm = "KUBECONFIG=/etc/kubernetes/admin.conf helm"
    there = f"{helm} status runai-backend --namespace runai-backend >/dev/null 2>&1"
    uninstall = f"{helm} uninstall runai-backend --namespace runai-backend --wait"
    site.lab.shell("cp1", f"if {there}; then {uninstall}; fi")


def test_a_claim_that_cannot_bind_is_reported_as_such(site: RunaiSite) -> None:
    lab, nowhere = site.lab, "a-class-nobody-made"
    persistence = {"nfs": None, "storageClassName": nowhere}
    uninstall_backend(site)
    try:
        with (
            faults_last(site, SOON),
            site.asks(values={"postgresql": {"persistence": persistence}}),
        ):
            done = lab.install(timeout=1800)
        told, began = time.time(), began_waiting(site)
        print(f"told {told - began:.0f} s after the wait began\n{done.stderr}")  # noqa: T201 - for the log
        assert done.returncode == 1, done.stderr
        claim = json.loads(kubectl(lab, "--namespace runai-backend get pvc pvc-postgresql -o json"))
        assert claim["status"]["phase"] == "Pending", "the fault is in force"
        assert (
            "runai-backend: claim pvc-postgresql is Pending, not bound: "
            f'storageclass.storage.k8s.io "{nowhere}" not found'
        ) in error_of(done.stderr)
        assert told - began < READY_SECONDS / 2
    finally:
        uninstall_backend(site)


def test_a_certificate_that_expires_during_the_wait_is_reported_as_such(
    site: RunaiSite, tmp_path: Path
) -> None:
    lab, last = site.lab, site.lab.records()[-1]
    assert last["step"] == "runai", "nothing is left to be brought but the backend"
    # As long as the last run took to come to its wait, and somewhat longer.
    seconds = 60 + float(last["took_seconds"])
    ends = (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
    chain, key = signed(site.domain, own_authority(site), ends=ends)
    path = tmp_path / "backend.pem"
    path.write_text(chain)
    site.keep(vault_runai_tls_key=key)
    with faults_last(site, LATE), site.asks(certificate=str(path), certificate_minimum_days=0):
        done = lab.install(timeout=1800)
    told, began = time.time(), began_waiting(site)
    print(  # noqa: T201 - for the log
        f"expired {ends.timestamp() - began:.0f} s after the wait began, told "
        f"{told - ends.timestamp():.0f} s later\n{done.stderr}"
    )
    assert began < ends.timestamp() < told, "it expired while the backend was waited for"
    assert done.returncode == 1, done.stderr
    error = error_of(done.stderr)
    assert "the certificate /etc/appliance/runai/backend.crt expired at " in error
    assert f"{ends:%H:%M:%S %Y GMT}" in error
    assert "cannot pull" not in error
    assert told - began < READY_SECONDS / 2
