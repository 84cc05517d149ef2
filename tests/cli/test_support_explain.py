"""``appliance support explain``: five planted faults are named, and hostile files do no harm."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.exits import run
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.observed import Observed
from appliance.model.support.record import observed_document, site_document
from tests import samples
from tests.unit.certificates import rack as racks

Capture = pytest.CaptureFixture[str]
Texts = dict[str, Any]


def whole(site: Site | None = None) -> Texts:
    """The documents of a bundle of an installed rack in order."""
    site = site or samples.site()
    desired = samples.desired(site)
    facts = {node.name: samples.converged(node, desired) for node in site.nodes}
    observed = Observed({}, samples.cluster(desired))
    return {
        "site.json": site_document(site),
        "observed.json": observed_document(site, desired, observed),
        **{f"facts/{name}.json": document for name, document in facts.items()},
        "health.json": {"checks": []},
        "plan.json": {"steps": []},
        "unanswered.json": [{"where": "w2", "what": "log of etcd", "cause": "no such file"}],
        "nodes/w1/kubelet.log": "all is well\n",
        "bundle.json": {
            "schema": 1, "site": site.name, "created": "2026-01-01T00:00:00+00:00",
            "tool_version": "1",
        },
    }  # fmt: skip


def written(path: Path, texts: Texts) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, value in texts.items():
            add(archive, name, value if isinstance(value, str) else json.dumps(value))
    return path


def add(archive: tarfile.TarFile, name: str, text: str, **more: Any) -> None:
    content = text.encode()
    member = tarfile.TarInfo(f"support/{name}")
    member.size = len(content)
    for key, value in more.items():
        setattr(member, key, value)
    archive.addfile(member, io.BytesIO(content))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "support.tar.gz"


def explained(path: Path, capsys: Capture) -> dict[str, Any]:
    assert run(["support", "explain", str(path), "--output", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_rack_in_order_has_no_cause(file: Path, capsys: Capture) -> None:
    found = explained(written(file, whole()), capsys)
    assert found["doubts"] == []
    assert found["causes"] == []
    assert found["unanswered"] == [{"where": "w2", "what": "log of etcd", "cause": "no such file"}]
    assert run(["support", "explain", str(file)]) == 0
    assert "no cause found" in capsys.readouterr().out


def no_kubelet(texts: Texts) -> None:
    seen = texts["observed.json"]["cluster"]["seen"]["nodes"]["w1"]
    seen.update(ready=False, not_ready_reason="Kubelet stopped posting node status.")


def expired(texts: Texts) -> None:
    racks.ends(texts["facts/cp1.json"], server=-3)


def no_registry(texts: Texts) -> None:
    texts["cluster/events.txt"] = (
        '2026-01-01T00:00:00+00:00\tWarning\ta/Pod/b\tFailed\tFailed to pull image "x"\n'
    )


def full_disk(texts: Texts) -> None:
    texts["nodes/w1/kubelet.log"] = "w1 kubelet[7]: write /var/lib: no space left on device\n"


def lost_gpu(texts: Texts) -> None:
    texts["nodes/w2/kernel.log"] = "w2 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen\n"


FAULTS: dict[str, tuple[Callable[[Texts], None], str, str]] = {
    "a kubelet that stopped": (no_kubelet, "nodes_ready", "w1"),
    "a certificate that expired": (expired, "kubernetes_certificates", "cp1"),
    "an image that is not there": (no_registry, "image_missing", "cluster"),
    "a full disk": (full_disk, "disk_full", "w1"),
    "a GPU that is lost": (lost_gpu, "gpu_fell_off", "w2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_named_with_its_page(fault: str, file: Path, capsys: Capture) -> None:
    plant, name, where = FAULTS[fault]
    texts = whole()
    plant(texts)
    causes = explained(written(file, texts), capsys)["causes"]
    found = [one for one in causes if (one["name"], one["where"]) == (name, where)]
    assert len(found) == 1, causes
    assert found[0]["page"] in run_pages()


def run_pages() -> set[str]:
    from appliance.model.documents.pages import OPERATIONS

    return {path.stem for path in OPERATIONS.glob("*.md")}


def test_five_faults_at_once_are_all_named(file: Path, capsys: Capture) -> None:
    texts = whole()
    for plant, _, _ in FAULTS.values():
        plant(texts)
    written(file, texts)
    assert run(["support", "explain", str(file)]) == 0
    said = capsys.readouterr().out
    for _, name, where in FAULTS.values():
        assert f"{name}: {where}: " in said
    assert "appliance docs renew-kubernetes-certificates" in said


def test_what_rests_on_the_sites_own_files_is_as_the_site_saw_it(
    file: Path, capsys: Capture
) -> None:
    texts = whole()
    finding = {
        "node": "site",
        "seen": "expired",
        "expected": "valid",
        "hint": "appliance runai csr",
    }
    texts["health.json"] = {"checks": [{"check": "certificate", "findings": [finding]}]}
    refusal = {"node": "w1", "check": "memory", "seen": "1 GB", "expected": "8 GB", "hint": "add"}
    texts["plan.json"] = {
        "refusals": [refusal],
        "steps": [{"name": "runai", "reasons": [{"node": "cp1", "text": "no backend"}]}],
    }
    causes = explained(written(file, texts), capsys)["causes"]
    assert [(one["name"], one["where"]) for one in causes] == [
        ("certificate", "site"),
        ("memory", "w1"),
        ("runai", "cp1"),
    ]


def test_a_release_that_this_version_does_not_know_leaves_the_sites_own_results(
    file: Path, capsys: Capture
) -> None:
    texts = whole()
    texts["observed.json"]["wish"]["release"] = "k8s-9.9.9-r1"
    finding = {"node": "w1", "seen": "NotReady", "expected": "Ready", "hint": "look"}
    texts["health.json"] = {"checks": [{"check": "nodes_ready", "findings": [finding]}]}
    found = explained(written(file, texts), capsys)
    assert "its own results are shown" in found["doubts"][0]
    assert [one["name"] for one in found["causes"]] == ["nodes_ready"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda texts: texts.pop("site.json"),
        lambda texts: texts.update({"site.json": []}),
        lambda texts: texts["site.json"].update(nodes=[{"name": "../../etc", "address": "x"}]),
        lambda texts: texts["observed.json"].update(
            cluster={"state": "cluster", "seen": {"nodes": 7}}
        ),
        lambda texts: texts["observed.json"].update(faults=[{"node": 1}]),
        lambda texts: texts["facts/w1.json"].update(schema=99),
        lambda texts: texts.update({"facts/w1.json": {"schema": 1, "clock": "late"}}),
        lambda texts: texts.update({"health.json": {"checks": [7]}, "site.json": None}),
        lambda texts: texts.update({"unanswered.json": 7, "plan.json": [1]}),
    ],
)
def test_a_document_that_is_wrong_is_a_doubt_and_no_error(
    spoil: Callable[[Texts], object], file: Path, capsys: Capture
) -> None:
    texts = whole()
    spoil(texts)
    explained(written(file, texts), capsys)


def refused(path: Path, capsys: Capture) -> str:
    assert run(["support", "explain", str(path)]) == 5
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "is no support bundle that can be read" in said
    return said


def twice(archive: tarfile.TarFile) -> None:
    for _ in range(2):
        add(archive, "site.json", "{}")


HOSTILE: dict[str, Callable[[tarfile.TarFile], None]] = {
    "a name that leads out": lambda a: add(a, "../../../tmp/evil.log", "x"),
    "an absolute name": lambda a: a.addfile(tarfile.TarInfo("/etc/passwd")),
    "a hidden name": lambda a: add(a, ".ssh/authorized_keys", "x"),
    "a link": lambda a: add(a, "nodes/a/x.log", "", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": lambda a: add(a, "nodes/a/x.log", "", type=tarfile.LNKTYPE, linkname="/etc/x"),
    "a device": lambda a: add(a, "nodes/a/x.log", "", type=tarfile.CHRTYPE),
    "a folder": lambda a: add(a, "nodes/a", "", type=tarfile.DIRTYPE),
    "a name twice": twice,
    "no JSON": lambda a: add(a, "site.json", "{"),
    "JSON without end": lambda a: add(a, "site.json", "[" * 100_000),
    "a number without end": lambda a: add(a, "site.json", "9" * 5_000),
    "control characters in a name": lambda a: add(a, "nodes/\x1b[2J/x.log", "x"),
    "a document that is too large": lambda a: add(a, "site.json", " " * (17 << 20)),
    "nothing": lambda _: None,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused(what: str, file: Path, tmp_path: Path, capsys: Capture) -> None:
    with tarfile.open(file, "w:gz") as archive:
        HOSTILE[what](archive)
    said = refused(file, capsys)
    assert "\x1b" not in said
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_bomb_ends_at_the_limit(
    file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.adapters.support.reader.MOST_BYTES", 1 << 20)
    with tarfile.open(file, "w:gz") as archive:
        for number in range(3):
            add(archive, f"nodes/a/{number}.log", "\0" * (1 << 19))
    assert "more than any support bundle" in refused(file, capsys)


def test_a_log_without_a_line_end_is_not_held(file: Path, capsys: Capture) -> None:
    texts = whole()
    texts["nodes/w1/kubelet.log"] = "x" * (9 << 20)
    assert explained(written(file, texts), capsys)["causes"] == []


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", gzip.compress(b"x" * 2000), b"\x1f\x8b\x08"],
    ids=["empty", "text", "compressed text", "the beginning of gzip"],
)
def test_what_is_no_archive_is_refused(content: bytes, file: Path, capsys: Capture) -> None:
    file.write_bytes(content)
    refused(file, capsys)


def test_a_file_that_was_cut_is_refused(file: Path, capsys: Capture) -> None:
    written(file, whole())
    file.write_bytes(file.read_bytes()[:-400])
    refused(file, capsys)


def test_what_a_log_says_never_steers_the_terminal(file: Path, capsys: Capture) -> None:
    texts = whole()
    texts["nodes/w1/kubelet.log"] = "no space left on device \x1b]0;owned\x07\n"
    assert run(["support", "explain", str(written(file, texts))]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_file_that_says_much_about_itself_fills_no_terminal(file: Path, capsys: Capture) -> None:
    texts = whole()
    texts["bundle.json"]["site"] = ["x"] * 100_000
    texts["unanswered.json"] = [{"where": "w1", "what": "x", "cause": "y"}] * 5000
    assert run(["support", "explain", str(written(file, texts))]) == 0
    said = capsys.readouterr().out
    assert len(said) < 10_000
    assert "and 4960 more without an answer" in said


def test_a_cluster_that_did_not_answer_is_judged_by_facts(file: Path, capsys: Capture) -> None:
    site = samples.site()
    texts = whole(site)
    away = Observed({}, Unreachable("cp1: refused", {"cp1": "manifests"}))
    texts["observed.json"] = observed_document(site, samples.desired(site), away)
    causes = explained(written(file, texts), capsys)["causes"]
    assert any(one["name"] == "nodes_ready" for one in causes), causes
