"""The bundle that the site itself holds: read its manifest from the services node.

Whoever is root there wrote it, so it becomes part of the wish only where nothing speaks against it:
see :mod:`appliance.model.custody`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.bundle_signature import judge_signature
from appliance.adapters.known_bundle import read_known
from appliance.errors import ApplianceError, BundleRefused, NodeUnreachable
from appliance.model.bundle import SIGNATURE, BundleManifest
from appliance.model.custody import Doubt, KnownBundle, not_the_known, unsigned
from appliance.model.signature import MOST_BYTES, Signature
from appliance.model.strict_json import Unreadable, read_json

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.desired import Desired

MANIFEST: Final = "/var/lib/appliance/bundle/manifest.json"
_SIGNATURE: Final = f"{MANIFEST}.sig"
_SECONDS: Final = 15


def read_custody(
    desired: Desired, nodes: SshNodes, say: Callable[[str], None] = lambda _sentence: None
) -> Desired:
    """The wish with the manifest in custody; without it when there is none or nobody answers.

    One that is not sound counts as none, and is named. One that is not what was handed over, or
    not signed as the site asks, is not taken either: the wish then holds the doubt, which refuses
    whatever would be changed. A services node stops no command that only looks.
    """
    services = desired.site.services_node
    try:
        answer = nodes.run(
            services,
            f"test -r {MANIFEST} && exec cat {MANIFEST}; exec sudo -n cat {MANIFEST}",
            timeout=_SECONDS,
        )
        if answer.code != 0:
            return desired
        raw = answer.output.encode()
        manifest = BundleManifest.parse(read_json(answer.output))
        digest = hashlib.sha256(raw).hexdigest()
        doubt = _doubt(desired, nodes, raw, digest, say)
    except NodeUnreachable:
        return desired
    except (Unreadable, BundleRefused) as error:
        say(f"{services.name}: {MANIFEST} counts as absent: {error}")
        return desired
    if doubt is not None:
        say(f"{services.name}: the bundle in custody is not taken: {doubt.sentence()}")
        return replace(desired, doubt=doubt)
    return replace(desired, manifest=manifest, bundle_digest=digest)


def _doubt(
    desired: Desired, nodes: SshNodes, raw: bytes, digest: str, say: Callable[[str], None]
) -> Doubt | None:
    """What speaks against a manifest in custody.

    Raises:
        NodeUnreachable: nobody answers any more.
    """
    site = desired.site
    signers = site.settings.bundle_signers
    if signers:
        return unsigned(_signature(desired, nodes, raw, Path(signers)), signers)
    known = read_known(site)
    if known == KnownBundle():
        say(
            f"the bundle in custody on {site.services_node.name} is vouched for by nobody: "
            "site.yml names no bundle_signers, and none was handed over from this site's "
            "directory (known_bundle); to vouch for it: appliance install --bundle DIR"
        )
    return not_the_known(digest, known)


def _signature(desired: Desired, nodes: SshNodes, raw: bytes, allowed: Path) -> Signature:
    """The signature beside the manifest in custody, judged on this machine.

    Raises:
        NodeUnreachable: nobody answers any more.
    """
    answer = nodes.run(
        desired.site.services_node,
        f"test -r {_SIGNATURE} && exec head -c {MOST_BYTES + 1} {_SIGNATURE}; "
        f"exec sudo -n head -c {MOST_BYTES + 1} {_SIGNATURE}",
        timeout=_SECONDS,
    )
    if answer.code != 0:
        return Signature("missing", fault=f"{SIGNATURE}: there is none that can be read")
    try:
        return judge_signature(answer.output.encode(), raw, allowed)
    except ApplianceError as error:
        return Signature("wrong", fault=f"{SIGNATURE}: could not be judged: {error.message}")
