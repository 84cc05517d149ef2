"""Name resolution, proxies and clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from statistics import median_low

from appliance.model.components.base.subject import Subject
from appliance.model.state.findings import Finding

CLOCK_ERROR_SECONDS = 60.0
CLOCK_WARNING_SECONDS = 1.0
# The time from a node's clock reading to its answer: the rest of the probe, and the network.
ANSWER_SECONDS = 10.0


def clock(subject: Subject) -> Iterator[Finding]:
    """Clocks agree, as certificates, join tokens and logins require."""
    apart = _apart(subject)
    if apart is None:
        return
    seconds, reference = apart
    if abs(seconds) > CLOCK_ERROR_SECONDS:
        yield subject.error(
            "clock",
            f"a clock {_apart_words(seconds)} {reference}",
            f"at most {CLOCK_ERROR_SECONDS:.0f} s apart",
            subject.ssh("date --utc") + "; compare with: date --utc",
        )
    elif seconds < -ANSWER_SECONDS or seconds > CLOCK_WARNING_SECONDS:
        yield subject.warning(
            "clock",
            f"a clock {_apart_words(seconds)} {reference}",
            f"at most {CLOCK_WARNING_SECONDS:.0f} s apart",
            subject.ssh("date --utc") + "; compare with: date --utc",
        )


def _apart(subject: Subject) -> tuple[float, str] | None:
    """Return how many seconds this node is ahead, and of which clock."""
    own = subject.facts.epoch
    if own is None:
        return None
    if subject.facts.received_at is not None:
        return own - subject.facts.received_at, "the control host's"
    clocks = [epoch for facts in subject.others.values() if (epoch := facts.epoch) is not None]
    if not clocks:
        return None
    seconds = own - median_low([*clocks, own])
    # Facts of one round are not read at the same moment: ignore a smaller difference.
    return (seconds, "the other nodes'") if abs(seconds) > ANSWER_SECONDS else None


def _apart_words(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"


def time_sync(subject: Subject) -> Iterator[Finding]:
    """The node's time service is chrony, and is close to its source."""
    facts = subject.facts
    offset = facts.at("clock.offset_seconds")
    if offset is not None and abs(offset) > CLOCK_WARNING_SECONDS:
        severity = subject.error if abs(offset) > CLOCK_ERROR_SECONDS else subject.warning
        yield severity(
            "time_sync",
            f"{facts.at('clock.service')} {offset:.1f} s away from {facts.at('clock.source')}",
            f"at most {CLOCK_WARNING_SECONDS:.0f} s",
            subject.ssh("chronyc tracking"),
        )
    elif facts.at("clock.service") in ("ntp", "systemd-timesyncd"):
        yield subject.info(
            "time_sync",
            f"time service {facts.at('clock.service')}",
            "chrony: the install replaces it",
            "nothing to do",
        )


def search_domains(subject: Subject) -> Iterator[Finding]:
    """No search domain resolves every name, which breaks cluster DNS (ndots:5)."""
    wild = [d for d in subject.facts.at("resolver.search") or () if "*" in d]
    for domain in [*wild, *(subject.facts.at("resolver.wildcard") or ())]:
        yield subject.error(
            "search_domains",
            f"the search domain {domain}, in which every name resolves",
            "search domains without a wildcard",
            f"remove {domain} from the node's resolver settings: "
            + subject.ssh("cat /etc/resolv.conf /etc/netplan/*.yaml"),
        )
    count = len(subject.facts.at("resolver.search") or ())
    if count > 3:
        yield subject.warning(
            "search_domains",
            f"{count} search domains",
            "at most 3, because pods get 3 more and Kubernetes before 1.26 allows 6",
            subject.ssh("cat /etc/resolv.conf"),
        )


def dns_servers(subject: Subject) -> Iterator[Finding]:
    """The node uses the site's DNS servers."""
    wanted = [str(server) for server in subject.site.settings.dns_servers]
    used = subject.facts.at("resolver.upstream") or []
    missing = [server for server in wanted if server not in used]
    if missing:
        yield subject.warning(
            "dns_servers",
            f"the DNS servers {', '.join(used) or 'none'}",
            f"{', '.join(wanted)}, as set in site.yml",
            f"correct the node's netplan, or dns_servers in site.yml: {subject.ssh('resolvectl')}",
        )


def names(subject: Subject) -> Iterator[Finding]:
    """Names resolve to the site's addresses; the install adds the others to /etc/hosts.

    The health checks judge the backend's name (``model/checks/health/names.py``).
    """
    expected: dict[str, str] = {
        name: address
        for address, items in subject.desired.host_names.items()
        for name in items
        if name != subject.site.runai_domain
    }
    resolved: Mapping[str, list[str]] = subject.facts.at("resolver.resolves") or {}
    for name, addresses in resolved.items():
        wanted = expected.get(name)
        if wanted and addresses and wanted not in _without_loopback(addresses, wanted):
            yield subject.error(
                "names",
                f"{name} resolving to {', '.join(addresses)}",
                f"{wanted}, as set in site.yml",
                f"correct {name} in the DNS or in the node's /etc/hosts: "
                + subject.ssh(f"getent ahostsv4 {name}"),
            )
        elif wanted and not addresses and subject.site.settings.dns_servers:
            yield subject.warning(
                "names",
                f"{name} not resolving",
                f"{wanted} from the site's DNS servers (the install writes /etc/hosts)",
                f"add {name} to the DNS, because other machines need it",
            )


def _without_loopback(addresses: list[str], wanted: str) -> list[str]:
    """Debian maps a machine's own name to 127.0.1.1, which is equivalent to its address."""
    return [wanted if IPv4Address(a).is_loopback else a for a in addresses]


def proxy(subject: Subject) -> Iterator[Finding]:
    """No proxy intercepts traffic between the nodes, the pods and the services."""
    proxies = subject.facts.at("proxy") or {}
    for where in ("environment", "docker"):
        variables = {key.lower(): str(v) for key, v in (proxies.get(where) or {}).items()}
        used = next((variables[k] for k in ("http_proxy", "https_proxy") if k in variables), None)
        if used is None:
            continue
        missing = list(_not_exempt(subject, variables.get("no_proxy", "")))
        if missing:
            file = (
                "/etc/environment"
                if where == "environment"
                else "/etc/systemd/system/docker.service.d/"
            )
            yield subject.error(
                "proxy",
                f"the proxy {used} in Docker's environment, for {', '.join(missing)} too"
                if where == "docker"
                else f"the proxy {used} in the environment, for {', '.join(missing)} too",
                "no_proxy with the LAN, the pod range, the service range and the site's domain",
                f"add {','.join(missing)} to no_proxy in {file} on {subject.node.name}",
            )
    if proxies.get("apt"):
        yield subject.warning(
            "proxy",
            f"the proxy {proxies['apt']} for apt",
            "packages without a proxy, from the bundle's server",
            subject.ssh("grep -rn Proxy /etc/apt/apt.conf /etc/apt/apt.conf.d"),
        )


def _not_exempt(subject: Subject, no_proxy: str) -> Iterator[str]:
    entries = [entry.strip().lower() for entry in no_proxy.split(",") if entry.strip()]
    if "*" in entries:
        return
    network = subject.site.settings.network
    for wanted in (*subject.site.lan_cidrs, network.pod_cidr, network.service_cidr):
        if not any(_covers(entry, wanted) for entry in entries):
            yield str(wanted)
    domain = subject.site.settings.domain
    hosts = (subject.site.registry_name, subject.site.settings.control_plane_endpoint.name)
    if not all(any(_exempts(entry, host) for entry in entries) for host in hosts):
        yield f".{domain}"


def _covers(entry: str, wanted: IPv4Network) -> bool:
    try:
        return wanted.subnet_of(IPv4Network(entry, strict=False))
    except ValueError:
        return False


def _exempts(entry: str, host: str) -> bool:
    suffix = entry.removeprefix("*").removeprefix(".")
    return host == suffix or host.endswith(f".{suffix}")
