"""What is asked for: a site, a release, and the bundle that carries it, read as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.bundle import BundleManifest
    from appliance.model.custody import Doubt
    from appliance.model.membership import Belongings
    from appliance.model.release import Release
    from appliance.model.signature import Signature
    from appliance.model.site import Site
    from appliance.model.vendor_bundle import VendorBundle

SYSCTLS: Mapping[str, str] = {
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.ipv4.ip_forward": "1",
}
MODULES: tuple[str, ...] = ("br_netfilter", "overlay")


@dataclass(frozen=True)
class Desired:
    """The wish of one command.

    Attributes:
        manifest: of the bundle at hand; None when none was given. The planner then trusts the
            bundle in custody on the services node, where nothing speaks against it.
        bundle_digest: sha256 of the bundle's ``manifest.json``, hex; None without a bundle.
        signature: of the bundle at hand, checked against the site's ``bundle_signers``; None when
            the site names none, or there is no bundle at hand.
        doubt: why the bundle in custody was not taken; None when it was, or there is none.
        vendor_bundle: the vendor's bundle at hand, as it was read; None when it is not there.
        vendor_bundle_unread: it is there, and this command had no need to read it.
        vendor_bundle_file: where the site says that it is, or an empty string.
        backend_certificate: PEM of the backend's certificate that the site brings, or None.
        cluster_values_sha256: of the cluster's values that a person downloaded, or None.
        issuer_ca: PEM of the organisation's CA, which vouches for the backend; None: the site's.
        kept: node -> what its Node object had, and is to have again.
        returning: nodes whose machine is proved gone or empty: whatever the cluster still holds
            under their names is let go, and they join as new ones.
        founded: what of the site's own state shows that it had a cluster, in words; empty where
            nothing does, or a new one is asked for. Only a refusal of a fresh one rests on it.
    """

    site: Site
    release: Release
    manifest: BundleManifest | None = None
    bundle_digest: str | None = None
    signature: Signature | None = None
    doubt: Doubt | None = None
    vendor_bundle: VendorBundle | None = None
    vendor_bundle_file: str = ""
    vendor_bundle_unread: bool = False
    backend_certificate: str | None = None
    cluster_values_sha256: str | None = None
    issuer_ca: str | None = None
    kept: Mapping[str, Belongings] = field(default_factory=dict)
    returning: frozenset[str] = frozenset()
    founded: str = ""

    @property
    def kubernetes_version(self) -> str:
        """With its ``v``, as kubeadm, kubelet and the API print it."""
        return "v" + self.release.versions.kubernetes.removeprefix("v")

    def override(self, role: str, variable: str) -> object | None:
        """The site's exception for one role variable, or None."""
        return self.site.settings.role_overrides.get(role, {}).get(f"{role}_{variable}")

    @cached_property
    def host_names(self) -> Mapping[str, tuple[str, ...]]:
        """Address -> names every node must know without any DNS server."""
        site = self.site
        domain = site.settings.domain
        names: dict[str, list[str]] = {
            node.ip: [f"{node.name}.{domain}", node.name] for node in site.nodes
        }
        services = names[site.services_node.ip]
        services.extend(
            name for name in (site.registry_name, site.artifacts_name) if name not in services
        )
        endpoint = names.setdefault(str(site.endpoint_address), [])
        if site.settings.control_plane_endpoint.name not in endpoint:
            endpoint.append(site.settings.control_plane_endpoint.name)
        if site.settings.runai and site.settings.runai.own_dns:
            names.setdefault(site.runai_address, []).append(site.runai_domain)
        return {address: tuple(items) for address, items in names.items()}

    @cached_property
    def host_names_as_lists(self) -> Mapping[str, list[str]]:
        """The same in the form that a photograph has: comparing whole entries is quick."""
        return {address: list(names) for address, names in self.host_names.items()}
