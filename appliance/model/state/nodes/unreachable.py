"""Why nodes cannot be reached: one cause for each, counted and grouped, in an operator's words.

What must not be here: connections (:mod:`appliance.adapters.ssh`) and printing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.state.observed import Fault

NOT_SSH: Final = "the port answers, but not as SSH"
WRONG_HOST_KEY: Final = "wrong host key"
UNKNOWN_HOST_KEY: Final = "the host key is not in"
_NO_SUCH_NAME: Final = "its name does not resolve"
_NO_KEY_OF_JUMP_HOST: Final = "its host key is not in known_hosts, or differs"
_LASTING: Final = (WRONG_HOST_KEY, UNKNOWN_HOST_KEY, _NO_SUCH_NAME, _NO_KEY_OF_JUMP_HOST)

# What paramiko 3.5 says in an SSHException -> what it means.
_PARAMIKO: Final = (
    (r"Error reading SSH protocol banner|Indecipherable protocol|not an SSH", NOT_SSH),
    (r"Incompatible (ssh )?(server|peer|version)|no acceptable|Unknown host key type",
     "its SSH server and this tool have no algorithm in common"),
    (r"EOF in transport|Server connection dropped|not open|not active|closed|^$",
     "it closed the connection during the login"),
)  # fmt: skip

# What OpenSSH's client says of the way to the jump host, and of the way from there to the node.
_NO_WAY: Final = re.compile(
    r"ssh: connect to host \S+ port \d+: (.+)|(Connection timed out) during banner exchange"
)
_NO_NAME: Final = re.compile(r"ssh: Could not resolve hostname (\S+): (.+)")
_NO_LOGIN: Final = re.compile(r"Permission denied \(|Too many authentication failures")
_NO_KEY: Final = re.compile(r"Host key verification failed|No \S+ host key is known for")
_BEHIND: Final = re.compile(r"open failed: (?:connect failed: )?(.+)")


@dataclass(frozen=True)
class Way:
    """What is known of a connection that failed.

    Attributes:
        cause: the same words for each node with this cause.
        at_jump_host: it concerns the jump host, not the node.
    """

    cause: str
    at_jump_host: bool = False


def in_plain_words(text: str) -> str:
    """What a text of paramiko means; a text that is not known is returned as it is."""
    for pattern, words in _PARAMIKO:
        if re.search(pattern, text):
            return words
    return text


def way_through(jump_host: str, said: str) -> Way | None:
    """What the ``ssh`` of the jump host said before it ended; None if it said nothing known.

    Args:
        jump_host: as the site names it.
        said: its stderr, of any length.
    """
    host = f"the jump host {jump_host}"
    if found := _BEHIND.search(said):
        return Way(_small(found[1].strip()))
    if found := _NO_NAME.search(said):
        return Way(f"{host}: {_NO_SUCH_NAME}", at_jump_host=True)
    if found := _NO_WAY.search(said):
        why = _small((found[1] or found[2]).strip())
        return Way(f"{host} does not answer: {why}", at_jump_host=True)
    if _NO_LOGIN.search(said):
        return Way(f"{host} refused the login", at_jump_host=True)
    if _NO_KEY.search(said):
        return Way(f"{host}: {_NO_KEY_OF_JUMP_HOST}", at_jump_host=True)
    return None


def is_lasting(cause: str) -> bool:
    """Whether waiting does not help: what answers is not the node, or its name does not resolve.

    Args:
        cause: of a fault.
    """
    return any(one in cause for one in _LASTING)


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


@dataclass(frozen=True)
class Group:
    """Nodes that one thing keeps from us.

    Attributes:
        cause: what, in the words that all of them share.
        nodes: their names.
        sentence: one line with the cause and the nodes.
        hint: what to do about it, once for all of them.
    """

    cause: str
    nodes: tuple[str, ...]
    sentence: str
    hint: str


def grouped(faults: Sequence[Fault]) -> tuple[Group, ...]:
    """The faults by cause, the most frequent cause first."""
    by_cause: dict[str, list[Fault]] = {}
    for fault in faults:
        by_cause.setdefault(fault.cause or _bare(fault), []).append(fault)
    groups = [_group(cause, same) for cause, same in by_cause.items()]
    return tuple(sorted(groups, key=lambda group: -len(group.nodes)))


def _group(cause: str, same: Sequence[Fault]) -> Group:
    names = tuple(fault.node for fault in same)
    many = f"{len(same)} nodes, {cause}: {', '.join(names)}"
    return Group(cause, names, same[0].reason if len(same) == 1 else many, same[0].hint)


def _bare(fault: Fault) -> str:
    """The reason without the node's name and address."""
    return re.sub(rf"^{re.escape(fault.node)}(?: \([^()]*\))?: ", "", fault.reason)


def headline(faults: Sequence[Fault], asked: int) -> str:
    """One sentence for all of them: the only fault, or how many nodes, and why.

    Args:
        faults: at least one.
        asked: how many nodes were asked.
    """
    if len(faults) == 1:
        return faults[0].reason
    groups = grouped(faults)
    if len(groups) == 1:
        why = groups[0].cause
    else:
        why = "; ".join(f"{len(group.nodes)}: {group.cause}" for group in groups)
    return f"{len(faults)} of {asked} nodes cannot be reached ({why})"
