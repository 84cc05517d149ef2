"""Which timer the site wants on which node, and what its program is told there.

Planner, verifier, health and the role ask this one place. What must not be here: facts.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from appliance import __version__
from appliance.model.site.groups import CONTROL_PLANE as CONTROL_PLANE_GROUP
from appliance.model.site.recovery.backup_settings import normal_recipient
from appliance.model.site.settings import Node, Site
from appliance.model.state.desired import Desired

BACKUP: Final = "backup"
CERTIFICATES: Final = "certificates"
NAMES: Final = (BACKUP, CERTIFICATES)
AGE: Final = "age"
# Kinds of parts, as backups name them (model/backup/names.py).
ETCD, CONTROL_PLANE, OBJECTS, RUNAI = "etcd", "control_plane", "objects", "runai"
TLS, REGISTRY, STATE = "tls", "registry", "state"
API_PORT: Final = 6443
READY_SECONDS: Final = 180
_ALONE: Final = "this backup was made on {node} without a control host"


def is_asked(site: Site) -> bool:
    """Whether the site says anything of timers."""
    said = (_schedule(site), site.settings.kubernetes.renew_certificates)
    return any(one is not None for one in said)


def _schedule(site: Site) -> Any:
    return site.settings.backup.schedule if site.settings.backup is not None else None


def carrier(site: Site) -> Node | None:
    """The one node that makes backups by a timer; None: the site asks for none.

    The services node, where it is of the control plane: it has the TLS keys and the registry.
    """
    schedule = _schedule(site)
    if schedule is None or not schedule.enabled:
        return None
    services = site.services_node
    return services if services in site.control_plane else site.control_plane[0]


def lacks_age(desired: Desired) -> bool:
    """Whether a schedule is asked for, and the bundle has nothing that encrypts on a node."""
    asked = carrier(desired.site) is not None
    return asked and desired.manifest is not None and not desired.manifest.binary_sha256(AGE)


def settings_on(node: Node, desired: Desired) -> dict[str, dict[str, Any] | None]:
    """Timer -> what its program is told on a node; None: that node has no such timer."""
    return {
        BACKUP: _backup(node, desired),
        CERTIFICATES: _certificates(node, desired),
    }


def calendar(name: str, node: Node, site: Site) -> str:
    """When a timer runs, in the words of systemd (systemd.time(7))."""
    if name == BACKUP:
        schedule = _schedule(site)
        return str(schedule.calendar) if schedule is not None else ""
    renewal = site.settings.kubernetes.renew_certificates
    if renewal is None:
        return ""
    place = [one.name for one in site.control_plane].index(node.name)
    return f"*-*-* {(renewal.hour + place) % 24:02d}:20:00"


def _backup(node: Node, desired: Desired) -> dict[str, Any] | None:
    site, wanted = desired.site, desired.site.settings.backup
    chosen = carrier(site)
    if wanted is None or wanted.schedule is None or chosen is None or chosen.name != node.name:
        return None
    kinds = [ETCD, CONTROL_PLANE, STATE, OBJECTS]
    kinds += [TLS, REGISTRY] if node.name == site.services_node.name else []
    kinds += [RUNAI] if site.settings.runai is not None else []
    recipients = [normal_recipient(one) for one in wanted.recipients]
    endpoint = site.settings.control_plane_endpoint
    return {
        "tool_version": __version__,
        "site": site.name,
        "node": node.name,
        "kinds": kinds,
        "registry": site.settings.registry,
        "recipients": recipients,
        "fingerprints": [
            "SHA256:" + hashlib.sha256(one.encode()).hexdigest() for one in recipients
        ],
        "keep": wanted.schedule.keep,
        "most_gb": wanted.schedule.most_gb,
        "release": desired.release.name,
        "endpoint": f"{endpoint.name}:{endpoint.port}",
        "elsewhere": list(_elsewhere(node, site)),
        "seconds": site.settings.etcd_restore.seconds,
        "memory_mb": site.settings.etcd_restore.memory_mb,
        "calendar": calendar(BACKUP, node, site),
    }


def _elsewhere(node: Node, site: Site) -> list[dict[str, str]]:
    """What a backup of one node cannot have."""
    why = _ALONE.format(node=node.name)
    found = [
        ("this machine", "site", f"{why}: the site's directory and its vault are there"),
        ("this machine", STATE, f"{why}: what was not copied to that node is there"),
    ]
    found += [
        (other.name, CONTROL_PLANE, why) for other in site.control_plane if other.name != node.name
    ]
    if node.name != site.services_node.name:
        found.append((site.services_node.name, f"{TLS}, {REGISTRY}", why))
    return [{"where": where, "what": what, "why": reason} for where, what, reason in found]


def _certificates(node: Node, desired: Desired) -> dict[str, Any] | None:
    site = desired.site
    renewal = site.settings.kubernetes.renew_certificates
    if renewal is None or not renewal.enabled or CONTROL_PLANE_GROUP not in node.groups:
        return None
    return {
        "tool_version": __version__,
        "node": node.name,
        "within_days": renewal.within_days,
        "api_port": API_PORT,
        "ready_seconds": READY_SECONDS,
        "peers": [
            {"node": other.name, "address": other.ip}
            for other in site.control_plane
            if other.name != node.name
        ],
        "calendar": calendar(CERTIFICATES, node, site),
    }
