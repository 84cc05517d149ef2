"""SIGKILL at one effect of ``node image``: nothing that follows in the process has an effect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from appliance.model.node.imaging.reports import Heard
from appliance.workflows.session.session import Session
from tests.unit.imaging.fake_rack import FakeRack

# The calls of ports that change something; every other call only looks.
CHANGING: Final = {
    *("power", "insert", "eject", "boot_once", "clear_boot"),
    *("offer", "meet", "keep", "drop", "append", "put"),
}


class Killed(BaseException):
    """SIGKILL."""


class Process:
    """One run of the command.

    Attributes:
        effects: everything that was changed, in order.
        kill_at: the number of the effect at which the process ends.
        after: the kill comes after that effect, not before it.
    """

    def __init__(self, kill_at: int = -1, *, after: bool = False) -> None:
        self.kill_at, self.after, self.dead = kill_at, after, False
        self.effects: list[str] = []
        self._one = threading.RLock()

    def change(self, what: str, work: Callable[[], Any]) -> Any:
        """One effect."""
        with self._one:
            self.live()
            if len(self.effects) == self.kill_at and not self.after:
                self.dead = True
            self.live()
            made = work()
            self.effects.append(what)
            self.dead = len(self.effects) - 1 == self.kill_at
            self.live()
            return made

    def live(self) -> None:
        """Nothing is done, and nothing looked at, by a process that is gone."""
        if self.dead:
            raise Killed

    def through(self, session: Session) -> Session:
        """The session, whose ports end with the process."""
        port: Any = lambda real: Port(real, self)  # noqa: E731 - each port has its own type
        judge = session.qualifying
        return replace(
            session,
            nodes=port(session.nodes),
            journal=port(session.journal),
            clock=port(session.clock),
            driver=port(session.driver),
            serving=port(session.serving),
            contact=port(session.contact),
            notes=port(session.notes),
            documents=port(session.documents),
            qualifying=replace(judge, reader=port(judge.reader), documents=port(judge.documents)),
        )


class Port:
    """A port, or what it opened."""

    def __init__(self, real: Any, process: Process) -> None:
        self._real, self._process = real, process

    def open(self, *words: Any) -> Any:
        """What is open is a port, too."""
        return self._opened(*words)

    @contextmanager
    def _opened(self, *words: Any) -> Iterator[Any]:
        self._process.live()
        with self._real.open(*words) as one:
            yield Port(one, self._process)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*words: Any, **more: Any) -> Any:
            if name in CHANGING:
                return self._process.change(name, lambda: found(*words, **more))
            self._process.live()
            return found(*words, **more)

        return call


def image(rack: FakeRack, process: Process, **more: Any) -> None:
    """Type the command; its threads are gone when this returns, or raises."""
    rack.through = process.through
    try:
        rack.image(**more)
    finally:
        for thread in threading.enumerate():
            if thread.name.startswith("image "):
                thread.join(30)


def goes_on_without(rack: FakeRack, *, installers_end: bool) -> None:
    """What the servers do once nobody hears them.

    Args:
        rack: of the servers.
        installers_end: an installer that runs comes to its end, as it may from memory; else it
            stops with its medium.
    """
    for box in rack.servers.values():
        if box.looks:
            box.looks = 0
            if installers_end:
                box.finish()
        # The system of an installer that is at work has the node's address, and lets nobody in.
        if box.power == "On" and box.medium:
            rack.alive[box.name] = "no SSH on port 22: connection refused"
        box.heard = Heard()
