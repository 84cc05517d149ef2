"""The bundle that the site itself holds: read its manifest from the services node."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.errors import BundleRefused, NodeUnreachable
from appliance.model.bundle import BundleManifest
from appliance.model.strict_json import Unreadable, read_json

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.desired import Desired

MANIFEST = "/var/lib/appliance/bundle/manifest.json"


def read_custody(
    desired: Desired, nodes: SshNodes, say: Callable[[str], None] = lambda _sentence: None
) -> Desired:
    """The wish with the manifest in custody; unchanged when there is none or nobody answers.

    One that is not sound counts as none, and is named: a services node stops no command by it.
    """
    try:
        answer = nodes.run(
            desired.site.services_node,
            f"test -r {MANIFEST} && exec cat {MANIFEST}; exec sudo -n cat {MANIFEST}",
            timeout=15,
        )
    except NodeUnreachable:
        return desired
    if answer.code != 0:
        return desired
    try:
        manifest = BundleManifest.parse(read_json(answer.output))
    except (Unreadable, BundleRefused) as error:
        say(f"{desired.site.services_node.name}: {MANIFEST} counts as absent: {error}")
        return desired
    return replace(
        desired,
        manifest=manifest,
        bundle_digest=hashlib.sha256(answer.output.encode()).hexdigest(),
    )
