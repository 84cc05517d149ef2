"""A program that is missing is told with the machine and its package, before anything is done."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from appliance.adapters.ansible.missing_program import missing_program
from appliance.adapters.local import control_host
from appliance.errors import Refused
from appliance.model.bundle.builds.builders import BUILDERS, lacking_programs
from appliance.model.bundle.release.release import Artifact
from appliance.model.checks.nodes.programs import bringing
from appliance.model.programs import (
    PROGRAMS,
    Family,
    Use,
    family,
    install_command,
    missing_programs,
    packages_for,
)
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.observed import Observed
from tests import samples

EVERYTHING = {row.name for row in PROGRAMS}
# What Ansible says of a command that is not there: seen of ansible-core 2.19.
NOT_STARTED = {"rc": 2, "msg": "Error executing command.", "cmd": "rsync --recursive a b"}
DELEGATED = {
    "_ansible_delegated_vars": {"ansible_host": "localhost", "ansible_connection": "local"}
}


def test_packages_are_named_once_and_in_order() -> None:
    missing = missing_programs(EVERYTHING - {"go", "gcc", "ssh", "ssh-keygen"}, list(Use))
    assert packages_for(missing) == ("golang-go", "gcc", "libc6-dev", "openssh-client")
    assert missing_programs(EVERYTHING - {"go"}, [Use.PLAYS, Use.BRING, Use.SIGN]) == ()


def test_other_families_of_systems_have_other_names() -> None:
    assert family(("rocky", "rhel", "centos", "fedora")) is Family.FEDORA
    assert family(("ubuntu", "debian")) is Family.DEBIAN
    rows = missing_programs(EVERYTHING - {"ssh", "rsync"}, [Use.PLAYS, Use.BRING])
    assert install_command(rows, Family.FEDORA) == "sudo dnf install openssh-clients rsync"
    assert install_command(rows) == "sudo apt-get install openssh-client rsync"


def test_everything_that_is_missing_here_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control_host, "find_program", lambda _name: None)
    with pytest.raises(Refused, match="2 programs are missing: ssh, of openssh-client") as told:
        control_host.require(Use.PLAYS, also=[Use.BRING])
    assert told.value.exit_code == 3
    assert socket.gethostname() in told.value.message
    assert told.value.details == ("rsync, of rsync: copies the bundles to the nodes",)
    assert told.value.hint == "sudo apt-get install openssh-client rsync"


def test_what_a_command_only_may_come_to_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        control_host, "find_program", lambda name: None if name == "rsync" else Path(name)
    )
    control_host.require(Use.PLAYS, also=[Use.BRING])
    with pytest.raises(Refused, match="a program is missing: rsync"):
        control_host.require(Use.BRING)


def test_a_program_of_this_machine_that_is_gone_at_run_time_is_named() -> None:
    told = missing_program("cp1", NOT_STARTED | DELEGATED)
    assert told is not None
    assert told.sentence == (
        f"{socket.gethostname()} (this machine): the program rsync is missing, of package rsync "
        "(copies the bundles to the nodes)"
    )
    assert told.hint == "sudo apt-get install rsync"


@pytest.mark.parametrize(
    "said",
    [
        "bash: line 1: rsync: command not found",
        "sudo: rsync: command not found\nrsync error: error in protocol data stream (code 12)",
        "sh: 1: rsync: not found",
    ],
)
def test_a_program_of_the_far_side_is_the_nodes(said: str) -> None:
    told = missing_program(
        "cp1", {"rc": 12, "msg": "non-zero return code", "stderr": said} | DELEGATED
    )
    assert told is not None
    assert told.sentence.startswith("cp1: the program rsync is missing, of package rsync")
    assert told.hint == "on cp1: sudo apt-get install rsync"


def test_a_module_that_misses_a_program_of_its_node_names_it() -> None:
    told = missing_program("w1", {**NOT_STARTED, "cmd": ["/usr/bin/openssl", "x509"]})
    assert told is not None
    assert told.sentence.startswith(
        "w1: the program /usr/bin/openssl is missing, of package openssl"
    )


def test_an_unknown_program_is_named_without_a_package() -> None:
    told = missing_program("w1", {**NOT_STARTED, "cmd": "no-such --thing"})
    assert told is not None
    assert (told.sentence, told.hint) == (
        "w1: the program no-such is missing",
        "install no-such on w1",
    )


def test_a_command_that_no_shell_takes_is_named_by_its_first_word() -> None:
    told = missing_program("w1", {**NOT_STARTED, "cmd": "no-such ' " + "x" * 1_000_000})
    assert told is not None
    assert told.sentence == "w1: the program no-such is missing"
    told = missing_program("w1", {**NOT_STARTED, "cmd": "x" * 1_000_000})
    assert told is not None
    assert len(told.sentence) < 300


@pytest.mark.parametrize(
    "result",
    [
        {"rc": 2, "msg": "non-zero return code", "cmd": "ls /none", "stderr": "No such file"},
        {"rc": 13, "msg": "Error executing command.", "cmd": "rsync"},
        {"rc": 1, "msg": 'Error from server (NotFound): pods "a" not found', "cmd": "kubectl"},
        {"rc": 2, "msg": "Error executing command.", "cmd": ""},
        {"msg": None, "cmd": None},
        {**NOT_STARTED, "cmd": 5},
        {**NOT_STARTED, "cmd": {"a": 1}},
        {**NOT_STARTED, "cmd": [5]},
        {},
    ],
)
def test_other_failures_stay_what_they_are(result: dict[str, object]) -> None:
    assert missing_program("w1", result) is None


def _seen(*, in_custody: bool) -> Observed:
    desired = samples.desired()
    documents = {
        node.name: samples.converged(node, desired) if in_custody else samples.bare(node)
        for node in desired.site.nodes
    }
    return Observed(node_facts=samples.node_facts(documents), cluster=NoCluster())


def test_rsync_is_asked_for_here_where_a_bundle_has_to_be_brought() -> None:
    desired, hint = samples.desired(), "sudo apt-get install rsync"
    missing = missing_programs(EVERYTHING - {"rsync"}, [Use.BRING])
    (found,) = bringing(desired, _seen(in_custody=False), missing, "desk", hint)
    assert (found.node, found.step, found.hint) == ("desk (this machine)", "artifacts", hint)
    assert list(bringing(desired, _seen(in_custody=True), missing, "desk", hint)) == []
    assert list(bringing(desired, _seen(in_custody=False), (), "desk", hint)) == []
    runai = dataclasses.replace(desired, vendor_bundle_file="/media/runai.tar")
    steps = [f.step for f in bringing(runai, _seen(in_custody=True), missing, "desk", hint)]
    assert steps == ["runai"]


def _artifact(name: str, *sources: Mapping[str, object], kind: str = "binary") -> Artifact:
    return Artifact.model_validate({"name": name, "kind": kind, "version": "1", "sources": sources})


URL = {"kind": "url", "url": "https://files.test/a"}
GO = {"kind": "go", "module": "m", "package": "example.test/a", "at": "v1"}
CGO = {**GO, "cgo": True}
APT = {"kind": "apt", "package": "p", "member": "/a"}


def test_a_compiler_is_missed_where_nothing_else_can_be_had() -> None:
    web_is_there, web_is_away = (lambda _source: True), (lambda _source: False)
    one = (_artifact("a", URL, GO),)
    assert lacking_programs(one, (), web_is_there) == set()
    assert lacking_programs(one, (), web_is_away) == {"go", "update-ca-certificates"}
    assert lacking_programs(one, BUILDERS, web_is_away) == set()
    assert lacking_programs((_artifact("a", CGO, APT),), (), web_is_away) == set()
    assert lacking_programs((_artifact("a", CGO),), ("go",), web_is_away) == {
        "gcc",
        "update-ca-certificates",
    }


def test_a_part_counts_where_an_image_is_made_from_it() -> None:
    part = _artifact("tool", GO, kind="part")
    image = Artifact.model_validate(
        {
            "name": "tool", "kind": "image", "version": "1", "image": "tool:1",
            "sources": [{"kind": "compose", "files": {"/tool": "tool"}}],
        }
    )  # fmt: skip
    assert lacking_programs((part,), (), lambda _source: False) == set()
    assert "go" in lacking_programs((part, image), (), lambda _source: False)


def test_only_programs_that_are_there_are_present() -> None:
    assert control_host.present(["sh", "no-such-program-anywhere"]) == {"sh"}
