"""What a node gives to a backup: lists of parts, rows of a dump, digests of objects."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.sources import MODULES
from appliance.adapters.ssh.node_modules import module_program
from appliance.model.backup.answer import read_answer
from appliance.model.backup.site_parts import is_state_part
from appliance.model.documents.strict_json import Unreadable
from tests.unit.modules.loading import load, load_utils

load("runai_saved_state", role="runai_upgrade")
NAMES = ("appliance_backup", "appliance_backup_cluster", "appliance_object_digest")


@pytest.fixture(scope="module")
def modules() -> dict[str, Any]:
    return {name: load_utils(name) for name in NAMES}


DUMP = rb"""--
-- PostgreSQL database dump
--
CREATE TABLE public.projects (id integer);
COPY public.projects (id, name) FROM stdin;
1	one
2	COPY public.fake (id) FROM stdin;
3	\\.
\.
COPY public."Odd name" (id) FROM stdin;
\.
-- PostgreSQL database dump complete
"""


def test_rows_are_counted_in_the_dump(modules: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "dump.sql"
    path.write_bytes(DUMP)
    found = modules["appliance_backup_cluster"].tables_of(path)
    assert {table: rows for table, (rows, _) in found.items()} == {
        "public.projects": 3,
        'public."Odd name"': 0,
    }


def test_a_tables_digest_is_of_its_rows_in_any_order(
    modules: dict[str, Any], tmp_path: Path
) -> None:
    def digests(content: bytes) -> dict[str, str]:
        path = tmp_path / "dump.sql"
        path.write_bytes(content)
        found = modules["appliance_backup_cluster"].tables_of(path)
        return {table: digest for table, (_, digest) in found.items()}

    before = digests(DUMP)
    first, second, *_ = DUMP[DUMP.index(b"1\t") :].splitlines(keepends=True)
    assert digests(DUMP.replace(first + second, second + first)) == before
    changed = digests(DUMP.replace(b"1\tone", b"1\ttwo"))
    assert changed["public.projects"] != before["public.projects"]
    assert changed['public."Odd name"'] == before['public."Odd name"']


def test_a_tree_has_its_regular_files_and_nothing_else(
    modules: dict[str, Any], tmp_path: Path
) -> None:
    backup = modules["appliance_backup"]
    top = tmp_path / "kubernetes"
    for name in ("pki/ca.key", "tmp/kubeadm-backup-etcd/db", "manifests/etcd.yaml"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    (top / "link").symlink_to("/etc/passwd")
    (top / "bad\nname").write_text("x")
    with (top / "huge").open("wb") as stream:
        stream.truncate(backup.MOST_FILE_BYTES + 1)
    found = backup.Gathered()
    backup.tree(found, top, "control_plane/cp1", [100, 1 << 30])
    assert [one[0] for one in found.parts] == [
        "control_plane/cp1/manifests/etcd.yaml",
        "control_plane/cp1/pki/ca.key",
    ]
    assert sorted(why for _, why in found.missing) == [
        "a link, which is not followed",
        "it is larger than any file of its kind",
        "its name cannot be printed",
    ]
    few = backup.Gathered()
    backup.tree(few, top, "control_plane/cp1", [3, 1 << 30])
    assert (len(few.parts), len(few.missing)) == (1, 4)


POD = "spec:\n  containers:\n  - name: x\n    image: %s\n"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.rack.test:5000/kube-apiserver:v1.23.5", "1.23.5"),
        (f"k8s.gcr.io/kube-apiserver:v1.24.17@sha256:{'a' * 64}", "1.24.17"),
        ("registry.rack.test:5000/kube-apiserver:v1.24.17-rc.0", ""),
        ("registry.rack.test:5000/another:v1.24.17", ""),
        ("", ""),
    ],
)
def test_a_control_plane_says_which_kubernetes_it_runs(
    modules: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    image: str,
    version: str,
) -> None:
    backup, out = modules["appliance_backup"], io.BytesIO()
    (tmp_path / "manifests").mkdir()
    if image:
        (tmp_path / "manifests/kube-apiserver.yaml").write_text(POD % image)
    monkeypatch.setattr(backup, "KUBERNETES", tmp_path)
    monkeypatch.setattr(backup, "BESIDE", {})
    found = backup.gather({"node": "cp1", "kinds": ["control_plane"]}, tmp_path)
    backup.send(found, out)
    line = out.getvalue().partition(b"\n")[0]
    assert read_answer(line, "cp1", ["control_plane"]).kubernetes == version


def test_a_node_gives_its_copies_of_the_journal_and_the_passports(
    modules: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup, out = modules["appliance_backup"], io.BytesIO()
    top = tmp_path / "archive"
    for name in (
        *("journal/run-1.json", "journal/run-2.json", "passports/w1.json"),
        *("journal/.XXtmp", "journal/prog.sh", "journal/in/side.json", "members/w1.json"),
    ):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    (top / "journal/link.json").symlink_to("/etc/passwd")
    monkeypatch.setattr(backup, "ARCHIVE", top)
    found = backup.gather({"node": "cp1", "kinds": ["state"]}, tmp_path)
    backup.send(found, out)
    answer = read_answer(out.getvalue().partition(b"\n")[0], "cp1", ["state"])
    names = [part.name for part in answer.parts]
    assert sorted(names) == [
        "state/journal/run-1.json",
        "state/journal/run-2.json",
        "state/passports/w1.json",
    ]
    assert all(is_state_part(name) for name in names)
    assert [one.what for one in answer.missing] == ["state/journal/link.json"]
    monkeypatch.setattr(backup, "MOST_DOCUMENTS", 2)
    few = backup.gather({"node": "cp1", "kinds": ["state"]}, tmp_path)
    assert sorted(one[0] for one in few.parts) == [
        "state/journal/run-2.json",
        "state/passports/w1.json",
    ]
    assert ("state/journal", "1 more or larger than a backup takes") in few.missing


def test_a_node_without_an_archive_gives_nothing(
    modules: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = modules["appliance_backup"]
    (tmp_path / "journal").symlink_to("/etc")
    monkeypatch.setattr(backup, "ARCHIVE", tmp_path)
    found = backup.gather({"node": "cp1", "kinds": ["state"]}, tmp_path)
    assert (found.parts, found.missing) == ([], [])


def test_what_is_sent_is_read(modules: dict[str, Any], tmp_path: Path) -> None:
    backup, out = modules["appliance_backup"], io.BytesIO()
    found = backup.Gathered()
    (tmp_path / "dump").write_bytes(b"dump" * 100_000)
    found.file("runai/databases/backend.sql", tmp_path / "dump")
    found.text("runai/counts.json", b"{}")
    found.lacks("runai/globals.sql", "no\x1b[2J answer")
    backup.send(found, out)
    line, _, content = out.getvalue().partition(b"\n")
    answer = read_answer(line, "cp1", ["runai"])
    assert content == b"dump" * 100_000 + b"{}"
    assert [part.sha256 for part in answer.parts] == [
        hashlib.sha256(b"dump" * 100_000).hexdigest(),
        hashlib.sha256(b"{}").hexdigest(),
    ]
    assert answer.missing[0].why == "no [2J answer"


def test_a_file_that_became_shorter_is_not_padded(modules: dict[str, Any], tmp_path: Path) -> None:
    backup = modules["appliance_backup"]
    found = backup.Gathered()
    (tmp_path / "dump").write_bytes(b"dump")
    found.file("runai/databases/backend.sql", tmp_path / "dump")
    (tmp_path / "dump").write_bytes(b"du")
    with pytest.raises(OSError, match="became shorter"):
        backup.send(found, io.BytesIO())


SHA = "a" * 64
ETCD = {"revision": 1, "keys": 1, "digest": SHA, "sha256": SHA, "version": "3", "members": []}
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "another kind": ({"parts": [{"name": "site/x", "size": 1, "sha256": SHA}]}, "not asked for"),
    "another node": (
        {"parts": [{"name": "control_plane/cp2/x", "size": 1, "sha256": SHA}]},
        "of another node",
    ),
    "leads elsewhere": (
        {"parts": [{"name": "control_plane/cp1/../../x", "size": 1, "sha256": SHA}]},
        "not asked for",
    ),
    "a terabyte of zeros": (
        {"parts": [{"name": "etcd/x", "size": 1 << 40, "sha256": SHA}]},
        "of etcd are larger",
    ),
    "endless": (
        {"parts": [{"name": "control_plane/cp1/x", "size": 1 << 49, "sha256": SHA}]},
        "of control_plane are larger",
    ),
    "snapshot without words": (
        {"parts": [{"name": "etcd/snapshot.db", "size": 1, "sha256": SHA}]},
        "belong together",
    ),
    "words without snapshot": ({"parts": [], "etcd": ETCD}, "belong together"),
    "another snapshot": (
        {"parts": [{"name": "etcd/snapshot.db", "size": 1, "sha256": "b" * 64}], "etcd": ETCD},
        "not the one that was examined",
    ),
    "no list": ({"parts": {}}, "parts"),
    "no version": ({"parts": [], "kubernetes": "1.23.5; reboot"}, "kubernetes"),
    "negative": (
        {"parts": [{"name": "control_plane/cp1/x", "size": -1, "sha256": SHA}]},
        "parts.0.size",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_list_is_refused(case: str) -> None:
    document, why = HOSTILE[case]
    with pytest.raises(Unreadable, match=why):
        read_answer(json.dumps(document).encode(), "cp1", ["control_plane", "etcd"])


def test_digests_tell_changes_and_nothing_else(modules: dict[str, Any]) -> None:
    digest = modules["appliance_object_digest"]
    one = {
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b", "uid": "1", "resourceVersion": "7"},
        "data": {"key": "value"},
    }
    moved = json.loads(json.dumps(one))
    moved["metadata"].update(uid="2", resourceVersion="9", managedFields=[{}], generation=3)
    moved["status"] = {"seen": True}
    other = {**one, "metadata": {"name": "z"}}
    changed = {**one, "data": {"key": "another"}}
    token = {"type": "bootstrap.kubernetes.io/token", "metadata": {"name": "t"}}
    assert digest.digest_of([one, other]) == digest.digest_of([other, moved, token])
    assert digest.digest_of([one]) != digest.digest_of([changed])
    assert digest.digest_of([one])["count"] == 1


class FakeKubectl:
    """An API with two kinds in pages, one that is refused, and one that is not carried."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def call(self, arguments: list[str], **_: Any) -> tuple[int, str]:
        path = arguments[-1]
        listed = ["list"]
        answers: dict[str, Any] = {
            "/api/v1": {
                "resources": [
                    {"name": "configmaps", "verbs": listed},
                    {"name": "pods", "verbs": listed},
                    {"name": "pods/log", "verbs": ["get"]},
                    {"name": "secrets", "verbs": listed},
                ]
            },
            "/apis": {
                "groups": [
                    {"name": "metrics.k8s.io", "preferredVersion": {"groupVersion": "m/v1"}},
                    {"name": "apps", "preferredVersion": {"groupVersion": "apps/v1"}},
                ]
            },
            "/apis/apps/v1": {"resources": [{"name": "deployments", "verbs": listed}]},
            "/apis/apps/v1/deployments?limit=500": {"items": []},
            "/api/v1/configmaps?limit=500": {
                "items": [{"metadata": {"name": "a"}}],
                "metadata": {"continue": "next/page="},
            },
            "/api/v1/configmaps?limit=500&continue=next%2Fpage%3D": {
                "items": [{"metadata": {"name": "b"}}]
            },
        }
        if path not in answers:
            raise self._error(f"the API refuses {path}")
        return 0, json.dumps(answers[path])


def test_every_kind_is_listed_page_by_page(modules: dict[str, Any]) -> None:
    error = modules["appliance_object_digest"].KubectlError
    found = modules["appliance_object_digest"].digests(FakeKubectl(error))
    assert {kind: one["count"] for kind, one in found["kinds"].items()} == {
        "configmaps": 2,
        "deployments.apps": 0,
    }
    assert list(found["unread"]) == ["secrets"]
    assert "pods" in found["not_carried"]


def test_the_program_ends_by_itself_once_nobody_reads(tmp_path: Path) -> None:
    want = {"folder": "../x", "kinds": []}
    command, text = module_program(sys.executable, MODULES, [json.dumps(want)])
    done = subprocess.run(
        ["sh", "-c", command], input=text, capture_output=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, b"not the name of a backup" in done.stderr) == (1, True)
