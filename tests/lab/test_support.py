"""One file for support names five planted faults and holds none of the planted secrets."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults
from tests.lab.support.cluster import busybox, kubectl
from tests.lab.support.runbook import Runbook
from tests.unit.support.secrets import CANARY, CLASSES

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SUPPORT = Runbook("ask-for-support")
ENDS = Runbook("see-what-ends")
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: kube-system}}
spec:
  nodeName: {node}
  restartPolicy: Always
  containers:
  - name: main
    image: {image}
    command: [sh, -c, "printf %s {said} | base64 -d; echo; exit 3"]
    env: [{{name: DB_PASSWORD, value: {canary}}}]
    volumeMounts: {mounts}
  volumes: {volumes}
"""
UNIT = "appliance-canary"


@contextmanager
def pod(lab: LabSite, name: str, image: str, said: str, volumes: str = "[]") -> Iterator[None]:
    """A pod on cp1 that prints a text and ends, again and again."""
    from base64 import b64encode

    text = POD.format(
        name=name, node=lab.node("cp1"), image=image, canary=CANARY, volumes=volumes,
        mounts="[]" if volumes == "[]" else "[{name: v, mountPath: /v}]",
        said=b64encode(said.encode()).decode(),
    )  # fmt: skip
    lab.shell("cp1", f"cat >/tmp/{name}.yml <<'END'\n{text}END")
    kubectl(lab, f"apply -f /tmp/{name}.yml")
    try:
        yield
    finally:
        kubectl(lab, f"delete -f /tmp/{name}.yml --grace-period=0 --force", check=False)


@contextmanager
def stopped(lab: LabSite, short: str, unit: str) -> Iterator[None]:
    """A unit that does not run."""
    lab.shell(short, f"systemctl stop {unit}")
    try:
        assert lab.shell(short, f"systemctl is-active {unit}", check=False).strip() != "active"
        yield
    finally:
        lab.shell(short, f"systemctl start {unit}")


def events(lab: LabSite) -> str:
    return kubectl(lab, "get events --all-namespaces")


@pytest.fixture(scope="module")
def five_faults(installed_lab: LabSite) -> Iterator[LabSite]:
    """A kubelet, a registry and sshd are stopped; a pod lacks its image, another its Secret."""
    lab = installed_lab
    printed = "\n".join(text for _, text in CLASSES.values())
    lab.shell("cp1", f"systemd-run --unit={UNIT} --wait sh -c 'echo DB_PASSWORD={CANARY}'")
    volumes = "[{name: v, secret: {secretName: not-there}}]"
    with ExitStack() as stack:
        stack.enter_context(pod(lab, "support-prints", busybox(lab), printed))
        stack.enter_context(pod(lab, "support-image", f"{busybox(lab)}-not-there", "x"))
        stack.enter_context(pod(lab, "support-secret", busybox(lab), "x", volumes))
        wait_for("the pull fails", lambda: "ErrImagePull" in events(lab), 120)
        wait_for("the mount fails", lambda: '"not-there" not found' in events(lab), 120)
        wait_for(
            "the printing pod ended twice",
            lambda: "CrashLoopBackOff" in kubectl(lab, "-n kube-system get pods"),
            180,
        )
        stack.enter_context(faults.sshd_stopped(lab.node("w1")))
        stack.enter_context(stopped(lab, "cp1", "docker-registry"))
        stack.enter_context(stopped(lab, "w2", "kubelet"))
        wait_for(
            "the node is NotReady",
            lambda: "NotReady" in kubectl(lab, f"get node {lab.node('w2')}"),
            120,
        )
        yield lab


@pytest.fixture(scope="module")
def bundle(five_faults: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("support") / "support.tar.gz"
    site = {"SITE": str(five_faults.directory)}
    words = SUPPORT.words("appliance support bundle --site SITE", site)
    succeed(*words, "--to", str(file))
    return file


def texts_of(file: Path) -> dict[str, str]:
    with tarfile.open(file) as archive:
        found = {}
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None
            found[member.name.removeprefix("support/")] = stream.read().decode()
        return found


def test_the_bundle_names_all_five_faults(five_faults: LabSite, bundle: Path) -> None:
    words = SUPPORT.words("appliance support explain FILE", {"FILE": str(bundle)})
    assert five_faults.node("w1") in succeed(*words).stdout
    done = succeed(*words, "--output", "json")
    explained: dict[str, Any] = json.loads(done.stdout)
    assert explained["doubts"] == []
    found = {(cause["name"], cause["where"]) for cause in explained["causes"]}
    names = {name for name, _ in found}
    assert ("unreachable", five_faults.node("w1")) in found
    assert ("nodes_ready", five_faults.node("w2")) in found
    assert {"image_missing", "secret_missing", "registry"} <= names


def test_the_bundle_holds_no_secret_of_the_pod_or_the_unit(bundle: Path) -> None:
    texts = texts_of(bundle)
    printed = next(name for name in texts if name.startswith("pods/kube-system/support-prints/"))
    assert "[redacted: " in texts[printed], "the premise: what the pod printed is there"
    assert "[redacted: " in texts[next(n for n in texts if n.endswith("cp1/units.log"))]
    for secret, told in CLASSES.values():
        assert _tells(told, secret), "the premise: it would be found"
        assert [name for name, text in texts.items() if _tells(text, secret)] == [], secret


def _tells(text: str, secret: str) -> bool:
    """Whether a secret is in a text; four digits are, where they come after the word PIN."""
    if len(secret) > 4:
        return secret in text
    return re.search(rf"(?i)pin\b.{{0,8}}\b{secret}\b", text) is not None


def test_what_is_away_is_named_and_the_others_tell_everything(
    five_faults: LabSite, bundle: Path
) -> None:
    texts = texts_of(bundle)
    silent = json.loads(texts["unanswered.json"])
    assert five_faults.node("w1") in {one["where"] for one in silent}
    for short in ("cp1", "w2"):
        folder = f"nodes/{five_faults.node(short)}"
        for file in ("kubelet.log", "runtime.log", "kernel.log", "state.txt", "containers.txt"):
            assert f"{folder}/{file}" in texts, [one for one in silent if short in one["where"]]
    assert "support-prints" in texts["cluster/pods.txt"]
    assert texts["cluster/events.txt"]


def test_with_other_names_no_name_and_no_address_is_left(
    five_faults: LabSite, tmp_path: Path
) -> None:
    file = tmp_path / "support.tar.gz"
    site = ("--site", str(five_faults.directory))
    succeed("support", "bundle", *site, "--to", str(file), "--anonymise", "--since", "1h")
    texts = texts_of(file)
    shorts = ("cp1", "w1", "w2")
    for word in (*map(five_faults.node, shorts), *map(five_faults.address, shorts)):
        assert [name for name, text in texts.items() if word in text or word in name] == [], word
    done = succeed("support", "explain", str(file), "--output", "json")
    explained = json.loads(done.stdout)
    assert explained["doubts"] == []
    assert "nodes_ready" in {cause["name"] for cause in explained["causes"]}


def test_everything_that_ends_is_listed(installed_lab: LabSite, tmp_path: Path) -> None:
    file = tmp_path / "lab.ics"
    values = {"SITE": str(installed_lab.directory), "rack7.ics": str(file)}
    shown = appliance(*ENDS.words("appliance horizon --site SITE", values))
    assert shown.returncode in (0, 5), shown.stderr
    assert "/etc/kubernetes/pki/apiserver.crt" in shown.stdout
    words = ENDS.words("appliance horizon --site SITE --within 60 --ics rack7.ics", values)
    done = appliance(*words, "--output", "json")
    assert done.returncode in (0, 5), done.stderr
    endings = json.loads(done.stdout)["endings"]
    kinds = {one["kind"] for one in endings if one["ends"]}
    assert {"certificate", "authority"} <= kinds
    what = [one["what"] for one in endings]
    assert any(text.startswith("registry: ") for text in what)
    assert any(text.startswith("mirror: ") for text in what)
    tokens = [one for one in endings if one["kind"] == "token"]
    assert [one["unknown"] for one in tokens if one["unknown"]] == []
    assert file.read_bytes().startswith(b"BEGIN:VCALENDAR\r\n")
