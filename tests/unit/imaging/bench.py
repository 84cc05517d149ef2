"""Servers to image, from settings as a site writes them."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.imaging.programs import installer_programs
from appliance.model.node.imaging.image import NodeImage, image_of
from appliance.model.node.imaging.seed import OnDisk, Seed, Server, render
from appliance.model.site.imaging_settings import Imaging, NodeImaging
from appliance.model.site.settings import Site
from tests import samples

DATA = Path(__file__).parents[2] / "data" / "imaging"
MODELS: dict[str, dict[str, Any]] = yaml.safe_load((DATA / "models.yml").read_text("utf-8"))
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKUtNTp6FTp9lqxd4BWbkTRfKSO6BbTYpTiCZbpOl5Gv ops@rack"
PROGRAMS = installer_programs()
SERVER = Server(IPv4Address("198.18.7.2"), 8480)
FAR = Server(IPv4Address("203.0.113.9"), 8480)
TOKEN = "5e" * 16


def site(common: dict[str, Any] | None = None, own: dict[str, Any] | None = None) -> Site:
    """The sample site of tests, whose worker w1 is to be imaged."""
    asked: dict[str, Any] = {
        "imaging": {"authorized_keys": [KEY], **(common or {})},
        "dns_servers": ["198.18.7.3"],
        "network": {"mtu": 9000},
    }
    found = samples.site(**asked)
    imaging = NodeImaging.model_validate({"disk_serial": "S4EWNX0R501234", **(own or {})})
    nodes = tuple(
        replace(node, imaging=imaging, mac=None if imaging.bond else "00:00:5e:00:53:21")
        if node.name == "w1"
        else node
        for node in found.nodes
    )
    return replace(found, nodes=nodes)


def image(common: dict[str, Any] | None = None, own: dict[str, Any] | None = None) -> NodeImage:
    """What w1 is to become."""
    asked = site(common, own)
    found = image_of(asked, asked.node("w1"))
    assert isinstance(found, NodeImage), found
    return found


def of_model(model: str) -> NodeImage:
    """The image of a hardware model, as models.yml asks for it."""
    asked = MODELS.get(model, {})
    return image(asked.get("site"), asked.get("node"))


def seed(found: NodeImage, server: Server = SERVER, *, wipe: bool = False) -> Seed:
    """The seed of an image."""
    return render(found, PROGRAMS, server, TOKEN, OnDisk(wipe))


def plain(**keys: Any) -> Imaging:
    """A site's section of its own."""
    return Imaging.model_validate({"authorized_keys": [KEY], **keys})
