"""Whether a file, and the nodes by their keys, are of the cluster that is restored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import CONTROL_PLANE, SEE_BACKUPS, SNAPSHOT
from appliance.model.backup.restore_view import NodeView
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.site.settings import Node, Site

CHECK: Final = "restore"
_ACCOUNTS: Final = "/pki/sa.pub"


def of_another_cluster(
    manifest: Manifest, nodes: Sequence[Node], views: Mapping[str, NodeView | str]
) -> Iterator[Refusal]:
    """A site that was installed anew, or a copy of it, has its name, and other keys."""
    keys = {one.sha256 for one in manifest.of_kind(CONTROL_PLANE) if one.name.endswith(_ACCOUNTS)}
    for node in nodes:
        view = views.get(node.name)
        own = view.account_key if isinstance(view, NodeView) else ""
        if keys and own and own not in keys:
            yield Refusal(
                node.name,
                CHECK,
                "another key of service accounts (/etc/kubernetes/pki/sa.pub) than the backup has",
                "the cluster that the backup is of, not one that was installed later",
                "use a backup that was made from this cluster, or put the backup's pki back first: "
                "appliance docs recover-the-cluster",
            )


def of_the_file(
    site: Site, manifest: Manifest, tool_version: str, rehearses: str = ""
) -> Iterator[Refusal]:
    """What of the file itself forbids a restore of this site.

    Args:
        site: that is restored.
        manifest: of the backup.
        tool_version: of this tool.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
    """
    about, settings = manifest.about, site.settings
    if about.site != (rehearses or site.name):
        expected = f"{rehearses}, which this lab is like" if rehearses else site.name
        yield _refusal(about.id, f"a backup of the site {about.site}", expected, SEE_BACKUPS)
    if _numbers(about.tool_version) > _numbers(tool_version):
        yield _refusal(
            about.id,
            f"written by version {about.tool_version} of this tool",
            f"{tool_version} or earlier",
            "take the later tool: appliance self upgrade --bundle DIR",
        )
    endpoint = f"{settings.control_plane_endpoint.name}:{settings.control_plane_endpoint.port}"
    # A lab has its own: what says otherwise is renewed.
    if manifest.endpoint != endpoint and not rehearses:
        yield _refusal(about.id, f"the API at {manifest.endpoint}", endpoint, SEE_BACKUPS)
    if manifest.etcd is None or manifest.part(SNAPSHOT) is None:
        yield _refusal(about.id, "no snapshot of etcd", "one that was restored once", SEE_BACKUPS)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(word) for word in re.findall(r"\d+", version.partition("+")[0]))


def _refusal(node: str, seen: str, expected: str, hint: str) -> Refusal:
    return Refusal(node, CHECK, seen, expected, hint)
