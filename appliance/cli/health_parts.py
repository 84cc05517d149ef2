"""What the health checks need looked at: gathered here, judged in the model."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.cli.claims_view import recorded_maintenance
from appliance.errors import Refused
from appliance.model.health import Facts, before_change, without_echoes
from appliance.model.health.login import PASSWORD_NAME, is_asked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from appliance.cli.connected import Connected
    from appliance.model.desired import Desired
    from appliance.model.health import Stage
    from appliance.model.observation import Look, PodView
    from appliance.model.postconditions import Observed
    from appliance.model.preflight import Finding
    from appliance.model.site import Site

BUSYBOX = "busybox:"


def before_runai(
    desired: Desired, observed: Observed, found: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    """What a plan has to say of Run:ai before the first change, beside what preflight found."""
    return without_echoes(before_change(_without_pods(desired, observed)), found)


def _without_pods(desired: Desired, observed: Observed) -> Facts:
    """What was seen, with what the control host knows; opening the vault costs a second."""
    from appliance.adapters.backend_certificate import open_vault, read_backend_certificate
    from appliance.adapters.control_host import resolve

    seen, site = Facts(desired, observed), desired.site
    vault = open_vault(site) if seen.runai.certificate or is_asked(seen) else None
    return replace(
        seen,
        control_host=resolve([site.runai_domain]),
        certificate=read_backend_certificate(site, vault),
        clock=time.time(),
        login_known=login_known(site, vault),
    )


def stage_of(site: Site, asked: Stage | None) -> Stage:
    """The stage asked for; else Run:ai where the site asks for that, and the cluster elsewhere.

    Raises:
        Refused: Run:ai is asked about, and the site has no section of that name.
    """
    if site.settings.runai is not None:
        return asked or "runai"
    if asked == "runai":
        raise Refused(
            f"site {site.name} does not ask for Run:ai: site.yml has no section runai",
            hint="add one, at its least 'runai: {}'; the cluster alone: appliance health "
            "--stage cluster",
        )
    return "cluster"


def gather(connected: Connected, *, with_pods: bool) -> tuple[Facts, Look]:
    """One look at everything; pods last, on the nodes that are Ready."""
    from appliance.workflows.survey import observe

    observed, look = observe(connected.wish.site, connected.nodes, connected.cluster)
    facts = _without_pods(connected.wish, observed)
    facts = replace(facts, recorded=recorded_maintenance(connected, observed))
    if not with_pods:
        return facts, look
    return replace(facts, pods=_pods(connected, facts)), look


def login_known(site: Site, vault: Mapping[str, str] | None) -> bool | None:
    """Whether the vault holds the backend's password; None where it is closed, or not there."""
    if vault is None or not site.vault_file.is_file():
        return None
    return bool(vault.get(PASSWORD_NAME, "").strip())


def _pods(connected: Connected, facts: Facts) -> PodView | None:
    """What pods see; None where no cluster, or no image for them, is there."""
    if facts.cluster is None:
        return None
    ready = sorted(name for name, node in facts.cluster.nodes.items() if node.ready)
    image = proof_image(facts)
    if not ready or image is None:
        return None
    site = connected.site
    names = [] if site.settings.runai is None else [site.runai_domain]
    return connected.cluster.look_from_pods(ready, image, names)


def proof_image(facts: Facts) -> str | None:
    """Busybox as the site's registry holds it, by digest."""
    photo = facts.observed.photographs.get(facts.site.services_node.name)
    held = (photo.at("registry.images") if photo else None) or {}
    for image, digest in held.items():
        if image.startswith(BUSYBOX):
            return f"{facts.site.settings.registry}/{image.partition(':')[0]}@{digest}"
    return None
