"""Which timer belongs on which node, when it is there, and what is said of its runs."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.model.backup.names import KINDS
from appliance.model.bundle.manifest import BundledArtifact, BundleManifest
from appliance.model.checks.health.timers import findings, views
from appliance.model.components.timers import unmet, variables, wanted
from appliance.model.plan.planner import plan
from appliance.model.site.recovery.backup_settings import Schedule
from appliance.model.site.settings import Site
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.probe.services.timers import timers as probed
from tests import samples

NOW = 1_800_000_000.0
HOUR = 3600.0
KEYS = ("age1" + "q" * 58, "age1" + "p" * 58)
BACKUP = {"recipients": list(KEYS), "to": "/mnt/backups", "schedule": {"at": "daily 02:30"}}
BOTH: dict[str, Any] = {"backup": BACKUP, "kubernetes": {"renew_certificates": {}}}
AGE = "a" * 64


def site(masters: int = 3, **changes: Any) -> Site:
    return samples.site(masters, **changes)


def desired(of: Site, *, age: bool = True) -> Desired:
    found = samples.desired(of)
    assert found.manifest is not None
    return dataclasses.replace(found, manifest=with_age(found.manifest) if age else found.manifest)


def with_age(manifest: BundleManifest) -> BundleManifest:
    document = manifest.as_json()
    document["artifacts"].append(
        {
            "name": "age",
            "kind": "binary",
            "version": "1.2.1",
            "path": "bin/age",
            "sha256": AGE,
            "size": 1,
            "source": {"kind": "go", "ref": "filippo.io/age@v1.2.1", "verified": "gosum"},
        }
    )
    found = BundleManifest.parse(document)
    assert isinstance(found.artifacts[-1], BundledArtifact)
    return found


def converged(of: Desired) -> dict[str, dict[str, Any]]:
    """Documents of nodes on which every timer is as it should be."""
    found = {node.name: samples.converged(node, of) for node in of.site.nodes}
    for node in of.site.control_plane:
        found[node.name]["timers"] = {
            name: {
                "settings": json.loads(json.dumps(told)),
                "active": "active",
                "enabled": True,
                "running": False,
                "last": {"began": NOW - HOUR, "ended": NOW - HOUR, "outcome": "done", "why": ""},
                "success": {"ended": NOW - HOUR, "id": "rack-20270115T070000Z", "size": 12_000_000},
                "failures": 0,
                "age": True,
            }
            for name, told in wanted.settings_on(node, of).items()
            if told is not None
        }
    return found


def observed(of: Desired, documents: dict[str, dict[str, Any]]) -> Observed:
    return Observed(samples.node_facts(documents), samples.cluster(of))


def reasons(of: Desired, documents: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    seen = observed(of, documents)
    told = {node.name: list(unmet.timers(node, of, seen)) for node in of.site.control_plane}
    return {name: found for name, found in told.items() if found}


AT = {
    "daily 02:30": "*-*-* 02:30:00",
    "weekly sun 23:59": "Sun *-*-* 23:59:00",
}


@pytest.mark.parametrize("text", AT)
def test_a_schedule_is_a_calendar_of_systemd(text: str) -> None:
    assert Schedule(at=text).calendar == AT[text]


@pytest.mark.parametrize(
    "text",
    ["daily", "02:30", "daily 24:00", "daily 2:30", "weekly 02:30", "daily 02:30\n", "hourly", 3],
)
def test_nothing_else_is_a_schedule(text: Any) -> None:
    with pytest.raises(ValidationError):
        Schedule(at=text)


def test_a_site_without_timers_needs_no_play() -> None:
    of = desired(site())
    found = plan(of, observed(of, {n.name: samples.converged(n, of) for n in of.site.nodes}))
    assert "timers" in found.not_applicable
    assert "timers" not in [step.name for step in found.steps]
    assert list(findings(of, observed(of, converged(of)), NOW)) == []


def test_timers_that_site_yml_says_nothing_of_any_more_are_taken_off() -> None:
    documents = converged(desired(site(**BOTH)))
    of = desired(site())
    seen = observed(of, documents)
    (step,) = [step for step in plan(of, seen).steps if step.name == "timers"]
    assert step.nodes == ("cp1", "cp2", "cp3")
    assert {one.hint for one in findings(of, seen, NOW)} == {"appliance install --only timers"}
    run = dataclasses.replace(samples.planned_run(of), observed=seen)
    assert variables.node_variables(run, of.site.control_plane[0]) == {
        "node_timers_backup": {"settings": "", "calendar": ""},
        "node_timers_certificates": {"settings": "", "calendar": ""},
    }
    assert "node_timers_artifacts_url" in variables.variables(run)
    for document in documents.values():
        document["timers"] = {}
    assert "timers" in plan(of, observed(of, documents)).not_applicable


def test_the_step_is_planned_where_it_is_asked_for_and_met_once_it_was_done() -> None:
    of = desired(site(**BOTH))
    bare = {node.name: samples.converged(node, of) for node in of.site.nodes}
    (step,) = [step for step in plan(of, observed(of, bare)).steps if step.name == "timers"]
    assert step.nodes == ("cp1", "cp2", "cp3")
    assert "timers" in plan(of, observed(of, converged(of))).satisfied


def test_one_node_makes_backups_and_every_one_renews_its_certificates_at_another_hour() -> None:
    of = desired(site(**BOTH))
    told = {node.name: wanted.settings_on(node, of) for node in of.site.nodes}
    assert [name for name, one in told.items() if one["backup"]] == ["cp1"]
    assert [one["certificates"]["calendar"] for one in told.values() if one["certificates"]] == [
        "*-*-* 03:20:00",
        "*-*-* 04:20:00",
        "*-*-* 05:20:00",
    ]
    backup = told["cp1"]["backup"]
    assert backup is not None
    assert backup["kinds"] == ["etcd", "control_plane", "state", "objects", "tls", "registry"]
    assert set(backup["kinds"]) | {wanted.RUNAI} <= set(KINDS)
    assert [(one["where"], one["what"]) for one in backup["elsewhere"]] == [
        ("this machine", "site"),
        ("this machine", "state"),
        ("cp2", "control_plane"),
        ("cp3", "control_plane"),
    ]


def test_another_node_takes_over_when_the_carrier_is_removed() -> None:
    whole = site(**BOTH)
    nodes = tuple(
        dataclasses.replace(node, groups=node.groups | {"services"}) if node.name == "w1" else node
        for node in whole.nodes
        if node.name != "cp1"
    )
    found = wanted.carrier(dataclasses.replace(whole, nodes=nodes))
    assert found is not None
    assert found.name == "cp2"


CHANGES: dict[str, tuple[str, str, Any, str]] = {
    "no timer": ("cp1", "", {}, "it has no timer backup"),
    "other settings": ("cp1", "backup/settings", {"keep": 1}, "other settings than the site"),
    "it does not wait": ("cp1", "backup/active", "failed", "is failed"),
    "not at boot": ("cp2", "certificates/enabled", False, "does not start at boot"),
    "no program": ("cp1", "backup/age", False, "no program age"),
    "on another node": ("cp2", "backup", {"settings": {}}, "belongs on no node"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_differs_is_a_reason(case: str) -> None:
    of = desired(site(**BOTH))
    documents = converged(of)
    assert reasons(of, documents) == {}
    node, path, value, told = CHANGES[case]
    change(documents[node]["timers"], path, value)
    found = reasons(of, documents)
    assert list(found) == [node]
    assert told in found[node][0]


def change(timers: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split("/")
    for one in parents:
        timers = timers[one]
    if last:
        timers[last] = value
    else:
        timers.clear()


def test_with_the_schedule_off_the_timer_goes() -> None:
    on = desired(site(**BOTH))
    documents = converged(on)
    off = desired(site(backup={**BACKUP, "schedule": {"at": "daily 02:30", "enabled": False}}))
    found = reasons(off, documents)
    assert sorted(found) == ["cp1", "cp2", "cp3"]
    run = dataclasses.replace(samples.planned_run(off), manifest=with_age(samples.manifest()))
    assert variables.node_variables(run, off.site.control_plane[0]) == {
        "node_timers_backup": {"settings": "", "calendar": ""},
        "node_timers_certificates": {"settings": "", "calendar": ""},
    }


def test_a_bundle_without_age_makes_no_schedule_and_says_so() -> None:
    of = desired(site(**BOTH), age=False)
    documents = {node.name: samples.converged(node, of) for node in of.site.nodes}
    assert reasons(of, documents) == {
        name: ["it has no timer certificates"] for name in ("cp1", "cp2", "cp3")
    }
    run = samples.planned_run(of)
    told = variables.node_variables(run, of.site.control_plane[0])
    assert told["node_timers_backup"] == {"settings": "", "calendar": ""}
    first = next(findings(of, observed(of, documents), NOW))
    assert (first.node, first.severity, first.of_site) == ("cp1", "warning", True)
    assert "age" in first.seen
    assert "appliance bundle build" in first.hint


RUNS: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "done": ({}, []),
    "failed": (
        {
            "last": {"began": NOW - HOUR, "outcome": "failed", "why": "age ended with 1"},
            "failures": 2,
        },
        [("error", "failed, 2 times in a row: age ended with 1")],
    ),
    "killed": (
        {"last": {"began": NOW - HOUR, "outcome": "began"}},
        [("error", "of 2027-01-15 07:00 UTC was killed")],
    ),
    "at work": ({"last": {"began": NOW, "outcome": "began"}, "running": True}, []),
    "skipped once": (
        {"last": {"began": NOW, "outcome": "skipped", "why": "install is at work"}},
        [],
    ),
    "skipped for days": (
        {
            "last": {"began": NOW, "outcome": "skipped", "why": "install is at work"},
            "success": {"ended": NOW - 60 * HOUR},
        },
        [("error", "for 60 hours; the last one was skipped: install is at work")],
    ),
    "skipped from the beginning": (
        {
            "last": {"began": NOW, "outcome": "skipped", "why": "install is at work"},
            "success": None,
        },
        [("warning", "no run was done yet: install is at work")],
    ),
    "a service that does not start": (
        {"last": None, "success": None, "failed": True},
        [("error", "its service failed, and wrote nothing down")],
    ),
    "a full disk after a run that was done": (
        {"failed": True},
        [("error", "its service failed, and wrote nothing down")],
    ),
    "failed and written down": (
        {"last": {"began": NOW, "outcome": "failed", "why": "x"}, "failed": True},
        [("error", "failed: x")],
    ),
    "a clock that was ahead": (
        {"success": {"ended": NOW + 90_000 * HOUR}},
        [("error", "its last run ended in 90000 hours' time")],
    ),
    "something lacks": (
        {"success": {"ended": NOW, "lacking": 1, "first_lack": "runai: no answer"}},
        [("warning", "lacks runai: no answer")],
    ),
    "stopped": ({"active": "inactive"}, [("error", "does not wait for its time")]),
}


@pytest.mark.parametrize("case", RUNS)
def test_what_went_wrong_is_said_with_the_command_to_see_more(case: str) -> None:
    of = desired(site(1, **BOTH))
    documents = copy.deepcopy(converged(of))
    changes, expected = RUNS[case]
    documents["cp1"]["timers"]["backup"].update(changes)
    found = list(findings(of, observed(of, documents), NOW))
    assert [one.severity for one in found] == [severity for severity, _ in expected]
    assert all(told in one.seen for one, (_, told) in zip(found, expected, strict=True))
    assert all(one.hint.startswith("appliance ") for one in found)


def test_the_last_run_is_told_in_one_line() -> None:
    of = desired(site(1, **BOTH))
    first, second = views(of, observed(of, converged(of)))
    assert first.sentence(NOW) == (
        "cp1: timer backup: last done 2027-01-15 07:00 UTC, 1 h ago: rack-20270115T070000Z, 12 MB"
    )
    assert second.timer == "certificates"


@pytest.mark.parametrize("moment", [1e300, -5, float("nan"), float("inf"), 10**400])
def test_a_moment_that_is_none_breaks_no_look(moment: float) -> None:
    of = desired(site(1, **BOTH))
    documents = converged(of)
    run = {"began": moment, "ended": moment, "outcome": "failed", "why": "x", "id": "y"}
    documents["cp1"]["timers"]["backup"].update(last=run, success={**run, "size": 10**400})
    seen = observed(of, documents)
    (finding,) = findings(of, seen, NOW)
    assert "its run of an unknown time failed" in finding.seen
    assert "no run was done yet" in views(of, seen)[0].sentence(NOW)


class Place:
    """A node as the probe's section sees it."""

    def __init__(self, documents: dict[str, Any]) -> None:
        self.documents = documents

    def others_document(self, name: str, limit: int) -> Any:
        assert limit == 1 << 16
        return self.documents.get(name)

    def exists(self, name: str) -> bool:
        return name.endswith("/age")


UNITS = [
    {
        "Id": "appliance-timed-backup.timer",
        "LoadState": "loaded",
        "ActiveState": "active",
        "UnitFileState": "enabled",
    },
    {"Id": "appliance-timed-backup.service", "ActiveState": "failed"},
]


def test_a_node_without_timers_tells_of_none() -> None:
    assert probed(Place({}), []) == {}  # type: ignore[arg-type]


def test_what_a_node_tells_has_the_form_that_is_read() -> None:
    strange = {"began": 1.5, "why": "x" * 9000, "renewed": ["a"] * 99, "more": {"deep": []}}
    files = {
        "/etc/appliance/timers/backup.json": {"keep": 3},
        "/var/lib/appliance/timers/backup.json": {"last": strange, "success": 7, "failures": "x"},
    }
    found = probed(Place(files), UNITS)  # type: ignore[arg-type]
    assert found["backup"]["active"] == "active"
    assert found["backup"]["enabled"] is True
    assert found["backup"]["failed"] is True
    assert (found["backup"]["success"], found["backup"]["failures"]) == ({}, 0)
    assert set(found["backup"]["last"]) == {"began", "why", "renewed"}
    of = desired(site(1, **BOTH))
    documents = converged(of)
    documents["cp1"]["timers"] = found
    facts = samples.node_facts(documents)["cp1"]
    assert facts.at("timers.backup.settings.keep") == 3
