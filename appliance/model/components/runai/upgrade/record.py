"""An upgrade of Run:ai that began, as its record on a node tells it, and the volumes to keep.

Role ``runai_upgrade`` writes the record; the probe reads it. No secret is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts

RETAIN: Final = "Retain"


class ClaimedVolume(NamedTuple):
    """A PersistentVolume that a claim of Run:ai's namespaces is bound to.

    Attributes:
        name: of the volume.
        claim: ``namespace/name`` of the claim.
        policy: its reclaim policy.
    """

    name: str
    claim: str
    policy: str


@dataclass(frozen=True)
class Dump:
    """A dump of the backend's database.

    Attributes:
        path: of the file, which only root reads.
        size: in bytes.
        sha256: of the file.
        tables: how many it creates.
        taken: when it was begun, by the node's clock (epoch); 0 where that was not noted.
    """

    path: str
    size: int
    sha256: str
    tables: int
    taken: float = 0.0


@dataclass(frozen=True)
class BegunUpgrade:
    """What a node holds of an upgrade.

    Attributes:
        source: record of the bundle that was installed before.
        target_sha256: of the vendor bundle to which it leads.
        target_version: its version.
        revisions: release -> its Helm revision before.
        folder: where the dump and the values are.
        dump: the dump, if it is there in full.
        merged: the values of both releases were merged.
        differences: how they change, one line each, without secrets.
        verified: the target was seen to work.
        rolled_back: the releases were taken back.
    """

    source: Mapping[str, Any]
    target_sha256: str
    target_version: str = ""
    revisions: Mapping[str, int] = field(default_factory=dict)
    folder: str = ""
    dump: Dump | None = None
    merged: bool = False
    differences: tuple[str, ...] = ()
    verified: bool = False
    rolled_back: bool = False

    @property
    def source_version(self) -> str:
        """The version before."""
        return str(self.source.get("version") or "")

    def leads_to(self, sha256: str, version: str | None) -> bool:
        """Whether it leads to this vendor bundle, or, while it is open, to one of its version.

        A bundle that was cut off or incomplete is replaced by another file of the same version.
        """
        is_mended = self.is_open and bool(version) and self.target_version == version
        return self.target_sha256 == sha256 or is_mended

    @property
    def is_open(self) -> bool:
        """Whether it neither reached its end nor was taken back."""
        return not (self.verified or self.rolled_back)


def begun_upgrade(facts: NodeFacts | None) -> BegunUpgrade | None:
    """Read the record; None where there is none, or it is not readable."""
    found = facts.at("runai.upgrade") if facts else None
    if not isinstance(found, Mapping) or not found.get("target_sha256"):
        return None
    dump = found.get("dump")
    return BegunUpgrade(
        source=found.get("source") or {},
        target_sha256=str(found["target_sha256"]),
        target_version=str(found.get("target_version") or ""),
        revisions=dict(found.get("revisions") or {}),
        folder=str(found.get("folder") or ""),
        dump=_dump(dump) if isinstance(dump, Mapping) and found.get("dump_is_there") else None,
        merged=found.get("merged") is True,
        differences=tuple(found.get("differences") or ()),
        verified=found.get("verified") is True,
        rolled_back=found.get("rolled_back") is True,
    )


def _dump(found: Mapping[str, Any]) -> Dump | None:
    try:
        return Dump(
            str(found["path"]),
            int(found["bytes"]),
            str(found["sha256"]),
            int(found["tables"]),
            float(found.get("taken") or 0),
        )
    except (KeyError, TypeError, ValueError):
        return None


def way_out(begun: BegunUpgrade, is_begun_by_helm: bool) -> str:
    """What a person does about an upgrade that did not end.

    Args:
        begun: its record, which is open.
        is_begun_by_helm: a release is not as before any more.
    """
    end = (
        f"end it, with any complete vendor bundle of {begun.target_version}: "
        "appliance runai upgrade FILE"
    )
    return end if is_begun_by_helm else f"{end}; or drop it: appliance runai upgrade --abandon"
