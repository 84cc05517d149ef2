"""See servers by their BMCs and by SSH, and decide what is done to each; changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, ConfigError
from appliance.model.node.imaging.batch import Course, Rules, course_of, name_of
from appliance.model.node.imaging.image import NodeImage, image_of, shared
from appliance.model.node.imaging.wipe import Evidence
from appliance.model.state.nodes.kubeadm_state import api_hosts
from appliance.model.state.plan import Refusal
from appliance.workflows.node.imaging.discs import discs_of
from appliance.workflows.node.imaging.qualifying import left_to_qualify
from appliance.workflows.node.imaging.request import ImageRequest, ImageResult

if TYPE_CHECKING:
    from appliance.model.node.bmc.orders import BmcMachine
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.session.session import Session

# What a BMC may take to tell which machine it is of.
LOOK_SECONDS: Final = 90.0


def images_of(site: Site, names: Sequence[str]) -> dict[str, NodeImage]:
    """What each node is to become.

    Raises:
        ConfigError: the site's files lack something, or two nodes are the same server.
    """
    found = {name: image_of(site, site.node(name)) for name in names}
    images = {name: one for name, one in found.items() if isinstance(one, NodeImage)}
    faults = [one for one in found.values() if isinstance(one, str)] + list(shared(images.values()))
    faults += [
        f"host_vars/{name}.yml has no bmc_address"
        for name in names
        if site.node(name).bmc_address is None
    ]
    if faults:
        raise ConfigError(
            f"the site does not say how to install {', '.join(names)}",
            details=list(dict.fromkeys(faults)),
            hint="add what is missing: appliance docs --search imaging",
        )
    return images


def look(request: ImageRequest, session: Session, images: Mapping[str, NodeImage]) -> ImageResult:
    """See each server, and decide.

    Returns:
        What is done to each; those whose BMC tells nothing are its failures.
    """
    nodes = [request.site.node(name) for name in request.nodes]
    machines, media = _machines(nodes, session)
    seen = session.nodes.look(nodes)
    rules = Rules(request.wipe, request.site.settings.operating_system, api_hosts(request.site))
    told = {name: one for name, one in machines.items() if not isinstance(one, str)}
    twins = _twins({name: one.identity for name, one in told.items()})
    courses: dict[str, Course] = {}
    for name, bmc in told.items():
        machine = bmc.identity
        evidence = Evidence(
            name,
            machine,
            seen.node_facts.get(name),
            seen.alive(name),
            request.passports,
            request.unread,
            power=bmc.power or "unknown",
            medium=", ".join(media.get(name, ())),
            host_key_known=seen.host_key_known(name),
        )
        wanted = images[name].machine_serial
        if wanted is not None and wanted != machine.serial:
            courses[name] = _another_machine(name, wanted, machine.serial)
        elif name in twins:
            courses[name] = _twin(name, twins[name], machine)
        else:
            course = course_of(evidence, images[name], session.notes.read(name), rules)
            if course.kind == "done":
                why = left_to_qualify(request, session, name, machine)
                course = replace(course, kind="qualify", why=why) if why else course
            courses[name] = course
    return ImageResult(
        courses,
        {name: one.identity for name, one in told.items()},
        failures={name: one for name, one in machines.items() if isinstance(one, str)},
        media=media,
        answering=frozenset(name for name in told if name in seen.node_facts or seen.alive(name)),
        off=frozenset(name for name, one in told.items() if one.power == "Off"),
    )


def _another_machine(name: str, wanted: str, found: str | None) -> Course:
    """Whatever --wipe names: the inventory's machine is another one."""
    refusal = Refusal(
        name,
        "machine",
        f"its BMC reports the serial {found or 'unknown'}",
        wanted,
        f"correct bmc_address or imaging.machine_serial in host_vars/{name}.yml",
    )
    return Course(name, "refused", refusal.seen, (refusal,))


def _twins(machines: Mapping[str, MachineIdentity]) -> dict[str, str]:
    """Node -> another one whose BMC reports the same machine."""
    found: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, machine in machines.items():
        # An unknown one is refused by itself.
        if known := name_of(machine):
            owner = owners.setdefault(known, name)
            if owner != name:
                found |= {name: owner, owner: name}
    return found


def _twin(name: str, other: str, machine: MachineIdentity) -> Course:
    """Whatever --wipe names: that serial would name two, or one would be installed twice."""
    refusal = Refusal(
        name,
        "machine",
        f"its BMC and that of {other} report the same machine: {machine.words()}",
        "a machine of its own",
        f"correct bmc_address in host_vars/{name}.yml or {other}.yml; two machines that share a "
        "serial are installed each by a command of its own",
    )
    return Course(name, "refused", refusal.seen, (refusal,))


def _machines(
    nodes: Sequence[Node], session: Session
) -> tuple[dict[str, BmcMachine | str], dict[str, tuple[str, ...]]]:
    """Node -> its machine by its BMC, or why there is no answer, and its discs; all at once."""
    found: dict[str, BmcMachine | str] = {}
    media: dict[str, tuple[str, ...]] = {}

    def ask(node: Node) -> None:
        try:
            with session.driver.open(node) as bmc:
                machine = bmc.machine()
                media[node.name] = discs_of(bmc)
                found[node.name] = machine
        except ApplianceError as error:
            found[node.name] = error.message
        except Exception as error:
            # One BMC's fault is no other's.
            found[node.name] = f"{node.name}: its BMC: {type(error).__name__}: {error}"

    threads = [threading.Thread(target=ask, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    # One deadline for all: many that hang hold up no longer than one. Of this machine, not of the
    # session's clock: a join waits by it.
    end = time.monotonic() + LOOK_SECONDS
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = "its BMC did not answer in time"
    machines = {node.name: found.get(node.name, f"{node.name}: {late}") for node in nodes}
    # A thread that is late may still add to its own.
    return machines, dict(media)
