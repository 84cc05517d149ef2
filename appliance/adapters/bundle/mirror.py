"""The bundle on the services node (the mirror): reads its manifest.

Root on that node may have written the manifest. It becomes part of the desired state only after
the checks of :mod:`appliance.model.bundle.mirror`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.bundle.known import read_known
from appliance.adapters.bundle.signature import judge_signature
from appliance.errors import ApplianceError, BundleRefused, NodeUnreachable
from appliance.model.bundle.manifest import SIGNATURE, BundleManifest
from appliance.model.bundle.mirror import BundleDoubt, KnownBundle, not_the_known, unsigned
from appliance.model.bundle.signature import MOST_BYTES, Signature
from appliance.model.documents.strict_json import Unreadable, read_json

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.state.desired import Desired

MANIFEST: Final = "/var/lib/appliance/bundle/manifest.json"
_SIGNATURE: Final = f"{MANIFEST}.sig"
_SECONDS: Final = 15


def read_mirror(
    desired: Desired, nodes: SshNodes, say: Callable[[str], None] = lambda _sentence: None
) -> Desired:
    """The desired state with the mirror's manifest, if the services node answers and has one.

    An invalid manifest counts as absent and is reported. A manifest that differs from the last
    bundle given, or lacks the required signature, is not used: the desired state then has a
    ``doubt``, and every change is refused. A services node never stops a read-only command.
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
        say(f"{services.name}: {MANIFEST} is ignored: {error}")
        return desired
    if doubt is not None:
        say(f"{services.name}: its bundle is not used: {doubt.sentence()}")
        return replace(desired, doubt=doubt)
    return replace(desired, manifest=manifest, bundle_digest=digest)


def _doubt(
    desired: Desired, nodes: SshNodes, raw: bytes, digest: str, say: Callable[[str], None]
) -> BundleDoubt | None:
    """Why the mirror's manifest is not trusted; None if it is.

    Raises:
        NodeUnreachable: the services node does not answer any more.
    """
    site = desired.site
    signers = site.settings.bundle_signers
    known = read_known(site)
    if signers:
        doubt = unsigned(_signature(desired, nodes, raw, Path(signers)), signers)
        other = not_the_known(digest, known) if doubt is None else None
        if other is not None:
            # Another engineer may have given a newer one, and not committed known_bundle yet.
            say(
                f"the bundle on {site.services_node.name} is signed, but it is not the last one "
                f"given from this site's directory: {other.sentence()}; if nobody has given "
                "another one, somebody put back an older one: appliance install --bundle DIR"
            )
        return doubt
    if known == KnownBundle():
        say(
            f"the bundle on {site.services_node.name} is not verified: site.yml has no "
            "bundle_signers, and this site's directory has no known_bundle; to verify it: "
            "appliance install --bundle DIR"
        )
    return not_the_known(digest, known)


def _signature(desired: Desired, nodes: SshNodes, raw: bytes, allowed: Path) -> Signature:
    """The signature of the mirror's manifest, checked on this machine.

    Raises:
        NodeUnreachable: the services node does not answer any more.
    """
    answer = nodes.run(
        desired.site.services_node,
        f"test -r {_SIGNATURE} && exec head -c {MOST_BYTES + 1} {_SIGNATURE}; "
        f"exec sudo -n head -c {MOST_BYTES + 1} {_SIGNATURE}",
        timeout=_SECONDS,
    )
    if answer.code != 0:
        return Signature("missing", fault=f"{SIGNATURE}: missing or not readable")
    try:
        return judge_signature(answer.output.encode(), raw, allowed)
    except ApplianceError as error:
        return Signature("wrong", fault=f"{SIGNATURE}: could not be checked: {error.message}")
