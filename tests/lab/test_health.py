"""``appliance health`` on a Ready lab: what is missing is said, and what is there is found.

The lab has no DNS server: the tests give the backend's name to the nodes and to CoreDNS, and take
it away again. The site's files are a copy, so that the lab's own know nothing of Run:ai.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.commands import appliance
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL

pytestmark = pytest.mark.lab

STANDIN = Path(__file__).parents[1] / "data" / "vendor_diagnostics" / "standin"
NOT_HEALTHY = 5
RUNAI = """
nfs: {{server: {server}, path: /export}}
system_nodes_shared: true
runai: {{vendor_bundle: /nowhere/runai-2.8.12.tar.gz}}
"""


@pytest.fixture
def wishful(installed_lab: LabSite, tmp_path: Path) -> LabSite:
    """The same lab, by a copy of its files that asks for Run:ai on its workers."""
    copy = replace(installed_lab, directory=tmp_path / installed_lab.name)
    shutil.copytree(installed_lab.directory, copy.directory)
    hosts = yaml.safe_load((copy.directory / "hosts.yml").read_text())
    groups = hosts["all"]["children"]
    workers = list(groups["cpu_workers"]["hosts"])
    groups["system_nodes"]["hosts"] = {name: {} for name in workers[:2]}
    (copy.directory / "hosts.yml").write_text(yaml.safe_dump(hosts))
    settings = copy.directory / "group_vars" / "all" / "site.yml"
    settings.write_text(settings.read_text() + RUNAI.format(server=copy.address("cp1")))
    vault, kept = AnsibleVault(copy.directory / KEPT), settings.with_name("vault.yml")
    secrets = {**vault.read(kept), "vault_runai_admin_password": "Rehearsal-1"}
    kept.write_text(vault.encrypt(yaml.safe_dump(secrets)))
    return copy


def _health(lab: LabSite, *words: str) -> subprocess.CompletedProcess[str]:
    return appliance("health", "--site", str(lab.directory), *words, timeout=300)


def _as_data(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _states(found: dict[str, Any]) -> dict[str, str]:
    return {check["check"]: check["state"] for check in found["checks"]}


@contextmanager
def _name_known(lab: LabSite, name: str, address: str) -> Iterator[None]:
    """Every node and every pod resolves the name, as with a DNS record."""
    nodes = [lab.node(path.stem.rpartition("-")[2]) for path in _host_vars(lab)]
    before = {node: faults.shell(node, "cat /etc/hosts") for node in nodes}
    corefile = lab.shell("cp1", f"{KUBECTL} -n kube-system get cm coredns -o json")
    for node in nodes:
        faults.shell(node, f"echo '{address} {name}' >>/etc/hosts")
    _set_corefile(lab, corefile, f"hosts {{\n  {address} {name}\n  fallthrough\n}}\nforward ")
    try:
        yield
    finally:
        for node in nodes:
            faults.shell(node, "cat >/etc/hosts", stdin=before[node] + "\n")
        _set_corefile(lab, corefile, "forward ")


def _host_vars(lab: LabSite) -> list[Path]:
    return sorted((lab.directory / "host_vars").glob("*.yml"))


def _set_corefile(lab: LabSite, document: str, forward: str) -> None:
    data = json.loads(document)["data"]["Corefile"].replace("forward ", forward, 1)
    patch = json.dumps({"data": {"Corefile": data}})
    faults.shell(lab.node("cp1"), "cat >/tmp/corefile.json", stdin=patch)
    lab.shell("cp1", f"{KUBECTL} -n kube-system patch cm coredns --patch-file /tmp/corefile.json")
    lab.shell("cp1", f"{KUBECTL} -n kube-system rollout restart deployment coredns")
    lab.shell("cp1", f"{KUBECTL} -n kube-system rollout status deployment coredns --timeout=90s")


def _no_proof_is_left(lab: LabSite) -> bool:
    return "appliance-proof" not in lab.shell("cp1", f"{KUBECTL} get namespaces -o name")


def test_a_name_that_does_not_resolve_is_reported_for_every_node_and_pod(wishful: LabSite) -> None:
    records = len(wishful.records())
    done = _health(wishful, "--output", "json")
    assert done.returncode == NOT_HEALTHY, done.stderr
    found = _as_data(done)
    states = _states(found)
    wrong = {name for name, state in states.items() if state == "error"}
    assert wrong == {"dns_nodes", "dns_pods"}, found
    assert states["node_connectivity"] == states["clock_spread"] == states["registry"] == "ok"
    (pods,) = (check for check in found["checks"] if check["check"] == "dns_pods")
    assert {f["node"] for f in pods["findings"]} == {path.stem for path in _host_vars(wishful)}
    assert "error: not ready for Run:ai: " in done.stderr
    assert len(wishful.records()) == records
    wait_for("the proof's namespace to be gone", lambda: _no_proof_is_left(wishful), 180)


def test_a_site_in_order_is_healthy_and_its_table_says_so(wishful: LabSite) -> None:
    domain = f"runai.{wishful.name}.test"
    with _name_known(wishful, domain, wishful.address("w1")):
        done = _health(wishful)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.split()}
    assert rows["dns_nodes"] == rows["dns_pods"] == rows["node_connectivity"] == "ok"
    assert rows["cluster_version"] == "ok"


def test_a_clock_90_s_away_is_named(wishful: LabSite) -> None:
    with faults.clock_off(wishful.node("w1"), 90):
        found = _as_data(_health(wishful, "--without-pods", "--output", "json"))
    (check,) = (check for check in found["checks"] if check["check"] == "clock_spread")
    assert check["state"] == "error"
    assert check["findings"][0]["node"] == wishful.node("w1")
    assert _states(found)["dns_pods"] == "skipped"


def test_the_vendors_own_tool_runs_on_a_control_plane_node(wishful: LabSite) -> None:
    words = ["--without-pods", "--run-vendor-diagnostics", str(STANDIN), "--output", "json"]
    found = _as_data(_health(wishful, *words))
    tests = {test["test"]: test for test in found["vendor_diagnostics"]["tests"]}
    assert tests["Cluster Version"]["said"] == ["as root with the cluster's kubeconfig: yes"]
    assert tests["DockerHub"]["outcome"] == "fail"
    assert tests["DockerHub"]["meaningful_offline"] is False
    assert f"-domain runai.{wishful.name}.test" in tests["DNS Resolver"]["said"][0]
    left = wishful.shell("cp1", "ls -d /tmp/tmp.*/tool 2>/dev/null || true")
    assert left == "", "the tool was left behind"
