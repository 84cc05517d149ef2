"""The bundle that the site itself holds: read its manifest from the services node."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable
from appliance.model.bundle import BundleManifest

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.desired import Desired

MANIFEST = "/var/lib/appliance/bundle/manifest.json"


def read_custody(desired: Desired, nodes: SshNodes) -> Desired:
    """The wish with the manifest in custody; unchanged when there is none or nobody answers.

    Raises:
        BundleRefused: a manifest is there and is not one.
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
        document = json.loads(answer.output)
    except ValueError:
        return desired
    return replace(
        desired,
        manifest=BundleManifest.parse(document),
        bundle_digest=hashlib.sha256(answer.output.encode()).hexdigest(),
    )
