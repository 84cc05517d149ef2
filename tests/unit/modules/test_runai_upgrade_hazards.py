"""Role ``runai_upgrade``: a dump is of the right database, and nothing new runs backwards."""

from __future__ import annotations

import importlib
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.modules.loading import load
from tests.unit.modules.test_runai_upgrade_modules import (
    DUMP,
    ROLE,
    Api,
    Job,
    prerequisites,
    release,
    revision,
    rolled_back,
    save,
    saved_state,
    volume,
    wanted,
)

noted = load("runai_upgrade_noted", role=ROLE)
dumps = importlib.import_module("ansible.module_utils.runai_dump")
rollouts = importlib.import_module("ansible.module_utils.runai_rollouts")
records = saved_state.records


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of this node, in a folder of the test."""
    path = tmp_path / "upgrade.json"
    monkeypatch.setattr(records, "PATH", path)
    return path


# -- the dump --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        # Cut off in a row that quotes what pg_dump ends with.
        DUMP.partition("\\.")[0] + "2\t-- PostgreSQL database dump complete, said a user\n",
        DUMP.partition("\\.")[0] + "2\tPostgreSQL database dump complete",
        DUMP + "CREATE TABLE after_its_end (id integer);\n",
    ],
)
def test_a_dump_that_was_cut_off_is_not_saved_by_what_its_rows_say(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "database.sql"
    path.write_text(text)
    with pytest.raises(dumps.UpgradeError, match="lacks the end"):
        dumps.examined(path)


def test_the_last_line_of_newer_versions_of_pg_dump_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "database.sql"
    path.write_text(DUMP.replace("dump\n--\n", "dump\n--\n\n\\restrict abc\n", 1)
                    + "\n\\unrestrict abc\n\n")  # fmt: skip
    assert dumps.examined(path)["tables"] == 1


@pytest.mark.parametrize("listed", [{"backend": ["team-x"]}, {"backend": None, "queues": ["x-1"]}])
def test_a_dump_without_any_project_is_of_another_database_or_an_empty_one(
    tmp_path: Path, record: Path, listed: dict[str, Any]
) -> None:
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "projects.json").write_text(json.dumps(listed))
    with pytest.raises(dumps.UpgradeError, match="names none of the 1 projects"):
        save(wanted(folder))
    assert not record.exists()
    for known in ('{"backend": ["team-x", "team-a"]}', '{"backend": [], "queues": ["deleted"]}'):
        (folder / "projects.json").write_text(known)
        save(wanted(folder))
    assert record.exists()


def shell(path: Path, blocks: int, *command: str) -> subprocess.CompletedProcess[str]:
    argv = ["/bin/sh", "-c", dumps.TO_FILE, "to-file", str(path), str(blocks), *command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)


def test_a_dump_that_fails_leaves_the_disk_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "database.sql"
    assert shell(path, 8, "/bin/sh", "-c", "echo begun; exit 3").returncode == 3
    assert list(tmp_path.iterdir()) == []
    assert shell(path, 8, "echo", "whole").returncode == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("whole\n", 0o600)


def test_a_dump_never_fills_the_disk_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Etcd's data is on it as well."""
    path = tmp_path / "database.sql"
    assert shell(path, 8, "head", "-c", "8192", "/dev/zero").returncode != 0
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(dumps.shutil, "disk_usage", lambda _: SimpleNamespace(free=2 << 30))
    job = Job()
    with pytest.raises(dumps.UpgradeError, match="too little space, because 2048 MB stay free"):
        dumps.take({"kubectl": "kubectl", "kubeconfig": "admin.conf"}, job, path)
    assert job.commands == []


def test_a_dump_of_now_never_takes_the_place_of_the_one_from_before_helm(
    tmp_path: Path, record: Path
) -> None:
    folder = tmp_path / "before"
    save(wanted(folder))
    kept = record.read_text()
    (folder / "database.sql").unlink()
    assert saved_state.is_saved(wanted(folder, has_begun=True), records.read(), now=10.0**12)
    # And where the plan was made before: helm's own revisions tell.
    api = Api()
    api.secrets = [revision(3), revision(4), release("runai-cluster", 2)]
    with pytest.raises(dumps.UpgradeError, match=r"runai-backend has revision 4, not 3"):
        save(wanted(folder), api=api)
    assert (record.read_text(), (folder / "database.sql").exists()) == (kept, False)


@pytest.mark.usefixtures("record")
def test_a_dump_is_made_anew_where_users_went_on_for_an_hour(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    save(wanted(folder))
    taken = records.read()["dump"]["taken"]
    assert saved_state.is_saved(wanted(folder), records.read(), now=taken + 3500)
    assert not saved_state.is_saved(wanted(folder), records.read(), now=taken + 3700)
    assert not saved_state.is_saved(wanted(folder), records.read(), now=taken - 3700)
    other = wanted(folder, revisions={"runai-backend": 5, "runai-cluster": 4})
    assert not saved_state.is_saved(other, records.read(), now=taken)


def test_a_claim_that_got_a_new_volume_is_no_upgrade(tmp_path: Path, record: Path) -> None:
    api = Api()
    api.secrets = [revision(3), release("runai-cluster", 2)]
    api.volumes = [volume("pv-1", "runai-backend", "Retain"), volume("pv-9", "default", "Delete")]
    for one in api.volumes:
        one["status"] = {"phase": "Bound"}
    api.volumes[0]["spec"]["claimRef"]["name"] = "pvc-postgresql"
    save(wanted(tmp_path / "before"), api=api)
    assert records.read()["claims"] == {"runai-backend/pvc-postgresql": "pv-1"}
    assert noted.note({"verified": True}, api)
    records.update({"verified": False})
    # The new chart deleted the claim and made it again: Retain kept the volume, released.
    api.volumes[0]["status"]["phase"] = "Released"
    new = volume("pv-2", "runai-backend", "Delete")
    new["spec"]["claimRef"]["name"], new["status"] = "pvc-postgresql", {"phase": "Bound"}
    api.volumes.append(new)
    with pytest.raises(records.UpgradeError, match="bound to pv-2, and was to volume pv-1"):
        noted.note({"verified": True}, api)
    assert json.loads(record.read_text())["verified"] is False


def test_objects_are_saved_before_their_definitions_change(tmp_path: Path) -> None:
    """A definition that lost a field drops it from each object that is written next."""
    api = Api()
    api.definitions = {"projects.run.ai": 1, "runaijobs.run.ai": 1, "runai": 1}
    job = Job(lambda command: Path(command[4]).write_text("{}"))
    want = {"kubectl": "kubectl", "kubeconfig": "admin.conf", "definitions": "crds.yaml"}
    want["folder"] = str(tmp_path)
    prerequisites.save_objects(api, want, {"dump": {"taken": 1.0}}, job)
    assert job.commands[0][-5:] == [
        *("get", "projects.run.ai,runaijobs.run.ai", "--all-namespaces", "--output=json"),
        "--ignore-not-found",
    ]
    # A run that resumes has changed definitions already.
    prerequisites.save_objects(api, want, {"dump": {"taken": 1.0}}, job)
    assert len(job.commands) == 1
    prerequisites.save_objects(api, want, {"dump": {"taken": 4e9}}, job)
    assert len(job.commands) == 2


def test_without_definitions_there_are_no_objects(tmp_path: Path) -> None:
    job = Job()
    want = {"definitions": "crds.yaml", "folder": str(tmp_path)}
    prerequisites.save_objects(Api(), want, {}, job)
    assert job.commands == []


# -- the way back ----------------------------------------------------------------------------

ROWS = "COPY backend.projects"
LAST = "--\n-- PostgreSQL database dump complete"
MIGRATED = {
    "a column": ("(id integer, name text);", "(id integer, name text, department text);"),
    "a table": (ROWS, f"CREATE TABLE backend.new (id int);\n{ROWS}"),
    "a note of its migrations": (
        ROWS,
        f"COPY backend.databasechangelog (id) FROM stdin;\n0007\n\\.\n{ROWS}",
    ),
    "another PostgreSQL": ("dump\n--\n", "dump\n--\n-- Dumped from database version 13.4\n"),
}
USED = {
    "rows": ("1\tteam-a", "1\tteam-a\n2\tteam-b"),
    "a sequence": (LAST, f"SELECT pg_catalog.setval('x', 7, true);\n{LAST}"),
    "a lock": (ROWS, f"COPY databasechangeloglock (id) FROM stdin;\n1\tt\n\\.\n{ROWS}"),
}


def after(tmp_path: Path, text: str, rc: int = 0) -> Any:
    """What says whether the database was changed, where the new dump has this text."""
    (tmp_path / "database.sql").write_text(DUMP)
    described = dumps.examined(tmp_path / "database.sql")

    def dump(command: list[str]) -> None:
        if rc == 0:
            Path(command[4]).write_text(text)

    want = {"kubectl": "kubectl", "kubeconfig": "admin.conf"}
    known = {"dump": described, "folder": str(tmp_path)}
    return rolled_back.require_same_form(want, known, Job(dump, rc))


@pytest.mark.parametrize("what", MIGRATED)
def test_the_old_version_is_not_started_on_a_database_that_the_new_one_changed(
    tmp_path: Path, what: str
) -> None:
    old, new = MIGRATED[what]
    text = DUMP.replace(old, new, 1)
    assert text != DUMP
    with pytest.raises(dumps.UpgradeError, match="changed the form of its database"):
        after(tmp_path, text)


@pytest.mark.parametrize("what", USED)
def test_what_users_did_meanwhile_does_not_forbid_the_way_back(tmp_path: Path, what: str) -> None:
    old, new = USED[what]
    text = DUMP.replace(old, new, 1)
    assert text != DUMP
    after(tmp_path, text)
    assert (tmp_path / "database.sql").read_text() == DUMP


def test_a_database_that_does_not_answer_is_not_taken_for_unchanged(tmp_path: Path) -> None:
    with pytest.raises(dumps.UpgradeError, match="cannot be told whether the new version changed"):
        after(tmp_path, DUMP, rc=1)


def test_without_the_dump_from_before_nothing_is_known_of_its_form(tmp_path: Path) -> None:
    with pytest.raises(dumps.UpgradeError, match="cannot be told"):
        rolled_back.require_same_form({}, {"folder": str(tmp_path)}, Job())


def test_only_a_backend_that_helm_changed_has_its_database_judged() -> None:
    api = Api()
    api.secrets = [revision(3)]
    releases = rolled_back.Releases(api, "runai-backend", "runai-backend")
    assert not rolled_back.may_have_started(releases, 3)
    for status in ("deployed", "failed", "pending-upgrade"):
        api.secrets = [revision(3, "superseded"), revision(4, status)]
        assert rolled_back.may_have_started(releases, 3)


def test_a_deployment_that_was_deleted_before_helm_comes_back() -> None:
    """Nginx was deleted, then the definitions failed: helm's revision is that from before."""
    api, job = Api(), Job()
    api.secrets = [revision(3, manifest="kind: Deployment\n")]
    api.objects_of_manifest = ["Deployment/runai-backend-nginx-ingress-controller"]
    releases = rolled_back.Releases(api, "runai-backend", "runai-backend")
    want = {"helm": "helm", "kubeconfig": "admin.conf", "timeout_seconds": 60}
    job.effect = lambda _command: api.secrets.append(revision(4, manifest="kind: Deployment\n"))
    assert rolled_back.roll_back(want, job, releases, int, ("runai-backend", 3))
    assert job.commands[0][:4] == ["helm", "rollback", "runai-backend", "3"]


# -- the new version runs --------------------------------------------------------------------


def workload(kind: str = "Deployment", wanted: int = 1, **status: Any) -> dict[str, Any]:
    """A workload of the backend that was changed once."""
    meta = {"namespace": "runai-backend", "name": "backend", "generation": 2}
    spec = {} if kind == "DaemonSet" else {"replicas": wanted}
    return {
        "kind": kind,
        "metadata": meta,
        "spec": spec,
        "status": {"observedGeneration": 2, **status},
    }


WHOLE: dict[str, Any] = {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (workload(**WHOLE), ""),
        (workload(wanted=0), ""),
        (workload("StatefulSet", **WHOLE), ""),
        (
            workload(
                "DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=2, numberReady=2
            ),
            "",
        ),
        # The old pod is ready and answers.
        (workload(replicas=2, updatedReplicas=1, readyReplicas=1), "1 pods of its old form"),
        (workload(replicas=1, readyReplicas=1), "0 of 1 pods are of its new form"),
        (workload(**{**WHOLE, "observedGeneration": 1}), "not taken up"),
        (workload("StatefulSet", replicas=1, updatedReplicas=1), "0 of 1 pods are ready"),
        (workload("DaemonSet", desiredNumberScheduled=2, updatedNumberScheduled=1), "1 of 2"),
        ({}, "0 of 1 pods are of its new form"),
    ],
)
def test_a_workload_runs_in_its_new_form_or_it_is_said_why_not(
    item: dict[str, Any], why: str
) -> None:
    found = rollouts.unfinished(item)
    assert why in found
    assert bool(found) == bool(why)


class Cluster:
    """A backend whose old pod answers, and whose new one is in a state."""

    def __init__(self, waiting: dict[str, str]) -> None:
        self.now = 0.0
        self.done_at = float("inf")
        self.pod = {
            "metadata": {"namespace": "runai-backend", "name": "backend-2"},
            "status": {"containerStatuses": [{"state": {"waiting": waiting}}]},
        }

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def get(self, namespace: str, what: str) -> dict[str, Any] | None:
        if namespace != "--namespace=runai-backend":
            return None
        if what == "pods":
            return {"items": [self.pod]}
        is_old = self.now < self.done_at
        old = {"replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
        return {"items": [workload(**(old if is_old else WHOLE))]}


@pytest.mark.parametrize(
    ("reason", "gives_up_after"), [("ImagePullBackOff", 300), ("ContainerCreating", 1800)]
)
def test_new_pods_that_do_not_start_are_no_new_version(reason: str, gives_up_after: int) -> None:
    cluster = Cluster({"reason": reason, "message": "no such\nimage"})
    with pytest.raises(dumps.UpgradeError, match="the new version does not run: Deployment"):
        rollouts.require(cluster)
    assert gives_up_after <= cluster.now < gives_up_after + 10


def test_a_slow_start_is_waited_for() -> None:
    cluster = Cluster({"reason": "ContainerCreating"})
    cluster.done_at = 1500
    rollouts.require(cluster)
    assert cluster.now >= 1500


def test_pods_that_start_and_end_for_ever_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster({"reason": "CrashLoopBackOff"})
    sentences = iter(str(number) for number in range(100_000))
    monkeypatch.setattr(rollouts, "unfinished", lambda _item: next(sentences))
    with pytest.raises(dumps.UpgradeError, match="the new version does not run"):
        rollouts.require(cluster)
    assert rollouts.MOST_SECONDS <= cluster.now < rollouts.MOST_SECONDS + 10
