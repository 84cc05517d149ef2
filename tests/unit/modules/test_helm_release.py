"""A release is made when it differs, healed when helm died, and left alone otherwise."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import (
    CERTIFICATE_ANNOTATION,
    ORIGIN_ANNOTATION,
    SITE_VALUES_ANNOTATION,
)
from tests.unit.modules.loading import load

helm_release = load("helm_release")
ROOT = Path(__file__).parents[3]
MANIFEST = "kind: Deployment\n---\nkind: RoleBinding\n"
OBJECTS = [("Deployment", "there"), ("RoleBinding", "kube-system")]


def packed(manifest: str) -> str:
    inner = base64.b64encode(gzip.compress(json.dumps({"manifest": manifest}).encode()))
    return base64.b64encode(inner).decode()


def plain(kind: str, namespace: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "web", "namespace": namespace}}


class FakeCluster:
    """Helm's secrets, and the objects that exist; speaks kubectl's answers."""

    def __init__(self) -> None:
        self.secrets: list[dict[str, Any]] = []
        self.objects = list(OBJECTS)
        self.calls: list[list[str]] = []
        self.applied: list[str] = []
        self.knows_the_kinds = True

    def add(self, revision: int, status: str, **notes: str) -> None:
        name = f"sh.helm.release.v1.web.v{revision}"
        self.secrets.append(
            {
                "metadata": {
                    "name": name,
                    "labels": {"version": str(revision), "status": status, "name": "web"},
                    "annotations": {f"appliance.dev/{k}-sha256": v for k, v in notes.items()},
                },
                "data": {"release": packed(MANIFEST)},
            }
        )

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        words = [word for word in argv[1:] if not word.startswith("--")]
        self.calls.append(words)
        if "--raw" in argv:
            return 0, "ok", ""
        if "secrets" in words:
            return 0, json.dumps({"items": self.secrets}), ""
        answer: tuple[int, str, str] = getattr(self, "do_" + words[0])(argv, words)
        return answer

    def do_create(self, argv: list[str], _words: list[str]) -> tuple[int, str, str]:
        """Like kubectl, which says default where a manifest names no namespace."""
        if not self.knows_the_kinds:
            return 1, "", "no matches for kind ClusterPolicy"
        if any(word.startswith("--namespace=") for word in argv):
            return 1, "", 'the namespace from the provided object "kube-system" does not match'
        shown = [plain(kind, space.replace("there", "default")) for kind, space in OBJECTS]
        return 0, "\n".join(map(json.dumps, shown)), ""

    def do_get(self, argv: list[str], _words: list[str]) -> tuple[int, str, str]:
        file = next(word for word in argv if word.startswith("--filename="))
        asked = json.loads(Path(file.partition("=")[2]).read_text())["items"]
        found = [plain(*one) for one in self.objects if plain(*one) in asked]
        return 0, json.dumps({"kind": "List", "items": found}), ""

    def do_apply(self, argv: list[str], _words: list[str]) -> tuple[int, str, str]:
        (file,) = [word for word in argv if word.startswith("--filename=")]
        self.applied.append(Path(file.partition("=")[2]).read_text())
        return 0, "", ""

    def do_delete(self, _argv: list[str], words: list[str]) -> tuple[int, str, str]:
        self.secrets = [s for s in self.secrets if s["metadata"]["name"] != words[-1]]
        return 0, "", ""

    def do_annotate(self, _argv: list[str], words: list[str]) -> tuple[int, str, str]:
        (secret,) = [s for s in self.secrets if s["metadata"]["name"] == words[2]]
        secret["metadata"]["annotations"] |= dict(pair.split("=") for pair in words[3:])
        return 0, "", ""


class FakeJob:
    """Helm as a unit: makes a revision, or fails."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.commands: list[list[str]] = []
        self.values: list[dict[str, Any]] = []
        self.modes: list[int] = []
        self.rc = 0
        self.busy = 0
        self.waited = 0

    def is_running(self) -> bool:
        self.busy -= 1
        return self.busy >= 0

    def wait_until_idle(self, _seconds: int) -> None:
        self.waited += 1
        for secret in self.cluster.secrets:
            secret["metadata"]["labels"]["status"] = "deployed"

    def run(
        self, argv: list[str], _environment: object, _directory: str, _seconds: int
    ) -> tuple[dict[str, Any], bool]:
        self.commands.append(argv)
        path = [Path(w.partition("=")[2]) for w in argv if w.startswith("--values=")][-1]
        self.values.append(json.loads(path.read_text()))
        self.modes.append(path.stat().st_mode & 0o777)
        if self.rc == 0:
            self.cluster.add(len(self.cluster.secrets) + 1, "deployed")
            self.cluster.objects = list(OBJECTS)
        return {"rc": self.rc, "stdout": "", "stderr": "it broke", "job": "helm-web"}, False


class Bench:
    """One release on one fake cluster."""

    def __init__(self, folder: Path) -> None:
        self.cluster = FakeCluster()
        self.job = FakeJob(self.cluster)
        kubectl = helm_release.Kubectl(self.cluster.run, patience_seconds=0)
        kubectl.sleep = lambda _seconds: None
        self.releases = helm_release.Releases(kubectl, "there", "web")
        self.want: dict[str, Any] = {
            "name": "web", "namespace": "there", "chart": str(folder / "web.tgz"),
            "values": {"b": 1, "a": {"password": "s3cret"}}, "values_files": [],
            "secret_values": {}, "origin": {}, "certificate": None,
            "create_namespace": True, "wait": False, "timeout_seconds": 60,
            "helm": "/usr/local/bin/helm",
            "kubeconfig": "/etc/kubernetes/admin.conf",
        }  # fmt: skip
        self.chart("one")

    def chart(self, text: str) -> None:
        with tarfile.open(self.want["chart"], "w:gz") as archive:
            for name, content in {
                "web/Chart.yaml": text,
                "web/crds/one.yaml": "kind: One\n",
                "web/charts/inner/crds/two.yaml": "kind: Two\n",
                "web/templates/crds.yaml": "kind: Not\n",
            }.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))

    def go(self, *, check_mode: bool = False) -> tuple[str, list[int]]:
        outcome: tuple[str, list[int]] = helm_release.converge(
            self.want, self.job, self.releases, check_mode
        )
        return outcome


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(helm_release, "FOLDER", str(tmp_path / "helm"))
    return Bench(tmp_path)


def test_a_release_is_installed_once_and_then_left_alone(bench: Bench) -> None:
    assert bench.go() == ("there is no such release", [])
    assert bench.go() == ("", [])
    assert len(bench.job.commands) == 1
    assert not bench.cluster.applied, "helm brings definitions by itself at the first install"


def test_values_go_by_a_file_of_roots_own_that_does_not_stay(bench: Bench, tmp_path: Path) -> None:
    bench.go()
    assert bench.job.values == [bench.want["values"]]
    assert bench.job.modes == [0o600]
    assert "s3cret" not in " ".join(bench.job.commands[0])
    assert list((tmp_path / "helm").iterdir()) == []


def test_values_go_although_the_unit_of_a_helm_that_ended_is_still_on_its_way_out(
    bench: Bench, tmp_path: Path
) -> None:
    bench.job.busy = 1
    bench.go()
    assert list((tmp_path / "helm").iterdir()) == []


def test_values_stay_for_a_helm_that_outlives_its_deadline(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: Any) -> Any:
        raise helm_release.JobError("it runs on")

    monkeypatch.setattr(bench.job, "run", late)
    bench.job.busy = 1
    with pytest.raises(helm_release.JobError, match="it runs on"):
        bench.go()
    assert len(list((tmp_path / "helm").iterdir())) == 1


def test_values_that_a_killed_run_left_are_removed(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "helm"
    folder.mkdir()
    (folder / f"web-{'0' * 16}.json").write_text("{}")
    another = folder / f"web-backend-{'0' * 16}.json"
    another.write_text("{}")
    bench.go()
    assert list(folder.iterdir()) == [another]


def test_other_values_or_another_chart_are_an_upgrade_with_the_charts_definitions(
    bench: Bench,
) -> None:
    bench.go()
    bench.want["values"] = {"a": 2}
    assert bench.go()[0] == "it was made from another values"
    bench.chart("two")
    assert bench.go()[0] == "it was made from another chart"
    assert bench.cluster.applied == ["kind: One\n\n---\nkind: Two\n"] * 2
    assert bench.go()[0] == ""


def test_values_come_as_one_text(bench: Bench) -> None:
    assert helm_release.read_values(json.dumps(bench.want["values"])) == bench.want["values"]
    assert helm_release.read_values(None) == {}
    for wrong in ("[1]", "s3cret: {", "'s3cret'"):
        with pytest.raises(ValueError, match="no mapping in JSON") as told:
            helm_release.read_values(wrong)
        assert "s3cret" not in str(told.value)


def test_each_role_gives_its_values_as_one_text() -> None:
    given = [
        str(task["helm_release"]["values"])
        for file in (ROOT / "roles").glob("*/tasks/*.yml")
        for task in yaml.safe_load(file.read_text()) or ()
        if "helm_release" in task
    ]
    assert len(given) == 3
    assert [text for text in given if "| to_json" not in text] == []


def test_the_order_of_keys_makes_no_other_values(bench: Bench) -> None:
    bench.go()
    bench.want["values"] = {"a": {"password": "s3cret"}, "b": 1}
    assert bench.go() == ("", [])


def notes(bench: Bench) -> dict[str, str]:
    found: dict[str, str] = bench.cluster.secrets[-1]["metadata"]["annotations"]
    return found


def test_the_sites_own_values_are_noted_beside_all_of_them(bench: Bench, tmp_path: Path) -> None:
    written = tmp_path / "values.yaml"
    written.write_text("c: 1\n")
    bench.want["values_files"] = [str(written)]
    bench.go()
    own = values_digest(bench.want["values"])
    assert notes(bench)[SITE_VALUES_ANNOTATION] == own
    assert notes(bench)["appliance.dev/values-sha256"] != own


def test_a_release_of_an_earlier_version_gets_its_note_without_helm(bench: Bench) -> None:
    bench.go()
    del notes(bench)[SITE_VALUES_ANNOTATION]
    assert bench.go(check_mode=True)[0]
    assert SITE_VALUES_ANNOTATION not in notes(bench)
    assert bench.go()[0] == "what of the site it was made from was not noted"
    assert notes(bench)[SITE_VALUES_ANNOTATION] == values_digest(bench.want["values"])
    assert len(bench.job.commands) == 1
    assert bench.go() == ("", [])


def test_the_vaults_values_win_and_are_no_part_of_the_note(bench: Bench) -> None:
    bench.want["values"] = {"a": {"user": "ada", "names": ["x"]}, "b": 1}
    bench.want["secret_values"] = {"a": {"password": "s3cret", "names": ["y"]}, "c": {"d": 2}}
    bench.go()
    wanted = {"a": {"user": "ada", "names": ["y"], "password": "s3cret"}, "b": 1, "c": {"d": 2}}
    assert bench.job.values == [wanted]
    assert notes(bench)[SITE_VALUES_ANNOTATION] == values_digest(bench.want["values"])
    assert bench.go() == ("", [])
    bench.want["secret_values"] = {"a": {"password": "an0ther"}}
    assert bench.go()[0] == "it was made from another values"


def test_a_value_that_moves_to_the_vault_needs_no_helm(bench: Bench) -> None:
    bench.go()
    bench.want["values"] = {"b": 1}
    bench.want["secret_values"] = {"a": {"password": "s3cret"}}
    assert bench.go()[0] == "what of the site it was made from was not noted"
    assert len(bench.job.commands) == 1


def test_secrets_are_masked_and_words_are_not() -> None:
    tenant = {"admin": "long-enough", "users": [{"name": "ada"}, "l0nger-one"]}
    values = {"initTenant": tenant, "n": 1}
    assert helm_release.texts_in(values) == {"long-enough", "l0nger-one"}


def test_an_object_that_is_gone_is_brought_back(bench: Bench) -> None:
    bench.go()
    bench.cluster.objects.remove(("RoleBinding", "kube-system"))
    assert bench.go()[0] == "1 of its objects do not exist, first rolebinding/web"
    assert bench.go()[0] == ""


def test_a_kind_that_the_api_lost_is_reason_to_bring_the_definitions(bench: Bench) -> None:
    bench.go()
    bench.cluster.knows_the_kinds = False
    assert "no matches for kind" in bench.go()[0]
    assert bench.cluster.applied


@pytest.mark.parametrize("status", ["pending-install", "pending-upgrade", "pending-rollback"])
def test_what_a_helm_that_died_left_is_taken_away(bench: Bench, status: str) -> None:
    bench.cluster.add(1, status)
    reason, removed = bench.go()
    assert (reason, removed) == ("there is no such release", [1])
    assert bench.go() == ("", [])


def test_a_helm_that_still_runs_is_waited_for(bench: Bench) -> None:
    bench.cluster.add(1, "pending-install")
    bench.job.busy = 1
    reason, removed = bench.go()
    assert bench.job.waited == 1
    assert removed == []
    assert reason.startswith("it was made from another")


def test_a_failed_revision_is_tried_again(bench: Bench) -> None:
    bench.cluster.add(1, "failed")
    assert bench.go()[0] == "its revision 1 is failed"


def test_a_helm_that_fails_is_reported_with_its_words(bench: Bench, tmp_path: Path) -> None:
    bench.job.rc = 1
    with pytest.raises(helm_release.JobError, match="it broke"):
        bench.go()
    assert list((tmp_path / "helm").iterdir()) == []


@pytest.mark.parametrize("option", ["chart", "values_files", "certificate"])
def test_check_mode_needs_no_file_that_the_run_itself_would_bring(
    bench: Bench, tmp_path: Path, option: str
) -> None:
    assert helm_release.is_brought(bench.want)
    gone = str(tmp_path / "not-yet")
    bench.want[option] = [gone] if option == "values_files" else gone
    assert not helm_release.is_brought(bench.want)


def test_check_mode_says_what_would_be_done_and_does_nothing(bench: Bench) -> None:
    bench.cluster.add(1, "pending-install")
    assert bench.go(check_mode=True) == ("its revision 1 is pending-install", [])
    assert bench.job.commands == []
    assert len(bench.cluster.secrets) == 1


def test_another_chart_of_the_same_name_is_another_command(bench: Bench) -> None:
    one = helm_release.arguments(bench.want, "/v", "a" * 64)
    two = helm_release.arguments(bench.want, "/v", "b" * 64)
    assert one != two
    assert "--create-namespace" in one
    assert "--wait" in helm_release.arguments({**bench.want, "wait": True}, "/v", "a" * 64)


def test_what_a_plan_compares_is_noted_and_makes_no_other_release(
    bench: Bench, tmp_path: Path
) -> None:
    pem, frame = tmp_path / "backend.crt", "-----{} CERTIFICATE-----\n"
    body = base64.b64encode(b"a certificate").decode()
    pem.write_text(frame.format("BEGIN") + body + "\n" + frame.format("END"))
    bench.go()
    bench.want |= {"origin": {"bundle": "ab"}, "certificate": str(pem)}
    assert bench.go()[0] == "what of the site it was made from was not noted"
    assert notes(bench)[ORIGIN_ANNOTATION] == values_digest({"bundle": "ab"})
    assert notes(bench)[CERTIFICATE_ANNOTATION] == hashlib.sha256(b"a certificate").hexdigest()
    assert bench.go() == ("", [])
    assert len(bench.job.commands) == 1
    pem.write_text("nothing")
    with pytest.raises(ValueError, match="holds no certificate"):
        bench.go()
