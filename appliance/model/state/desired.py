"""The desired state: a site, a release, and the bundle that contains it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.bundle.mirror import BundleDoubt
    from appliance.model.bundle.release.release import Release
    from appliance.model.bundle.signature import Signature
    from appliance.model.bundle.vendor.bundle import VendorBundle
    from appliance.model.site.settings import Site
    from appliance.model.state.nodes.node_metadata import NodeMetadata


@dataclass(frozen=True)
class Desired:
    """The desired state of one command.

    Attributes:
        manifest: of the given bundle; None when none was given. The planner then uses the
            bundle on the services node, unless there is a doubt.
        bundle_digest: sha256 of the bundle's ``manifest.json``, hex; None without a bundle.
        signature: of the given bundle, checked against the site's ``bundle_signers``; None when
            the site names none, or no bundle was given.
        doubt: why the bundle on the services node is not used; None when it is, or there is none.
        vendor_bundle: the vendor's bundle as it was read; None when there is none.
        vendor_bundle_unread: it exists, and this command did not need to read it.
        vendor_bundle_file: its path in the site, or an empty string.
        backend_certificate: PEM of the backend's certificate that the site brings, or None.
        cluster_values_sha256: of the cluster's values that a person downloaded, or None.
        issuer_ca: PEM of the organisation's CA, which signed for the backend; None: the site's CA.
        registry_ca: PEM of the CA of the organisation's registry; None: the appliance runs its own.
        kept: node -> metadata of its Node object that must be restored.
        returning: nodes whose machine is verified gone or empty: the cluster's members with
            their names are removed, and they join as new ones.
        founded: evidence in the site's own state that it had a cluster, in words; empty where
            there is none, or a new one is requested. Used only to refuse a fresh cluster.
        upgrading: the release to which this very command upgrades; every other is refused then.
        lagging: nodes whose kubelet an upgrade renews later; its version is not judged.
    """

    site: Site
    release: Release
    manifest: BundleManifest | None = None
    bundle_digest: str | None = None
    signature: Signature | None = None
    doubt: BundleDoubt | None = None
    vendor_bundle: VendorBundle | None = None
    vendor_bundle_file: str = ""
    vendor_bundle_unread: bool = False
    backend_certificate: str | None = None
    cluster_values_sha256: str | None = None
    issuer_ca: str | None = None
    registry_ca: str | None = None
    kept: Mapping[str, NodeMetadata] = field(default_factory=dict)
    returning: frozenset[str] = frozenset()
    founded: str = ""
    upgrading: str = ""
    lagging: frozenset[str] = frozenset()

    @property
    def kubernetes_version(self) -> str:
        """With its ``v``, as kubeadm, kubelet and the API print it."""
        return "v" + self.release.versions.kubernetes.removeprefix("v")

    def override(self, role: str, variable: str) -> object | None:
        """The site's exception for one role variable, or None."""
        return self.site.settings.role_overrides.get(role, {}).get(f"{role}_{variable}")

    @cached_property
    def host_names(self) -> Mapping[str, tuple[str, ...]]:
        """Return address -> names that every node must resolve without a DNS server."""
        site = self.site
        domain = site.settings.domain
        names: dict[str, list[str]] = {
            node.ip: [f"{node.name}.{domain}", node.name] for node in site.nodes
        }
        services = names[site.services_node.ip]
        external = site.settings.external_registry
        served = [site.artifacts_name] if external else [site.registry_name, site.artifacts_name]
        services.extend(name for name in dict.fromkeys(served) if name not in services)
        if external and external.address is not None:
            names.setdefault(str(external.address), []).append(site.registry_name)
        endpoint = names.setdefault(str(site.endpoint_address), [])
        if site.settings.control_plane_endpoint.name not in endpoint:
            endpoint.append(site.settings.control_plane_endpoint.name)
        if site.settings.runai and site.settings.runai.own_dns:
            names.setdefault(site.runai_address, []).append(site.runai_domain)
        return {address: tuple(items) for address, items in names.items()}

    @cached_property
    def host_names_as_lists(self) -> Mapping[str, list[str]]:
        """The same in the form of a node's facts, so that whole entries can be compared."""
        return {address: list(names) for address, names in self.host_names.items()}
