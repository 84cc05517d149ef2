"""The modules of role ``runai_upgrade``: what is saved, kept, deleted and taken back."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.content import STANDINS
from tests.unit.modules.loading import load

ROLE = "runai_upgrade"
saved_state = load("runai_saved_state", role=ROLE)
retained = load("runai_volumes_retained", role=ROLE)
prerequisites = load("runai_chart_prerequisites", role=ROLE)
rolled_back = load("runai_rolled_back", role=ROLE)
dumps = importlib.import_module("ansible.module_utils.runai_dump")
records = saved_state.records
DUMP = """--
-- PostgreSQL database dump
--

CREATE TABLE backend.projects (id integer, name text);
COPY backend.projects (id, name) FROM stdin;
1\tteam-a
\\.
--
-- PostgreSQL database dump complete
--
"""

GLOBALS = DUMP.replace("database dump", "database cluster dump")


class Api:
    """An API server's objects, by kind; and Helm's secrets."""

    def __init__(self) -> None:
        self.volumes: list[dict[str, Any]] = []
        self.objects: dict[str, dict[str, Any]] = {}
        self.definitions: dict[str, int] = {}
        self.secrets: list[dict[str, Any]] = []
        self.calls: list[list[str]] = []
        self.stubborn = False
        # What a revision's manifest has and the API lacks, as kind/name.
        self.objects_of_manifest: list[str] = []

    def clock(self) -> float:
        return 0.0

    def get(self, *words: str) -> Any:
        if words[0] == "persistentvolumes":
            return {"items": self.volumes}
        if words[0].startswith("--filename="):
            items = [
                {
                    "kind": "CustomResourceDefinition" if "." in name else "Namespace",
                    "metadata": {"name": name, "generation": number},
                }
                for name, number in self.definitions.items()
            ]
            return {"items": items} if items else None
        if "secrets" in words:
            name = words[-1].rpartition("name=")[2]
            return {"items": [s for s in self.secrets if s["metadata"]["labels"]["name"] == name]}
        return self.objects.get(words[-1])

    def call(self, argv: list[str], **_: Any) -> tuple[int, str]:
        self.calls.append(argv)
        if "--dry-run=client" in argv:
            named = (one.split("/") for one in self.objects_of_manifest)
            return 0, "\n".join(
                json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}})
                for kind, name in named
            )
        if argv[0] == "patch" and not self.stubborn:
            for one in self.volumes:
                if one["metadata"]["name"] == argv[2]:
                    one["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
        if argv[0] == "apply":
            self.definitions = {"projects.run.ai": self.definitions.get("projects.run.ai", 0) + 1}
        if "delete" in argv and "secret" in argv:
            self.secrets = [s for s in self.secrets if s["metadata"]["name"] != argv[-1]]
        return 0, ""


def volume(name: str, namespace: str | None, policy: str) -> dict[str, Any]:
    claim = {"namespace": namespace, "name": name} if namespace else None
    spec = {"claimRef": claim, "persistentVolumeReclaimPolicy": policy}
    return {"metadata": {"name": name}, "spec": spec}


def release(name: str, number: int) -> Any:
    found = revision(number)
    found["metadata"]["labels"]["name"] = name
    return found


def revision(number: int, status: str = "deployed", chart: str = "", **more: str) -> Any:
    more.setdefault("manifest", "")
    data = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(more).encode()))).decode()
    notes = {"appliance.dev/chart-sha256": chart} if chart else {}
    return {
        "metadata": {
            "name": f"sh.helm.release.v1.runai-backend.v{number}",
            "labels": {"name": "runai-backend", "version": str(number), "status": status},
            "annotations": notes,
        },
        "data": {"release": data},
    }


class Job:
    """A transient unit; ``effect`` is what its command does."""

    def __init__(self, effect: Any = None, rc: int = 0) -> None:
        self.effect, self.rc = effect, rc
        self.commands: list[list[str]] = []

    def run(self, command: list[str], *_: Any) -> tuple[dict[str, Any], bool]:
        self.commands.append(command)
        if self.effect:
            self.effect(command)
        return {"rc": self.rc, "stdout": "", "stderr": "no such pod", "job": "x"}, True

    def is_running(self) -> bool:
        return False


def test_only_volumes_of_runais_claims_are_retained() -> None:
    api = Api()
    api.volumes = [
        volume("pvc-postgresql", "runai-backend", "Delete"),
        volume("pvc-thanos-receive", "runai-backend", "Retain"),
        volume("theirs", "default", "Delete"),
        volume("free", None, "Delete"),
    ]
    namespaces = ["runai-backend", "runai"]
    assert retained.retain(api, namespaces) == ["pvc-postgresql"]
    assert [call[2] for call in api.calls] == ["pvc-postgresql"]
    assert retained.retain(api, namespaces) == []


def test_a_policy_that_does_not_stay_is_an_error() -> None:
    api = Api()
    api.volumes, api.stubborn = [volume("pvc-postgresql", "runai-backend", "Delete")], True
    with pytest.raises(retained.KubectlError, match="does not keep the policy Retain"):
        retained.retain(api, ["runai-backend"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DUMP.replace("dump complete", "dump"), "lacks the end"),
        ("error: connection refused\n", "lacks the beginning"),
        ("", "lacks the beginning"),
        (DUMP.replace("CREATE TABLE", "CREATE VIEW"), "creates no table"),
    ],
)
def test_what_is_no_whole_dump_does_not_count(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "database.sql"
    path.write_text(text)
    with pytest.raises(saved_state.UpgradeError, match=said):
        dumps.examined(path)


def test_the_dump_of_the_stand_in_is_one_that_counts(tmp_path: Path) -> None:
    (tmp_path / "projects.json").write_text('{"u": [{"name": "team-a"}]}')
    program = STANDINS / "vendor_bundle_standin/images/pg_dump.py"
    argv = [sys.executable, str(program), "-U", "postgres", "backend"]
    environment = {"STORE_DIR": str(tmp_path), "PGPASSWORD": "any"}
    done = subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=True)
    path = tmp_path / "database.sql"
    path.write_bytes(done.stdout)
    assert dumps.examined(path)["tables"] == 1
    assert b"team-a" in done.stdout
    refused = subprocess.run(argv, env={}, capture_output=True, timeout=60, check=False)
    assert refused.returncode == 1


def wanted(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        **{"folder": str(folder), "source": {"version": "2.7.1"}, "target_sha256": "f" * 64},
        **{"target_version": "2.8.2", "revisions": {"runai-backend": 3, "runai-cluster": "2"}},
        **{"kubectl": "kubectl", "kubeconfig": "admin.conf", "pod": "db-0", "database": "backend"},
        **{"helm": "helm", "deadline_seconds": 60, "has_begun": False},
        **changes,
    }


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of this node, in a folder of the test."""
    path = tmp_path / "upgrade.json"
    monkeypatch.setattr(records, "PATH", path)
    return path


def save(
    want: dict[str, Any], text: str = DUMP, rc: int = 0, api: Api | None = None
) -> tuple[Any, Job]:
    if api is None:
        api = Api()
        api.secrets = [revision(3), release("runai-cluster", 2)]
    api.objects["runai"] = {"spec": {"version": "2.7.1"}}

    def dump(command: list[str]) -> None:
        if rc == 0:
            written = {"databases.txt": "backend\0keycloak\n", "globals.sql": GLOBALS}
            Path(command[4]).write_text(written.get(Path(command[4]).name, text))

    job = Job(dump, rc)
    values = {"postgresql": {"postgresqlPassword": "s3cret-of-it"}}
    told = saved_state.save(want, api, job, lambda _argv: (0, json.dumps(values), ""))
    return told["dump"], job


def test_database_and_values_are_saved_for_root_alone_and_then_recorded(
    tmp_path: Path, record: Path
) -> None:
    folder = tmp_path / "before"
    told, job = save(wanted(folder))
    assert (told["tables"], told["bytes"]) == (1, len(DUMP))
    assert told["sha256"] == hashlib.sha256(DUMP.encode()).hexdigest()
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.json")} == {
        "runai-backend-values.json": 0o600,
        "runai-cluster-values.json": 0o600,
        "runaiconfig.json": 0o600,
    }
    assert folder.stat().st_mode & 0o777 == 0o700
    assert json.loads(record.read_text())["revisions"] == {"runai-backend": 3, "runai-cluster": 2}
    # No password is an argument: the pod's own environment has it.
    assert "s3cret-of-it" not in str(job.commands) + record.read_text()
    assert saved_state.is_saved(wanted(folder), records.read(), told["taken"])


def test_a_dump_that_was_cut_or_is_of_another_upgrade_is_made_again(
    tmp_path: Path, record: Path
) -> None:
    folder = tmp_path / "before"
    save(wanted(folder))
    now = records.read()["dump"]["taken"]
    assert not saved_state.is_saved(wanted(folder, target_sha256="0" * 64), records.read(), now)
    (folder / "database.sql").write_text("cut")
    assert not saved_state.is_saved(wanted(folder), records.read(), now)
    record.write_text(json.dumps(dict(records.read(), rolled_back=True)))
    assert not saved_state.is_saved(wanted(folder), records.read(), now)


def test_a_dump_that_fails_leaves_no_record(tmp_path: Path, record: Path) -> None:
    with pytest.raises(saved_state.UpgradeError, match="the database was not dumped"):
        save(wanted(tmp_path / "before"), rc=1)
    assert not record.exists()


def chart(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "runai-backend-2.6.0.tgz"
    path.write_bytes(b"chart")
    return path, hashlib.sha256(b"chart").hexdigest()


def test_nginx_goes_only_before_the_new_chart_and_only_where_the_vendor_says_so(
    tmp_path: Path,
) -> None:
    path, digest = chart(tmp_path)
    api = Api()
    assert not records.remove_nginx(api)
    api.objects[records.NGINX[-1]] = {"metadata": {}}
    assert records.remove_nginx(api)
    assert api.calls == [
        [
            *("delete", "--ignore-not-found", "--namespace=runai-backend"),
            *("deployment", "runai-backend-nginx-ingress-controller"),
        ]
    ]
    for known, status, is_new in ((digest, "deployed", True), ("", "deployed", False),
                                  (digest, "failed", False)):  # fmt: skip
        api.secrets = [revision(3, status, known)]
        releases = prerequisites.Releases(api, "runai-backend", "runai-backend")
        assert prerequisites.is_of_chart(releases, path) is is_new


def test_definitions_are_applied_by_the_server_and_never_deleted() -> None:
    api = Api()
    assert prerequisites.apply(api, "crds.yaml") == ["projects.run.ai"]
    (call,) = api.calls
    assert call[:3] == ["apply", "--server-side", "--force-conflicts"]


def roll(api: Api, number: int, job: Job, make_way: Any = int) -> bool:
    releases = rolled_back.Releases(api, "runai-backend", "runai-backend")
    want = {"helm": "helm", "kubeconfig": "admin.conf", "timeout_seconds": 60}
    target = ("runai-backend", number)
    done: bool = rolled_back.roll_back(want, job, releases, make_way, target)
    return done


def test_the_way_back_over_a_changed_selector_deletes_nginx_as_well() -> None:
    api = Api()
    api.secrets = [revision(3, "superseded"), revision(4)]
    api.objects[records.NGINX[-1]] = {"metadata": {}}
    job = Job(lambda _command: api.secrets.append(revision(5)))
    assert roll(api, 3, job, lambda: records.remove_nginx(api))
    assert [call[-1] for call in api.calls if "delete" in call] == [records.NGINX[-1]]


def test_a_helm_that_still_runs_is_waited_for_before_its_revision_is_judged() -> None:
    api, job = Api(), Job()
    api.secrets = [revision(3, "superseded"), revision(4, "pending-upgrade")]

    def ends(_seconds: int) -> None:
        api.secrets[-1] = revision(4)

    job.is_running = lambda: True  # type: ignore[method-assign]
    job.wait_until_idle = ends  # type: ignore[attr-defined]
    job.effect = lambda _command: api.secrets.append(revision(5))
    assert roll(api, 3, job)
    assert [call for call in api.calls if "delete" in call] == []


def test_a_release_that_was_not_upgraded_is_left_alone() -> None:
    api, job = Api(), Job()
    api.secrets = [revision(3)]
    assert (roll(api, 3, job), job.commands) == (False, [])


@pytest.mark.parametrize("status", ["deployed", "failed", "pending-upgrade"])
def test_a_release_goes_back_to_its_revision_and_keeps_what_was_noted(status: str) -> None:
    api = Api()
    api.secrets = [revision(3, "superseded", chart="c" * 64), revision(4, status)]
    job = Job(lambda _command: api.secrets.append(revision(5)))
    assert roll(api, 3, job)
    assert job.commands[0][:4] == ["helm", "rollback", "runai-backend", "3"]
    notes = api.calls[-1]
    assert notes[1] == "annotate"
    assert notes[-1] == f"appliance.dev/chart-sha256={'c' * 64}"
    deleted = [call[-1] for call in api.calls if "delete" in call]
    # Helm knows a release by its secrets: only one that a helm which died left pending goes.
    assert deleted == (["sh.helm.release.v1.runai-backend.v4"] if "pending" in status else [])


def test_without_helms_own_secrets_there_is_no_way_back() -> None:
    """The trap of the vendor's first page: with all secrets, helm's knowledge goes."""
    with pytest.raises(rolled_back.UpgradeError, match="helm knows no revision of it"):
        roll(Api(), 3, Job())
    api = Api()
    api.secrets = [revision(4)]
    with pytest.raises(rolled_back.UpgradeError, match="does not know revision 3"):
        roll(api, 3, Job())


def test_a_rollback_restores_the_bundles_record_and_the_kept_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolled_back, "BUNDLE", tmp_path / "bundle.json")
    backend, cluster = tmp_path / "backend.yaml", tmp_path / "cluster.yaml"
    for path in (backend, cluster):
        path.write_text('{"new": 1}')
    (tmp_path / "runai-backend-kept-before.json").write_text('{"old": 1}')
    values = {"runai-backend": str(backend), "runai-cluster": str(cluster)}
    record = {"source": {"version": "2.7.1"}, "folder": str(tmp_path)}
    rolled_back.restore_files({"values": values}, record)
    assert json.loads((tmp_path / "bundle.json").read_text()) == {"version": "2.7.1"}
    assert (backend.read_text(), cluster.exists()) == ('{"old": 1}', False)
    cluster.write_text('{"new": 1}')
    (tmp_path / "runai-cluster-kept-before.json").write_text("")
    rolled_back.restore_files({"values": values}, record)
    assert not cluster.exists(), "an empty file: there was none"


def test_a_record_is_changed_only_where_there_is_one(record: Path) -> None:
    with pytest.raises(records.UpgradeError, match="is missing"):
        records.update({"merged": True})
    records.keep({"target_sha256": "f" * 64})
    assert records.update({"merged": True})
    assert not records.update({"merged": True})
    assert record.stat().st_mode & 0o777 == 0o600
