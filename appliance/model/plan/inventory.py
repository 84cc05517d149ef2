"""Site + release + bundle + choice -> the variables of every role, as an Ansible inventory.

Each component says which variables its roles get. Secrets appear as references to
``vault.yml`` (:class:`VaultRef`), never as values; all text is data and no template. A site's
``role_overrides`` come last.
"""

from __future__ import annotations

from typing import Any

from appliance.errors import BundleRefused
from appliance.model.components.base.component import PlannedRun
from appliance.model.plan.components import COMPONENTS
from appliance.model.plan.steps import INSTALL
from appliance.model.site.role_overrides import allowed_overrides
from appliance.model.site.settings import Node, Site
from appliance.model.site.ssh import connection_vars
from appliance.model.site.vault_ref import CA_GROUP, Vars
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice


def run_inventory(
    desired: Desired,
    observed: Observed,
    choice: Choice,
    *,
    bundle_directory: str | None,
) -> dict[str, Any]:
    """The run's inventory: connection, leader, and each role's variables.

    Args:
        desired: with a manifest, from the bundle at hand or from the one on the services node.
        observed: for facts a role must be told (serials, interface names).
        choice: leader and actions, as planned.
        bundle_directory: the bundle on the control host, or None when the mirror is enough.

    Raises:
        BundleRefused: there is no manifest to take versions and digests from.
    """
    manifest = desired.manifest
    if manifest is None:
        raise BundleRefused(
            "there is no --bundle, and the services node has no bundle that the site accepts",
            hint="appliance install --bundle DIR",
        )
    site = desired.site
    run = PlannedRun(desired, observed, choice, manifest, bundle_directory)
    everyone = {**connection_vars(site), **_preflight(desired, observed)}
    groups: dict[str, Vars] = {}
    for component in COMPONENTS:
        everyone |= component.variables(run) if component.variables else {}
        groups |= component.groups(desired) if component.groups else {}
    leader = {choice.leader: None} if choice.leader else {}
    # Ansible reads the file with the CA's key for the nodes of this group.
    groups[CA_GROUP] = {"hosts": dict.fromkeys(node.name for node in site.nodes)}
    return {
        "all": {
            "vars": {**everyone, **allowed_overrides(site.settings.role_overrides)},
            "hosts": {node.name: _of_node(run, node) for node in site.nodes},
            "children": {"appliance_leader": {"hosts": leader}, **groups, **_of_steps(site)},
        }
    }


def _of_node(run: PlannedRun, node: Node) -> Vars:
    found: Vars = {"ansible_host": node.ip}
    for component in COMPONENTS:
        found |= component.node_variables(run, node) if component.node_variables else {}
    return found


def _of_steps(site: Site) -> Vars:
    """Group -> the nodes that a step concerns: none, where the site has no such part.

    With them the plain ``install.yml`` runs for a site without storage, GPUs or Run:ai too.
    """
    return {
        f"appliance_{step.name}": {"hosts": dict.fromkeys(node.name for node in step.nodes(site))}
        for step in INSTALL
        if step.has_playbook
    }


def _preflight(desired: Desired, observed: Observed) -> Vars:
    site = desired.site
    services = site.services_node.ip
    names: dict[str, list[str]] = {}
    for address, known in desired.host_names.items():
        for name in known:
            if "." in name:
                names.setdefault(name, []).append(address)
    return {
        # Who was not seen is left out or in maintenance: nobody has to reach it now.
        "preflight_peers": {
            node.name: node.ip for node in site.nodes if node.name in observed.node_facts
        },
        "preflight_mtu": site.settings.network.mtu,
        "preflight_names": names,
        "preflight_endpoints": [
            f"{services}:{site.artifacts_port}",
            f"{services}:{site.registry_port}",
        ],
    }
