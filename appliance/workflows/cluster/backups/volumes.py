"""Volumes in a backup: which were asked for, whether they can be saved, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from appliance.model.backup.volumes.choice import (
    CHECK,
    Choice,
    MeasuredVolumes,
    choose,
    lines,
    space_needed,
    unfit,
)
from appliance.model.state.plan import Refusal
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.volumes.record import Claim
    from appliance.model.site.settings import Node, Site
    from appliance.workflows.cluster.backups.ports import Stream

_MB: Final = 1000 * 1000


class VolumeSources(Protocol):
    """Claims of the cluster, and the folders of their volumes."""

    def claims(self) -> Sequence[Claim]:
        """Every claim that is bound, and who uses it.

        Raises:
            NodeUnreachable: no API server answers.
            ClusterError: the API refused.
        """

    def measure(self, choice: Choice) -> MeasuredVolumes:
        """How much each folder holds.

        Raises:
            NodeUnreachable: the node does not answer, or not as it should.
        """

    def of_volumes(self, choice: Choice, folder: str) -> AbstractContextManager[Stream]:
        """Ask the node for archives; it begins at once.

        Raises:
            NodeUnreachable: it does not answer.
        """


@dataclass(frozen=True)
class VolumesAsked:
    """What was asked for.

    Attributes:
        names: ``namespace/name`` of each claim that was named.
        everything: every volume on the export of the site.
        free_bytes: in the place for backups; None: nobody knows.
    """

    names: tuple[str, ...] = ()
    everything: bool = False
    free_bytes: int | None = None


@dataclass(frozen=True)
class VolumesPlan:
    """Volumes that will be saved, and what they hold."""

    choice: Choice = field(default_factory=Choice)
    found: MeasuredVolumes = field(default_factory=lambda: MeasuredVolumes({}, 0))

    @property
    def node(self) -> Node | None:
        """Who is asked; None: no volume was asked for."""
        return self.choice.node if self.choice.volumes else None

    def lines(self) -> tuple[str, ...]:
        """What would be saved, in sentences."""
        return lines(self.choice, self.found)


def plan_volumes(site: Site, asked: VolumesAsked, sources: VolumeSources | None) -> VolumesPlan:
    """Choose and measure the volumes that were asked for.

    Raises:
        PreflightFailed: one cannot be saved; nothing was changed.
        NodeUnreachable, ClusterError: the cluster or the node does not answer.
    """
    if sources is None or not (asked.names or asked.everything):
        return VolumesPlan()
    choice = choose(site, sources.claims(), asked.names, everything=asked.everything)
    refuse(choice.refusals)
    if not choice.volumes:
        return VolumesPlan(choice)
    found = sources.measure(choice)
    refuse((*unfit(choice, found), *_of_the_place(asked, found)))
    return VolumesPlan(choice, found)


def _of_the_place(asked: VolumesAsked, found: MeasuredVolumes) -> Sequence[Refusal]:
    needed = space_needed(found)
    if asked.free_bytes is None or asked.free_bytes >= needed:
        return ()
    return (
        Refusal(
            "this machine",
            CHECK,
            f"{asked.free_bytes // _MB} MB free in the place for backups",
            f"{-(-needed // _MB)} MB for the data of volumes",
            "free space there, or name another place: --to PLACE",
        ),
    )
