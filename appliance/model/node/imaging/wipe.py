"""The wipe guard: may a server be installed, so that all on its disk is gone?

Only a server of which nothing shows that it is somebody's. What could not be read counts as
somebody's. ``--wipe SERIAL`` names the one machine that may be wiped all the same. The installer
guards once more, on the machine: a disk that is not empty is refused there, whatever was seen here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from appliance.model.state.facts.identity import MachineIdentity, identity_of, likeness
from appliance.model.state.nodes.kubeadm_state import kubeadm_signs, servers_of
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.node.baseline import Passport
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.state.facts.facts import NodeFacts

# Where an operating system's own parts are mounted; a device at any other place holds data.
SYSTEM_MOUNTS: Final = ("/", "/boot", "/boot/efi", "/var", "/home", "/tmp", "/snap")  # noqa: S108
_PER_MACHINE: Final = ("/run/", "/snap/", "/var/lib/kubelet/", "/var/lib/docker/")


@dataclass(frozen=True)
class Evidence:
    """What is known of the machine behind a node's name.

    Attributes:
        machine: as its BMC reports it.
        facts: of what answers at the node's address by SSH; None where nothing gave facts.
        alive: why something that answers there gave no facts; empty where nothing answers.
        host_key_known: what answers there, and gave no facts, has a host key that was confirmed.
        passports: node -> passport, as far as the site has any.
        unread: why the passports of a site that has a cluster could not be read; else empty.
        unfinished: an earlier run of this command stopped while it wrote this very disk.
        power: as its BMC reports it.
        known: the site's files, or an earlier run, say that it is this very machine.
        medium: what is inserted as a disc at its BMC, in words; empty: nothing, or our own.
    """

    name: str
    machine: MachineIdentity
    facts: NodeFacts | None = None
    alive: str = ""
    passports: Mapping[str, Passport] | None = None
    unread: str = ""
    unfinished: bool = False
    power: str = ""
    known: bool = False
    medium: str = ""
    host_key_known: bool = False


_ALONE: Final = (
    "ask who else installs servers, and wait for them; a medium that is left over: eject it on the "
    "BMC's web page; "
)


def never_refusals(evidence: Evidence) -> tuple[Refusal, ...]:
    """Why the server is not installed whatever ``--wipe`` names: the inventory means another one.

    Its disk is chosen by a serial of the inventory, but its power would be cut all the same.
    """
    files = f"host_vars/{evidence.name}.yml"
    if not (evidence.machine.serial or evidence.machine.uuid):
        seen, hint = "its BMC reports neither serial nor UUID", "update the BMC, or restart it"
        return (Refusal(evidence.name, "machine", seen, "a machine that is known again", hint),)
    for node, passport in (evidence.passports or {}).items():
        if node != evidence.name and likeness(passport.machine, evidence.machine) == "same":
            seen = f"this machine is node {node} of this site"
            hint = f"correct bmc_address in {files}; or remove {node} from the site first"
            return (Refusal(evidence.name, "passport", seen, f"node {evidence.name}", hint),)
    return ()


def wipe_refusals(
    evidence: Evidence, wipe: Collection[str], api_hosts: Collection[str]
) -> tuple[Refusal, ...]:
    """Why the server may not be installed; empty where it may.

    Args:
        evidence: of the machine.
        wipe: serials of the machines that may be wiped.
        api_hosts: names and addresses of this site's API, to tell members of another site.
    """
    serial = evidence.machine.serial
    if serial is not None and serial in wipe:
        return ()
    found = [*_of_passports(evidence), *_of_what_answers(evidence, api_hosts)]
    if evidence.medium:
        found.append(("medium", f"{evidence.medium}: another command may be installing it"))
    option = f"--wipe {serial}" if serial else "--wipe SERIAL, once its BMC reports a serial"
    hint = f"to erase its disk all the same, add to the command: {option}"
    known = f"if it is the one that you mean, write into host_vars/{evidence.name}.yml imaging."
    known += f"machine_serial: {serial or 'SERIAL'}, or switch it off; else correct bmc_address; "
    return tuple(
        Refusal(
            evidence.name,
            check,
            seen,
            "a server that nobody uses",
            known + hint if check == "power" else _ALONE + hint if check == "medium" else hint,
        )
        for check, seen in found
    )


def _of_passports(evidence: Evidence) -> list[tuple[str, str]]:
    """Which accepted machine it is. Its own passport is no matter while it is unfinished."""
    if evidence.unread and evidence.facts is None:
        return [("passport", f"unknown: {evidence.unread}")]
    found = []
    for node, passport in (evidence.passports or {}).items():
        same = likeness(passport.machine, evidence.machine) in ("same", "nics")
        if same and node != evidence.name:
            found.append(("passport", f"this machine is node {node} of this site"))
        elif node == evidence.name and not evidence.unfinished and evidence.facts is None:
            found.append(("passport", f"{node} was accepted, and does not answer"))
    return found


def _of_what_answers(evidence: Evidence, api_hosts: Collection[str]) -> list[tuple[str, str]]:
    if evidence.alive:
        return [("SSH", f"a machine answers, and cannot be read: {evidence.alive}")]
    facts = evidence.facts
    if facts is None:
        # A wrong bmc_address is the BMC of a machine that works, at an address that is not asked.
        on = evidence.power not in ("", "Off") and not evidence.known
        seen = "it is on, does not answer at the node's address, and may be another machine"
        return [("power", seen)] if on else []
    found = []
    if likeness(identity_of(facts), evidence.machine) == "another":
        words = identity_of(facts).words()
        found.append(("address", f"another machine has the node's address: {words}"))
    found += _of_kubernetes(facts, api_hosts)
    if facts.at("mounts") is None:
        found.append(("data disk", "unknown: the probe read no mounts"))
    elif data := data_mounts(facts):
        found.append(("data disk", f"mounted: {', '.join(data)}"))
    if not found:
        found.append(("system", f"an operating system runs: {facts.operating_system}"))
    return found


def _of_kubernetes(facts: NodeFacts, api_hosts: Collection[str]) -> list[tuple[str, str]]:
    if not isinstance(facts.at("kubernetes"), Mapping):
        return [("kubelet", "unknown: the probe read nothing of Kubernetes")]
    found = []
    if facts.at("kubernetes.kubelet_active"):
        found.append(("kubelet", "it runs"))
    servers = servers_of(facts)
    foreign = [one for one in servers if urlsplit(one).hostname not in api_hosts]
    if foreign:
        found.append(("site", f"it is a member of another site: {foreign[0]}"))
    elif servers and not found:
        found.append(("kubelet", f"it is a member of {servers[0]}"))
    if signs := kubeadm_signs(facts):
        found.append(("kubeadm", signs))
    return found


def data_mounts(facts: NodeFacts) -> tuple[str, ...]:
    """Mount points of devices and shares that are no part of an operating system."""
    return tuple(
        mount
        for entry in facts.items("mounts")
        if (mount := str(entry.get("mount", ""))) not in SYSTEM_MOUNTS
        and not mount.startswith(_PER_MACHINE)
    )


def differences(image: NodeImage, facts: NodeFacts, operating_system: str) -> tuple[str, ...]:
    """How an answering machine differs from what it is to become; empty: it is installed."""
    found = []
    if facts.hostname != image.name:
        found.append(f"hostname {facts.hostname}, expected {image.name}")
    if facts.operating_system != operating_system:
        found.append(f"{facts.operating_system}, expected {operating_system}")
    addresses = [str(one) for nic in facts.items("nics") for one in nic.get("addresses") or ()]
    if str(image.address) not in addresses:
        found.append(f"no address {image.address}")
    return tuple(found)
