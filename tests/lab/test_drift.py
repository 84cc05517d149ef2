"""Drift in each role's outcome: the plain command mends it, says so, and then changes nothing.

A task that reports "changed=0" on nodes that are as they should be proves little; here each of them
is seen to report a change, with the words of what it found.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.conftest import LabSite
from tests.lab.support.cluster import KUBECTL

pytestmark = pytest.mark.lab

BUNDLE = "/var/lib/appliance/bundle"
BLOBS = "/var/lib/docker-registry/docker/registry/v2/blobs/sha256"


@dataclass(frozen=True)
class Drift:
    """One outcome that is not so any more.

    Attributes:
        node: where.
        inject: makes it so, as root; must change something, or fail.
        task: ``role : task`` that has to report a change on that node.
        found: words of that task's result.
    """

    node: str
    inject: str
    task: str
    found: str = ""


def _append(path: str, line: str = "# drift") -> str:
    return f"file=$(echo {path}) && test -f $file && echo '{line}' >> $file"


def _gone(path: str) -> str:
    return f"test -e {path} && rm -r {path}"


MODULES = "host_base : Load the kernel modules, now and at every boot"
SYSCTLS = "host_base : Set the sysctls, now and at every boot"
HOSTS = "host_base : Name the hosts of the site in /etc/hosts"
UPDATES = "host_base : Keep unattended-upgrades off the kernel, the GPU driver and the runtime"
CLIENT = "artifact_client : Trust the site's CA, and install packages only from the bundle"
TRUST = "registry_trust : Trust the registry in Docker and containerd"
PROGRAMS = "kubernetes_node : Bring the programs and the CNI plugins"
UNIT = "kubernetes_node : Write the unit of the kubelet"
KUBELET = "verify | Run the kubelet with the configuration on disk"

FIRST = (
    Drift("w1", _append("/etc/sysctl.d/90-appliance.conf"), SYSCTLS, "90-appliance.conf"),
    Drift("w1", _gone("/etc/modules-load.d/appliance.conf"), MODULES, "appliance.conf"),
    Drift(
        "w1", "sed -i '/# BEGIN appliance/,/# END appliance/d' /etc/hosts", HOSTS, "Block inserted"
    ),
    Drift(
        "w2",
        _gone("/etc/apt/apt.conf.d/52appliance-unattended-upgrades"),
        UPDATES,
        "52appliance",
    ),
    Drift(
        "cp1",
        _append(f"{BUNDLE}/cni/bridge"),
        "artifact_server : transfer | Copy missing files from the control host",
        "cni/bridge",
    ),
    Drift(
        "cp1",
        _append("/etc/nginx/conf.d/appliance.conf"),
        "artifact_server : serve | Write the configuration",
        "conf.d/appliance.conf",
    ),
    Drift(
        "cp1",
        "systemctl stop nginx",
        "artifact_server : serve | Run the web server with this configuration",
        "started",
    ),
    Drift("w1", _append("/etc/appliance/ca.crt"), CLIENT, "ca.crt"),
    Drift("w1", _gone("/etc/appliance/packages.list"), CLIENT, "packages.list"),
    Drift("w2", _gone("/etc/apt/apt.conf.d/90appliance"), CLIENT, "90appliance"),
    Drift(
        "w1",
        _append("/etc/chrony/chrony.conf") + " && systemctl restart chrony",
        "time_sync : Write the configuration of chrony",
        "chrony.conf",
    ),
    Drift("w1", "true", "time_sync : Run chrony with this configuration", "restarted"),
    Drift(
        "w2",
        "systemctl disable --now chrony",
        "time_sync : Run chrony with this configuration",
        "enabled",
    ),
    Drift(
        "w1",
        """python3 - <<'END'
import json, pathlib
path = pathlib.Path("/etc/docker/daemon.json")
options = json.loads(path.read_text())
options["log-opts"]["max-size"] = "1m"
path.write_text(json.dumps({**options, "debug": not options.get("debug")}))
END""",
        "docker_engine : Merge the options into the daemon's configuration",
        "50m",
    ),
    Drift("w1", "true", "docker_engine : Run Docker with this configuration", "restarted"),
    Drift(
        "w2",
        "apt-mark unhold docker.io | grep Cancel",
        "docker_engine : Install Docker",
        "docker.io",
    ),
    Drift(
        "cp1",
        f"blob=$(ls -S {BLOBS}/*/*/data | head -n 1) && rm -r $(dirname $blob)",
        "container_registry : Hold every image of the bundle",
        "pushed",
    ),
    Drift(
        "w2",
        "systemctl disable --now pod-guard",
        "kubernetes_node : guard | Run the guard with these rules",
        "started",
    ),
    Drift("w1", _append("/etc/docker/certs.d/*/ca.crt"), TRUST, "ca.crt"),
    Drift("w2", _gone("/etc/containerd/certs.d/*/hosts.toml"), TRUST, "hosts.toml"),
    Drift(
        "w2",
        "apt-get remove --yes --allow-change-held-packages socat",
        "docker_engine : Install Docker",
        "socat",
    ),
    Drift("w1", _gone("/opt/cni/bin/portmap"), PROGRAMS, "/opt/cni/bin/portmap"),
    Drift("w2", "chmod 0700 /usr/local/bin/kubectl", PROGRAMS, "/usr/local/bin/kubectl"),
    Drift(
        "w1",
        _append("/etc/systemd/system/kubelet.service")
        + " && systemctl daemon-reload && systemctl restart kubelet",
        UNIT,
        "kubelet.service",
    ),
    Drift("w1", "true", f"kubeadm_worker : {KUBELET}", "restarted"),
    Drift("w2", "systemctl stop kubelet", f"kubeadm_worker : {KUBELET}", "started"),
    Drift(
        "w2",
        "image=$(docker image ls --format '{{.Repository}}:{{.Tag}}' | grep kube-proxy: )"
        " && docker image rm --force $image",
        "kubernetes_node : images | Pull the images before kubeadm needs them",
        "kube-proxy",
    ),
    Drift(
        "cp1",
        _append("/etc/kubernetes/appliance-kubeadm.yaml"),
        "kubeadm_control_plane : Write the configuration of kubeadm",
        "appliance-kubeadm.yaml",
    ),
    Drift(
        "cp1",
        "systemctl stop kubelet",
        f"kubeadm_control_plane : {KUBELET}",
        "started",
    ),
    Drift(
        "cp1",
        f"{KUBECTL} annotate node $(hostname) appliance.dev/dmi-serial-",
        "kubeadm_control_plane : verify | Find the Node with the accepted serial",
    ),
    Drift(
        "cp1",
        _gone("/home/appliance/.kube/config"),
        "kubeadm_control_plane : access | Give the login user a kubeconfig",
    ),
    Drift("cp1", "true", "kubeadm_control_plane : access | Keep it at the control host"),
    Drift(
        "cp1",
        _append("/etc/kubernetes/appliance/flannel.yaml"),
        "flannel : Write the manifest of the network",
        "flannel.yaml",
    ),
    Drift(
        "cp1",
        f"{KUBECTL} -n kube-flannel patch configmap kube-flannel-cfg --type=merge"
        """ --patch '{"data": {"cni-conf.json": "{}"}}'""",
        "flannel : Apply the network and wait until it runs on every node",
        "cni-conf.json",
    ),
)

# What the first round would have hidden: the same services, and what hangs on them.
SECOND = (
    Drift(
        "cp1",
        _append("/etc/docker/registry/config.yml"),
        "container_registry : serve | Write the configuration of the registry",
        "config.yml",
    ),
    Drift(
        "cp1",
        _gone("/etc/appliance/tls/registry.crt"),
        "site_certificate : Create a key and a request, if a certificate is needed",
        "there is no certificate",
    ),
    Drift(
        "cp1",
        "true",
        "site_certificate : issue | Write the certificate",
        "registry.crt",
    ),
    Drift(
        "cp1",
        "systemctl stop docker-registry",
        "container_registry : serve | Run the registry with this configuration",
        "started",
    ),
    Drift(
        "cp1",
        "true",
        "container_registry : serve | Run TLS and the login with this configuration",
        "restarted",
    ),
    Drift(
        "w1",
        _append("/etc/appliance/pod-guard.rules"),
        "kubernetes_node : guard | Write the rules and their unit",
        "pod-guard.rules",
    ),
    Drift(
        "w1",
        "apt-get remove --yes --allow-change-held-packages docker.io",
        "docker_engine : Install Docker",
        "docker.io",
    ),
    Drift(
        "cp1",
        f"{KUBECTL} annotate node $(hostname | sed s/cp1/w2/) appliance.dev/dmi-serial-",
        "",
    ),
    Drift(
        "w2",
        "true",
        "kubeadm_worker : verify | Find the Node Ready, with the accepted serial",
    ),
)
KUBECONFIG = Path(".appliance", "kubeconfig")


@dataclass(frozen=True)
class Replay:
    """What the plain command said.

    Attributes:
        results: (node, ``role : task``) -> the results with which it reported a change.
        changed: node -> the recap's count.
    """

    results: Mapping[tuple[str, str], str]
    changed: Mapping[str, int]


def _command(lab: LabSite) -> list[str]:
    """The command of the last run's log, for the whole install and every node."""
    runs = sorted((lab.directory / ".appliance" / "runs").iterdir())
    words = shlex.split((runs[-1] / "commands.log").read_text().splitlines()[-1])
    limit = words.index("--limit")
    del words[limit : limit + 2]
    words[-1] = str(Path(words[-1]).with_name("install.yml"))
    return ["env", *words]


def replay(lab: LabSite) -> Replay:
    """Run it as it is printed; its results are read from its own output."""
    done = subprocess.run(
        [*_command(lab), "-v"],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    results: dict[tuple[str, str], str] = {}
    task = ""
    for line in done.stdout.splitlines():
        if heading := re.match(r"(?:TASK|RUNNING HANDLER) \[(.+)\] \*", line):
            task = heading[1]
        elif told := re.match(r"changed: \[(\S+?)(?: -> \S+)?\](.*)", line):
            key = (told[1], task)
            results[key] = results.get(key, "") + told[2]
    recap = re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", done.stdout, re.MULTILINE)
    assert len(recap) == 3, done.stdout[-2000:]
    return Replay(results, {node: int(count) for node, count in recap})


def _inject(lab: LabSite, drifts: tuple[Drift, ...]) -> None:
    for drift in drifts:
        lab.shell(drift.node, drift.inject)
    (lab.directory / KUBECONFIG).unlink()


def _assert_reported(lab: LabSite, drifts: tuple[Drift, ...], seen: Replay) -> None:
    missed = [
        f"{drift.node}: {drift.inject}: {drift.task}: {said or 'no change'}"
        for drift in drifts
        if drift.task
        and (
            (said := seen.results.get((lab.node(drift.node), drift.task))) is None
            or drift.found not in said
        )
    ]
    assert not missed, "\n".join(missed)


@pytest.mark.parametrize("drifts", [FIRST, SECOND], ids=["first", "second"])
def test_each_role_reports_and_repairs_drift(
    installed_lab: LabSite, drifts: tuple[Drift, ...]
) -> None:
    lab = installed_lab
    _inject(lab, drifts)
    seen = replay(lab)
    _assert_reported(lab, drifts, seen)
    assert json.loads(lab.shell("w1", "cat /etc/docker/daemon.json")).keys() >= {"debug"}, (
        "a setting of somebody else must stay"
    )


def test_the_next_run_changes_nothing(installed_lab: LabSite) -> None:
    seen = replay(installed_lab)
    assert set(seen.changed.values()) == {0}, seen.results
    kubeconfig = installed_lab.directory / KUBECONFIG
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    status = installed_lab.settled()
    assert [node["status"] for node in status["nodes"]] == ["Ready"] * 3
