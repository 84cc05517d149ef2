"""A worker in an attacker's hand: it lies, and the appliance goes on, tells it nothing, drops it.

Its SSH server answers every command with lies, for ever or never; its kubelet writes what it likes
on its own Node. The control plane and the other worker are ours.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.site.vault import KEPT, AnsibleVault
from appliance.model.site.vault_ref import CA_FILE
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL

pytestmark = [pytest.mark.lab, pytest.mark.slow]

HOSTILE = "w2"
MOST_SECONDS = 150
LIES = ("templates", "escapes", "numbers", "nothing", "endless", "drip", "silent")
FORCED = "ForceCommand /usr/bin/python3 /usr/local/bin/liar"
DEEP = "[" * 100_000
NOTES = {
    "appliance.dev/maintenance": DEEP,
    "appliance.dev/dmi-serial": "{{ lookup('ansible.builtin.pipe', 'touch /tmp/liar-was-here') }}",
    "appliance.dev/network-proven": "\x1b]0;owned\x07",
}


def lie(lab: LabSite, kind: str) -> None:
    """Choose how the worker lies."""
    lab.shell(HOSTILE, f"echo {kind} >/etc/liar")


@pytest.fixture(scope="module")
def site(installed_lab: LabSite) -> Iterator[LabSite]:
    """The installed lab, whose last worker lies by now, by SSH and by its Node's annotations."""
    lab = installed_lab
    faults.shell(
        lab.node(HOSTILE),
        "cat >/usr/local/bin/liar; mkdir -p /var/log/liar; chmod 777 /var/log/liar;"
        f"echo templates >/etc/liar; echo '{FORCED}' >/etc/ssh/sshd_config.d/liar.conf;"
        "pkill -f '[s]shd: appliance' || true; systemctl reload ssh",
        stdin=(Path(__file__).parent / "support" / "liar.py").read_text(),
    )
    for key, text in NOTES.items():
        faults.shell(
            lab.node(HOSTILE),
            f"cat >/tmp/note; kubectl --kubeconfig /etc/kubernetes/kubelet.conf annotate"
            f' --overwrite node {lab.node(HOSTILE)} "{key}=$(cat /tmp/note)"',
            stdin=text,
        )
    yield lab
    faults.shell(lab.node(HOSTILE), "rm /etc/ssh/sshd_config.d/liar.conf; systemctl reload ssh")


def secrets(lab: LabSite) -> dict[str, str]:
    """Every secret of the vault; certificates are public."""
    vault = AnsibleVault(lab.directory / KEPT)
    found = dict(vault.read(lab.directory / "group_vars/all/vault.yml"))
    found |= vault.read(lab.directory / CA_FILE)
    return {name: text for name, text in found.items() if "BEGIN CERTIFICATE" not in text}


@pytest.mark.parametrize("kind", LIES)
def test_a_worker_that_lies_stops_no_command_on_the_others(site: LabSite, kind: str) -> None:
    lie(site, kind)
    began = time.monotonic()
    found = site.status()
    assert time.monotonic() - began < MOST_SECONDS
    assert [fault["node"] for fault in found["unreachable"]] == [site.node(HOSTILE)]
    assert "\x1b" not in json.dumps(found, ensure_ascii=False)
    done = site.install("--only", "host")
    assert done.returncode == 1, done.stderr
    assert site.node(HOSTILE) in done.stderr
    assert "internal error" not in done.stderr
    assert "\x1b]0" not in done.stdout + done.stderr
    assert not Path("/tmp/liar-was-here").exists()  # noqa: S108 - what the lie would leave


def test_it_receives_nothing_from_the_vault(site: LabSite) -> None:
    told = site.shell(HOSTILE, "cat /var/log/liar/* | tr -cd '\\11\\12\\15\\40-\\176'")
    assert "mktemp" in told, "the liar was asked"
    known = secrets(site)
    assert known
    for name, value in known.items():
        body = [line for line in value.splitlines() if len(line) >= 8 and "-----" not in line]
        assert body, name
        assert not any(line in told for line in body), name


def test_it_is_removed(site: LabSite) -> None:
    lie(site, "endless")
    words = ("--site", str(site.directory), "--yes")
    refused = appliance("node", "remove", site.node(HOSTILE), *words, timeout=600)
    assert refused.returncode in (3, 4), refused.stderr
    assert "--i-know-it-is-dead" in refused.stderr
    sworn = ("--i-know-it-is-dead",)
    succeed("node", "remove", site.node(HOSTILE), *sworn, *words, timeout=900)
    nodes = site.shell("cp1", f"{KUBECTL} get nodes -o name")
    assert site.node(HOSTILE) not in nodes
    assert site.node("w1") in nodes
