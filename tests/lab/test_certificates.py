"""Certificates of Kubernetes that end soon, or have ended, are renewed by one command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.forged import ALMOST_A_YEAR_DAYS, SERVER, days_left, forge
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("renew-kubernetes-certificates")


def renew(lab: LabSite) -> list[str]:
    """The nodes that the command renews."""
    site = {"SITE": str(lab.directory)}
    words = PAGE.words("appliance cluster certificates renew --site SITE", site)
    return _renewals(*words, "--yes")


def would_renew(lab: LabSite) -> list[str]:
    """The nodes that a dry run of it names."""
    site = {"SITE": str(lab.directory)}
    return _renewals(
        *PAGE.words("appliance cluster certificates renew --site SITE --dry-run", site)
    )


def _renewals(*words: str) -> list[str]:
    found = json.loads(succeed(*words, "--output", "json").stdout)["renewals"]
    return [renewal["node"] for renewal in found]


def test_a_certificate_that_ends_tomorrow_is_found_and_renewed(installed_lab: LabSite) -> None:
    installed_lab.settled()
    node = installed_lab.node("cp1")
    forge(installed_lab, "cp1", 1)
    site = {"SITE": str(installed_lab.directory)}
    shown = succeed(*PAGE.words("appliance cluster certificates show --site SITE", site)).stdout
    assert SERVER in shown
    assert would_renew(installed_lab) == [node]
    assert renew(installed_lab) == [node]
    assert days_left(installed_lab, "cp1") > ALMOST_A_YEAR_DAYS
    assert renew(installed_lab) == []
    installed_lab.settled()
    succeed(*PAGE.words("appliance health --site SITE", site))
    kubeconfig = installed_lab.directory / ".appliance/kubeconfig"
    admin = installed_lab.shell("cp1", "cat /etc/kubernetes/admin.conf")
    assert "client-certificate-data" in kubeconfig.read_text()
    theirs = [line.split()[-1] for line in admin.splitlines() if "client-certificate-data" in line]
    assert theirs[0] in kubeconfig.read_text(), "the operator's copy is the new one"


def test_expired_certificates_are_repaired_although_no_api_answers(installed_lab: LabSite) -> None:
    forge(installed_lab, "cp1", -2)
    installed_lab.shell("cp1", "kill $(pgrep -x kube-apiserver)")
    wait_for(
        "an API that does not answer",
        lambda: "Ready" not in installed_lab.shell("cp1", f"{KUBECTL} get nodes", check=False),
        120,
    )
    assert renew(installed_lab) == [installed_lab.node("cp1")]
    assert days_left(installed_lab, "cp1") > ALMOST_A_YEAR_DAYS
    installed_lab.settled(300)


def test_a_renewal_that_was_killed_is_finished_by_the_same_command(installed_lab: LabSite) -> None:
    forge(installed_lab, "cp1", 1)
    program = Path(sys.executable).with_name("appliance")
    site = ["--site", str(installed_lab.directory)]
    process = subprocess.Popen(
        [program, "cluster", "certificates", "renew", "--yes", *site],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    mark = "/etc/kubernetes/appliance/certificates/renewal.json"
    wait_for(
        "a renewal that has begun",
        lambda: "yes" in installed_lab.shell("cp1", f"test -e {mark} && echo yes", check=False),
        60,
    )
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = time.monotonic()
    renew(installed_lab)
    assert days_left(installed_lab, "cp1") > ALMOST_A_YEAR_DAYS, time.monotonic() - began
    assert "yes" not in installed_lab.shell("cp1", f"test -e {mark} && echo yes", check=False)
    installed_lab.settled(300)
