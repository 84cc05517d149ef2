"""Variables of the roles that step ``runai`` imports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from appliance.errors import ConfigError
from appliance.model.bundle.release.runai_versions import minor_of, trusting
from appliance.model.bundle.vendor.bundle import VendorBundle
from appliance.model.components.runai import address, vendor_defaults
from appliance.model.components.runai.backend_certificate import KEY_NAME
from appliance.model.components.runai.origin import backend_arguments, origins
from appliance.model.components.runai.unmet import site_values, vendor_bundle
from appliance.model.components.runai.vendor_defaults import VendorDefault
from appliance.model.site.files.secrets import push_secret
from appliance.model.site.runai_settings import Access
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars, VaultRef
from appliance.model.state.cluster.cluster import Cluster, RunaiLogins
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE
from appliance.model.state.desired import Desired
from appliance.model.state.nodes.roles import inventory_roles

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.state.observed import Observed


UNPACKED = "/var/lib/appliance/runai"


def variables(run: PlannedRun) -> Vars:
    """Those of the vendor's bundle and of the site's own DNS server."""
    return {
        **_runai(run.desired, run.observed),
        **_dns(run.desired, run.manifest),
        **address.variables(run.desired, run.manifest),
    }


def groups(desired: Desired) -> dict[str, Vars]:
    """The node that gets the vendor's bundle."""
    site = desired.site
    return {"appliance_vendor": {"hosts": {site.vendor_node.name: None}}}


def _runai(desired: Desired, observed: Observed) -> Vars:
    """The bundle as it was read here, or as it is known to be on the node."""
    if desired.site.settings.runai is None:
        return {}
    found = vendor_bundle(desired, observed)
    if found is None:
        return {}
    pushes = [
        {"tag": image.tag, "names": list(image.names), "config": image.config}
        for image in found.contents.images
    ]
    return {
        **_backend(desired, found),
        **_cluster(desired, observed, found),
        "runai_bundle_file": desired.vendor_bundle_file if desired.vendor_bundle else "",
        "runai_bundle_record": {**found.record(), "pushes": pushes},
        "runai_bundle_registry": desired.site.settings.registry,
        **_push_login(desired),
    }


def _push_login(desired: Desired) -> Vars:
    """With what the vendor's script pushes; the organisation's registry may need no login."""
    external, secret = desired.site.settings.external_registry, push_secret(desired.site)
    password = VaultRef(secret) if secret else ""
    found: Vars = {"runai_bundle_registry_password": password}
    if external is None:
        return found
    theirs: Vars = {"runai_bundle_registry_is_ours": False}
    return {**found, **theirs, "runai_bundle_registry_user": external.pusher or ""}


def _dns(desired: Desired, manifest: BundleManifest) -> Vars:
    """The site's own DNS server, which is to be gone where the site has another, or needs none."""
    site = desired.site
    wanted = site.settings.runai
    return {
        "site_dns_enabled": wanted is not None and wanted.own_dns,
        "site_dns_address": site.services_node.ip,
        "site_dns_domain": site.settings.domain,
        "site_dns_hosts": {a: list(names) for a, names in desired.host_names.items()},
        "site_dns_upstream": [str(server) for server in site.settings.dns_servers],
        "site_dns_packages": manifest.packages_of("dns") if wanted else {},
    }


def _backend(desired: Desired, found: VendorBundle) -> dict[str, Any]:
    site, manifest = desired.site, desired.manifest
    wanted = site.settings.runai
    arguments = backend_arguments(desired, found)
    if wanted is None or manifest is None or found.backend is None or not arguments:
        return {}
    if wanted.certificate and not desired.backend_certificate:
        # Without it the role would issue a certificate of the site's CA instead.
        raise ConfigError(
            f"the certificate of Run:ai's backend {wanted.certificate} is not readable, "
            "or holds no PEM certificate",
            hint="copy it there, or correct runai.certificate in site.yml",
        )
    return {
        "runai_backend_domain": site.runai_domain,
        "runai_backend_dns_server": site.services_node.ip if wanted.own_dns else "",
        "runai_backend_addresses": list(site.runai_addresses),
        "runai_backend_registry": site.settings.registry,
        "runai_backend_artifacts_url": f"https://{site.settings.artifacts}",
        "runai_backend_helm_sha256": manifest.binary_sha256("helm"),
        "runai_backend_bundle_dir": f"{UNPACKED}/{found.sha256[:16]}",
        "runai_backend_chart": found.backend.path,
        "runai_backend_deploy": found.deploy,
        "runai_backend_program": found.cli or "",
        "runai_backend_arguments": arguments,
        "runai_backend_origin": origins(desired, found)[BACKEND_RELEASE],
        "runai_backend_ca_certificate": desired.issuer_ca or CA_CERTIFICATE,
        "runai_backend_vendor_defaults": _defaults(vendor_defaults.BACKEND),
        "runai_backend_own_secrets": _own(vendor_defaults.BACKEND),
        "runai_backend_trusting": _trusting(found, "runai-backend"),
        "runai_backend_certificate": desired.backend_certificate or "",
        "runai_backend_certificate_key": VaultRef(KEY_NAME) if wanted.certificate else "",
        "runai_backend_system_nodes": [
            name for name, roles in inventory_roles(site).items() if "system" in roles
        ],
        "runai_backend_values": dict(wanted.values),
        "runai_backend_secret_values": VaultRef("vault_runai_values", "{}"),
    }


def _defaults(known: Iterable[VendorDefault]) -> list[dict[str, Any]]:
    return [{**one._asdict(), "known": list(one.known)} for one in known]


def _own(known: Iterable[VendorDefault]) -> dict[str, VaultRef]:
    """What comes instead; a vault that was made before this product knew of it has none."""
    return {one.secret: VaultRef(one.secret, "''") for one in known}


def _trusting(found: VendorBundle, namespace: str) -> list[dict[str, Any]]:
    """What is given the CA in one namespace, by the version of the bundle."""
    return [
        {"names": one.names, "required": one.required}
        for one in trusting(minor_of(found.version))
        if one.namespace == namespace
    ]


def _are_open(logins: RunaiLogins, access: Access) -> bool:
    """Whether a run is to ask the backend about its logins again."""
    return logins.first_passwords != () or (access.enabled and logins.researchers is not True)


def _cluster(desired: Desired, observed: Observed, found: VendorBundle) -> dict[str, Any]:
    wanted = desired.site.settings.runai
    if wanted is None or found.cluster is None:
        return {}
    cluster = observed.cluster
    release = cluster.release("runai", CLUSTER_RELEASE) if isinstance(cluster, Cluster) else None
    return {
        "runai_cluster_is_new": release is None or release.status != "deployed",
        "runai_cluster_is_unconfirmed": isinstance(cluster, Cluster) and cluster.runai_unconfirmed,
        "runai_cluster_logins_are_open": isinstance(cluster, Cluster)
        and _are_open(cluster.runai_logins, wanted.access),
        "runai_cluster_first_passwords": [
            {"user": user, "known": list(known)}
            for user, known in vendor_defaults.FIRST_LOGINS.items()
        ],
        "runai_cluster_researchers": wanted.access.enabled,
        "runai_cluster_ca_certificate": desired.issuer_ca or CA_CERTIFICATE,
        "runai_cluster_name": wanted.cluster_name,
        "runai_cluster_vendor_defaults": _defaults(vendor_defaults.CLUSTER),
        "runai_cluster_own_secrets": _own(vendor_defaults.CLUSTER),
        "runai_cluster_trusting": _trusting(found, "runai"),
        "runai_cluster_talkers": [
            one.names for one in trusting(minor_of(found.version)) if one.namespace == "runai"
        ],
        "runai_cluster_domain": desired.site.runai_domain,
        "runai_cluster_bundle_dir": f"{UNPACKED}/{found.sha256[:16]}",
        "runai_cluster_chart": found.cluster.path,
        "runai_cluster_origin": origins(desired, found)[CLUSTER_RELEASE],
        "runai_cluster_username": wanted.admin_user,
        # A site may remove it from the vault when it is no longer used.
        "runai_cluster_password": VaultRef("vault_runai_admin_password", "''"),
        "runai_cluster_values": dict(site_values(desired)["runai-cluster"]),
        "runai_cluster_secret_values": VaultRef("vault_runai_cluster_values", "{}"),
        "runai_cluster_values_file": wanted.cluster_values_file or "",
    }
