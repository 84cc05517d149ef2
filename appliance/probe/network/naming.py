"""Name resolution, time, proxies and firewall: resolver, clock, proxy, firewall."""

from __future__ import annotations

import re
import socket
import time
from functools import partial
from typing import Any, Dict, List, Optional

from ..source import Source

DNS_SECONDS = 2.0
PROXY_NAMES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
OUR_CHAINS = re.compile(
    r"^(APPLIANCE-|KUBE-|DOCKER|FLANNEL|CNI-|LIBVIRT_)|^cali|^(f2b-)?ufw6?-", re.IGNORECASE
)
POD_GUARD = "APPLIANCE-PODS"
OUR_RULE = re.compile(
    r"APPLIANCE-|KUBE-|DOCKER|FLANNEL|flanneld|CNI-|docker0|cni0|flannel\.1|kubernetes|-j ufw6?-"
)


def resolver(source: Source) -> Dict[str, Any]:
    """Return name servers, search domains, static hosts, and the requested names' addresses."""
    nameservers, search, options = _resolv_conf(source, "/etc/resolv.conf")
    stub = nameservers == ["127.0.0.53"]
    upstream = nameservers
    if stub:
        upstream, search, _ = _resolv_conf(source, "/run/systemd/resolve/resolv.conf")
    hosts: Dict[str, List[str]] = {}
    for line in source.lines("/etc/hosts"):
        words = line.split("#")[0].split()
        known = hosts.setdefault(words[0], [])
        known.extend(name for name in words[1:] if name not in known)
    return {
        "nameservers": nameservers,
        "upstream": upstream,
        "stub": stub,
        "search": search,
        "options": options,
        "hosts": hosts,
        "resolves": _resolves(source),
        "wildcard": _wildcard(source, search),
    }


def _resolv_conf(source: Source, name: str) -> Any:
    nameservers: List[str] = []
    search: List[str] = []
    options: List[str] = []
    for line in source.lines(name):
        words = line.split()
        if words[0] == "nameserver":
            nameservers += words[1:2]
        elif words[0] in ("search", "domain"):
            search = words[1:]
        elif words[0] == "options":
            options += words[1:]
    return nameservers, search, options


def _resolves(source: Source) -> Dict[str, List[str]]:
    names = list(source.request.resolve)
    # A name server is another machine: its silence is an observation about it.
    asked = [partial(_addresses, source, name) for name in names]
    answers = source.together(asked, DNS_SECONDS, feeds=())
    if None in answers:
        source.note("names: DNS did not answer in time")
    return {name: answer or [] for name, answer in zip(names, answers)}  # noqa: B905  (3.8)


def _addresses(source: Source, name: str) -> List[str]:
    if not source.live:
        return (source.recorded("resolve-" + name) or "").split()
    try:
        answers = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(answer[4][0]) for answer in answers})


def _wildcard(source: Source, search: List[str]) -> List[str]:
    """Return the search domains in which a nonexistent name resolves."""
    domains = [domain.strip(".") for domain in search if domain.strip(".")]
    names = ["no-such-host-%d.%s" % (int(_now(source)), domain) for domain in domains]
    if not source.live:
        names = ["no-such-host." + domain for domain in domains]
    asked = [partial(_addresses, source, name) for name in names]
    answers = source.together(asked, DNS_SECONDS, feeds=())
    if None in answers:
        source.note("wildcard search domains: DNS did not answer in time")
    return [domain for domain, answer in zip(domains, answers) if answer]  # noqa: B905  (3.8)


def clock(source: Source, services: Dict[str, Any]) -> Dict[str, Any]:
    """Return this node's time and its time service."""
    service = "none"
    for unit, name in (
        ("chrony", "chrony"),
        ("chronyd", "chrony"),
        ("systemd-timesyncd", "systemd-timesyncd"),
        ("ntp", "ntp"),
    ):
        if services.get(unit, {}).get("active") == "active":
            service = name
            break
    found: Dict[str, Any] = {
        "epoch": _now(source),
        "synchronised": None,
        "source": None,
        "offset_seconds": None,
        "stratum": None,
        "service": service,
        "timezone": _timezone(source),
    }
    if service == "chrony":
        found.update(_chrony(source))
    elif service == "systemd-timesyncd":
        found["synchronised"] = source.exists("/run/systemd/timesync/synchronized")
    return found


def _now(source: Source) -> float:
    recorded = source.recorded("epoch")
    return float(recorded) if recorded else round(time.time(), 3)


def _timezone(source: Source) -> Optional[str]:
    named = source.word("/etc/timezone")
    if named:
        return named
    try:
        target = str(source.root.joinpath("etc/localtime").resolve())
    except OSError:
        return None
    return target.partition("/zoneinfo/")[2] or None


def _chrony(source: Source) -> Dict[str, Any]:
    text = source.command("chronyc-tracking", ["chronyc", "-n", "-c", "tracking"], seconds=2)
    fields = (text or "").strip().split(",")
    if len(fields) < 14:
        return {}
    return {
        "synchronised": fields[13] != "Not synchronised",
        "source": fields[1] or fields[0],
        "stratum": int(fields[2]),
        "offset_seconds": float(fields[4]),
    }


def mask(url: str) -> str:
    """Return an address without its password."""
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url)


def proxy(source: Source, docker_environment: str, apt: Dict[str, List[str]]) -> Dict[str, Any]:
    """Proxy settings of the machine, of Docker and of apt; passwords masked."""
    environment: Dict[str, str] = {}
    files = ["/etc/environment"]
    files += ["/etc/profile.d/" + n for n in source.names("/etc/profile.d") if n.endswith(".sh")]
    for file in files:
        for line in source.lines(file):
            match = re.match(r"(?:export\s+)?(\w+)=[\"']?([^\"';]*)[\"']?", line)
            if match and match.group(1).lower() in PROXY_NAMES and match.group(2):
                environment[match.group(1)] = mask(match.group(2))
    docker = {}
    for name, value in re.findall(r"\"?(\w+)=([^\"\s]*)\"?", docker_environment):
        if name.lower() in PROXY_NAMES and value:
            docker[name] = mask(value)
    values = apt.get("Acquire::http::Proxy", []) + apt.get("Acquire::https::Proxy", [])
    used = [mask(value) for value in values if value and value != "DIRECT"]
    return {"environment": environment, "docker": docker, "apt": used[0] if used else None}


def firewall(source: Source, services: Dict[str, Any]) -> Dict[str, Any]:
    """Return firewalls and rules that the appliance does not manage."""
    enabled = any(line.lower() == "enabled=yes" for line in source.lines("/etc/ufw/ufw.conf"))
    loaded = services.get("ufw", {}).get("active") == "active"
    text = source.root_command("iptables-save", ["iptables-save"])
    rules, policies = _foreign_rules(text or "")
    return {
        "ufw_active": enabled and loaded,
        "firewalld_active": services.get("firewalld", {}).get("active") == "active",
        "nftables_active": services.get("nftables", {}).get("active") == "active",
        "iptables_rules_foreign": None if text is None else len(rules),
        "foreign_rules": rules[:10],
        "policies": policies,
        "pod_guard": None if text is None else _pod_guard(text),
    }


def _pod_guard(text: str) -> List[str]:
    """Return the printed rules that keep pods from the shared storage and the registry."""
    found, table = [], ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif table == "mangle" and line.startswith("-A ") and _is_guard(line):
            found.append(line)
    return found


def _is_guard(line: str) -> bool:
    return any(word == POD_GUARD or word.startswith(POD_GUARD + "-") for word in line.split())


def _foreign_rules(text: str) -> Any:
    rules = []
    policies: Dict[str, str] = {}
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy = line[1:].split()[:2]
            if policy != "-" and table == "filter":
                policies[chain] = policy
        elif line.startswith("-A "):
            chain = line.split()[1]
            if not OUR_CHAINS.search(chain) and not OUR_RULE.search(line):
                rules.append("%s: %s" % (table, line))
    return rules, policies
