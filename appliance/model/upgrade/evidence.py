"""What is asked before an upgrade, as plain values; what did not answer says why.

Nothing here asks or judges: adapters fill it, :mod:`appliance.model.upgrade.gates` judges it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from appliance.model.node.drain import Forecast
    from appliance.model.upgrade.handmade.loss import Loss


@dataclass(frozen=True)
class Silence:
    """There is no answer: it was not asked, came too late, or could not be read.

    Attributes:
        reason: what was asked and what came back, in words.
        cure: the next command; empty where the gate knows a better one.
    """

    reason: str
    cure: str = ""


NOT_ASKED: Final = Silence("it was not asked")


@dataclass(frozen=True)
class EtcdStatus:
    """What one member of etcd says of itself.

    Attributes:
        node: the control-plane node that was asked.
        member: its own identity, hexadecimal.
        leader: the identity of the leader that it follows; empty: none.
        revision: of its keyspace.
        size_bytes: of its database.
        alarms: raised for it, e.g. ``NOSPACE``.
    """

    node: str
    healthy: bool
    member: str
    leader: str
    revision: int
    version: str
    size_bytes: int
    alarms: tuple[str, ...] = ()
    learner: bool = False


@dataclass(frozen=True)
class SnapshotProof:
    """A snapshot of etcd that was restored once (``playbooks/module_utils/appliance_etcd_proof``).

    Attributes:
        node: where it lies.
        digest: sha256 over every key, its numbers and its value.
    """

    node: str
    path: str
    sha256: str
    size_bytes: int
    revision: int
    keys: int
    digest: str
    etcd_version: str = ""
    restore_seconds: float = 0.0


@dataclass(frozen=True)
class BundleEvidence:
    """The bundle of the release.

    Attributes:
        faults: what its verification found; empty: every file is as its manifest lists it.
        mirrored: the services node serves it; otherwise the run brings it there first.
        later: it is not needed before the run's pause, so it need not be at hand.
    """

    release: str
    faults: tuple[str, ...] = ()
    mirrored: bool = False
    later: bool = False


@dataclass(frozen=True)
class DeprecatedUse:
    """A deprecated API that somebody asked the API server for since it started.

    Attributes:
        removed_release: the minor version without it, ``1.25``; empty: none is known.
    """

    group: str
    version: str
    resource: str
    removed_release: str

    @property
    def name(self) -> str:
        """``group/version resource``; the core group has no name."""
        return f"{'/'.join(filter(None, (self.group, self.version)))} {self.resource}"


@dataclass(frozen=True)
class Evidence:
    """Everything that is asked.

    Attributes:
        bundles: release of the path -> its bundle.
        absent_images: node -> images of the release that it lacks.
        images_are_loaded: the run loads absent images on every node before anything else.
        etcd: every member's own status, all asked within one look.
        snapshot: the newest one that was restored.
        snapshot_follows: the run makes one before its first change; it is judged again then.
        forecasts: node -> what its eviction will do.
        evicted: the nodes that are emptied; None: every member.
        losses: what kubeadm would silently drop.
        accepted: names of losses that were acknowledged.
        brought: what the kubelet's configuration gets with another container runtime.
        deprecated: of every API server.
        runai: the version of Run:ai; None where the cluster has none.
        window_seconds: the forecast of the window, the worst case.
        runtimes_change: a release of the path has another container runtime than nodes run.
        changing: the nodes whose container runtime changes; None: not known.
        runtime_batches: those nodes that change together, in order.
        runai_runtime: the container runtime in the values of Run:ai's release; empty: they name
            none; None where the cluster has no Run:ai.
        image_bytes: how much the images of every release of the path take, unpacked.
        left_out: nodes that are left out by name.
    """

    bundles: Mapping[str, BundleEvidence | Silence] = field(default_factory=dict)
    absent_images: Mapping[str, tuple[str, ...] | Silence] | Silence = NOT_ASKED
    images_are_loaded: bool = False
    etcd: tuple[EtcdStatus, ...] | Silence = NOT_ASKED
    snapshot: SnapshotProof | Silence = NOT_ASKED
    snapshot_follows: bool = False
    forecasts: Mapping[str, Forecast] | Silence = NOT_ASKED
    evicted: frozenset[str] | None = None
    losses: tuple[Loss, ...] | Silence = NOT_ASKED
    brought: Mapping[str, object] = field(default_factory=dict)
    accepted: frozenset[str] = frozenset()
    deprecated: tuple[DeprecatedUse, ...] | Silence = NOT_ASKED
    runai: str | Silence | None = NOT_ASKED
    runtimes_change: bool = True
    changing: frozenset[str] | None = None
    runtime_batches: tuple[tuple[str, ...], ...] = ()
    runai_runtime: str | Silence | None = NOT_ASKED
    window_seconds: float | Silence = NOT_ASKED
    image_bytes: int | Silence = NOT_ASKED
    left_out: frozenset[str] = field(default_factory=frozenset)
