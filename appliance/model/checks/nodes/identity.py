"""Is this the machine that the site names, and are its identifiers unique?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from appliance.model.components.base.subject import Subject
from appliance.model.components.control_plane.certificates import cure, endings
from appliance.model.components.control_plane.immutable_settings import certificate_names
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import identity_of, likeness
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.kubeadm_state import is_member

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Observed

NO_MAC = {"00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"}


def operating_system(subject: Subject) -> Iterator[Finding]:
    """The node runs the operating system that the release was tested on."""
    seen, expected = subject.facts.operating_system, subject.site.settings.operating_system
    if seen != expected:
        yield subject.error(
            "operating_system",
            seen,
            f"{expected}, as set in site.yml",
            f"install {expected} on {subject.node.name}, or set operating_system in site.yml to "
            "one that the release supports",
        )


def architecture(subject: Subject) -> Iterator[Finding]:
    """The bundle's binaries run on one architecture."""
    manifest = subject.desired.manifest
    expected = manifest.architecture if manifest else "amd64"
    seen = subject.facts.at("os.architecture")
    if seen != expected:
        yield subject.error(
            "architecture",
            seen,
            f"{expected}, the architecture of the bundle",
            f"remove {subject.node.name} from hosts.yml, or use a machine of {expected}",
        )


def init(subject: Subject) -> Iterator[Finding]:
    """Process 1 is systemd, because the services are systemd units."""
    seen = subject.facts.at("os.init")
    if seen != "systemd":
        yield subject.error(
            "init",
            f"{seen} as process 1",
            "systemd",
            subject.ssh("ps -p 1"),
        )


def hostname(subject: Subject) -> Iterator[Finding]:
    """The hostname is the name in hosts.yml, which is also the name in Kubernetes."""
    if subject.facts.hostname != subject.node.name:
        yield subject.error(
            "hostname",
            f"the hostname {subject.facts.hostname}",
            f"{subject.node.name}, its name in hosts.yml",
            subject.ssh(f"sudo hostnamectl set-hostname {subject.node.name}"),
        )


def _same(subject: Subject, what: str, value: Callable[[NodeFacts], str | None]) -> Iterator[str]:
    """Return the other nodes with the same value."""
    own = value(subject.facts)
    if own:
        found = subject.index.names(what, own, lambda facts: (value(facts),))
        yield from (name for name in found if name in subject.others)


def duplicate_hostname(subject: Subject) -> Iterator[Finding]:
    """The hostname is unique: two machines with one name would share a Node object."""
    for other in _same(subject, "hostname", lambda facts: facts.hostname):
        yield subject.error(
            "duplicate_hostname",
            f"the hostname {subject.facts.hostname}, which {other} has too",
            "a hostname of its own",
            subject.ssh(f"sudo hostnamectl set-hostname {subject.node.name}"),
        )


def duplicate_product_uuid(subject: Subject) -> Iterator[Finding]:
    """The product_uuid is unique: Kubernetes identifies machines by it."""
    for other in _same(subject, "product_uuid", lambda facts: facts.product_uuid):
        yield subject.error(
            "duplicate_product_uuid",
            f"product_uuid {subject.facts.at('host.product_uuid')}, which {other} has too",
            "a product_uuid of its own",
            f"check whether {subject.node.name} and {other} are one machine; if not, "
            "correct the system UUID with the vendor's tool: "
            + subject.ssh("sudo cat /sys/class/dmi/id/product_uuid"),
        )


def duplicate_serial(subject: Subject) -> Iterator[Finding]:
    """The DMI serial is unique: one machine must not be two nodes."""
    for other in _same(subject, "serial", lambda facts: facts.serial):
        yield subject.error(
            "duplicate_serial",
            f"DMI serial {subject.facts.serial}, which {other} has too",
            "a machine of its own",
            f"compare the addresses of {subject.node.name} and {other} in host_vars/",
        )


def duplicate_machine_id(subject: Subject) -> Iterator[Finding]:
    """The machine-id is unique: DHCP, the journal and the kubelet rely on it; clones share it."""
    for other in _same(subject, "machine_id", lambda facts: facts.at("host.machine_id")):
        yield subject.error(
            "duplicate_machine_id",
            f"machine-id {subject.facts.at('host.machine_id')}, which {other} has too",
            "a machine-id of its own (was the disk cloned?)",
            subject.ssh("'sudo rm /etc/machine-id && sudo systemd-machine-id-setup'")
            + ", then reboot",
        )


def _macs(facts: NodeFacts) -> Iterator[str]:
    return (str(nic.get("mac")).lower() for nic in facts.items("nics"))


def duplicate_mac(subject: Subject) -> Iterator[Finding]:
    """MACs are unique: two machines with one MAC lose each other's packets."""
    for mac in sorted(subject.macs - NO_MAC):
        for name in subject.index.names("mac", mac, _macs):
            if name not in subject.others:
                continue
            yield subject.error(
                "duplicate_mac",
                f"MAC {mac}, which {name} has too",
                "hardware addresses of its own",
                subject.ssh("ip -br link"),
            )


def expected_mac(subject: Subject) -> Iterator[Finding]:
    """The node has the MAC from host_vars, if there is one."""
    mac = subject.node.mac
    if mac and mac.lower() not in subject.macs:
        yield subject.error(
            "expected_mac",
            f"the MACs {', '.join(sorted(subject.macs)) or 'none'}",
            f"{mac}, as set in host_vars/{subject.node.name}.yml",
            f"check whether {subject.node.ip} is another machine; correct mac or address in "
            f"host_vars/{subject.node.name}.yml",
        )


def newcomers(desired: Desired, observed: Observed) -> frozenset[str]:
    """The machines that an install would let into the cluster, and that nobody has judged yet.

    Those are the empty ones, and those without a Node object. ``node add`` and ``node rejoin``
    have judged the machine that they return. Where there is no cluster, none was accepted into it.
    """
    cluster = observed.cluster
    if isinstance(cluster, NoCluster):
        return frozenset()
    found = set()
    for node in desired.site.cluster_members:
        facts = observed.node_facts.get(node.name)
        if facts is None or facts.kubernetes_untold or node.name in desired.returning:
            continue
        unlisted = isinstance(cluster, Cluster) and node.name not in cluster.nodes
        if unlisted or not is_member(facts):
            found.add(node.name)
    return frozenset(found)


def unread_passports(unread: Mapping[str, str], corrupt: Mapping[str, str]) -> Iterator[Finding]:
    """Nobody knows which machine was accepted under these names.

    Args:
        unread: node -> why the control-plane nodes did not give its passport.
        corrupt: node -> why the passport that they gave is none.
    """
    expected = "the machine that was accepted under this name"
    for node, why in sorted(unread.items()):
        hint = "see what is wrong with the control-plane nodes: appliance status"
        yield Finding(node, "passport", "unseen", why, expected, hint)
    for node, why in sorted(corrupt.items()):
        yield Finding(
            node,
            "passport",
            "error",
            f"a passport that cannot be read ({why})",
            f"the passport of {expected}",
            f"if this is the right machine, accept it: {_accept(node)}",
        )


def _accept(node: str) -> str:
    return f"appliance node add {node} --replace {node}"


def passport(subject: Subject) -> Iterator[Finding]:
    """The machine is the one that was accepted under this name, which may return."""
    known, seen = subject.accepted.get(subject.node.name), identity_of(subject.facts)
    if known and likeness(known, seen) == "another":
        yield subject.error(
            "passport",
            f"a machine with {seen.words()}",
            f"{known.words()}, which was accepted under this name",
            "connect the accepted machine again; or, if this machine replaces it: "
            f"{_accept(subject.node.name)}",
        )


def other_cluster(subject: Subject) -> Iterator[Finding]:
    """The node does not belong to another cluster."""
    if subject.servers and not subject.is_ours:
        yield subject.error(
            "other_cluster",
            f"a member of another cluster ({', '.join(subject.servers)})",
            f"a free machine, or a member of {subject.endpoint_url}",
            "if that cluster is no longer needed: " + subject.ssh("sudo kubeadm reset -f"),
        )


def moved(subject: Subject) -> Iterator[Finding]:
    """The node has the address it was installed with: certificates and etcd contain it."""
    if not (subject.in_control_plane and subject.is_ours):
        return
    sans = certificate_names(subject.facts)
    # Names are missing where the probe timed out; that is no finding.
    if sans and subject.node.ip not in sans:
        old = [name for name in sans if name.replace(".", "").isdigit()]
        yield subject.error(
            "moved",
            f"an API server certificate for {', '.join(old) or 'no address'}: this appliance was "
            "moved",
            f"{subject.node.ip}, the node's address",
            f"give {subject.node.name} its old address again, on the machine and in "
            f"host_vars/{subject.node.name}.yml; addresses are final at install",
        )


def expired_certificates(subject: Subject) -> Iterator[Finding]:
    """No certificate has expired: it would stop the API server, and no install renews it."""
    if not subject.is_ours:
        return
    for ending in endings(subject.facts):
        if ending.left < 0:
            yield subject.error(
                "expired_certificates",
                f"{ending.path} expired on {ending.day}",
                "valid certificates",
                cure(subject.site, subject.node, ending),
            )
