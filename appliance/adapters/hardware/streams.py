"""Measures the network between nodes: a TCP stream for each pair, by the probe over SSH."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.adapters.hardware.probe_answer import HardwareProbe
from appliance.model.checks.hardware.trials.stream import (
    Role,
    Side,
    Stream,
    order,
    read_side,
    rounds,
)

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

# A login, the wait for the partner, and both directions; the node's own deadline is shorter.
SECONDS: Final = 75.0
MOST_AT_ONCE: Final = 64


class Streams:
    """The network of one site's nodes.

    Args:
        site: the site.
        nodes: SSH to its nodes.
        among_pods: measure on nodes that carry pods, too.
    """

    def __init__(self, site: Site, nodes: SshNodes, *, among_pods: bool = False) -> None:
        self._probe = HardwareProbe(site.settings.ssh.python, nodes, SECONDS)
        self._among_pods = among_pods

    def measure(
        self, nodes: Sequence[Node], is_slow: Callable[[Stream], bool]
    ) -> tuple[Stream, ...]:
        """Every pair once, both ways; pairs without a common node at the same time.

        A slow pair is measured again while no other is: what several pairs share may be busy.
        """
        # Imported before the threads start: parallel imports can meet an incomplete module.
        import paramiko  # noqa: F401

        by_name = {node.name: node for node in nodes}
        found: list[Stream] = []
        pool = ThreadPoolExecutor(MOST_AT_ONCE)
        try:
            for pairs in rounds(tuple(by_name)):
                for begin in range(0, len(pairs), MOST_AT_ONCE // 2):
                    some = pairs[begin : begin + MOST_AT_ONCE // 2]
                    told = self._together([(by_name[a], by_name[b]) for a, b in some], pool)
                    found += [self._again(one, by_name, is_slow, pool) for one in told]
        finally:
            # After Ctrl-C nobody waits for answers; the nodes' own deadlines end both sides.
            pool.shutdown(wait=False, cancel_futures=True)
        return tuple(found)

    def _again(
        self,
        one: Stream,
        by_name: dict[str, Node],
        is_slow: Callable[[Stream], bool],
        pool: ThreadPoolExecutor,
    ) -> Stream:
        if len(by_name) < 4 or not is_slow(one):
            return one
        (second,) = self._together([(by_name[one.first], by_name[one.second])], pool)
        return max(one, second, key=lambda each: each.slowest or 0.0)

    def _together(
        self, pairs: Sequence[tuple[Node, Node]], pool: ThreadPoolExecutor
    ) -> tuple[Stream, ...]:
        running = []
        for first, second in pairs:
            word = secrets.token_hex(16)
            running.append(
                (
                    pool.submit(self._side, second, "serve", first, word),
                    pool.submit(self._side, first, "connect", second, word),
                )
            )
        return tuple(
            Stream(
                first.name,
                second.name,
                {first.name: connecting.result(), second.name: serving.result()},
            )
            for (first, second), (serving, connecting) in zip(pairs, running, strict=True)
        )

    def _side(self, node: Node, role: Role, peer: Node, word: str) -> Side | str:
        told = order(role, node.ip, peer.ip, word, among_pods=self._among_pods)
        return self._probe.ask(node, ["--stream", told], read_side)
