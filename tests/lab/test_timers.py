"""Timers of the control plane in a lab: a backup without a control host, and certificates."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support.forged import ALMOST_A_YEAR_DAYS, days_left, forge
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

BACKUPS = Runbook("back-up-the-appliance")
CERTIFICATES = Runbook("renew-kubernetes-certificates")
PLACE = "/var/backups/appliance"
UNIT = "appliance-timed-{}.service"


@pytest.fixture(scope="module")
def timed(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Both timers in site.yml, and on the node; they go again."""
    folder = tmp_path_factory.mktemp("timers")
    (folder / "place").mkdir()
    key = succeed("cluster", "backup", "key", str(folder / "my.key")).stdout.splitlines()[0]
    schedule: dict[str, Any] = {"at": "daily 02:30", "keep": 2}
    site: dict[str, Any] = {
        "backup": {"recipients": [key], "to": str(folder / "place"), "schedule": schedule},
    }
    settings = installed_lab.directory / "group_vars/all/site.yml"
    before = settings.read_text()
    renewal: dict[str, Any] = {"within_days": 30}

    def write() -> None:
        document = {**yaml.safe_load(before), **site}
        document["kubernetes"] = {
            **(document.get("kubernetes") or {}),
            "renew_certificates": renewal,
        }
        settings.write_text(yaml.safe_dump(document))
        install(installed_lab)

    write()
    yield folder
    schedule["enabled"] = renewal["enabled"] = False
    write()
    assert installed_lab.shell("cp1", "ls /etc/systemd/system/ | grep timed || :").strip() == ""
    settings.write_text(before)


def install(lab: LabSite) -> None:
    site = {"SITE": str(lab.directory)}
    succeed(*BACKUPS.words("appliance install --only timers --site SITE", site), "--yes")


def fired(lab: LabSite, name: str) -> dict[str, Any]:
    """The record of a run that systemd started now."""
    lab.shell("cp1", f"systemctl start {UNIT.format(name)} || :")
    text = lab.shell("cp1", f"cat /var/lib/appliance/timers/{name}.json")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def fetch(lab: LabSite) -> list[dict[str, Any]]:
    """What became of the newest backup of a node."""
    words = BACKUPS.words(
        "appliance cluster backup fetch --site SITE", {"SITE": str(lab.directory)}
    )
    said = succeed(*words, "--output", "json").stdout
    found: list[dict[str, Any]] = json.loads(said)["backups"]
    return found


def require_age(lab: LabSite) -> None:
    if lab.shell("cp1", "ls /var/lib/appliance/timer-programs/age 2>/dev/null || :").strip() == "":
        pytest.skip("the bundle has no age: it was built before the release had it")


def health(lab: LabSite) -> str:
    words = ("health", "--site", str(lab.directory), "--stage", "cluster", "--output", "json")
    return appliance(*words).stdout


@pytest.mark.usefixtures("timed")
def test_a_bundle_without_age_says_so(installed_lab: LabSite) -> None:
    has_age = "age" in installed_lab.shell("cp1", "ls /var/lib/appliance/timer-programs")
    assert ("a bundle without the program age" in health(installed_lab)) is not has_age
    site = {"SITE": str(installed_lab.directory)}
    plan = succeed(*BACKUPS.words("appliance plan --site SITE", site), "--output", "json")
    assert "timers" in json.loads(plan.stdout)["satisfied"]


def test_a_backup_of_the_timer_is_verified(installed_lab: LabSite, timed: Path) -> None:
    require_age(installed_lab)
    installed_lab.settled()
    record = fired(installed_lab, "backup")
    last = record["last"]
    assert last["outcome"] == "done", last
    site = ("--site", str(installed_lab.directory))
    (fetched,) = fetch(installed_lab)
    assert (fetched["id"], fetched["outcome"]) == (last["id"], "fetched")
    assert fetched["sha256"] == last["sha256"]
    file = timed / "place" / f"{last['id']}.backup"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == last["sha256"]
    before = file.stat().st_ino, file.stat().st_mtime_ns
    assert [one["outcome"] for one in fetch(installed_lab)] == ["there"]
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == before
    values = {"SITE": str(installed_lab.directory), "cp1": installed_lab.node("cp1")}
    said = succeed("cluster", "backup", "verify", str(file), "--identity", str(timed / "my.key"),
                   *site)  # fmt: skip
    assert "etcd: restored on" in said.stdout
    assert "missing: this machine: site" in said.stdout
    words = BACKUPS.words("appliance cluster backup list --site SITE", values)
    listed = json.loads(succeed(*words, "--output", "json").stdout)
    states = [(one.get("node"), one["id"], one["state"]) for one in listed["backups"]]
    assert states == [(None, last["id"], "whole"), (values["cp1"], last["id"], "whole")]
    look = "appliance node ssh cp1 --site SITE -- 'sudo ls -l /var/backups/appliance'"
    assert f"{last['id']}.backup" in succeed(*BACKUPS.words(look, values)).stdout
    assert "timer backup: last done" in succeed("status", *site).stdout
    journal = installed_lab.shell("cp1", f"journalctl --no-pager -u {UNIT.format('backup')}")
    assert "PRIVATE KEY" not in journal
    assert b"PRIVATE KEY" not in file.read_bytes()


@pytest.mark.usefixtures("timed")
def test_older_ones_go_and_a_killed_run_leaves_no_backup(installed_lab: LabSite) -> None:
    require_age(installed_lab)
    for _ in range(3):
        assert fired(installed_lab, "backup")["last"]["outcome"] == "done"
        time.sleep(1)
    names = installed_lab.shell("cp1", f"ls {PLACE}").split()
    assert len([name for name in names if name.endswith(".backup")]) == 2
    unit = UNIT.format("backup")
    installed_lab.shell("cp1", f"systemctl start --no-block {unit}; sleep 2; "
                        f"systemctl kill -s KILL {unit}; sleep 1")  # fmt: skip
    assert "was killed" in health(installed_lab)
    assert fired(installed_lab, "backup")["last"]["outcome"] == "done"
    assert "partial" not in installed_lab.shell("cp1", f"ls {PLACE}")


@pytest.mark.usefixtures("timed")
def test_a_failure_is_shown_by_health_and_status(installed_lab: LabSite) -> None:
    require_age(installed_lab)
    program = "/var/lib/appliance/timer-programs/age"
    installed_lab.shell("cp1", f"mv {program} {program}.away")
    try:
        record = fired(installed_lab, "backup")
        assert record["last"]["outcome"] == "failed"
        assert "appliance node logs" in health(installed_lab)
        site = ("--site", str(installed_lab.directory))
        assert appliance("status", *site, "--exit-code").returncode == 5
    finally:
        installed_lab.shell("cp1", f"mv {program}.away {program}")
    assert fired(installed_lab, "backup")["last"]["outcome"] == "done"


@pytest.mark.usefixtures("timed")
def test_certificates_that_end_soon_are_renewed_by_the_timer(installed_lab: LabSite) -> None:
    installed_lab.settled()
    assert fired(installed_lab, "certificates")["last"]["renewed"] == []
    forge(installed_lab, "cp1", 20)
    record = fired(installed_lab, "certificates")
    assert record["last"]["outcome"] == "done", record
    assert "pki/apiserver.crt" in record["last"]["renewed"]
    assert days_left(installed_lab, "cp1") > ALMOST_A_YEAR_DAYS
    installed_lab.settled()
    site = {"SITE": str(installed_lab.directory)}
    succeed(*CERTIFICATES.words("appliance install --only timers --site SITE", site), "--yes")
    said = succeed(*CERTIFICATES.words("appliance status --site SITE", site)).stdout
    assert "timer certificates: last done" in said
    horizon = appliance("horizon", "--site", str(installed_lab.directory), "--output", "json")
    assert "copies of admin.conf" in horizon.stdout
