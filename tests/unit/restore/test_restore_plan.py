"""What is restored where, and what forbids it, as data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.backup.record import Manifest, Part
from appliance.model.backup.restore import (
    RestoreOptions,
    RestorePlan,
    plan_from_survivor,
    plan_restore,
    was_compared,
)
from appliance.model.backup.restore_view import NodeView
from appliance.model.backup.restoring.inventory import restore_inventory
from appliance.model.backup.restoring.restore_release import Begun
from appliance.model.state.upgrade import UpgradeMark
from tests import samples
from tests.unit.restore.rack import ABOUT, BACKUP, MANIFEST, RELEASES, view

NOW = (1_772_416_800.0, "20260302T020000Z")
CREATED = NOW[0] - 86400
ALL = {name: view(name) for name in ("cp1", "cp2", "cp3")}
# Six digits stand for the members.
KEY = f"{BACKUP}.e70929.20260301T100000Z"


def plan(
    views: dict[str, Any] | None = None,
    manifest: Manifest = MANIFEST,
    options: RestoreOptions | None = None,
) -> RestorePlan:
    return plan_restore(
        samples.site(3, 1),
        manifest,
        ALL if views is None else views,
        options or RestoreOptions(),
        tool_version="0.1.0",
        now=NOW,
        created=CREATED,
    )


def refused(found: RestorePlan) -> list[tuple[str, str]]:
    return [(one.node, one.seen) for one in found.refusals]


def test_every_control_plane_node_becomes_a_member_under_its_own_name() -> None:
    found = plan()
    assert found.refusals == ()
    assert found.key == f"{BACKUP}.e70929.20260302T020000Z"
    assert found.cluster == (
        "cp1=https://198.18.7.11:2380,cp2=https://198.18.7.12:2380,cp3=https://198.18.7.13:2380"
    )
    assert found.recovery.startswith("2026-03-01T02:00:00+00:00, 24 hours ago")
    assert found.kept == ("cp1", "cp2", "cp3")


def etcd_of(views: dict[str, NodeView], **answers: str) -> dict[str, NodeView]:
    return {n: replace(v, etcd=answers.get(n, "silent")) for n, v in views.items()}  # type: ignore[arg-type]


def marked(name: str, *acts: str) -> dict[str, NodeView]:
    return {**ALL, name: replace(ALL[name], marks={KEY: acts})}


@pytest.mark.parametrize(
    ("views", "seen"),
    [
        (etcd_of(ALL, cp2="cluster"), [("cp2", "an etcd with a majority, which holds a cluster")]),
        # kubeadm's first node starts as a new and empty cluster, with an API that answers.
        (etcd_of(ALL, cp1="empty"), []),
        ({**ALL, "cp3": "cp3: no route"}, [("cp3", "cp3: no route")]),
        (
            {**ALL, "cp3": replace(ALL["cp3"], authorities=False)},
            [("cp3", "a CA of the cluster is missing in /etc/kubernetes/pki")],
        ),
        (
            {**ALL, "cp3": replace(ALL["cp3"], manifests=("etcd",))},
            [("cp3", "1 of kubeadm's 4 static pods")],
        ),
        (
            {**ALL, "cp3": replace(ALL["cp3"], free_bytes=1)},
            [("cp3", "0 MB free for etcd's data")],
        ),
        (
            {**ALL, "cp3": replace(ALL["cp3"], member={"name": "x", "peer": "https://y:2380"})},
            [("cp3", "etcd's member x https://y:2380")],
        ),
    ],
)
def test_what_nodes_say_forbids_a_restore(
    views: dict[str, Any], seen: list[tuple[str, str]]
) -> None:
    assert refused(plan(views)) == seen


@pytest.mark.parametrize(
    ("about", "rest", "seen"),
    [
        ({"site": "other"}, {}, "a backup of the site other"),
        ({"tool_version": "0.2.0"}, {}, "written by version 0.2.0 of this tool"),
        ({"release": "k8s-1.24.17-r1"}, {}, "a backup of the release k8s-1.24.17-r1"),
        ({}, {"endpoint": "api.other:6443"}, "the API at api.other:6443"),
        ({}, {"etcd": None}, "no snapshot of etcd"),
        ({}, {"parts": ()}, "no snapshot of etcd"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    about: dict[str, Any], rest: dict[str, Any], seen: str
) -> None:
    manifest = replace(MANIFEST, about=replace(ABOUT, **about), **rest)
    assert [one for _, one in refused(plan(manifest=manifest))] == [seen]


OLDER, NEWER = "k8s-1.23.5-r1", "k8s-1.23.17-r1"
MARK = UpgradeMark(NEWER, "2026-03-01T03:00:00+00:00", "ada on laptop", before=OLDER)
BEGUN = Begun(MARK, RELEASES)


def of(version: str, *names: str) -> dict[str, NodeView]:
    return {n: replace(v, kubernetes=version) if n in names else v for n, v in ALL.items()}


UNMOVED = of("1.23.5", *ALL)
# Views, the upgrade's note, and what forbids a backup from before the upgrade.
BEFORE_AN_UPGRADE: dict[str, tuple[dict[str, NodeView], Begun, str]] = {
    "no control plane has moved": (UNMOVED, BEGUN, ""),
    "one has moved": (
        {**UNMOVED, "cp1": replace(UNMOVED["cp1"], kubernetes="1.23.17")},
        BEGUN,
        "cp1: Kubernetes 1.23.17, and a backup of the release k8s-1.23.5-r1",
    ),
    "one does not tell": (
        {**UNMOVED, "cp3": ALL["cp3"]},
        BEGUN,
        "cp3: Kubernetes of an unknown version",
    ),
    "no note": (UNMOVED, Begun(None, RELEASES), "a backup of the release k8s-1.23.5-r1"),
    "it is over": (
        UNMOVED,
        Begun(replace(MARK, over=True), RELEASES),
        "a backup of the release k8s-1.23.5-r1",
    ),
    "it began from another release": (
        UNMOVED,
        Begun(replace(MARK, before="k8s-1.22.1-r1"), RELEASES),
        "a backup of the release k8s-1.23.5-r1",
    ),
    "it goes to another release": (
        UNMOVED,
        Begun(replace(MARK, release="k8s-1.24.17-r1"), RELEASES),
        "a backup of the release k8s-1.23.5-r1",
    ),
    "an earlier version of this tool began it": (
        UNMOVED,
        Begun(replace(MARK, before=""), RELEASES),
        "a backup of the release k8s-1.23.5-r1",
    ),
    "a release that this tool does not have": (
        UNMOVED,
        Begun(MARK),
        "cp1: Kubernetes 1.23.5, and a backup of the release k8s-1.23.5-r1",
    ),
    "the restore had stopped a control plane": (
        {n: replace(v, marks={KEY: ("stop",)}) for n, v in ALL.items()},
        BEGUN,
        "",
    ),
}


@pytest.mark.parametrize("case", BEFORE_AN_UPGRADE)
def test_a_backup_from_before_an_upgrade_fits_until_a_control_plane_has_moved(case: str) -> None:
    views, begun, seen = BEFORE_AN_UPGRADE[case]
    site = samples.site(3, 1)
    settings = site.settings.model_copy(update={"appliance_release": NEWER})
    found = plan_restore(
        replace(site, settings=settings), MANIFEST, views, RestoreOptions(),
        tool_version="0.1.0", now=NOW, created=CREATED, begun=begun,
    )  # fmt: skip
    told = [f"{node}: {one}" for node, one in refused(found)]
    assert len(told) == bool(seen)
    assert all(seen in one for one in told)
    if not seen:
        assert any(f"cluster upgrade --to {NEWER}" in line for line in found.lines())


def test_a_node_that_is_left_out_is_no_member_and_rejoins() -> None:
    views = {**ALL, "cp3": "cp3: burnt"}
    found = plan(views, options=RestoreOptions(without=("cp3",)))
    assert (found.refusals, tuple(found.members), found.rejoin) == ((), ("cp1", "cp2"), ("cp3",))


def test_a_node_that_is_left_out_but_runs_with_its_data_is_refused() -> None:
    """Two of three with their old data are a second cluster, with a majority of its own."""
    found = plan(options=RestoreOptions(without=("cp3",)))
    assert refused(found) == [("cp3", "left out, but it runs with data of etcd")]
    survivor = RestoreOptions(survivor="cp1")
    alone = plan_from_survivor(samples.site(3, 1), ALL, survivor, NOW[1])
    assert [one for one, _ in refused(alone)] == ["cp2", "cp3"]


@pytest.mark.parametrize(
    ("acts", "etcd", "refusals"),
    [
        (("stop",), "silent", 0),
        (("place", "start", "stop"), "cluster", 0),
        # Nothing of this restore is in place: what lives there came back in another way.
        (("stop",), "cluster", 1),
    ],
)
def test_a_restore_that_was_begun_goes_on_under_its_word(
    acts: tuple[str, ...], etcd: str, refusals: int
) -> None:
    views = etcd_of(marked("cp2", *acts), cp2=etcd)
    found = plan(views)
    assert (found.key, found.resumes, len(found.refusals)) == (KEY, True, refusals)


def test_a_restore_that_was_begun_with_other_members_is_begun_again() -> None:
    views: dict[str, Any] = {**marked("cp2", "stop", "place"), "cp3": "cp3: burnt"}
    found = plan(views, options=RestoreOptions(without=("cp3",)))
    assert (found.key == KEY, found.resumes, found.refusals) == (False, False, ())


STARTED = ("place", "start", "stop")


@pytest.mark.parametrize(
    ("acts", "etcd", "resumes"),
    [
        (dict.fromkeys(ALL, STARTED), {}, False),
        ({"cp1": (*STARTED, "end"), "cp2": STARTED, "cp3": STARTED}, {}, False),
        (dict.fromkeys(ALL, STARTED), {"cp2": "cluster"}, True),
        ({"cp1": STARTED, "cp2": STARTED, "cp3": ("stop",)}, {}, True),
    ],
)
def test_a_cluster_that_is_lost_again_is_restored_again(
    acts: dict[str, tuple[str, ...]], etcd: dict[str, str], resumes: bool
) -> None:
    """The first restore was never ended, as a worker stayed away; its acts would do nothing."""
    views = etcd_of({n: replace(ALL[n], marks={KEY: one}) for n, one in acts.items()}, **etcd)
    found = plan(views)
    assert (found.resumes, found.key == KEY, found.refusals) == (resumes, resumes, ())


def test_a_survivor_that_is_lost_again_is_restored_again() -> None:
    key = "survivor-cp2.20260301T100000Z"
    views: dict[str, Any] = {"cp1": "x", "cp2": view("cp2", marks={key: STARTED}), "cp3": "x"}
    survivor = RestoreOptions(survivor="cp2")
    found = plan_from_survivor(samples.site(3, 1), views, survivor, NOW[1])
    assert (found.resumes, found.key == key, found.refusals) == (False, False, ())


@pytest.mark.parametrize("acts", [("stop", "place", "start", "end")])
def test_a_restore_that_ended_is_not_gone_on_with(acts: tuple[str, ...]) -> None:
    found = plan(marked("cp1", *acts))
    assert (found.key == KEY, found.resumes) == (False, False)


def test_the_survivor_becomes_the_only_member() -> None:
    views: dict[str, Any] = {"cp1": "gone", "cp2": view("cp2"), "cp3": "gone"}
    options = RestoreOptions(survivor="cp2")
    found = plan_from_survivor(samples.site(3, 1), views, options, NOW[1])
    assert found.refusals == ()
    assert (tuple(found.members), found.rejoin) == (("cp2",), ("cp1", "cp3"))
    assert found.key == "survivor-cp2.20260302T020000Z"


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"etcd_data": False}, "no data of etcd"),
        ({"etcd": "cluster"}, "an etcd with a majority, which holds a cluster"),
    ],
)
def test_a_survivor_without_data_or_with_a_majority_is_none(
    changes: dict[str, Any], seen: str
) -> None:
    views = {"cp2": view("cp2", **changes)}
    options = RestoreOptions(survivor="cp2")
    found = plan_from_survivor(samples.site(3, 1), views, options, NOW[1])
    assert refused(found) == [("cp2", seen)]


@pytest.mark.parametrize(
    ("own", "in_backup", "fits"),
    [
        ("a" * 64, "a" * 64, True),
        ("", "a" * 64, True),
        ("a" * 64, "", True),
        ("b" * 64, "a" * 64, False),
    ],
)
def test_a_cluster_that_was_installed_later_has_other_keys(
    own: str, in_backup: str, fits: bool
) -> None:
    """Same name, same address: nothing that etcd of the old one holds would be believed."""
    parts = MANIFEST.parts
    if in_backup:
        parts = (*parts, Part("control_plane/cp3/pki/sa.pub", in_backup, 9, "cp3"))
    views = {name: replace(one, account_key=own) for name, one in ALL.items()}
    found = plan(views, replace(MANIFEST, parts=parts))
    assert [node for node, _ in refused(found)] == ([] if fits else list(ALL))


def test_a_cluster_that_only_another_node_reaches_lives() -> None:
    """The control host reaches cp1 alone; cp2 and cp3 are a majority, and serve the API."""
    reaches = {"198.18.7.12": "cluster", "198.18.7.13": "silent"}
    views: dict[str, Any] = {"cp1": view("cp1", others=reaches), "cp2": "away", "cp3": "away"}
    without = plan(views, options=RestoreOptions(without=("cp2", "cp3")))
    site = samples.site(3, 1)
    alone = plan_from_survivor(site, views, RestoreOptions(survivor="cp1"), NOW[1])
    seen = "it reaches an etcd with a majority on 198.18.7.12, which holds a cluster"
    assert refused(without) == refused(alone) == [("cp1", seen)]


def test_hints_name_what_can_be_typed() -> None:
    """--without goes with no survivor; without a cluster nobody knows which pods run on a node."""
    views: dict[str, Any] = {**ALL, "cp1": "cp1: no route"}
    found = plan_from_survivor(samples.site(3, 1), views, RestoreOptions(survivor="cp1"), NOW[1])
    away, left, _ = (one.hint for one in found.refusals)
    assert away == "repair it, or name another node that has data of etcd: --survivor NODE"
    assert left.endswith("appliance node power off cp2 --hard --allow-outage")


def test_the_inventory_names_each_member_and_every_address_of_the_api() -> None:
    site = samples.site(3, 1)
    found = restore_inventory(site, plan(), ("cp1", "w1"))["all"]
    hosts = found["children"]["appliance_restore"]["hosts"]
    assert {name: host["etcd_restore_member"]["name"] for name, host in hosts.items()} == {
        name: name for name in ALL
    }
    assert {host["etcd_restore_member"]["token"] for host in hosts.values()} == {plan().key}
    assert "198.18.7.13:6443" in found["vars"]["etcd_restore_servers"]
    assert found["vars"]["etcd_restore_servers"][-1] == "10.96.0.1:443"
    assert list(found["children"]["appliance_restore_watchers"]["hosts"]) == ["cp1", "w1"]
    ending = restore_inventory(site, plan(), (), ends=True)["all"]["children"]
    assert ending["appliance_restore"]["hosts"] == {}
    assert list(ending["appliance_restore_end"]["hosts"]) == list(ALL)


@pytest.mark.parametrize(("missing", "compared"), [("", True), ("cp2", False)])
def test_all_members_have_to_have_compared_their_keys(missing: str, compared: bool) -> None:
    found = plan()
    views = {
        name: replace(one, marks={found.key: () if name == missing else ("compared",)})
        for name, one in ALL.items()
    }
    assert was_compared(found, views) is compared


@pytest.mark.parametrize("size", [3, 100, 101, 253])
def test_the_word_of_a_survivor_fits_whatever_its_name(size: int) -> None:
    site = samples.site(3, 1)
    names = ["c" * (size - 1) + letter for letter in "ab"]
    keys = set()
    for name in names:
        nodes = tuple(replace(n, name=name) if n.name == "cp1" else n for n in site.nodes)
        alive = view("cp1", member={})
        views: dict[str, NodeView | str] = {name: alive, "cp2": "off", "cp3": "off"}
        found = plan_from_survivor(
            replace(site, nodes=nodes), views, RestoreOptions(survivor=name), NOW[1]
        )
        assert found.refusals == ()
        # As the nodes' own code demands it, and as a resumed run finds it.
        assert re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}", found.key)
        keys.add(found.key)
        begun = {**views, name: replace(alive, marks={found.key: ("stop",)})}
        again = plan_from_survivor(
            replace(site, nodes=nodes), begun, RestoreOptions(survivor=name), "20260303T020000Z"
        )
        assert (again.key, again.resumes) == (found.key, True)
    assert len(keys) == 2
