"""Reads what nodes say of their packages: one script on each node, all at the same time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import last_line
from appliance.errors import NodeUnreachable
from appliance.model.patch.services import unit_of
from appliance.model.patch.state import NodeState, NoState

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

SECONDS: Final = 30
AT_ONCE: Final = 32
MOST_LINES: Final = 20_000
# Each line of the answer begins with its kind; nothing is written.
SCRIPT: Final = r"""
export LC_ALL=C
printf 'architecture '
dpkg --print-architecture || exit 1
read -r kernel </proc/sys/kernel/osrelease && echo "kernel $kernel"
read -r boot </proc/sys/kernel/random/boot_id && echo "boot $boot"
[ ! -e /run/reboot-required ] || echo asked
[ ! -r /run/reboot-required.pkgs ] || sed 's/^/asked /' /run/reboot-required.pkgs
stat -c 'device %n %d' / /boot /usr /var 2>/dev/null
stat -f -c 'free %n %a %S' / /boot /usr /var 2>/dev/null
find /var/lib/dpkg/updates -name '[0-9]*' -printf 'interrupted\n'
grep -lsE ' (/usr|/lib[0-9]*|/bin|/sbin)/[^ ].* [(]deleted[)]$' /proc/[0-9]*/maps \
  | sed 's/maps$/cgroup/' \
  | xargs -r sed -n -e 's/^[0-9]*:name=systemd:/stale /p' -e 's/^0::/stale /p' 2>/dev/null \
  | sort -u
since=$(sed -n 's/^btime //p' /proc/stat)
ticks=$(sed 's/.*) //' /proc/1/stat | cut -d' ' -f20)
find /var/lib/dpkg/info -name '*.list' -newermt "@$((since + ticks / 100))" ! -newermt now \
  -printf 'unbooted %f\n'
for kind in pc efi; do
  sed -n "/^Name: grub-$kind.install_devices\$/,/^\$/s/^Value: //p" \
    /var/cache/debconf/config.dat 2>/dev/null | tr -d ' ' | tr ',' '\n' \
    | while read -r disk; do [ -b "$disk" ] || echo "lost $kind $disk"; done
done
sed -n 's/^[[:blank:]]*GRUB_DEFAULT=/grub /p' /etc/default/grub /etc/default/grub.d/*.cfg \
  2>/dev/null
find /var/lib/dkms -mindepth 3 -maxdepth 3 -type d -printf 'dkms %P\n' 2>/dev/null
find /lib/modules -name 'nvidia.ko*' -printf 'nvidia %P\n' 2>/dev/null
find /etc -xdev '(' -name '*.dpkg-dist' -o -name '*.ucf-dist' ')' -printf 'kept %C@ %p\n'
exec dpkg-query -W -f 'package ${Package} ${Version} ${Architecture} ${db:Status-Abbrev}\n'
"""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+.-]{0,199}")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~-]{0,199}")
_WORD: Final = re.compile(r"[\x21-\x7e]{1,300}")
_HALF: Final = frozenset("UFHWt")


class SshPackages:
    """What the nodes of one site say of their packages."""

    def __init__(self, nodes: SshNodes) -> None:
        self._nodes = nodes

    def read(self, nodes: Sequence[Node]) -> Mapping[str, NodeState | NoState]:
        """Node -> its packages, or why it did not say."""
        if not nodes:
            return {}
        with ThreadPoolExecutor(min(len(nodes), AT_ONCE)) as pool:
            return dict(zip((n.name for n in nodes), pool.map(self._read, nodes), strict=True))

    def _read(self, node: Node) -> NodeState | NoState:
        try:
            answer = self._nodes.run_as_root(node, SCRIPT, timeout=SECONDS)
        except NodeUnreachable as error:
            return NoState(node.name, error.message, error.hint or f"ping {node.ip}")
        look = f"look at it: appliance node ssh {node.name} -- dpkg --audit"
        if answer.code != 0:
            why = last_line(answer.errors) or f"exit {answer.code}"
            return NoState(node.name, f"its packages could not be read: {why}", look)
        try:
            return parse(node.name, answer.output)
        except ValueError as error:
            return NoState(node.name, f"its packages could not be read: {error}", look)


def parse(node: str, text: str) -> NodeState:
    """Read the answer of a node.

    Raises:
        ValueError: it is not an answer of the script, or is too long.
    """
    said: dict[str, list[list[str]]] = {}
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise ValueError(f"more than {MOST_LINES} lines")
    for line in lines:
        kind, *words = line.split(" ")
        said.setdefault(kind, []).append(words)
    architecture, kernel = _one(said, "architecture"), _one(said, "kernel")
    packages, held, half, foreign = _packages(said.get("package", []), architecture)
    if not packages:
        raise ValueError("no installed package")
    return NodeState(
        node,
        kernel,
        _one(said, "boot"),
        packages,
        held & packages.keys(),
        foreign,
        half,
        "interrupted" in said,
        "asked" in said,
        tuple(dict.fromkeys(w[0] for w in said.get("asked", []) if w and _NAME.fullmatch(w[0]))),
        _free(said),
        {w[1]: w[0] for w in said.get("kept", []) if len(w) == 2 and _WORD.fullmatch(w[1])},
        _stale(said.get("stale", [])),
        _unbooted(said.get("unbooted", []), architecture),
        _dkms(said.get("dkms", [])),
        frozenset(w[0].split("/")[0] for w in said.get("nvidia", []) if w),
        _lost(said.get("lost", [])),
        any(w and w[0].strip("'\"") not in ("", "0") for w in said.get("grub", [])[-1:]),
    )


def _packages(
    lines: Sequence[Sequence[str]], architecture: str
) -> tuple[dict[str, str], frozenset[str], tuple[str, ...], frozenset[str]]:
    """Versions by name, names on hold, half installed ones, and names of foreign ones."""
    packages: dict[str, str] = {}
    held, half, foreign = set(), [], set()
    for words in lines:
        name, version, own, status = [*words, "", "", "", ""][:4]
        wanted, state, fault = status[:1], status[1:2], status[2:3].strip()
        if not _NAME.fullmatch(name):
            raise ValueError("a package without a name")
        if own not in (architecture, "all", ""):
            if state == "i":
                foreign.add(name)
            continue
        if wanted == "h":
            held.add(name)
        if state == "i" and not fault and _VERSION.fullmatch(version):
            packages[name] = version
        elif state in _HALF or fault:
            half.append(name)
    return packages, frozenset(held), tuple(sorted(half)), frozenset(foreign)


def _stale(lines: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The units of processes that still use replaced files."""
    units = {unit_of(words[0]) for words in lines if len(words) == 1 and _WORD.fullmatch(words[0])}
    return tuple(sorted(units - {""}))


def _unbooted(lines: Sequence[Sequence[str]], architecture: str) -> tuple[str, ...]:
    """The packages whose list of files is younger than the boot."""
    found = set()
    for words in lines:
        name, _, own = (words[0] if words else "").removesuffix(".list").partition(":")
        if own in ("", architecture) and _NAME.fullmatch(name):
            found.add(name)
    return tuple(sorted(found))


def _dkms(lines: Sequence[Sequence[str]]) -> dict[str, frozenset[str]]:
    """Module -> the kernels it was built for, of ``MODULE/VERSION/KERNEL``."""
    found: dict[str, frozenset[str]] = {}
    for words in lines:
        parts = words[0].split("/") if len(words) == 1 and _WORD.fullmatch(words[0]) else []
        if len(parts) == 3 and parts[2] not in ("build", "source"):
            found[parts[0]] = found.get(parts[0], frozenset()) | {parts[2]}
    return found


def _lost(lines: Sequence[Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Kind of GRUB -> disks that it is to be installed on and that are absent."""
    found: dict[str, tuple[str, ...]] = {}
    for words in lines:
        if len(words) == 2 and _WORD.fullmatch(words[1]):
            found[words[0]] = (*found.get(words[0], ()), words[1])
    return found


def _free(said: Mapping[str, list[list[str]]]) -> dict[str, int]:
    """Free bytes by folder, of each folder that is a file system of its own, and of the root."""
    devices = {words[0]: words[1] for words in said.get("device", []) if len(words) == 2}
    return {
        words[0]: int(words[1]) * int(words[2])
        for words in said.get("free", [])
        if len(words) == 3
        and (words[1] + words[2]).isdigit()
        and (words[0] == "/" or devices.get(words[0]) != devices.get("/"))
    }


def _one(said: Mapping[str, list[list[str]]], kind: str) -> str:
    words = said.get(kind, [[]])[0]
    if len(words) != 1 or not _WORD.fullmatch(words[0]):
        raise ValueError(f"no {kind}")
    return words[0]
