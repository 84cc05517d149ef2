"""A lab like a site: what people changed by hand on the site is in the plan of its upgrade.

The site is a lab of its own, which is taken down first: its nodes' names are needed again, and so
nothing can be asked of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.lab.site.rehearsals import MARKDOWN, PAGE
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, lab_up, wait_for
from tests.lab.support.cluster import kubectl
from tests.lab.support.runbook import Runbook
from tests.lab.support.upgrading import SECONDS, TAG, new_bundle, versions
from tests.this_run import OS, lab_name

pytestmark = [pytest.mark.lab, pytest.mark.slow]

__all__ = ["new_bundle"]
REHEARSAL = Runbook("rehearse-an-upgrade")
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
KUBELET = "/var/lib/kubelet/config.yaml"
BY_HAND = {
    "kube-apiserver.profiling",
    "kubelet.maxPods",
    "coredns.resources.limits.memory",
}


def change_by_hand(lab: LabSite) -> None:
    """What people do on a rack: an argument of the API server, a kubelet's file, CoreDNS."""
    edit = f"sed 's/^    - --secure-port/    - --profiling=false\\n&/' {MANIFEST}"
    lab.shell("cp1", f"{edit} > /etc/kubernetes/edited && mv /etc/kubernetes/edited {MANIFEST}")
    lab.shell("w1", f"sed -i '/^maxPods/d' {KUBELET}; echo 'maxPods: 250' >> {KUBELET}")
    lab.shell("w1", "systemctl restart kubelet")

    def answers() -> bool:
        command = "kubectl --kubeconfig /etc/kubernetes/admin.conf get pod -n kube-system -o yaml"
        return "--profiling=false" in lab.shell(
            "cp1", f"{command} -l component=kube-apiserver || :"
        )

    wait_for("the API server with its new argument", answers)
    kubectl(lab, "-n kube-system set resources deployment coredns --limits=memory=1Gi")
    kubectl(lab, f"label node {lab.node('w1')} rack=7")
    kubectl(lab, f"taint node {lab.node('w1')} owner=ada:PreferNoSchedule")


@pytest.fixture(scope="module")
def seen_site(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> LabSite:
    """A site that was looked at once after it was changed by hand, and is gone."""
    with lab_up("rack", tmp_path_factory.mktemp("labs"), "--workers", "1") as site:
        lab = LabSite(site.name, site, bundle_directory)
        assert lab.install().returncode == 0
        change_by_hand(lab)
        lab.status()
    return lab


def words(site: LabSite, directory: Path) -> list[str]:
    """The words of the command."""
    values = {"SITE": str(site.directory), "DIR": str(site.bundle), "LAB": str(directory)}
    page = REHEARSAL.words("appliance lab up --like SITE --bundle DIR --site LAB", values)
    return [*page, "--name", directory.name, "--os", OS]


def forecast(site: LabSite, directory: Path) -> list[str]:
    """The words of a dry run of it."""
    values = {"SITE": str(site.directory), "DIR": str(site.bundle)}
    page = REHEARSAL.words("appliance lab up --like SITE --bundle DIR --dry-run", values)
    return [*page, "--site", str(directory), "--name", directory.name, "--os", OS]


@pytest.fixture(scope="module")
def like(seen_site: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """The lab that is like it."""
    directory = tmp_path_factory.mktemp("like") / lab_name("like")
    try:
        succeed(*words(seen_site, directory), "--yes", timeout=SECONDS)
        # Its nodes are named as those of the site.
        yield LabSite(seen_site.name, directory, seen_site.bundle)
    finally:
        values = {"like-rack7": directory.name}
        succeed(*REHEARSAL.words("appliance lab down --name like-rack7", values), "--yes")


def test_the_plan_of_the_lab_shows_every_change_that_was_made_by_hand(
    seen_site: LabSite, tmp_path: Path
) -> None:
    directory = tmp_path / lab_name("like")
    done = succeed(*forecast(seen_site, directory))
    shown = [line for line in done.stdout.splitlines() if line.startswith("made by hand")]
    assert {name for line in shown for name in BY_HAND if name in line} == BY_HAND
    assert [line for line in shown if "not in the lab" in line] == []
    assert not directory.exists()


def test_the_lab_has_names_labels_taints_and_changes_of_the_site(like: LabSite) -> None:
    assert set(versions(like)) == {like.node("cp1"), like.node("w1")}
    node: dict[str, Any] = json.loads(kubectl(like, f"get node {like.node('w1')} -o json"))
    assert node["metadata"]["labels"]["rack"] == "7"
    taints = [(t["key"], t["value"], t["effect"]) for t in node["spec"].get("taints", ())]
    assert ("owner", "ada", "PreferNoSchedule") in taints
    assert node["status"]["capacity"]["pods"] == "250"
    assert "--profiling=false" in like.shell("cp1", f"cat {MANIFEST}")


def test_the_plan_of_the_upgrade_in_the_lab_shows_every_change(
    like: LabSite, new_bundle: Path
) -> None:
    page = "appliance cluster upgrade --to k8s-1.23.17-r1 --bundle DIR --site LAB --dry-run"
    values = {"DIR": str(new_bundle), "LAB": str(like.directory)}
    done = succeed(*REHEARSAL.words(page, values), "--output", "json")
    found: dict[str, Any] = json.loads(done.stdout)
    stopped = [gate["found"] for gate in found["gates"] if gate["verdict"] == "no-go"]
    assert {name for text in stopped for name in BY_HAND if name in text} == BY_HAND


def test_the_rehearsed_upgrade_ends_with_a_report(
    like: LabSite, new_bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = "appliance cluster upgrade --to k8s-1.23.17-r1 --bundle DIR --site LAB"
    upgrade = REHEARSAL.words(command, {"DIR": str(new_bundle), "LAB": str(like.directory)})
    accept = [word for name in sorted(BY_HAND) for word in ("--accept-loss", name)]
    # The pods of the only worker have nowhere to go.
    outage = [*accept, "--allow-outage"]
    succeed(*upgrade, "--yes", *outage, timeout=SECONDS)
    assert set(versions(like).values()) == {TAG}
    text = (like.directory / MARKDOWN).read_text()
    page = (like.directory / PAGE).read_text()
    for name in BY_HAND:
        assert name in text
        assert name in page
    with capsys.disabled():
        print(f"\n{text}")  # noqa: T201 - the report of a release


def test_a_second_time_nothing_is_made_again(seen_site: LabSite, like: LabSite) -> None:
    """After the upgrade the lab is another one, and the command says so before it changes it."""
    done = appliance(*words(seen_site, like.directory), "--yes")
    assert done.returncode == 3
    assert "does not match the requested lab" in done.stderr
