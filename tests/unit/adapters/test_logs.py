"""Logs of a node: which command prints them, whose containers they are, and how long they run."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.ssh import logs as adapter
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import CommandFailed, NodeUnreachable, Refused
from appliance.model.node import logs
from appliance.model.node.logs import NoSuchPod, Window, choose, containers_of, seconds_of
from tests import samples
from tests.ssh_server import Servers, drips, is_silent, mark_of, says, says_for_ever, servers
from tests.unit.adapters.shell_nodes import ShellNodes

SITE = samples.site(workers=0)
HOUR = Window(20, 3600)
ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)
LISTED = (
    f"{THREE}\tkube-system\tetcd-cp1\tetcd\tcontainer\tUp 2 hours\n"
    f"{TWO}\tkube-system\tetcd-cp1\tPOD\tpodsandbox\tUp 2 hours\n"
    f"{ONE}\tkube-system\tetcd-cp1\tetcd\tcontainer\tExited (1) 2 hours ago\n"
    "a line; rm -rf / of a node that lies\n"
    "$(reboot)\tkube-system\tetcd-cp1\tetcd\tcontainer\tUp\n"
    f"{'4' * 64}\trunai\tapi-6d4\tapi\tcontainer\tUp 1 hour\n"
    f"{'5' * 64}\trunai\tapi-9zz\tproxy\tcontainer\tUp 1 hour\n"
)


@pytest.mark.parametrize(
    ("units", "window", "script"),
    [
        (("kubelet",), HOUR,
         "exec bash -c 'set -o pipefail; timeout 50 journalctl --quiet --no-pager"
         " --output=short-iso --unit=kubelet --lines=20 --since=-3600s 2>&1"
         " | tail --bytes=8000000'"),
        (("docker", "containerd"), Window(5),
         "exec bash -c 'set -o pipefail; timeout 50 journalctl --quiet --no-pager"
         " --output=short-iso --unit=docker --unit=containerd --lines=5 2>&1"
         " | tail --bytes=8000000'"),
        ((), Window(5, None, follow=True),
         "exec timeout 3600 journalctl --quiet --no-pager --output=short-iso --dmesg --lines=5"
         " --follow 2>&1"),
        (("appliance-*",), Window(1),
         "exec bash -c 'set -o pipefail; timeout 50 journalctl --quiet --no-pager"
         " --output=short-iso '\"'\"'--unit=appliance-*'\"'\"' --lines=1 2>&1"
         " | tail --bytes=8000000'"),
    ],
)  # fmt: skip
def test_the_journal_is_read_up_to_a_limit(
    units: tuple[str, ...], window: Window, script: str
) -> None:
    assert logs.journal_script(units, window) == script


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172800), ("1", None), ("-1h", None),
     ("1w", None), ("", None), ("1h30m", None), ("٣h", None)],
)  # fmt: skip
def test_a_duration_is_a_number_and_its_unit(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_only_containers_of_pods_are_taken_from_a_listing() -> None:
    found = [(one.id, one.status) for one in containers_of(LISTED)][2:]
    assert found == [(ONE, "Exited (1) 2 hours ago"), (THREE, "Up 2 hours")]
    assert containers_of("") == ()


def test_a_pod_is_named_whole_or_by_its_beginning() -> None:
    there = containers_of(LISTED)
    for pod in ("kube-system/etcd-cp1", "kube-system/etcd"):
        assert [one.id for one in choose(there, pod, None, node="cp1")] == [ONE, THREE]
    assert [one.name for one in choose(there, "runai/api-6d4", "api", node="w1")] == ["api"]


@pytest.mark.parametrize(
    ("pod", "container", "said"),
    [
        ("runai/api", None, "cp1 has 2 pods runai/api...: runai/api-6d4, runai/api-9zz"),
        ("kube-system/ectd-cp1", None, "did you mean 'kube-system/etcd-cp1'?"),
        ("nosuch/x", None, "known are kube-system/etcd-cp1, runai/api-6d4, runai/api-9zz"),
        ("runai/api-6d4", "ap", "runai/api-6d4 has no container ap; did you mean 'api'?"),
    ],
)
def test_a_pod_that_is_not_there_is_answered_with_what_is(
    pod: str, container: str | None, said: str
) -> None:
    with pytest.raises(NoSuchPod) as caught:
        choose(containers_of(LISTED), pod, container, node="cp1")
    assert said in str(caught.value)


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShellNodes:
    """A node whose Docker and journal are scripts, run by a real shell."""
    programs = tmp_path / "bin"
    (tmp_path / "listed").write_text(LISTED)
    program(programs, "docker", f'[ "$1" = ps ] && cat {tmp_path}/listed || echo "$@"')
    program(programs, "journalctl", 'for word in "$@"; do printf "%s\\n" "$word"; done')
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return ShellNodes(tmp_path)


def test_under_containerd_the_kubelets_files_are_listed_and_read(
    shell: ShellNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags, pods = tmp_path / "flags.env", tmp_path / "pods"
    flags.write_text('KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///x"')
    folder = pods / "kube-system_etcd-cp1_0123456789abcdef0123456789abcdef" / "etcd"
    folder.mkdir(parents=True)
    old, now = "2020-01-01T00:00:00.1+00:00", time.strftime("%Y-%m-%dT%H:%M:%S.1+00:00")
    (folder / "0.log").write_text(f"{old} stderr F first\n")
    (folder / "1.log").write_text(f"{old} stderr F second\n{now} stderr F third\n")
    (pods / "kube-system_evil;reboot_0123456789ab" / "x").mkdir(parents=True)
    (pods / "kube-system_evil;reboot_0123456789ab" / "x" / "0.log").write_text("x")
    monkeypatch.setattr(logs, "_FLAGS", str(flags))
    monkeypatch.setattr(logs, "_PODS", str(pods))
    monkeypatch.setattr(
        logs, "_LOG", re.compile(logs._LOG.pattern.replace("/var/log/pods", str(pods)))
    )
    node = SITE.nodes[0]
    chosen = adapter.containers(shell, node, "kube-system/etcd", None)
    assert [one.path for one in chosen] == [str(folder / "0.log"), str(folder / "1.log")]
    assert chosen[1].status.startswith("start 2, last line at 20")
    whole = [text for _, text, _ in adapter.container_logs(shell, node, chosen, Window(20))]
    assert whole == [
        f"{old} stderr F first\n",
        f"{old} stderr F second\n{now} stderr F third\n",
    ]
    hour = [text for _, text, _ in adapter.container_logs(shell, node, chosen, HOUR)]
    assert hour == ["", f"{now} stderr F third\n"]


def test_each_container_of_a_pod_is_read_from_its_own_node(shell: ShellNodes) -> None:
    node = SITE.nodes[0]
    chosen = adapter.containers(shell, node, "kube-system/etcd", None)
    read = [text for _, text, _ in adapter.container_logs(shell, node, chosen, HOUR)]
    assert read == [
        f"logs --timestamps --tail=20 --since=3600s {ONE}\n",
        f"logs --timestamps --tail=20 --since=3600s {THREE}\n",
    ]
    with pytest.raises(Refused, match="cp1 has no container of a pod a/b"):
        adapter.containers(shell, node, "a/b", None)


def test_what_the_journal_is_asked_is_one_word_each(shell: ShellNodes) -> None:
    text, cut = adapter.read_log(shell, SITE.nodes[0], logs.journal_script(["a b; id"], HOUR))
    assert "--unit=a b; id" in text.splitlines()
    assert not cut


def test_a_log_without_an_end_is_cut(
    shell: ShellNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "journalctl", "exec yes")
    monkeypatch.setattr(logs, "MOST_BYTES", 1000)
    monkeypatch.setattr(logs, "READ_SECONDS", 1)
    monkeypatch.setattr(adapter, "MOST_BYTES", 1000)
    text, cut = adapter.read_log(shell, SITE.nodes[0], logs.journal_script(["x"], HOUR))
    assert (len(text), cut) == (998, True)


def test_of_a_log_that_is_too_long_the_newest_lines_are_kept_whole(
    shell: ShellNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "journalctl", "exec seq -f 'line %g' 1 500")
    monkeypatch.setattr(logs, "MOST_BYTES", 1000)
    monkeypatch.setattr(adapter, "MOST_BYTES", 1000)
    text, cut = adapter.read_log(shell, SITE.nodes[0], logs.journal_script(["x"], HOUR))
    assert (text.splitlines()[-1], cut) == ("line 500", True)
    assert all(len(line) == len("line 500") for line in text.splitlines())


@pytest.mark.parametrize(
    ("journal", "said"),
    [
        ("echo 'Failed to open the journal' >&2; exit 1", "be read: Failed to open the journal"),
        ("echo half a log; exec sleep 9", r"within \d+ s"),
    ],
)
def test_a_log_that_was_not_read_is_no_log(
    shell: ShellNodes, tmp_path: Path, journal: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin", "journalctl", journal)
    monkeypatch.setattr(logs, "READ_SECONDS", 1)
    with pytest.raises(CommandFailed, match=said):
        adapter.read_log(shell, SITE.nodes[0], logs.journal_script(["x"], HOUR))


def test_a_node_without_docker_says_so(shell: ShellNodes, tmp_path: Path) -> None:
    program(tmp_path / "bin", "docker", "echo 'no daemon' >&2; exit 1")
    with pytest.raises(CommandFailed, match="cp1: the log could not be read: no daemon"):
        adapter.containers(shell, SITE.nodes[0], "a/b", None)


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[Servers]:
    with servers(tmp_path) as made:
        yield made


def grows(channel: paramiko.Channel, command: str) -> None:
    """A log of two bytes of one character, then an end."""
    channel.sendall(b"banner\n" + mark_of(command) + b"one\n\xc3")
    time.sleep(0.1)
    channel.sendall(b"\xa4\n")
    channel.send_exit_status(124)


def test_a_log_is_passed_on_as_it_grows_without_the_shells_own_words(rack: Servers) -> None:
    said: list[str] = []
    nodes = SshNodes(rack.serve(SITE, {"cp1": grows}))
    assert nodes.follow_as_root(nodes._site.nodes[0], "true", said.append, seconds=20) == 124
    assert "".join(said) == "one\nä\n"
    assert len(said) > 1


def is_quiet_at_first(channel: paramiko.Channel, command: str) -> None:
    """A log to which nothing is added for longer than a command may take to begin."""
    channel.sendall(mark_of(command))
    time.sleep(1.2)
    channel.sendall(b"late\n")
    channel.send_exit_status(0)


def test_a_log_that_is_quiet_for_long_is_followed_on(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.adapters.ssh.nodes.FIRST_OUTPUT_SECONDS", 0.6)
    said: list[str] = []
    nodes = SshNodes(rack.serve(SITE, {"cp1": is_quiet_at_first}))
    assert nodes.follow_as_root(nodes._site.nodes[0], "true", said.append, seconds=20) == 0
    assert "".join(said) == "late\n"


@pytest.mark.parametrize("behaviour", [drips, says_for_ever])
def test_a_log_is_followed_up_to_a_limit_and_not_kept(rack: Servers, behaviour: object) -> None:
    pieces = [0]
    nodes = SshNodes(rack.serve(SITE, {"cp1": behaviour}))  # type: ignore[dict-item]

    def count(text: str) -> None:
        pieces[0] += bool(text)

    began = time.monotonic()
    nodes.follow_as_root(nodes._site.nodes[0], "true", count, seconds=1)
    assert time.monotonic() - began < 20
    assert pieces[0] > 1


@pytest.mark.parametrize("behaviour", [is_silent, says(b"", 1)])
def test_a_node_that_begins_no_log_is_told_of(
    rack: Servers, behaviour: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.adapters.ssh.nodes.FIRST_OUTPUT_SECONDS", 0.5)
    nodes = SshNodes(rack.serve(SITE, {"cp1": behaviour}))  # type: ignore[dict-item]
    if behaviour is is_silent:
        with pytest.raises(NodeUnreachable, match=r"no output within 0\.5 s"):
            nodes.follow_as_root(nodes._site.nodes[0], "true", lambda _: None, seconds=20)
    else:
        assert nodes.follow_as_root(nodes._site.nodes[0], "x", lambda _: None, seconds=9) == 1


def breaks_off(channel: paramiko.Channel, command: str) -> None:
    """A log that begins; then the machine is gone."""
    channel.sendall(mark_of(command) + b"one\n")
    time.sleep(0.1)
    channel.get_transport().close()


@pytest.mark.parametrize(
    ("behaviour", "error", "said"),
    [
        (says(b"no such container\n", 1), CommandFailed, "could not be read: exit code 1"),
        (says(b"sudo: a password is required\n", 1), CommandFailed, "exit code 1"),
        (breaks_off, NodeUnreachable, "the connection ended before the log did"),
    ],
)
def test_a_log_that_ends_with_a_fault_is_not_followed_to_its_end(
    rack: Servers, behaviour: object, error: type[Exception], said: str
) -> None:
    nodes = SshNodes(rack.serve(SITE, {"cp1": behaviour}))  # type: ignore[dict-item]
    seen: list[str] = []
    with pytest.raises(error, match=said):
        adapter.follow_log(nodes, nodes._site.nodes[0], "true", seen.append)
    assert len("".join(seen)) > 3


@pytest.mark.parametrize("code", [0, 124])
def test_a_log_that_ends_or_reaches_the_hour_is_followed_to_its_end(
    rack: Servers, code: int
) -> None:
    nodes = SshNodes(rack.serve(SITE, {"cp1": says(b"one\n", code)}))
    seen: list[str] = []
    adapter.follow_log(nodes, nodes._site.nodes[0], "true", seen.append)
    assert seen == ["one\n"]


def test_a_node_that_never_takes_the_command_is_not_waited_for(
    rack: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.adapters.ssh.nodes.FIRST_OUTPUT_SECONDS", 0.5)
    monkeypatch.setattr(
        "tests.ssh_server._Server.check_channel_exec_request", lambda *_: time.sleep(5)
    )
    nodes = SshNodes(rack.serve(SITE, {"cp1": is_silent}))
    began = time.monotonic()
    with pytest.raises(NodeUnreachable, match=r"no output within 0\.5 s"):
        nodes.follow_as_root(nodes._site.nodes[0], "true", lambda _: None, seconds=20)
    assert time.monotonic() - began < 5
