"""Which nodes carry data that only a backup brings back: etcd, the volumes, Run:ai's databases.

Every command that takes nodes out of service or changes them asks this one place. What must not be
here: how old a backup may be (:mod:`appliance.model.backup.freshness`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from appliance.model.site.settings import Site
from appliance.model.site.shared_storage import export_of

DATABASES: Final = "Run:ai's databases"


@dataclass(frozen=True)
class Carried:
    """What one node carries.

    Attributes:
        node: its name.
        etcd: the objects of the cluster, as a member of etcd.
        volumes: the data of volumes, on the NFS export.
        databases: those of Run:ai's backend, whose claims lie on the export.
    """

    node: str
    etcd: bool = False
    volumes: bool = False
    databases: bool = False

    def sentence(self) -> str:
        """The node and what it carries."""
        words = {
            "etcd": self.etcd,
            "the data of volumes": self.volumes,
            DATABASES: self.databases,
        }
        kinds = [word for word, is_there in words.items() if is_there]
        first, last = kinds[:-1], kinds[-1]
        told = f"{', '.join(first)} and {last}" if first else last
        return f"{self.node}, which carries {told}"


def carried_by(site: Site, names: Collection[str]) -> tuple[Carried, ...]:
    """What these nodes carry; one without such data is left out.

    Args:
        site: the site.
        names: of its nodes. An NFS server that is no node of the site is asked for nothing.
    """
    export = export_of(site)
    server = export.node if export is not None else None
    members = {node.name for node in site.control_plane}
    runai = site.settings.runai is not None
    found = []
    for node in site.nodes:
        serves = node == server
        if node.name in names and (serves or node.name in members):
            found.append(Carried(node.name, node.name in members, serves, serves and runai))
    return tuple(found)
