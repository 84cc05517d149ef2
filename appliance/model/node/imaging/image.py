"""What one server is to become: the site's and the node's settings, put together and checked.

What must not be here: the form of any file (:mod:`.netplan`, :mod:`.autoinstall`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import TYPE_CHECKING, Any

from appliance.model.node.imaging import netplan

if TYPE_CHECKING:
    from appliance.model.site.imaging_settings import (
        BondMode,
        Firmware,
        Kernel,
        NodeImaging,
        StorageProfile,
    )
    from appliance.model.site.settings import Node, Site

FLOOR_MTU = 1500


@dataclass(frozen=True)
class NodeImage:
    """One server, as it is to be installed.

    Attributes:
        name: its hostname, and its name in the site.
        user: who logs in, with a key alone.
        macs: MACs of the ports that carry the address; two or more are a bond.
        bond: how they share the work; None for one port.
        disk_serial: the disk that is written; every other one stays as it is.
        machine_serial: by which the medium knows the machine; None: by its MACs.
        mtu: of the LAN.
        apt_mirror: None: what the medium carries is all there is.
    """

    name: str
    address: IPv4Interface
    domain: str
    user: str
    authorized_keys: tuple[str, ...]
    macs: tuple[str, ...]
    disk_serial: str
    machine_serial: str | None = None
    bond: BondMode | None = None
    vlan: int | None = None
    gateway: IPv4Address | None = None
    dns_servers: tuple[IPv4Address, ...] = ()
    mtu: int = FLOOR_MTU
    storage: StorageProfile = "root"
    firmware: Firmware = "uefi"
    kernel: Kernel = "ga"
    apt_mirror: str | None = None

    def network(self, route_to: IPv4Address | None = None) -> netplan.Network:
        """The network of the installed system, or of the installer.

        Args:
            route_to: the server of the installer. A route to it stands in place of the default
                one: with a default route, and no mirror, the installer of 20.04 asks archives of
                the internet and fails.
        """
        mtu = self.mtu if self.mtu != FLOOR_MTU else None
        carried: dict[str, Any] = {
            "addresses": (self.address,),
            "routes": self._routes(route_to),
            "nameservers": self._nameservers(),
            "mtu": mtu,
        }
        ports = [f"lan{n}" for n in range(len(self.macs))]
        alone = self.bond is None and self.vlan is None
        ethernets = {
            name: netplan.Ethernet(
                match=netplan.Match(macaddress=mac),
                set_name=name,
                **(carried if alone else {"mtu": mtu}),
            )
            for name, mac in zip(ports, self.macs, strict=True)
        }
        bonds = vlans = None
        if self.bond is not None:
            lacp = self.bond == "802.3ad"
            parameters = netplan.BondParameters(
                mode=self.bond,
                lacp_rate="fast" if lacp else None,
                transmit_hash_policy="layer3+4" if lacp else None,
            )
            on_bond = carried if self.vlan is None else {"mtu": mtu}
            bonds = {
                "bond0": netplan.BondDevice(
                    interfaces=tuple(ports), parameters=parameters, **on_bond
                )
            }
        if self.vlan is not None:
            link = "bond0" if bonds else "lan0"
            vlans = {f"vlan{self.vlan}": netplan.Vlan(id=self.vlan, link=link, **carried)}
        return netplan.Network(ethernets=ethernets, bonds=bonds, vlans=vlans)

    def _routes(self, route_to: IPv4Address | None) -> tuple[netplan.Route, ...] | None:
        if self.gateway is None or (route_to is not None and route_to in self.address.network):
            return None
        to = netplan.DEFAULT_ROUTE if route_to is None else IPv4Network(route_to)
        return (netplan.Route(to=to, via=str(self.gateway)),)

    def _nameservers(self) -> netplan.Nameservers | None:
        if not self.dns_servers:
            return None
        return netplan.Nameservers(
            addresses=tuple(map(str, self.dns_servers)), search=(self.domain,)
        )


def image_of(site: Site, node: Node) -> NodeImage | str:
    """What the node is to become; or what the site's files lack for it, as one sentence."""
    common, own = site.settings.imaging, node.imaging
    where = f"host_vars/{node.name}.yml"
    if common is None:
        return "group_vars/all/site.yml has no section imaging"
    if own is None:
        return f"{where} has no section imaging with the disk_serial of the disk to install to"
    gateway = own.gateway or common.gateway
    if fault := _port_fault(node, own) or _gateway_fault(node, gateway):
        return f"{where}{fault}"
    macs = own.bond.macs if own.bond else (node.mac,)
    return NodeImage(
        name=node.name,
        address=node.address,
        domain=site.settings.domain,
        user=site.settings.ssh.user,
        authorized_keys=common.authorized_keys,
        macs=tuple(mac for mac in macs if mac is not None),
        disk_serial=own.disk_serial,
        machine_serial=own.machine_serial,
        bond=own.bond.mode if own.bond else None,
        vlan=own.vlan or common.vlan,
        gateway=gateway,
        dns_servers=site.settings.dns_servers,
        mtu=site.settings.network.mtu,
        storage=own.storage or common.storage,
        firmware=own.firmware or common.firmware,
        kernel=own.kernel or common.kernel,
        apt_mirror=common.apt_mirror,
    )


def _port_fault(node: Node, own: NodeImaging) -> str:
    if own.bond is None and node.mac is None:
        return " has neither mac nor imaging.bond: the port of its address is unknown"
    if own.bond is not None and node.mac is not None and node.mac not in own.bond.macs:
        return ": mac is not one of imaging.bond.macs"
    return ""


def _gateway_fault(node: Node, gateway: IPv4Address | None) -> str:
    if gateway is None or (gateway in node.address.network and gateway != node.address.ip):
        return ""
    return f": the gateway {gateway} is the node's own address, or outside of its LAN"


def shared(images: Iterable[NodeImage]) -> tuple[str, ...]:
    """What two servers of one batch may not share: a seed would go to the wrong machine."""
    owners: dict[tuple[str, str], list[str]] = {}
    for image in images:
        known = [("MAC", mac) for mac in image.macs]
        known += [("serial", image.machine_serial)] if image.machine_serial else []
        known += [("disk serial", image.disk_serial), ("address", str(image.address.ip))]
        for what in known:
            owners.setdefault(what, []).append(image.name)
    return tuple(
        f"{' and '.join(names)} have the same {what} {value}"
        for (what, value), names in owners.items()
        if len(names) > 1
    )
