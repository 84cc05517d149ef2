"""What a restore of Run:ai's databases needs from the outside, as a Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.restoring.database_view import Connection, DatabaseView, Dump, Kept


class Databases(Protocol):
    """Run:ai's databases, on the node with kubectl and helm."""

    def look(self, key: str, sums: Mapping[str, str]) -> DatabaseView:
        """What a restore is planned by; nothing changes.

        Args:
            key: the word of the restore.
            sums: database -> sha256 of its dump in the backup.

        Raises:
            NodeUnreachable: the node does not answer, or not as it should.
        """

    def save(self, key: str, names: Sequence[str], backup: tuple[str, str]) -> Sequence[str]:
        """Dump the present state on the node; the paths.

        Args:
            key: the word of the restore.
            names: of the databases.
            backup: its name, and the sha256 of the encrypted file.

        Raises:
            ClusterError: it failed; nothing else was changed.
        """

    def load(self, key: str, dump: Dump, content: IO[bytes]) -> int:
        """Restore a dump beside its database, and compare it; how many rows it has.

        Raises:
            ClusterError: it was not restored as it was saved; the database is as before.
        """

    def swap(self, key: str, names: Sequence[str]) -> float:
        """Stop what writes, exchange the databases at once, start it again; seconds without Run:ai.

        Raises:
            ClusterError: it failed; what writes was started again.
        """

    def check(self, key: str) -> Connection:
        """Log in, and wait until the backend sees the cluster.

        Raises:
            ClusterError: it does not.
        """

    def end(self, key: str) -> Kept:
        """Let go of what earlier restores kept.

        Raises:
            ClusterError: it failed.
        """
