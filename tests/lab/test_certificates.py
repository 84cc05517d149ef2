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
from tests.lab.support.forged import (
    ALMOST_A_YEAR_DAYS,
    SERVER,
    days_left,
    forge,
    forge_kubelet,
    kubelet_days_left,
)
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


def kubelets(lab: LabSite) -> list[str]:
    """The nodes whose kubelet the command renews."""
    words = PAGE.words("appliance cluster certificates renew --site SITE", _site(lab))
    told = json.loads(succeed(*words, "--yes", "--output", "json").stdout)
    return [one["node"] for one in told["kubelets"]]


def _site(lab: LabSite) -> dict[str, str]:
    return {"SITE": str(lab.directory)}


def is_ready(lab: LabSite, node: str) -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    told = lab.shell(
        "cp1", f"{KUBECTL} get node {lab.node(node)} -o jsonpath='{path}'", check=False
    )
    return told.strip() == "True"


@pytest.mark.parametrize(("node", "days"), [("w1", -2), ("w1", 3), ("cp1", -2)])
def test_a_kubelet_that_did_not_renew_its_certificate_gets_another(
    node: str, days: int, installed_lab: LabSite
) -> None:
    """By a token on a worker, by its own request before the end, and by the CA's key on cp1."""
    installed_lab.settled(300)
    forge_kubelet(installed_lab, node, days)
    if days < 0:
        wait_for("a Node that is not Ready", lambda: not is_ready(installed_lab, node), 180)
    found = kubelets(installed_lab)
    # With three days left, the restart of the forging may have made it ask already.
    assert found == [installed_lab.node(node)] or (days > 0 and found == [])
    assert kubelet_days_left(installed_lab, node) > ALMOST_A_YEAR_DAYS
    assert is_ready(installed_lab, node)
    left = installed_lab.shell(node, "ls /etc/kubernetes /etc/kubernetes/appliance/certificates")
    assert "bootstrap-kubelet.conf" not in left
    assert "kubelet.json" not in left
    secrets = installed_lab.shell("cp1", f"{KUBECTL} -n kube-system get secrets -o name")
    assert "bootstrap-token" not in secrets
    assert kubelets(installed_lab) == []
    installed_lab.settled(300)
