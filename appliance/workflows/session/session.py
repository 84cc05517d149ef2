"""The ports of one command: everything outside that its workflows may need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.model.bundle.vendor.diagnostics import VendorReport
    from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
    from appliance.model.components.runai.upgrade.record import ClaimedVolume
    from appliance.model.node.lost import Workloads
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.disk_history import DiskHistory
    from appliance.workflows.cluster.backups.ports import Sources, Store
    from appliance.workflows.cluster.cleaning.ports import Care
    from appliance.workflows.hardware.qualifying import Qualifying
    from appliance.workflows.node.imaging.ports import FirstContact, Notes, Serving
    from appliance.workflows.node.maintenance.driving import BmcDriver
    from appliance.workflows.session.evidence import Evidence
    from appliance.workflows.session.local_ports import (
        ControlHost,
        Documents,
        RackRecord,
        Records,
        Remaining,
    )
    from appliance.workflows.session.ports import (
        Archive,
        Bmcs,
        Bundle,
        Clock,
        ClusterApi,
        Drain,
        Emptying,
        Etcd,
        JournalPort,
        Jumpboxes,
        Members,
        Nodes,
        Observer,
        Playbooks,
        Power,
        SiteLock,
    )
    from appliance.workflows.session.survey import Preflight
    from appliance.workflows.session.upgrade_evidence import PackageReader, UpgradeEvidence


class _NotGiven:
    """Stands for a port that a command was not given: to use it is a fault of ours."""

    def __init__(self, port: str) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the session was given no {self._port}, and {name} was asked of it")

    def __enter__(self) -> Any:
        return self.__getattr__("with")

    def __exit__(self, *_: object) -> None:
        self.__getattr__("with")

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self.__getattr__("an answer")


def _missing(port: str) -> Any:
    return _NotGiven(port)


@dataclass(frozen=True)
class Session:
    """The ports of one site, for the life of one command. No attribute does network I/O.

    A command is given what its workflow names; the rest fails when it is used.

    Attributes:
        nodes: SSH to the nodes.
        cluster: the Kubernetes API.
        archive: documents on the control-plane nodes.
        journal: of the site; whoever writes into it holds ``lock``.
        lock: lets one changing command at a time have the site; held by ``with``.
        clock: time.
        observer: sees progress.
        control_host: the machine that the command runs on.
        preflight: the checks before the first change, by what that machine has and knows.
        playbooks: Ansible.
        bundle: on the control host; None where none was given.
        handed_over: keeps the digest of the bundle at hand, once the services node holds it.
        members: Node objects, as members come and go.
        etcd: its members.
        bmcs: the nodes' BMCs.
        power: the nodes' power.
        drain: one node's pods and marks.
        emptying: takes pods away from nodes.
        jumpboxes: hosts on which researchers work.
        records: of the site on this machine.
        documents: of the archive that are kept on this machine.
        upgrade_evidence: what an upgrade is judged by before its first change; None: not judged.
        packages: what nodes say of their packages.
        choose_release: writes the release into site.yml, and nothing else there.
        choose_vendor_bundle: likewise the path of Run:ai's bundle.
        run_diagnostics: runs a file of the vendor's own diagnostics, with an image of that name.
        evidence: logs and lists for support.
        read_workloads: what the loss of a node is judged by; asked only when a node may be lost.
        read_claimed_volumes: the volumes of Run:ai's claims, by the Kubernetes API.
        keep_handmade: reads the hand-made settings of nodes, by name, and keeps them for a
            rehearsal.
        driver: orders for the nodes' BMCs.
        serving: serves media and seeds of bare servers.
        contact: the first login to an installed server.
        notes: of servers that are being installed, on this machine.
        qualifying: reads and judges hardware, and keeps the records.
        rack_record: what this machine knows of a rack that was taken down.
        remains: what machines still have of the product.
        try_kubeconfigs: one request with each copy of the administrator's kubeconfig.
        forget_cluster: removes the kubeconfig of a cluster that is gone from this machine.
        care: what fills disks, and its removal.
        read_disks: how full the disks of nodes were at earlier looks, by the node's name.
        backup_store: the backups of one place.
        backup_sources: what nodes and this machine give to a backup.
    """

    nodes: Nodes = field(default=_missing("nodes"), repr=False)
    cluster: ClusterApi = field(default=_missing("cluster"), repr=False)
    archive: Archive = field(default=_missing("archive"), repr=False)
    journal: JournalPort = field(default=_missing("journal"), repr=False)
    lock: SiteLock = field(default=_missing("lock"), repr=False)
    clock: Clock = field(default=_missing("clock"), repr=False)
    observer: Observer = field(default=_missing("observer"), repr=False)
    control_host: ControlHost = field(default=_missing("control_host"), repr=False)
    preflight: Preflight = field(default=_missing("preflight"), repr=False)
    playbooks: Playbooks = field(default=_missing("playbooks"), repr=False)
    bundle: Bundle | None = None
    handed_over: Callable[[str], None] = lambda _digest: None
    members: Members = field(default=_missing("members"), repr=False)
    etcd: Etcd = field(default=_missing("etcd"), repr=False)
    bmcs: Bmcs = field(default=_missing("bmcs"), repr=False)
    power: Power = field(default=_missing("power"), repr=False)
    drain: Drain = field(default=_missing("drain"), repr=False)
    emptying: Emptying = field(default=_missing("emptying"), repr=False)
    jumpboxes: Jumpboxes = field(default=_missing("jumpboxes"), repr=False)
    records: Records = field(default=_missing("records"), repr=False)
    documents: Documents = field(default=_missing("documents"), repr=False)
    evidence: Evidence = field(default=_missing("evidence"), repr=False)
    upgrade_evidence: UpgradeEvidence | None = None
    packages: PackageReader = field(default=_missing("packages"), repr=False)
    choose_release: Callable[[str], None] = field(default=_missing("choose_release"), repr=False)
    choose_vendor_bundle: Callable[[str], None] = field(
        default=_missing("choose_vendor_bundle"), repr=False
    )
    run_diagnostics: Callable[[Path, str | None], VendorReport] = field(
        default=_missing("run_diagnostics"), repr=False
    )
    read_workloads: Callable[[], Workloads] = field(default=_missing("read_workloads"), repr=False)
    read_claimed_volumes: Callable[[], tuple[ClaimedVolume, ...]] = field(
        default=_missing("read_claimed_volumes"), repr=False
    )
    keep_handmade: Callable[[Collection[str]], None] = lambda _names: None
    driver: BmcDriver = field(default=_missing("driver"), repr=False)
    serving: Serving = field(default=_missing("serving"), repr=False)
    contact: FirstContact = field(default=_missing("contact"), repr=False)
    notes: Notes = field(default=_missing("notes"), repr=False)
    qualifying: Qualifying = field(default=_missing("qualifying"), repr=False)
    rack_record: RackRecord = field(default=_missing("rack_record"), repr=False)
    remains: Remaining = field(default=_missing("remains"), repr=False)
    try_kubeconfigs: Callable[[Sequence[Node]], tuple[KubeconfigCopy, ...]] = field(
        default=_missing("try_kubeconfigs"), repr=False
    )
    forget_cluster: Callable[[], None] = field(default=_missing("forget_cluster"), repr=False)
    care: Care = field(default=_missing("care"), repr=False)
    read_disks: Callable[[], Mapping[str, DiskHistory]] = dict
    backup_store: Store = field(default=_missing("backup_store"), repr=False)
    backup_sources: Sources = field(default=_missing("backup_sources"), repr=False)
