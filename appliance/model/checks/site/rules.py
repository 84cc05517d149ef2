"""Checks across the parts of a site: groups, counts, addresses, ranges, endpoint.

Each rule is a function over the draft that yields faults, and becomes a check of stage ``site``. It
yields nothing when a value it needs was itself refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from appliance.model.checks.engine import Check, run_all
from appliance.model.checks.site.access import ACCESS_CHECKS
from appliance.model.checks.site.gpu import GPU_CHECKS, GPU_WARNINGS
from appliance.model.checks.site.network import NETWORK_CHECKS, NETWORK_WARNINGS
from appliance.model.checks.site.runai import RUNAI_CHECKS, RUNAI_WARNINGS
from appliance.model.checks.site.storage import STORAGE_CHECKS
from appliance.model.components.control_plane.log_limits import kubelet_size, whole_number
from appliance.model.site.files.diagnostics import SiteFault, did_you_mean
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.groups import CLUSTER_GROUPS, CONTROL_PLANE, SERVICES, refused_overlaps
from appliance.model.site.role_overrides import OVERRIDABLE, refusal_of
from appliance.model.state.findings import Severity

Rule = Callable[[Draft, KnownContent], Iterator[SiteFault]]


class SiteFiles(NamedTuple):
    """What a rule is asked about."""

    draft: Draft
    known: KnownContent


SiteCheck = Check[SiteFiles, SiteFault]


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
            "add one: a control-plane node or a separate host",
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
            place, "no node is in the group control_plane", "add 1 or 3 nodes"
        )
    elif count % 2 == 0:
        yield hosts.document.fault(
            place,
            f"{count} control-plane nodes: etcd needs a majority of them, and {count} nodes "
            f"tolerate no more failures than {count - 1}",
            "write 1 or 3",
        )
    elif count > 3:
        yield hosts.document.fault(
            place, f"{count} control-plane nodes are not tested", "write 1 or 3"
        )
    elif count == 3 and _balancer(draft) == "none":
        yield draft.fault(
            ("control_plane_endpoint", "balancer"),
            "3 control-plane nodes need a load balancer for the endpoint",
            "write balancer: keepalived, or site if the site has its own balancer",
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
                    f"write a variable that begins with {role}_",
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
                    f"{variable!r} cannot be overridden by a site: the plan sets it or verifies "
                    "its effect",
                    remedy,
                )


def log_limits_are_read(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Docker's limits of logs are the kubelet's on containerd, and must mean something to both."""
    if draft.value is None:
        return
    given = draft.value.role_overrides.get("docker_engine", {})
    for name, read, example in (
        ("docker_engine_log_max_size", kubelet_size, "a size such as 50m"),
        ("docker_engine_log_max_files", whole_number, "a number such as 3"),
    ):
        if name in given and read(given[name]) is None:
            place = ("role_overrides", "docker_engine", name)
            yield draft.fault(place, f"{given[name]!r} is no limit of logs", f"write {example}")


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


FAULTS: Final[tuple[Rule, ...]] = (
    release_fits,
    hardware_is_known,
    groups_fit,
    one_services_node,
    control_plane_counts,
    every_node_has_variables,
    role_overrides_fit,
    log_limits_are_read,
    kubeadm_checks_are_named,
    *ACCESS_CHECKS,
    *GPU_CHECKS,
    *RUNAI_CHECKS,
    *STORAGE_CHECKS,
    *NETWORK_CHECKS,
)


def no_worker(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """A cluster without workers runs nothing but itself."""
    workers = [n for n, g in draft.hosts.groups.items() if g & (CLUSTER_GROUPS - {CONTROL_PLANE})]
    if draft.hosts.groups and not workers:
        yield draft.hosts.document.fault(
            ("all", "children"), "no node is a worker", "add one to gpu_workers"
        )


def no_time_source(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Without the site's NTP servers nobody knows whether the control plane's clock is right."""
    if draft.value is not None and not draft.value.ntp_servers and draft.sound(("ntp_servers",)):
        yield draft.fault(
            ("ntp_servers",),
            "no NTP server: nodes follow the control plane's clock, even if it is wrong",
            "name the site's NTP servers, if there are any",
        )


WARNINGS: Final[tuple[Rule, ...]] = (
    no_worker,
    no_time_source,
    *GPU_WARNINGS,
    *RUNAI_WARNINGS,
    *NETWORK_WARNINGS,
)


def _check(rule: Rule, severity: Severity) -> SiteCheck:
    def look(asked: SiteFiles) -> Iterator[SiteFault]:
        return rule(asked.draft, asked.known)

    return Check(rule.__name__, look, ("site",), severity=severity)


CHECKS: Final[tuple[SiteCheck, ...]] = (
    *(_check(rule, "error") for rule in FAULTS),
    *(_check(rule, "warning") for rule in WARNINGS),
)


def site_faults(draft: Draft, known: KnownContent) -> tuple[SiteFault, ...]:
    """Run every check that refuses; what each document said of itself is not repeated here."""
    return _found(draft, known, "error")


def site_warnings(draft: Draft, known: KnownContent) -> tuple[SiteFault, ...]:
    """What is allowed, and worth a second look."""
    return _found(draft, known, "warning")


def _found(draft: Draft, known: KnownContent, severity: Severity) -> tuple[SiteFault, ...]:
    checks = [check for check in CHECKS if check.severity == severity]
    results = run_all(checks, SiteFiles(draft, known))
    return tuple(fault for result in results for fault in result.findings)
