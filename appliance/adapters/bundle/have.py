"""Reads the list of ``bundle have``, and what the services node holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.bundle.lists import read_list, write_list
from appliance.errors import BundleRefused
from appliance.model.bundle.carry.have import HaveList

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired


def read_have(path: Path) -> HaveList:
    """The list in a file.

    Raises:
        BundleRefused: it cannot be read, or is not such a list.
    """
    return read_list(path, HaveList.parse, "bundle have")


def write_have(path: Path, held: HaveList) -> None:
    """Write a list; only an earlier list is replaced.

    Raises:
        Refused: the file is something else, or cannot be written.
    """
    write_list(path, held.text(), read_have)


def mirrored_list(desired: Desired) -> HaveList:
    """The list of the bundle on the services node; ``desired`` has its manifest.

    Raises:
        BundleRefused: the services node has no bundle that this site trusts.
    """
    services = desired.site.services_node.name
    if desired.doubt is not None:
        raise BundleRefused(
            f"{services}: its bundle is not trusted: {desired.doubt.sentence()}",
            hint="put the right one there: appliance install --bundle DIR",
        )
    if desired.manifest is None or desired.bundle_digest is None:
        raise BundleRefused(
            f"{services}: no bundle was found there, expected the one of this site",
            hint="see whether the node answers: appliance status",
        )
    return HaveList.of(desired.manifest, desired.bundle_digest)
