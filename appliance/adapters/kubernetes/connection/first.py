"""The first of several API servers that can be asked, the others tried while it keeps us waiting.

The first node is asked alone, because it is well nearly always. Where it has neither answered nor
failed after :data:`HEAD_START`, all the others are asked at the same time, so several servers that
do not take a connection cost no more than one of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from appliance.adapters.kubernetes.connection.client import NotReadable
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node

HEAD_START = 0.5

Opened = Callable[[Node], AbstractContextManager[Any]]
Failed = Callable[[Node, NodeUnreachable | NotReadable], None]


@contextmanager
def first_open(
    nodes: Sequence[Node], opened: Opened, failed: Failed
) -> Iterator[tuple[Node, Any] | None]:
    """The first node and its client that ``opened`` gives; None where there is none.

    ``failed`` is told of each node that does not answer, in this thread. A client that comes too
    late is closed.
    """
    with ExitStack() as stack:
        race = _Race(opened)
        stack.callback(race.end)
        found = race.winner(list(nodes), failed)
        if found is None:
            yield None
            return
        node, held, client = found
        stack.push(held)
        race.end()
        yield node, client


class _Race:
    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._lock = threading.Lock()
        self._over = False
        self._results: SimpleQueue[tuple[Node, ExitStack, Any]] = SimpleQueue()

    def winner(self, waiting: list[Node], failed: Failed) -> tuple[Node, ExitStack, Any] | None:
        """The first that opens."""
        running = 0
        while running or waiting:
            if not running:
                running += self._start([waiting.pop(0)])
            try:
                node, stack, found = self._results.get(timeout=HEAD_START if waiting else None)
            except Empty:
                running += self._start(waiting)
                waiting = []
                continue
            running -= 1
            if not isinstance(found, BaseException):
                return node, stack, found
            if not isinstance(found, NodeUnreachable | NotReadable):
                raise found
            failed(node, found)
        return None

    def end(self) -> None:
        """Close what opened beside the winner, now or when it comes."""
        with self._lock:
            self._over = True
            while not self._results.empty():
                # What fails while an unused client is closed concerns no caller.
                with suppress(Exception):
                    self._results.get()[1].close()

    def _start(self, nodes: Sequence[Node]) -> int:
        for node in nodes:
            threading.Thread(target=self._attempt, args=(node,), daemon=True).start()
        return len(nodes)

    def _attempt(self, node: Node) -> None:
        stack = ExitStack()
        found: Any
        try:
            found = stack.enter_context(self._opened(node))
        except BaseException as error:  # The waiting thread is told of every end.
            found = error
        with self._lock:
            if not self._over:
                self._results.put((node, stack, found))
                return
        with suppress(Exception):
            stack.close()
