"""Command lines hold no option that Ubuntu 20.04's own programs do not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from appliance.model.programs import PROGRAMS
from tests.contract import focal, tree
from tests.contract.command_lines import Line, command_lines, lines_of_text, loose_options
from tests.contract.started_programs import in_python

PACKAGES = focal.table("commands")
KNOWN = {name: found for one in PACKAGES.values() for name, found in one["programs"].items()}
# Brought by the bundle or by a vendor, the same on every system.
SAME_EVERYWHERE = {"docker-registry", "helm", "kubeadm", "kubectl", "kubelet", "nvidia-smi"}
# Started by the name that a setting gives; the probe and Ansible's modules are its arguments.
BY_SETTING = {"python3"}
# A file that starts one of these has arguments of theirs, too.
FROM_THE_BUNDLE = re.compile(
    r"timer-programs/age|kubectl|helm|kubeadm|crane|etcdctl|force-new-cluster"
)
# What a program takes that begins with the words of its subcommands.
TWO_WORDS = {"image"}


def unknown(line: Line) -> set[str]:
    """The words of a line that its program does not know."""
    known = KNOWN[line.program]
    if isinstance(known, list):
        found = {one for one in line.options if not _takes(line.program, one, set(known))}
        return found | _plain(line)
    if not line.plain or line.plain[0] == "?" or not line.options:
        return set()
    name = " ".join(line.plain[: 2 if line.plain[0] in TWO_WORDS else 1])
    if name not in known:
        return {name}
    return {one for one in line.options if not _takes(line.program, one, set(known[name]))}


def _takes(program: str, option: str, known: set[str]) -> bool:
    if option in known or (program == "ip" and any(one.startswith(option) for one in known)):
        return True
    letters = option[1:]
    if option.startswith("--") or program in {"openssl", "find", "ip"}:
        return False
    # A short option with its value, or several together, of which the last may have one.
    known_letters = {one[1] for one in known if re.fullmatch(r"-\w", one)}
    flags = re.findall(r"^[A-Za-z]+", letters)
    return bool(flags) and set(flags[0]) <= known_letters


def _plain(line: Line) -> set[str]:
    """What is no option and known by name: the verbs of systemctl, the objects of ip."""
    first = [word for word in line.plain[:1] if word != "?"]
    if line.program == "systemctl" and first:
        return set(first) - set(PACKAGES["systemd"]["verbs"])
    if line.program == "ip" and first:
        objects = PACKAGES["iproute2"]["objects"]
        return {word for word in first if not any(one.startswith(word) for one in objects)}
    return set()


def _wrong(lines: Iterable[Line]) -> dict[str, set[str]]:
    return {
        f"{line.where}: {line.program} {' '.join(line.words)}": found
        for line in lines
        if (found := unknown(line))
    }


def _of_text(text: str) -> Iterator[Line]:
    for words in lines_of_text(text, KNOWN):
        yield Line(words[0].rpartition("/")[2], tuple(words[1:]), "text")


def test_every_program_of_a_node_has_a_table() -> None:
    there = {row.name for row in PROGRAMS if row.where} - SAME_EVERYWHERE - BY_SETTING
    assert there - set(KNOWN) == set(), "name these in tests/data/focal/commands.yml"


def test_every_table_says_where_it_was_read() -> None:
    for name, one in PACKAGES.items():
        assert isinstance(one["version"], str), name
        assert one["source"], name


def test_no_command_line_has_an_option_that_ubuntu_20_04_does_not_know() -> None:
    lines = command_lines(KNOWN)
    assert _wrong(lines) == {}
    started = {line.program for line in lines}
    ours = "openssl apt-get systemctl ip ss mount exportfs rpc.nfsd dpkg tar rsync docker chronyc"
    assert {*ours.split(), "lsblk", "iptables-restore", "journalctl"} <= started


def test_arguments_that_are_put_together_elsewhere_are_known_to_a_program_of_the_file() -> None:
    """As those that a method of a module is given for the program that it starts."""
    judged = 0
    for path in tree.under("roles", "playbooks/library", "playbooks/module_utils"):
        if path.suffix != ".py" or str(path).startswith("roles/lab_node"):
            continue
        started = {word.rpartition("/")[2] for word in in_python(tree.ROOT / path)}
        of_nodes = started & set(KNOWN)
        if not of_nodes or FROM_THE_BUNDLE.search(tree.read(path)):
            continue
        loose = loose_options(tree.ROOT / path)
        judged += len(loose)
        strange = {one for one in loose if not any(_known_somewhere(p, one) for p in of_nodes)}
        assert strange == set(), f"{path}: not of {', '.join(sorted(of_nodes))}"
    assert judged > 10


def _known_somewhere(program: str, option: str) -> bool:
    known = KNOWN[program]
    lists = [known] if isinstance(known, list) else known.values()
    return any(_takes(program, option, set(one)) for one in lists)


def test_lsblk_is_asked_for_columns_that_it_has() -> None:
    text = tree.read(Path("appliance/probe/machine/hardware.py"))
    asked = [
        str(item.value).split(",")
        for item in ast.walk(ast.parse(text))
        if isinstance(item, ast.Constant) and str(item.value).startswith("NAME,")
    ]
    assert len(asked) == 1
    assert set(asked[0]) - set(PACKAGES["util-linux"]["columns"]) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # Of the versions in Debian 12 and later.
        ("systemctl show -P ActiveState kubelet", "-P"),
        ("systemctl list-automounts", "list-automounts"),
        ("systemctl kill --kill-whom=all kubelet", "--kill-whom"),
        ("journalctl --unit=kubelet --list-invocations", "--list-invocations"),
        ("systemd-run --quiet --ignore-failure true", "--ignore-failure"),
        ("openssl x509 -in a -noout -ext subjectAltName -multi", "-multi"),
        ("openssl x509 -in a -not_after 300101000000Z", "-not_after"),
        ("openssl req -new -key a -CA b", "-CA"),
        ("openssl storeutl -noout a", "storeutl"),
        ("lsblk --json --filter TYPE", "--filter"),
        ("umount --lazy --no-canonicalize --all-targets --zap /x", "--zap"),
        ("dmesg --level=err --since=-1h", "--since"),
        ("rsync --recursive --mkpath a b", "--mkpath"),
        ("docker ps --all --tree", "--tree"),
        ("docker image ls --tree", "--tree"),
        ("docker compose --file x up", "compose"),
        ("apt-get -q install --solver-strict x", "--solver-strict"),
        ("apt-get satisfy --comment x", "--comment"),
        ("dpkg --force-confdef --force-protected --configure -a", "--force-protected"),
        ("rpc.nfsd --no-udp --scope a", "--scope"),
        ("xargs --max-procs=2 --no-fork crane push", "--no-fork"),
        ("rm --recursive --force --one-file-system --no-preserve-root=x --dirs /x", "--dirs"),
        ("ls --zero /x", "--zero"),
        ("if ! sudo -n --chroot=/x true; then exit 1; fi", "--chroot"),
        ("timeout --kill-after=5 60 mktemp --tempdir", "--tempdir"),
        ("chronyc -n -c -N tracking", "-N"),
        ("sudo -n ip -br -j stats show", "stats"),
        ("ss -lntp --inet-sockopt", "--inet-sockopt"),
    ],
)  # fmt: skip
def test_an_option_of_a_newer_version_is_found(text: str, found: str) -> None:
    assert {word for line in _of_text(text) for word in unknown(line)} == {found}


@pytest.mark.parametrize(
    "text",
    [
        "du -xhd2 /var",
        "ps -fp 12",
        "ip -br address",
        "sudo ss -lnp sport = :443",
        "sed -n 's/^Remv //p'",
        "curl -ik https://runai.rack.test",
        "tar -xf - -C /x && sha256sum --check --status sums",
        "head -c 100 /x; exec sudo -n head -c 100 /x",
    ],
)
def test_what_ubuntu_20_04_knows_is_let_be(text: str) -> None:
    lines = list(_of_text(text))
    assert lines
    assert _wrong(lines) == {}
