"""Asks all nodes at the same time, each within its own time, and tells each answer as it comes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import last_line
from appliance.errors import ApplianceError, NodeUnreachable
from appliance.model.node.logs import TIMED_OUT, Window, container_script, containers_of
from appliance.model.site.settings import Node
from appliance.model.support.items import Found, Unanswered
from appliance.model.support.requests import CONTAINERS, POD_LINES, Asking, telling

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

MANY: Final = 16
# What has arrived and was not written yet.
_WAITING: Final = 8
_PATIENCE_SECONDS: Final = 0.5
# One answer, where the node has this much time left.
_CALL_SECONDS: Final = 25.0
_SHORTEST_CALL: Final = 2.0
Answer = tuple[str, Found | Unanswered | None]


def ask_nodes(nodes: SshNodes, asked: Sequence[Node], asking: Asking) -> Iterator[Answer]:
    """Yield (node, answer) as they come; (node, None) once a node has told all."""
    if not asked:
        return
    # Imported before the threads start: parallel imports can meet an incomplete module.
    import paramiko  # noqa: F401

    pool, answers, left = ThreadPoolExecutor(min(len(asked), MANY)), _Answers(), len(asked)
    try:
        for node in asked:
            pool.submit(answers.tell_all, node.name, partial(_of_one, nodes, node, asking))
        while left:
            name, answer = answers.take()
            left -= answer is None
            yield name, answer
    finally:
        answers.end()
        pool.shutdown(wait=False, cancel_futures=True)
        if left:
            # Nobody takes the rest: calls that are under way end with their connections.
            nodes.close()


class _Answers:
    """Answers of all nodes on their way to the one who takes them, few at a time."""

    def __init__(self) -> None:
        self._queue: queue.Queue[Answer] = queue.Queue(_WAITING)
        self._ended = threading.Event()

    def take(self) -> Answer:
        """The next answer; waits for it."""
        return self._queue.get()

    def end(self) -> None:
        """Nobody takes answers any more: whoever has one gives up."""
        self._ended.set()

    def tell_all(self, name: str, ask: Callable[[], Iterator[Found | Unanswered]]) -> None:
        """Hand over all answers of a node and its end; its faults stop no other node."""
        try:
            for answer in ask():
                self._tell((name, answer))
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            self._tell((name, Unanswered(name, "everything else", cause)))
        finally:
            self._tell((name, None))

    def _tell(self, answer: Answer) -> None:
        while not self._ended.is_set():
            with suppress(queue.Full):
                self._queue.put(answer, timeout=_PATIENCE_SECONDS)
                return


def _of_one(nodes: SshNodes, node: Node, asking: Asking) -> Iterator[Found | Unanswered]:
    deadline, requests = time.monotonic() + asking.seconds, asking.requests
    listed = ""
    for place, request in enumerate(requests):
        try:
            text = _answer(nodes, node, request.script, deadline)
        except NodeUnreachable as error:
            # It was the connection: nothing else would get through.
            for one in requests[place:]:
                yield Unanswered(node.name, one.what, error.message)
            return
        except ApplianceError as error:
            yield Unanswered(node.name, request.what, error.message)
            continue
        if isinstance(text, Unanswered):
            yield Unanswered(node.name, request.what, text.cause)
            continue
        listed = text if request.file == CONTAINERS else listed
        yield Found(f"nodes/{node.name}/{request.file}", text)
    if asking.with_pods:
        window = Window(POD_LINES, asking.since_seconds)
        yield from _containers(nodes, node, listed, window, deadline)


def _containers(
    nodes: SshNodes, node: Node, listed: str, window: Window, deadline: float
) -> Iterator[Found | Unanswered]:
    """Logs of the appliance's own containers, where no API server tells them."""
    for number, one in enumerate(telling(containers_of(listed))):
        what = f"log of {one.full_pod} {one.name}"
        text = _answer(nodes, node, container_script(one, window), deadline)
        if isinstance(text, Unanswered):
            yield Unanswered(node.name, what, text.cause)
        else:
            name = f"nodes/{node.name}/containers/{one.namespace}/{one.pod}/{one.name}-{number}.log"
            yield Found(name, f"[{one.status}]\n{text}")


def _answer(nodes: SshNodes, node: Node, script: str, deadline: float) -> str | Unanswered:
    left = deadline - time.monotonic()
    if left < _SHORTEST_CALL:
        return Unanswered(node.name, "", "the time for this node was over")
    answer = nodes.run_as_root(node, script, timeout=min(left, _CALL_SECONDS))
    if answer.code != 0 and not answer.output:
        said = last_line(answer.errors) or "no output"
        return Unanswered(node.name, "", f"exit code {answer.code}: {said}")
    cut = "\n[not complete: the time was over]\n" if answer.code == TIMED_OUT else ""
    return answer.output + cut
