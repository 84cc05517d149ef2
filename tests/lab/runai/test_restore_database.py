"""Run:ai's database is restored from a backup, alone and killed midway; then the whole cluster is.

The folder's lab stays as it was at the backup, with its Run:ai connected.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.conftest import LabSite, wait_for
from tests.lab.runai.backend import clusters, history, make_project, projects
from tests.lab.runai.commands import Commands
from tests.lab.runai.test_runai import job, run_job
from tests.lab.support.cluster import busybox, kubectl
from tests.lab.support.issuer import settings_file
from tests.lab.support.runbook import Runbook

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PAGE = Runbook("recover-the-cluster")
FILE = "rack7-20260301T020000Z.backup"  # in the page
BEFORE, AFTER = "before-the-backup", "after-the-backup"
# Jobs of the project: one ended before the backup, the other after it.
HISTORY, LATER, SPACE = "history", "later", f"runai-{BEFORE}"
MARK = "appliance.dev/before-restore"
SECONDS = 1800.0
KILLS = 3


@dataclass(frozen=True)
class Saved:
    """A lab, a backup of it, and the key that opens it."""

    lab: LabSite
    file: Path
    key: Path

    def words(self, *more: str) -> tuple[str, ...]:
        """The command that restores something of it."""
        site = ("--site", str(self.lab.directory), "--yes")
        return ("cluster", "restore", str(self.file), "--identity", str(self.key), *site, *more)

    def values(self) -> dict[str, str]:
        """What the page's names are here."""
        return {FILE: str(self.file), "rack7.key": str(self.key)}

    def database(self, *more: str) -> tuple[str, ...]:
        """The command that restores the databases alone."""
        page = f"appliance cluster restore {FILE} --identity rack7.key --only database"
        site = ("--site", str(self.lab.directory), "--yes")
        return (*PAGE.words(page, self.values()), *site, *more)


@pytest.fixture(scope="module")
def saved(
    runai_lab: LabSite, commands: Commands, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Saved]:
    """A project and a job that ended, and a backup that has both."""
    folder = tmp_path_factory.mktemp("backups")
    key, path = folder / "key", settings_file(runai_lab)
    public = commands.succeed("cluster", "backup", "key", str(key)).stdout.splitlines()[0]
    if BEFORE not in projects(runai_lab):
        make_project(runai_lab, BEFORE)
    ended(runai_lab, HISTORY)
    before = path.read_text()
    path.write_text(
        before + yaml.safe_dump({"backup": {"recipients": [public], "to": str(folder)}})
    )
    site = ("--site", str(runai_lab.directory), "--yes")
    commands.succeed("cluster", "backup", "create", *site, timeout=SECONDS)
    (file,) = folder.glob("*.backup")
    yield Saved(runai_lab, file, key)
    path.write_text(before)


def ended(lab: LabSite, name: str) -> None:
    """A job of the project ends, and the backend knows that."""
    space = f"get namespace {SPACE} --ignore-not-found -o name"
    wait_for("the project's namespace", lambda: bool(kubectl(lab, space).strip()), 60)
    run_job(lab, name, job(name, busybox(lab), gpus=1), SPACE)
    wait_for(f"{name} in the backend", lambda: history(lab).get(name) == "Succeeded", 60)


def deployments(lab: LabSite) -> dict[str, Any]:
    """Name -> pods that are wanted, and whether a restore stopped it."""
    found = json.loads(kubectl(lab, "-n runai-backend get deployments,statefulsets -o json"))
    return {
        one["metadata"]["name"]: (
            one["spec"]["replicas"],
            MARK in (one["metadata"].get("annotations") or {}),
        )
        for one in found["items"]
    }


def is_as_saved(lab: LabSite) -> None:
    assert [one["status"] for one in clusters(lab)] == ["connected"]
    assert BEFORE in projects(lab)
    assert AFTER not in projects(lab)
    known = history(lab)
    assert known.get(HISTORY) == "Succeeded"
    assert LATER not in known


def test_the_backup_is_proved_and_its_databases_by_digests(
    saved: Saved, commands: Commands
) -> None:
    site = ("--site", str(saved.lab.directory), "-o", "json")
    words = ("cluster", "backup", "verify", str(saved.file), "--identity", str(saved.key), *site)
    told = json.loads(commands.succeed(*words, timeout=SECONDS).stdout)
    assert told["known"], "only a file that the journal knows is restored"
    assert any(line.startswith("etcd: restored on ") for line in told["restored"])
    databases = [line for line in told["restored"] if line.startswith("runai/databases/")]
    assert any(line.startswith("runai/databases/backend.sql: ") for line in databases)
    assert all(line.endswith(", compared by counts and digests") for line in databases), databases
    is_as_saved(saved.lab)


def test_what_would_be_lost_is_told_and_nothing_changes(saved: Saved, commands: Commands) -> None:
    make_project(saved.lab, AFTER)
    page = f"appliance cluster restore {FILE} --identity rack7.key --only database --dry-run"
    words = (*PAGE.words(page, saved.values()), "--site", str(saved.lab.directory))
    told = json.loads(commands.succeed(*words, "-o", "json", timeout=SECONDS).stdout)
    assert told["refusals"] == []
    assert [one["name"] for one in told["databases"]] == ["backend"]
    assert told["done"] is False
    assert AFTER in projects(saved.lab)


def test_a_project_of_before_is_there_and_one_of_after_is_gone(
    saved: Saved, commands: Commands
) -> None:
    lab, before = saved.lab, deployments(saved.lab)
    ended(lab, LATER)
    # So that nobody can report them again: what is known of them is in the database alone.
    kubectl(lab, f"-n {SPACE} delete job {HISTORY} {LATER}")
    words = saved.database("-o", "json")
    told = json.loads(commands.succeed(*words, timeout=SECONDS).stdout)
    print(f"Run:ai's database: {told['took_seconds']} s, away {told['away_seconds']} s")  # noqa: T201
    assert told["done"]
    assert told["connection"]["shown"]
    is_as_saved(lab)
    assert deployments(lab) == before
    for path in told["dumps"]:
        assert "PostgreSQL database dump complete" in lab.shell("cp1", f"tail -n 3 {path}")
    steps = [one for one in lab.records() if one["command"] == "cluster restore"]
    assert any(told["recovery_point"] in why for one in steps for why in one["why"])


def begun(saved: Saved) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "appliance", *saved.database()]
    return subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def test_killed_while_run_ai_is_stopped_and_at_random_moments_the_same_command_ends_it(
    saved: Saved, commands: Commands
) -> None:
    lab, before = saved.lab, deployments(saved.lab)
    make_project(lab, AFTER)
    process = begun(saved)
    wait_for("a stop", lambda: any(mark for _, mark in deployments(lab).values()), SECONDS)
    kill(process)
    chance = random.Random(18)  # noqa: S311 - moments, no secret
    for _ in range(KILLS):
        process = begun(saved)
        time.sleep(chance.uniform(2, 40))
        kill(process)
    commands.succeed(*saved.database(), timeout=SECONDS)
    is_as_saved(lab)
    assert deployments(lab) == before


def test_after_the_loss_of_etcd_login_connection_project_and_jobs_are_there(
    saved: Saved, commands: Commands
) -> None:
    lab = saved.lab
    lab.shell("cp1", "rm -rf /var/lib/etcd/member; pkill -9 -x etcd || true")
    told = json.loads(commands.succeed(*saved.words("-o", "json"), timeout=SECONDS).stdout)
    assert told["compared"], "every key was compared with the backup's"
    lab.settled(900)
    wait_for("a connection", lambda: clusters(lab)[0]["status"] == "connected", 300)
    is_as_saved(lab)
    listed = json.loads(kubectl(lab, "get pods,jobs --all-namespaces -o json"))["items"]
    assert any(one["metadata"]["name"].startswith(HISTORY) for one in listed)
