"""The variables of role ``runai_upgrade``, and the way back by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.components.runai import unmet
from appliance.model.components.runai.checks import UNPACK
from appliance.model.components.runai.upgrade.points import helm_has_begun, record_of
from appliance.model.components.runai.upgrade.record import BegunUpgrade
from appliance.model.site.vault_ref import Vars, VaultRef
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE

if TYPE_CHECKING:
    from appliance.model.components.runai.upgrade.plan import UpgradePlan
    from appliance.model.site.settings import Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed


def upgrade_variables(desired: Desired, observed: Observed, plan: UpgradePlan) -> Vars:
    """The variables of role ``runai_upgrade``, and what other roles are told in this run.

    Raises:
        ValueError: there is no vendor bundle, or no cluster.
    """
    target, cluster = desired.vendor_bundle, observed.cluster
    facts = observed.node_facts.get(plan.node)
    if target is None or target.backend is None or not isinstance(cluster, Cluster):
        raise ValueError("an upgrade needs a vendor bundle with charts, and a cluster")
    begun = record_of(desired, observed)
    begun = begun if begun and begun.is_open else None
    has_begun = helm_has_begun(desired, observed)
    revisions = dict(begun.revisions) if begun and has_begun else _revisions(cluster)
    source = dict(begun.source) if begun else dict(facts.at("runai.bundle") or {}) if facts else {}
    name = f"{UNPACK}/before-{target.version}-{revisions.get(BACKEND_RELEASE, 0)}"
    folder = begun.folder if begun and begun.folder else name
    values = unmet.site_values(desired)
    unpacked = f"{UNPACK}/{target.sha256[:16]}"
    settings = desired.site.settings
    nfs = settings.nfs
    inputs = [settings.registry, desired.site.runai_domain, *desired.site.runai_addresses]
    return {
        "runai_upgrade_source": source,
        "runai_upgrade_target_sha256": target.sha256,
        "runai_upgrade_target_version": target.version or "",
        "runai_upgrade_revisions": revisions,
        "runai_upgrade_folder": folder,
        "runai_upgrade_has_begun": has_begun,
        "runai_upgrade_removes_nginx": plan.hop is not None and plan.hop.removes_nginx,
        "runai_upgrade_backend_chart": f"{unpacked}/{target.backend.path}",
        "runai_upgrade_definitions": f"{unpacked}/{target.crds}" if target.crds else "",
        "runai_upgrade_inputs": [*inputs, *((nfs.server, nfs.path) if nfs else ())],
        "runai_upgrade_backend_values": dict(values[BACKEND_RELEASE]),
        "runai_upgrade_backend_secret_values": VaultRef("vault_runai_values", "{}"),
        "runai_upgrade_cluster_values": dict(values[CLUSTER_RELEASE]),
        "runai_upgrade_cluster_secret_values": VaultRef("vault_runai_cluster_values", "{}"),
        "runai_upgrade_cluster_name": settings.runai.cluster_name if settings.runai else "",
        "runai_cluster_projects_path": f"{folder}/projects.json",
        # The cluster is known; a login shows after the upgrade that the backend still knows it.
        "runai_cluster_is_new": False,
        "runai_cluster_is_unconfirmed": True,
    }


def _revisions(cluster: Cluster) -> dict[str, int]:
    found: dict[str, int] = {}
    for namespace, name in unmet.RELEASES:
        release = cluster.release(namespace, name)
        if release is not None:
            found[name] = release.revision
    return found


def way_back(plan: UpgradePlan, begun: BegunUpgrade | None) -> tuple[str, ...]:
    """The commands that take an upgrade back by hand, in order."""
    if begun is None:
        return ("nothing was changed that has to be taken back",)
    namespaces = {name: namespace for namespace, name in unmet.RELEASES}
    back = [
        f"helm rollback {name} {begun.revisions[name]} --namespace {namespaces[name]}"
        for name in (CLUSTER_RELEASE, BACKEND_RELEASE)
        if name in begun.revisions
    ]
    dump = f"the dump of the database is {begun.dump.path} on {plan.node}" if begun.dump else ""
    return (*back, *((dump,) if dump else ()), "appliance docs upgrade-runai")


def with_vendor_bundle(site: Site, path: str) -> Site:
    """The site with another vendor bundle; one without Run:ai is left as it is."""
    runai = site.settings.runai
    if runai is None:
        return site
    wanted = runai.model_copy(update={"vendor_bundle": path})
    return replace(site, settings=site.settings.model_copy(update={"runai": wanted}))
