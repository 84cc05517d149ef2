"""What Docker leaves on nodes whose pods containerd runs: where, how much, and what may go."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appliance.model.components.base.subject import size
from appliance.model.site.settings import Site
from appliance.model.site.ssh import connection_vars
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.plan import Refusal

# Before an image's name, where it is given up by --accept-loss.
IMAGE: Final = "docker-image."
CHECK: Final = "docker"
OWN_FOLDER: Final = "/var/lib/docker"
# An image's name as Docker takes it. A node that tells another one could slip a template into the
# inventory of a play on the control host.
_REFERENCE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,299}")
GROUP = "appliance_docker_removal"


@dataclass(frozen=True)
class Leftover:
    """Docker's data on one node that does not use it any more.

    Attributes:
        count: bytes of its data; None where counting took too long.
        wanted: the vendor's script of Run:ai runs here, and needs Docker.
        images: names of images that neither containerd nor the site's registry has; None: unknown.
        elsewhere: the folder of its data, where that is not Docker's own; empty: it is.
    """

    node: str
    count: int | None
    wanted: bool = False
    images: tuple[str, ...] | None = ()
    elsewhere: str = ""

    def sentence(self) -> str:
        """What is there, in words."""
        amount = "an unknown amount" if self.count is None else size(self.count)
        kept = ", which the vendor's script of Run:ai uses" if self.wanted else ""
        return f"{self.node}: Docker runs no pods any more and keeps {amount}{kept}"


def leftovers(site: Site, node_facts: Mapping[str, NodeFacts]) -> tuple[Leftover, ...]:
    """Every node with data of a Docker that does not run, while containerd runs pods."""
    vendor = site.vendor_node.name if site.settings.runai is not None else ""
    found = []
    for node in site.cluster_members:
        facts = node_facts.get(node.name)
        if facts is None or not facts.at("runtime.containerd.containers_of_pods"):
            continue
        if facts.at("runtime.docker.data_present") and not facts.at("runtime.docker.version"):
            count = facts.at("runtime.docker.data_bytes")
            images = facts.at("runtime.docker.images_only_here")
            root = str(facts.at("runtime.docker.data_root") or OWN_FOLDER)
            elsewhere = "" if root.rstrip("/") == OWN_FOLDER else root
            is_wanted, names = node.name == vendor, _names(images)
            found.append(Leftover(node.name, count, is_wanted, names, elsewhere))
    return tuple(found)


def _names(images: list[str] | None) -> tuple[str, ...] | None:
    """Names of images; None where they are unknown, or one is no name of an image."""
    if images is None or not all(_REFERENCE.fullmatch(name) for name in images):
        return None
    return tuple(images)


def losing_images(found: Collection[Leftover], accepted: Collection[str]) -> tuple[Refusal, ...]:
    """Why Docker may not be removed: an image would be lost that nobody gave up by its name."""
    return tuple(refusal for one in found for refusal in _losing(one, accepted))


def _losing(one: Leftover, accepted: Collection[str]) -> Iterator[Refusal]:
    if one.elsewhere:
        # The operator chose that folder, and may have more than Docker's data in it.
        seen = f"Docker's data in {one.elsewhere}"
        cure = "look at that folder and remove it by hand, with the packages"
        yield Refusal(one.node, CHECK, seen, f"its data in {OWN_FOLDER}", cure)
        return
    expected = "no image that only Docker has"
    if one.images is None:
        seen = "images of Docker that could not be compared with those of containerd"
        yield Refusal(one.node, CHECK, seen, expected, "see what is wrong: appliance status")
    for name in one.images or ():
        if IMAGE + name not in accepted:
            # A node chooses the names, and people paste the command.
            option = f"--accept-loss {shlex.quote(IMAGE + name)}"
            cure = f"start Docker there and push or save it; or give it up: {option}"
            yield Refusal(one.node, CHECK, f"image {name} in Docker only", expected, cure)


def removal_inventory(
    site: Site, socket: str, names: tuple[str, ...], accepted: Collection[str] = ()
) -> dict[str, Any]:
    """The run's inventory for the removal; this needs no bundle and no vault."""
    hosts = {name: {"ansible_host": site.node(name).ip} for name in names}
    images = (name[len(IMAGE) :] for name in accepted if name.startswith(IMAGE))
    given_up = filter(_REFERENCE.fullmatch, images)
    variables = {
        **connection_vars(site),
        "kubernetes_runtime_socket": socket,
        "kubernetes_runtime_registry": site.image_prefix,
        "kubernetes_runtime_images_given_up": sorted(given_up),
    }
    group = {"hosts": dict.fromkeys(names)}
    return {"all": {"vars": variables, "hosts": hosts, "children": {GROUP: group}}}
