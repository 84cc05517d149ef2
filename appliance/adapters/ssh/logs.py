"""Reads logs of a node over SSH: units, the kernel, and containers of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from appliance.adapters.ssh.call import last_line
from appliance.errors import CommandFailed, NodeUnreachable, Refused
from appliance.model.node.logs import (
    FOLLOW_SECONDS,
    MOST_BYTES,
    READ_SECONDS,
    TIMED_OUT,
    Container,
    NoSuchPod,
    Window,
    choose,
    container_script,
    containers_of,
    containers_script,
)
from appliance.model.site.settings import Node

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

# More than a node's own limit: what it prints to the end still has to arrive.
_SECONDS = 60


def read_log(nodes: SshNodes, node: Node, script: str) -> tuple[str, bool]:
    """The text, and whether its oldest lines were cut off, as it is larger than one may be.

    Raises:
        NodeUnreachable: no connection, or no answer in time.
        CommandFailed: the node did not print a log.
    """
    answer = nodes.run_as_root(node, script, timeout=_SECONDS)
    # A program whose output is cut ends as it likes.
    cut = len(answer.output.encode()) >= MOST_BYTES
    if answer.code == TIMED_OUT and not cut:
        raise CommandFailed(
            f"{node.name}: the log could not be read within {READ_SECONDS} s",
            hint="ask for fewer --lines, or a shorter --since",
        )
    if answer.code != 0 and not cut:
        raise _failed(node, answer.errors or answer.output)
    # The newest lines are kept; the first of them is rarely whole.
    return (answer.output.partition("\n")[2] or answer.output) if cut else answer.output, cut


def follow_log(nodes: SshNodes, node: Node, script: str, on_text: Callable[[str], None]) -> None:
    """Pass on a log as it grows, until its limit, its end, or an interrupt.

    Raises:
        NodeUnreachable: no connection, or it broke.
        CommandFailed: the node did not print a log.
    """
    code = nodes.follow_as_root(node, script, on_text, seconds=FOLLOW_SECONDS + _SECONDS)
    if code < 0:
        raise NodeUnreachable(
            f"{node.name}: the connection ended before the log did",
            hint="see which nodes answer: appliance status",
            logged_in=True,
        )
    if code not in (0, TIMED_OUT):
        raise _failed(node, f"exit code {code}")


def containers(
    nodes: SshNodes, node: Node, pod: str, container: str | None
) -> tuple[Container, ...]:
    """The containers of a pod on a node.

    Raises:
        NodeUnreachable: no connection, or no answer in time.
        CommandFailed: the runtime does not answer there.
        Refused: the node has no such pod.
    """
    answer = nodes.run_as_root(node, containers_script(), timeout=_SECONDS)
    if answer.code != 0:
        raise _failed(node, answer.errors)
    try:
        return choose(containers_of(answer.output), pod, container, node=node.name)
    except NoSuchPod as error:
        raise Refused(
            str(error),
            hint="see on which node a pod runs: kubectl get pods --all-namespaces --output wide",
        ) from None


def container_logs(
    nodes: SshNodes, node: Node, chosen: tuple[Container, ...], window: Window
) -> Iterator[tuple[Container, str, bool]]:
    """Each container with its log, and whether that was cut.

    Raises:
        NodeUnreachable: no connection, or no answer in time.
        CommandFailed: the runtime does not answer there.
    """
    for one in chosen:
        yield (one, *read_log(nodes, node, container_script(one, window)))


def _failed(node: Node, said: str) -> CommandFailed:
    return CommandFailed(
        f"{node.name}: the log could not be read: {last_line(said) or 'no output'}",
        hint=f"look there yourself: appliance node ssh {node.name}",
    )
