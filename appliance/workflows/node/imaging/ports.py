"""What the installation of servers needs from the outside, beside a session's ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.node.imaging.batch import Note
    from appliance.model.node.imaging.reports import Heard, Report
    from appliance.model.node.imaging.seed import Seed, Server
    from appliance.model.site.settings import Node


class ServedBatch(Protocol):
    """What is served while servers install themselves."""

    @property
    def server(self) -> Server:
        """Where it is served, as the servers reach it."""

    def offer(self, seeds: Sequence[Seed]) -> str:
        """Make the medium for these seeds, once, and serve it; its URL, empty with PXE.

        Raises:
            ConfigError, CommandFailed: it cannot be made.
            Refused: another machine serves one of these servers by PXE.
        """

    def strange_reports(self, address: str) -> int:
        """How many reports with the token of another run came from this address."""

    def heard(self, name: str) -> Heard:
        """All that a server's installer reported so far."""


class Serving(Protocol):
    """Serves for the length of a ``with``."""

    def open(
        self, tokens: Mapping[str, str], on_report: Callable[[str, Report], None]
    ) -> AbstractContextManager[ServedBatch]:
        """Begin to serve; ``tokens`` is token -> node, ``on_report`` is called by other threads.

        Raises:
            ConfigError: not on this address.
        """


class FirstContact(Protocol):
    """The first login to an installed server."""

    def meet(self, node: Node, host_key: str) -> str:
        """Whether the server shows this host key, which is then the site's; else why not.

        Args:
            node: where to.
            host_key: type and base64, as the installer reported it.

        Raises:
            Refused: it shows another key: what answers is not what was installed.
        """


class Notes(Protocol):
    """What a run keeps of servers that it has not finished, on this machine."""

    def read(self, name: str) -> Note | None:
        """The note of a server; None without one that can be read."""

    def keep(self, name: str, note: Note) -> None:
        """Write it, in place of an older one."""

    def drop(self, name: str) -> None:
        """Remove it; none is no error."""
