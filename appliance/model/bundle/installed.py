"""The list that ``site packages`` writes: which packages each node of a site has.

It travels from a site to the build machine, where ``bundle build --installed`` reads it: only the
nodes know which packages they have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from appliance.model.bundle.lists import reading_list
from appliance.model.bundle.manifest import PackageName, PackageVersion
from appliance.model.documents.strict_json import MOST_BYTES, Unreadable
from appliance.model.documents.typed_json import Line, NodeName, read_typed

SCHEMA: Final = 1
KIND: Final = "site packages"
MOST_NODES: Final = 1000
MOST_PACKAGES: Final = 20_000
_AGAIN: Final = "write the list again at the site: appliance site packages --out FILE"


@dataclass(frozen=True)
class InstalledPackages:
    """The packages of one node.

    Attributes:
        node: its name.
        kernel: the one that runs, as ``uname -r`` prints it.
        packages: name -> version of completely installed packages of its own architecture.
        held: names on hold.
    """

    node: NodeName
    kernel: Line
    packages: Annotated[Mapping[PackageName, PackageVersion], Field(max_length=MOST_PACKAGES)]
    held: Annotated[tuple[PackageName, ...], Field(max_length=MOST_PACKAGES)] = ()


@dataclass(frozen=True)
class InstalledList:
    """The packages of a site's nodes.

    Attributes:
        os: the operating system of the nodes.
        written: when the nodes were asked, UTC, ISO 8601.
    """

    kind: Literal["site packages"]
    os: Line
    written: Line
    nodes: Annotated[tuple[InstalledPackages, ...], Field(min_length=1, max_length=MOST_NODES)]

    @classmethod
    def parse(cls, content: bytes, name: str) -> InstalledList:
        """Read a list; ``name`` is the file, for the message.

        Raises:
            BundleRefused: it is not a list of this schema, or names a node twice.
        """
        with reading_list(name, KIND, _AGAIN):
            found = read_typed(content, cls, newest_schema=SCHEMA, most_bytes=MOST_BYTES)
            if len({one.node for one in found.nodes}) != len(found.nodes):
                raise Unreadable("nodes: a node is listed twice")
        return found

    def as_json(self) -> dict[str, Any]:
        """The inverse of :meth:`parse`."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "os": self.os,
            "written": self.written,
            "nodes": [
                {
                    "node": one.node,
                    "kernel": one.kernel,
                    "packages": dict(sorted(one.packages.items())),
                    "held": sorted(one.held),
                }
                for one in self.nodes
            ],
        }

    def text(self) -> str:
        """The document as it is written."""
        return json.dumps(self.as_json(), indent=1) + "\n"
