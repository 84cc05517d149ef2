"""Backups that a timer made on control-plane nodes: which there are. Changes nothing."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError
from appliance.model.backup.holdings import Held, holdings

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

FOLDER: Final = "/var/backups/appliance"
_MOST: Final = 500
_MOST_BESIDE: Final = 1 << 18
_SECONDS: Final = 30
# Sizes first; then what lies beside a backup, each in one line. A link is none.
_SCRIPT: Final = f"""
cd {FOLDER} 2>/dev/null || exit 0
find . -maxdepth 1 -type f -name '*.backup*' -printf 'size %s %f\\n' | head -n {_MOST}
n=0
for f in *.backup.json; do
  [ -f "$f" ] && [ ! -L "$f" ] && [ $n -lt {_MOST} ] || continue
  n=$((n + 1)); printf 'beside %s ' "$f"; head -c {_MOST_BESIDE} "$f" | tr '\\n' ' '; echo
done
exit 0
"""
_LINE: Final = re.compile(r"(size|beside) (\S+) (.*)")


@dataclass(frozen=True)
class OnNode:
    """The backups of one node, or why nothing is known of them."""

    node: str
    held: tuple[Held, ...] = ()
    fault: str = ""


def on_nodes(site: Site, nodes: SshNodes) -> tuple[OnNode, ...]:
    """Ask every control-plane node; what it says is judged like storage of others."""
    with ThreadPoolExecutor(len(site.control_plane)) as pool:
        return tuple(pool.map(lambda node: _asked(node, nodes), site.control_plane))


def _asked(node: Node, nodes: SshNodes) -> OnNode:
    try:
        answer = nodes.run_as_root(node, _SCRIPT, timeout=_SECONDS)
    except ApplianceError as error:
        return OnNode(node.name, fault=error.message)
    if answer.code != 0:
        return OnNode(node.name, fault=f"{node.name}: {FOLDER} could not be read")
    return OnNode(node.name, read_listing(answer.output))


def read_listing(text: str) -> tuple[Held, ...]:
    """The backups in what a node says; lines of another form are left out."""
    sizes: dict[str, int] = {}
    beside: dict[str, bytes | None] = {}
    for line in text.splitlines():
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            continue
        kind, first, rest = found.groups()
        if kind == "beside":
            beside[first] = rest.encode(errors="replace")
        elif first.isascii() and first.isdigit() and len(first) < 20:
            sizes[rest] = int(first)
    return holdings(sizes, beside)
