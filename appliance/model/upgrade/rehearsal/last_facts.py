"""The last facts of a site's nodes, as they are kept on this machine after every look.

An allow-list: what a rehearsal is made from, and nothing that could be a secret. Each part carries
the time at which it was seen; a part that a look did not see keeps its own. What must not be here:
the files (:mod:`appliance.adapters.site.last_facts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from appliance.model.components.gpu.offers import NVIDIA
from appliance.model.documents.typed_json import Line, NodeName, read_typed
from appliance.model.state.cluster.cluster import Cluster, ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.node_metadata import metadata_of
from appliance.model.state.upgrade import mark_of
from appliance.model.support.redaction import redacted
from appliance.model.upgrade.rehearsal.handmade import Handmade

SCHEMA: Final = 1
MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Machine:
    """What a node's own facts say.

    Attributes:
        gpus: device id on PCI -> how many.
        storage_client: what mounts the shared storage.
    """

    seen: Line
    operating_system: Line = ""
    kernel: Line = ""
    vendor: Line = ""
    product: Line = ""
    threads: int = 0
    memory_bytes: int = 0
    gpus: Mapping[Line, int] = field(default_factory=dict)
    storage_client: Line = ""


@dataclass(frozen=True)
class Member:
    """What its Node object says.

    Attributes:
        kubelet: its version, e.g. ``v1.23.5``.
        runtime: with its version, e.g. ``docker://20.10.24``.
        labels: the operator's and Run:ai's.
        taints: ``key=value:effect``, likewise.
    """

    seen: Line
    kubelet: Line = ""
    runtime: Line = ""
    unschedulable: bool = False
    labels: Mapping[Line, Line] = field(default_factory=dict)
    taints: tuple[Line, ...] = ()


@dataclass(frozen=True)
class HandmadeSettings:
    """The hand-made settings of a node, or of the cluster as a whole."""

    seen: Line
    settings: tuple[Handmade, ...] = ()


@dataclass(frozen=True)
class LastFacts:
    """What is kept of one node; None: that part was never seen."""

    node: NodeName
    machine: Machine | None = None
    member: Member | None = None
    handmade: HandmadeSettings | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class LastCluster:
    """What is kept of the cluster as a whole.

    Attributes:
        version: of the API server.
        upgrading: what is under way, in words; empty: no upgrade is.
    """

    seen: Line = ""
    version: Line = ""
    upgrading: Line = ""
    handmade: HandmadeSettings | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"schema": SCHEMA, **asdict(self)}


def read_last_facts(content: str | bytes) -> LastFacts:
    """Read what is kept of a node.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is no such document.
    """
    return read_typed(content, LastFacts, newest_schema=SCHEMA, most_bytes=MOST_BYTES)


def read_last_cluster(content: str | bytes) -> LastCluster:
    """Read what is kept of the cluster.

    Raises:
        NewerSchema: a later version wrote it.
        Unreadable: it is no such document.
    """
    return read_typed(content, LastCluster, newest_schema=SCHEMA, most_bytes=MOST_BYTES)


def machine_of(facts: NodeFacts, seen: str) -> Machine:
    """What is kept of a node's facts."""
    gpus: dict[str, int] = {}
    for gpu in facts.items("gpus"):
        if gpu.get("vendor_id") == NVIDIA:
            name = _line(gpu.get("device_id"))
            gpus[name] = gpus.get(name, 0) + 1
    return Machine(
        seen,
        operating_system=_line(facts.operating_system),
        kernel=_line(facts.at("os.kernel")),
        vendor=_line(facts.at("dmi.vendor")),
        product=_line(facts.at("dmi.product")),
        threads=_count(facts.at("cpu.threads")),
        memory_bytes=_count(facts.at("memory.total_bytes")),
        gpus=gpus,
        storage_client=_line(facts.at("storage.client")),
    )


def member_of(node: ClusterNode, seen: str) -> Member:
    """What is kept of a Node object."""
    own = metadata_of(node)
    return Member(
        seen,
        kubelet=_line(node.version),
        runtime=_line(node.runtime),
        unschedulable=node.unschedulable,
        labels=_public({_line(key): _line(value) for key, value in own.labels.items()}),
        taints=tuple(line for taint in own.taints if _is_public(line := _line(taint))),
    )


def cluster_of(cluster: Cluster, seen: str) -> LastCluster:
    """What is kept of a cluster, but for its hand-made settings."""
    mark = mark_of(cluster)
    under_way = mark is not None and not mark.over
    words = _line(mark.sentence()) if mark is not None and under_way else ""
    return LastCluster(seen, _line(cluster.version), words)


def _public(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels without those that look like a secret."""
    told = redacted(dict(labels))
    return {key: value for key, value in labels.items() if told.get(key) == value}


def _is_public(taint: str) -> bool:
    """Whether neither name nor value of ``key=value:effect`` looks like a secret."""
    key, _, rest = taint.partition("=")
    value = {key: rest.rpartition(":")[0] or rest}
    return bool(redacted(value) == value and redacted(taint) == taint)


def _line(value: object) -> str:
    text = "" if value is None else str(value)
    return "".join(c for c in text[:1000] if c.isprintable())


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
