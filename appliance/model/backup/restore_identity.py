"""Whether the nodes are those of the cluster that a backup is of, by their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import CONTROL_PLANE
from appliance.model.backup.restore_view import NodeView
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest
    from appliance.model.site.settings import Node

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
                "take a backup of this cluster, or put the backup's pki back first: "
                "appliance docs recover-the-cluster",
            )
