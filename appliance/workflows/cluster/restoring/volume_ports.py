"""What a restore of volumes needs from the outside, as a Protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from appliance.model.backup.record import Part
    from appliance.model.backup.volumes.record import Claim, VolumeRecord
    from appliance.model.backup.volumes.restore import Target
    from appliance.model.backup.volumes.view import VolumesView


class Volumes(Protocol):
    """The volumes of a site, and the node that serves their folders."""

    def claims(self) -> Sequence[Claim]:
        """Every claim that is bound, and who uses it.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused.
        """

    def look(self, key: str, targets: Sequence[Target]) -> VolumesView:
        """What a restore is planned by; nothing changes.

        Raises:
            NodeUnreachable: the node does not answer, or not as it should.
        """

    def load(
        self,
        key: str,
        targets: Sequence[Target],
        one: tuple[VolumeRecord, Part],
        backup: tuple[str, str],
        content: IO[bytes],
    ) -> None:
        """Make a new folder of an archive beside the present one, and compare it.

        Args:
            key: the word of the restore.
            targets: all volumes of it.
            one: what the backup has of this one, and the part with its archive.
            backup: its name, and the sha256 of the encrypted file.
            content: the archive.

        Raises:
            ClusterError: it was not restored as it was saved; the volume is as before.
        """

    def swap(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        """Let the new folders take the names; claim -> the name that keeps what was there.

        Raises:
            ClusterError: it failed; the same command goes on.
        """

    def end(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        """Note that it ended; what is kept, as :meth:`swap` tells it.

        Raises:
            ClusterError: it failed.
        """
