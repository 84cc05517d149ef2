"""The look at jumpboxes, and where Run:ai's CLI is found on the control host."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.local.content import find_content_root
from appliance.adapters.runai import jumpboxes
from appliance.adapters.runai.jumpboxes import SshJumpboxes, find_program, look_script, researchers
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable, Refused
from appliance.model.components.access.runai_cli import CliOptions, Researcher, read_look
from appliance.model.site.settings import Node, Site
from tests import samples
from tests.vendor_bundles import judged

SEEN = {
    "program_sha256": None,
    "program_fault": "",
    "completion_current": False,
    "kubectl": None,
    "resolves": True,
    "users": {"ada": {"state": "current", "text": ""}},
}
ELF = b"\x7fELF and more"


class Ssh:
    """Runs what is sent on this machine, or answers as it is told."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer
        self.commands: list[str] = []

    def run_as_root(
        self,
        node: Node,
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,
    ) -> Answer:
        assert or_self
        return self.run(node, script, stdin=stdin, timeout=timeout)

    def run(self, _node: Node, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        self.commands.append(command)
        if self.answer:
            return self.answer
        done = subprocess.run(
            [sys.executable, "-"], input=stdin, capture_output=True, timeout=timeout, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


def desired(site: Site) -> CliOptions:
    ada = Researcher("no-such-user", "text", {"server": 'it\'s "quoted" \\ {}'})
    return CliOptions(nodes=(site.node("w1"), site.node("w2")), researchers=(ada,))


def test_the_look_runs_as_it_is_sent_and_comes_back_as_a_jumpbox() -> None:
    site, ssh = samples.site(), Ssh()
    seen = SshJumpboxes(site, ssh).look(desired(site))  # type: ignore[arg-type]
    assert list(seen) == ["w1", "w2"]
    assert seen["w1"].users["no-such-user"].state == "no user"
    assert seen["w1"].resolves is False
    assert ssh.commands[0] == f"exec {site.settings.ssh.python} -"
    assert "no-such-user" not in ssh.commands[0]


def test_the_look_judges_as_the_role_does() -> None:
    script = look_script(samples.site(), desired(samples.site())).decode()
    assert "def judge(" in script
    compile(script, "look", "exec")
    shared = find_content_root() / "playbooks/module_utils/appliance_jumpbox.py"
    assert shared.read_text() in script


@pytest.mark.parametrize(
    "said",
    [
        "",
        "sudo: a password is required\n",
        "[]",
        '{"users": {}, "x": 1}',
        "[" * 100_000,
        json.dumps({**SEEN, "program_sha256": 5}),
        json.dumps({**SEEN, "kubectl": {}}),
        json.dumps({**SEEN, "users": {"ada": {"state": "current", "text": []}}}),
        json.dumps({**SEEN, "users": {"ada": "current"}}),
        json.dumps({**SEEN, "users": {}}),
        "x" * 10_000,
    ],
)
def test_an_answer_that_is_none_names_the_node(said: str) -> None:
    site = samples.site()
    boxes = SshJumpboxes(site, Ssh(Answer(1, said, "")))  # type: ignore[arg-type]
    with pytest.raises(NodeUnreachable, match=r"w1: the inspection exited with 1") as told:
        boxes._one(site.node("w1"), b"", frozenset(["ada"]))
    assert len(told.value.message) < 300


def test_of_what_a_look_says_a_few_words_are_shown() -> None:
    text = json.dumps(SEEN | {"program_fault": "y" * 10_000, "of a later version": 1})
    seen = read_look(text, ["ada"])
    assert seen.users["ada"].state == "current"
    assert len(seen.program_fault) == 500


def test_researchers_get_what_access_kubeconfig_prints() -> None:
    site = samples.site(runai={})
    ssh: Any = Ssh(Answer(0, "-----BEGIN CERTIFICATE-----", ""))
    (ada, grace) = researchers(site, ssh, ("ada", "grace"))
    assert yaml.safe_load(ada.kubeconfig)["current-context"] == "ada@rack"
    assert (grace.name, grace.expected["client-id"]) == ("grace", "runai")


def test_a_given_file_must_be_a_program(tmp_path: Path) -> None:
    path = tmp_path / "runai"
    with pytest.raises(Refused, match="cannot be read: No such file") as caught:
        find_program(samples.site(), path)
    assert "--cli FILE" in (caught.value.hint or "")
    path.write_text("<!doctype html>")
    with pytest.raises(Refused, match="is not a Linux program") as caught:
        find_program(samples.site(), path)
    assert "login page" in (caught.value.hint or "")
    path.write_bytes(ELF)
    found = find_program(samples.site(), path)
    assert found is not None
    assert (found.path, found.sha256) == (str(path), hashlib.sha256(ELF).hexdigest())
    assert found.replaces


@pytest.fixture
def tar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vendor bundle of the site that has a CLI, as the reader saw it."""
    path = tmp_path / "runai-2.7.1.tar"
    with tarfile.open(path, "w") as archive:
        member = tarfile.TarInfo("./deploy/runai-linux")
        member.size = len(ELF)
        archive.addfile(member, io.BytesIO(ELF))
    bundle = judged("2.7.1", files={"deploy/runai-linux": len(ELF), "deploy/runai-adm": 1})
    assert bundle.researcher_cli == "deploy/runai-linux"
    monkeypatch.setattr(jumpboxes, "find_vendor_bundle", lambda _site: bundle)
    monkeypatch.setattr(jumpboxes, "vendor_bundle_path", lambda _site: path)
    return path


def test_the_vendor_bundles_own_is_taken_out_once(tar: Path, tmp_path: Path) -> None:
    site = replace(samples.site(), directory=tmp_path / "rack")
    found = find_program(site, None)
    assert found is not None
    assert Path(found.path).read_bytes() == ELF
    assert not found.replaces
    tar.unlink()
    assert find_program(site, None) == found


def test_a_vendor_bundle_that_breaks_is_said_and_leaves_nothing(tar: Path, tmp_path: Path) -> None:
    site = replace(samples.site(), directory=tmp_path / "rack")
    tar.write_bytes(b"no tar")
    with pytest.raises(Refused, match="deploy/runai-linux cannot be extracted from"):
        find_program(site, None)
    assert [path for path in (tmp_path / "rack").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["deploy/runai-linux", "deploy/another"])
def test_a_cli_that_is_too_large_or_not_there_leaves_nothing(
    tar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A few bytes of gzip may say that they are a file of any size."""
    monkeypatch.setattr(jumpboxes, "MOST_BYTES", 1 << 20)
    with tarfile.open(tar, "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = (1 << 20) + 1
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    site = replace(samples.site(), directory=tmp_path / "rack")
    says = "expected at most" if name.endswith("linux") else "the bundle has no such file"
    with pytest.raises(Refused, match=says):
        find_program(site, None)
    assert [path for path in (tmp_path / "rack").rglob("*") if path.is_file()] == []


def test_a_packed_bundle_gives_its_cli(tar: Path, tmp_path: Path) -> None:
    with tarfile.open(tar, "w:gz") as archive:
        member = tarfile.TarInfo("./deploy/runai-linux")
        member.size = len(ELF)
        archive.addfile(member, io.BytesIO(ELF))
    found = find_program(replace(samples.site(), directory=tmp_path / "rack"), None)
    assert found is not None
    assert Path(found.path).read_bytes() == ELF


def test_a_bundle_without_a_cli_or_no_bundle_gives_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_program(samples.site(), None) is None
    monkeypatch.setattr(jumpboxes, "find_vendor_bundle", lambda _site: judged("2.7.1"))
    monkeypatch.setattr(jumpboxes, "vendor_bundle_path", lambda _site: Path("/nowhere"))
    assert find_program(samples.site(), None) is None
    assert json.dumps(judged("2.7.1").researcher_cli) == "null"
