"""Three control planes and one worker: one of the three may go, the API stays at its name.

``APPLIANCE_TEST_TRIO=DIR`` uses the installed lab of that site, and leaves it as it ends.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults
from tests.lab.support.api_probe import api_watched
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.forged import ALMOST_A_YEAR_DAYS, SERVER, days_left, forge
from tests.lab.support.trio import installed_trio

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """An installed lab of its own."""
    with installed_trio("trio", tmp_path_factory.mktemp("trio"), bundle_directory) as found:
        yield found


def _nodes_through_the_endpoint(lab: LabSite) -> dict[str, str]:
    """Node -> Ready status, asked from the worker through the name every kubeconfig holds."""
    kubelet = "/etc/kubernetes/kubelet.conf"
    assert f"https://api.{lab.name}.test:8443" in lab.shell("w1", f"grep server: {kubelet}")
    command = f"kubectl --kubeconfig {kubelet} --request-timeout=5s get nodes -o json"
    found = json.loads(lab.shell("w1", command))
    return {
        item["metadata"]["name"]: next(
            c["status"] for c in item["status"]["conditions"] if c["type"] == "Ready"
        )
        for item in found["items"]
    }


def test_all_four_are_ready_through_the_endpoint(trio: LabSite) -> None:
    assert _nodes_through_the_endpoint(trio) == {
        trio.node(name): "True" for name in ("cp1", "cp2", "cp3", "w1")
    }


def test_one_control_plane_stops_and_the_api_still_answers(trio: LabSite) -> None:
    holder = next(
        name
        for name in ("cp1", "cp2", "cp3")
        if "198.18." in trio.shell(name, "ip -brief address show eth0").partition("/")[2]
    )
    subprocess.run(["podman", "stop", "--time", "60", trio.node(holder)], check=True, timeout=120)
    try:
        state = ["podman", "inspect", "--format", "{{.State.Running}}", trio.node(holder)]
        running = subprocess.run(state, capture_output=True, text=True, check=True)
        assert running.stdout.strip() == "false"

        def noticed() -> bool:
            try:
                return _nodes_through_the_endpoint(trio)[trio.node(holder)] != "True"
            except AssertionError:
                return False  # the address is on its way to another node

        wait_for("the API, at its name, to say that the stopped node is gone", noticed, 180)
    finally:
        subprocess.run(["podman", "start", trio.node(holder)], check=True, timeout=120)
    wait_for(
        "all four to be Ready again",
        lambda: set(_nodes_through_the_endpoint(trio).values()) == {"True"},
        240,
    )


LONGEST_GAP_SECONDS = 10.0


def _etcd(lab: LabSite, asked: str) -> dict[str, bool]:
    """Member -> healthy, by etcdctl in the pod of a living one."""
    pki = "/etc/kubernetes/pki/etcd"
    etcdctl = (
        f"{KUBECTL} -n kube-system exec etcd-{lab.node(asked)} -- etcdctl --cacert={pki}/ca.crt "
        f"--cert={pki}/server.crt --key={pki}/server.key --command-timeout=5s"
    )
    listed = json.loads(lab.shell(asked, f"{etcdctl} member list --write-out=json"))["members"]
    urls = {member["peerURLs"][0].replace(":2380", ":2379"): member for member in listed}
    words = f"{etcdctl} --endpoints={','.join(urls)} endpoint health --write-out=json 2>/dev/null"
    health = json.loads(lab.shell(asked, words, check=False))
    return {urls[one["endpoint"]].get("name", "?"): one["health"] for one in health}


def test_certificates_that_end_tomorrow_on_one_of_three_are_found_and_renewed(
    trio: LabSite,
) -> None:
    lab, second = trio, trio.node("cp2")
    site = ("--site", str(lab.directory))
    lab.settled()
    forge(lab, "cp2", 1)
    shown = succeed("cluster", "certificates", "show", *site, "--output", "json").stdout
    ending = {
        (one["node"], one["path"])
        for one in json.loads(shown)["certificates"]
        if one["days_left"] <= 2
    }
    assert ending == {(second, SERVER)}
    with api_watched(lab.node("w1"), f"api.{lab.name}.test", 8443) as watched:
        done = succeed("cluster", "certificates", "renew", *site, "--yes", "--output", "json")
    assert [one["node"] for one in json.loads(done.stdout)["renewals"]] == [second]
    assert days_left(lab, "cp2") > ALMOST_A_YEAR_DAYS
    print(  # noqa: T201 - figures for the log
        f"renewal on one of three: API: {watched.asked} questions, {watched.failed} failed, "
        f"longest gap {watched.gap:.1f} s; {watched.reasons}"
    )
    assert watched.gap <= LONGEST_GAP_SECONDS
    again = succeed("cluster", "certificates", "renew", *site, "--yes", "--output", "json")
    assert json.loads(again.stdout)["renewals"] == []
    assert _etcd(lab, "cp1") == {lab.node(name): True for name in ("cp1", "cp2", "cp3")}


def test_the_first_control_plane_is_lost_and_one_command_brings_it_back(trio: LabSite) -> None:
    lab, first = trio, trio.node("cp1")
    # A control plane was switched off and on before this.
    lab.settled()
    assert _etcd(lab, "cp2") == {lab.node(name): True for name in ("cp1", "cp2", "cp3")}
    old = lab.shell("cp2", f"{KUBECTL} get node {first} -o jsonpath={{.metadata.uid}}")
    with api_watched(lab.node("w1"), f"api.{lab.name}.test", 8443) as watched:
        faults.wipe(lab.directory, first)
        assert _etcd(lab, "cp2")[first] is False
        refused = lab.install()
        assert refused.returncode == 3, refused.stderr
        assert f"appliance node rejoin {first}" in refused.stderr
        began = time.monotonic()
        words = ("--site", str(lab.directory), "--bundle", str(lab.bundle), "--yes")
        done = appliance("node", "rejoin", first, *words, timeout=1200)
        took = time.monotonic() - began
        assert done.returncode == 0, done.stdout + done.stderr
        assert _etcd(lab, "cp3") == {lab.node(name): True for name in ("cp1", "cp2", "cp3")}
    print(  # noqa: T201 - figures for the log
        f"rejoin of the first control plane: {took:.1f} s; API: {watched.asked} questions, "
        f"{watched.failed} failed, longest gap {watched.gap:.1f} s; {watched.reasons}"
    )
    assert watched.asked > 5 * took / 2, "the client was held up itself: this proves nothing"
    assert 0 < watched.gap <= LONGEST_GAP_SECONDS
    new = lab.shell("cp2", f"{KUBECTL} get node {first} -o jsonpath={{.metadata.uid}}")
    assert new != old
    lab.settled()
    assert set(_nodes_through_the_endpoint(lab).values()) == {"True"}


def test_a_control_plane_is_removed_only_while_etcd_keeps_its_quorum(trio: LabSite) -> None:
    lab, third = trio, trio.node("cp3")
    words = ("--site", str(lab.directory), "--yes")
    done = succeed("node", "remove", third, *words, timeout=600)
    assert "may fail until another one joins" in done.stderr
    assert set(_etcd(lab, "cp1")) == {lab.node("cp1"), lab.node("cp2")}
    assert lab.shell("cp3", "ls -A /etc/kubernetes /var/lib/etcd") == (
        "/etc/kubernetes:\n\n/var/lib/etcd:\n"
    )
    assert lab.shell("cp3", "systemctl is-active keepalived haproxy || true").split() == [
        "inactive",
        "inactive",
    ]
    assert third in lab.status()["removed"]
    assert "nothing to do" in lab.install().stdout
    succeed("node", "rejoin", third, *words, timeout=900)
    assert _etcd(lab, "cp1") == {lab.node(name): True for name in ("cp1", "cp2", "cp3")}
    lab.settled()
