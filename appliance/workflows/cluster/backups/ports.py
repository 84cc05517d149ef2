"""What the workflows around backups need of the outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.answer import NodeAnswer
    from appliance.model.backup.holdings import Held
    from appliance.model.backup.record import Manifest, Missing, Part, Sidecar
    from appliance.model.site.settings import Node


class Writer(Protocol):
    """A backup that is being written."""

    parts: list[Part]
    missing: list[Missing]
    manifest: Manifest | None
    sidecar: Sidecar | None

    def put(self, name: str, content: bytes, node: str = "") -> Part:
        """Add a part that is in memory."""

    def stream(self, part: Part, pieces: Iterable[bytes]) -> Part:
        """Add a part piece by piece.

        Raises:
            ApplianceError: what came is not what its source said; it is not in the backup.
        """

    def lacks(self, where: str, what: str, why: str) -> None:
        """Note what the backup does not hold."""

    def finish(self, manifest: Manifest) -> None:
        """End the backup with its manifest, completed by what was added."""


class Store(Protocol):
    """The backups of one place."""

    @property
    def told(self) -> str:
        """The place, as messages name it."""

    def held(self) -> tuple[Held, ...]:
        """Every backup in the place, the oldest first, whole or not."""

    def new(
        self, backup: str, recipients: Sequence[str], moment: float
    ) -> AbstractContextManager[Writer]:
        """Write a backup; it gets its name when the block ends without an error.

        Raises:
            NotHealthy: the place does not hold what was written.
        """

    def fingerprints(self, recipients: Sequence[str]) -> tuple[str, ...]:
        """The fingerprints of public keys."""

    def check(self, backup: str) -> Sidecar:
        """Compare a backup with the file beside it.

        Raises:
            NotHealthy: it is not what was written.
        """

    def beside(self, backup: str) -> Sidecar:
        """What the file beside a backup says.

        Raises:
            NotHealthy: there is none, or it cannot be read.
        """

    def remove(self, backup: str, site: str) -> None:
        """Remove a whole backup of a site.

        Raises:
            NotHealthy, Refused, OSError: it stays.
        """

    def end_removal(self, backup: str, known: Collection[str]) -> bool:
        """Remove what lies beside a backup whose file a killed run removed; whether it is ours.

        Raises:
            Refused, OSError: something is there still.
        """

    def remove_unfinished(self, backup: str) -> bool:
        """Remove what an interrupted run left; whether there was something."""


class Stream(Protocol):
    """What one node sends."""

    def answer(self) -> NodeAnswer:
        """What it says of its parts; waits for it.

        Raises:
            NodeUnreachable: it failed.
        """

    def content(self, size: int) -> Iterator[bytes]:
        """The next so many bytes."""


class LocalFile(Protocol):
    """A file of this machine: the name of its part, its content, or why it has none."""

    @property
    def name(self) -> str:
        """The name of the part."""

    @property
    def content(self) -> bytes:
        """Its content."""

    @property
    def fault(self) -> str:
        """Why it could not be read; empty where it was."""


class Sources(Protocol):
    """Where the parts of a backup come from."""

    def of_node(
        self, node: Node, kinds: Sequence[str], folder: str
    ) -> AbstractContextManager[Stream]:
        """Ask a node for kinds of parts; it begins at once.

        Raises:
            NodeUnreachable: it does not answer.
        """

    def local(self) -> Iterator[LocalFile]:
        """What this machine has."""
