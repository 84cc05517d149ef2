"""See servers by their BMCs and by SSH, and decide what is done to each; changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, ConfigError
from appliance.model.node.imaging.batch import Course, Rules, course_of
from appliance.model.node.imaging.image import NodeImage, image_of, shared
from appliance.model.node.imaging.wipe import Evidence
from appliance.model.state.facts.identity import identity
from appliance.model.state.nodes.kubeadm_state import api_hosts
from appliance.model.state.plan import Refusal
from appliance.workflows.imaging.request import ImageRequest, ImageResult

if TYPE_CHECKING:
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
    machines = _machines(nodes, session)
    seen = session.nodes.look(nodes)
    rules = Rules(request.wipe, request.site.settings.operating_system, api_hosts(request.site))
    told = {name: one for name, one in machines.items() if not isinstance(one, str)}
    courses: dict[str, Course] = {}
    for name, machine in told.items():
        facts, alive = seen.node_facts.get(name), seen.alive(name)
        evidence = Evidence(name, machine, facts, alive, request.passports, request.unread)
        wanted = images[name].machine_serial
        if wanted is not None and wanted != machine.serial:
            courses[name] = _another_machine(name, wanted, machine.serial)
        else:
            courses[name] = course_of(evidence, images[name], session.notes.read(name), rules)
    return ImageResult(
        courses,
        {name: machine.serial or "" for name, machine in told.items()},
        failures={name: one for name, one in machines.items() if isinstance(one, str)},
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


def _machines(nodes: Sequence[Node], session: Session) -> dict[str, MachineIdentity | str]:
    """Node -> its machine by its BMC, or why there is no answer; all are asked at once."""
    found: dict[str, MachineIdentity | str] = {}

    def ask(node: Node) -> None:
        try:
            with session.driver.open(node) as bmc:
                machine = bmc.machine()
            found[node.name] = identity(machine.serial, machine.uuid)
        except ApplianceError as error:
            found[node.name] = error.message

    threads = [threading.Thread(target=ask, args=(node,), daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LOOK_SECONDS)
    late = "its BMC did not answer in time"
    return {node.name: found.get(node.name, f"{node.name}: {late}") for node in nodes}
