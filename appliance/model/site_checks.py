"""What the parts of a site say together: groups, counts, addresses, ranges, endpoint.

Each check is a function over the draft that yields faults; the list of them is the check. A check
says nothing when a value it needs was itself refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from appliance.model.groups import (
    CLUSTER_GROUPS,
    CONTROL_PLANE,
    SERVICES,
    refused_overlaps,
)
from appliance.model.role_overrides import OVERRIDABLE, refusal_of
from appliance.model.site_access import ACCESS_CHECKS
from appliance.model.site_draft import Draft, KnownContent
from appliance.model.site_faults import SiteFault, did_you_mean
from appliance.model.site_gpu import GPU_CHECKS
from appliance.model.site_network import NETWORK_CHECKS, NETWORK_WARNINGS
from appliance.model.site_storage import STORAGE_CHECKS

Check = Callable[[Draft, KnownContent], Iterator[SiteFault]]


def release_fits(draft: Draft, known: KnownContent) -> Iterator[SiteFault]:
    """The release exists and is tested on the operating system."""
    value = draft.value
    if value is None or not draft.sound(("appliance_release",)):
        return
    systems = known.releases.get(value.appliance_release)
    if systems is None:
        yield draft.fault(
            ("appliance_release",),
            f"the release {value.appliance_release!r} is unknown",
            did_you_mean(value.appliance_release, known.releases),
        )
    elif draft.sound(("operating_system",)) and value.operating_system not in systems:
        yield draft.fault(
            ("operating_system",),
            f"{value.appliance_release} is not tested on {value.operating_system!r}",
            did_you_mean(value.operating_system, systems),
        )


def hardware_is_known(draft: Draft, known: KnownContent) -> Iterator[SiteFault]:
    """Each hardware model has its file."""
    for name, node in draft.nodes.items():
        settings = node.checked.value
        if name not in draft.hosts.groups or settings is None or settings.hardware is None:
            continue
        if settings.hardware not in known.hardware:
            yield node.document.fault(
                ("hardware",),
                f"the hardware model {settings.hardware!r} is unknown",
                did_you_mean(settings.hardware, known.hardware),
            )


def groups_fit(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """No node is in two groups that exclude each other."""
    shared = draft.value is not None and draft.value.system_nodes_shared
    for name, groups in draft.hosts.groups.items():
        for one, other, rule in refused_overlaps(groups, system_nodes_shared=shared):
            remedy = f"keep it in one of them ({rule.reason})"
            if rule.needs_setting:
                remedy = f"keep it in one, or write {rule.needs_setting}: true in site.yml"
            yield draft.hosts.document.fault(
                ("all", "children", other, "hosts", name),
                f"{name!r} is in {one} and in {other}",
                remedy,
            )


def one_services_node(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Exactly one host serves the bundle and the registry."""
    hosts = draft.hosts
    if not hosts.members:
        return
    names = hosts.members.get(SERVICES, ())
    if not names:
        yield hosts.document.fault(
            hosts.group_place(SERVICES),
            "no node is in the group services",
            "put one there, a control-plane node or a host of its own",
        )
    for name in names[1:]:
        yield hosts.document.fault(
            (*hosts.group_place(SERVICES), "hosts", name),
            f"{name!r} is a second services node beside {names[0]!r}",
            "keep one: the bundle and the registry live on a single host",
        )


def control_plane_counts(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """One or three control-plane nodes, and three have a balancer."""
    hosts = draft.hosts
    if not hosts.members:
        return
    count = len(hosts.members.get(CONTROL_PLANE, ()))
    place = hosts.group_place(CONTROL_PLANE)
    if count == 0:
        yield hosts.document.fault(
            place, "no node is in the group control_plane", "put 1 or 3 nodes there"
        )
    elif count % 2 == 0:
        yield hosts.document.fault(
            place,
            f"{count} control-plane nodes: etcd needs more than half of them alive, so {count} "
            f"bear no more failures than {count - 1}, and fail twice as readily",
            "write 1 or 3",
        )
    elif count > 3:
        yield hosts.document.fault(
            place, f"{count} control-plane nodes have never been tested", "write 1 or 3"
        )
    elif count == 3 and _balancer(draft) == "none":
        yield draft.fault(
            ("control_plane_endpoint", "balancer"),
            "3 control-plane nodes need something that leads the endpoint to a living one",
            "write balancer: keepalived, or site when the site has its own",
        )


def _balancer(draft: Draft) -> str | None:
    if draft.value is None or not draft.sound(("control_plane_endpoint", "balancer")):
        return None
    return draft.value.control_plane_endpoint.balancer


def every_node_has_variables(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Each host has a host_vars file, and each such file its host."""
    for name, place in draft.hosts.places.items():
        if name not in draft.nodes:
            yield draft.hosts.document.fault(
                place,
                f"{name!r} has no host_vars/{name}.yml",
                f"write it, with address: and hardware: of {name}",
            )
    for name, node in draft.nodes.items():
        if draft.hosts.groups and name not in draft.hosts.groups:
            yield node.document.fault(
                (), f"{name!r} is not in hosts.yml", did_you_mean(name, draft.hosts.groups)
            )


def role_overrides_fit(draft: Draft, known: KnownContent) -> Iterator[SiteFault]:
    """Each exception names a role and a variable of that role that a site may override."""
    if draft.value is None:
        return
    for role, variables in draft.value.role_overrides.items():
        place = ("role_overrides", role)
        if known.roles and role not in known.roles:
            yield draft.fault(
                place, f"the role {role!r} is unknown", did_you_mean(role, known.roles)
            )
            continue
        for variable in variables:
            remedy = refusal_of(role, variable)
            if remedy is None:
                continue
            public = known.roles.get(role, frozenset())
            if not variable.startswith(f"{role}_"):
                yield draft.fault(
                    (*place, variable),
                    f"{variable!r} is not a variable of the role {role}",
                    f"write one whose name begins with {role}_",
                )
            elif public and variable not in public:
                yield draft.fault(
                    (*place, variable),
                    f"{variable!r} is not a variable of the role {role}",
                    did_you_mean(variable, OVERRIDABLE.get(role, public)),
                )
            else:
                yield draft.fault(
                    (*place, variable),
                    f"{variable!r} is not the site's to override: the plan sets it, or proves "
                    "what depends on it",
                    remedy,
                )


def kubeadm_checks_are_named(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Ignoring every check of kubeadm at once is not offered."""
    if draft.value is None:
        return
    for index, name in enumerate(draft.value.kubernetes.ignore_preflight_errors):
        if name.lower() == "all":
            yield draft.fault(
                ("kubernetes", "ignore_preflight_errors", index),
                "'all' would hide every check of kubeadm",
                "name the checks this site fails, such as [NumCPU]",
            )


CHECKS: Final[tuple[Check, ...]] = (
    release_fits,
    hardware_is_known,
    groups_fit,
    one_services_node,
    control_plane_counts,
    every_node_has_variables,
    role_overrides_fit,
    kubeadm_checks_are_named,
    *ACCESS_CHECKS,
    *GPU_CHECKS,
    *STORAGE_CHECKS,
    *NETWORK_CHECKS,
)


def site_faults(draft: Draft, known: KnownContent) -> tuple[SiteFault, ...]:
    """Run every check; what each document said of itself is not repeated here."""
    return tuple(fault for check in CHECKS for fault in check(draft, known))


def no_worker(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """A cluster without workers runs nothing but itself."""
    workers = [n for n, g in draft.hosts.groups.items() if g & (CLUSTER_GROUPS - {CONTROL_PLANE})]
    if draft.hosts.groups and not workers:
        yield draft.hosts.document.fault(
            ("all", "children"), "no node is a worker", "put one into gpu_workers"
        )


def no_time_source(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Without the site's NTP servers nobody knows whether the control plane's clock is right."""
    if draft.value is not None and not draft.value.ntp_servers and draft.sound(("ntp_servers",)):
        yield draft.fault(
            ("ntp_servers",),
            "no NTP server: the control plane's clock is the time of the appliance, right or wrong",
            "name the site's NTP servers when it has some",
        )


WARNINGS: Final[tuple[Check, ...]] = (no_worker, no_time_source, *NETWORK_WARNINGS)


def site_warnings(draft: Draft, known: KnownContent) -> tuple[SiteFault, ...]:
    """What is allowed, and worth a second look."""
    return tuple(fault for check in WARNINGS for fault in check(draft, known))
