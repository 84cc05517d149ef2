"""Reads the list of ``bundle have``, and what the services node holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.carry.have import HaveList
from appliance.model.documents.strict_json import MOST_BYTES

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired


def read_have(path: Path) -> HaveList:
    """The list in a file.

    Raises:
        BundleRefused: it cannot be read, or is not such a list.
    """
    try:
        content = read_plain(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        raise BundleRefused(
            f"the list {path} cannot be read: {error.strerror or error}",
            hint="name the file that 'appliance bundle have' wrote",
        ) from error
    return HaveList.parse(content, str(path))


def write_have(path: Path, held: HaveList) -> None:
    """Write a list; only an earlier list is replaced.

    Raises:
        Refused: the file is something else, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        try:
            read_have(path)
        except BundleRefused as error:
            raise Refused(
                f"{path} is there and holds something else; nothing was written",
                hint="name another file with --out",
            ) from error
    try:
        replace_file(path, held.text(), mode=COMMITTABLE)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror or error}",
            hint="name another file with --out",
        ) from error


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
