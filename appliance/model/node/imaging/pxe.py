"""PXE for servers without virtual media: dnsmasq's configuration, and iPXE's scripts.

dnsmasq answers servers of this command alone, by their MACs, on one interface; it serves no DNS. A
LAN with a DHCP server keeps it: dnsmasq then only adds where to boot from (proxy-DHCP). What must
not be here: running dnsmasq.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.bundle.release.installer import Layout
from appliance.model.node.imaging.medium import INSTALLERS

if TYPE_CHECKING:
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.node.imaging.seed import Server

Dhcp = Literal["proxy", "listed"]
_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
# Of Debian's and Ubuntu's package ipxe.
LOADERS: Final = {"bios": "undionly.kpxe", "uefi": "ipxe.efi"}
LOADER_FOLDERS: Final = ("/usr/lib/ipxe", "/boot")
SCRIPT: Final = "/pxe/boot.ipxe"
KERNEL: Final = "/pxe/vmlinuz"
INITRD: Final = "/pxe/initrd"
# RFC 4578: UEFI x64 is 7, and 9 of older firmware.
_UEFI: Final = (7, 9)
_LEASE: Final = "1h"


@dataclass(frozen=True)
class PxeNetwork:
    """Where dnsmasq answers.

    Attributes:
        interface: of this machine.
        network: the servers' LAN.
        dhcp: proxy: the LAN has a DHCP server; listed: dnsmasq gives the servers of this command
            their own addresses.
    """

    interface: str
    network: IPv4Network
    dhcp: Dhcp


def dnsmasq_configuration(
    pxe: PxeNetwork, server: Server, tftp: str, images: Sequence[NodeImage]
) -> str:
    """The whole configuration file.

    Args:
        pxe: where it answers.
        server: where scripts and seeds are served.
        tftp: folder with the two loaders.
        images: the servers; no other one is answered.

    Raises:
        ValueError: a value has a form that would be another line of the file.
    """
    if not _DEVICE.fullmatch(pxe.interface):
        raise ValueError(f"{pxe.interface!r} is not the name of an interface")
    if not re.fullmatch(r"/[A-Za-z0-9._/-]{1,500}", tftp):
        raise ValueError(f"{tftp!r} is not a folder that dnsmasq can be told")
    lan = pxe.network
    proxy = pxe.dhcp == "proxy"
    lines = [
        "# Written by appliance node image, for the length of one command.",
        *("port=0", f"interface={pxe.interface}", "except-interface=lo", "bind-interfaces"),
        *("no-resolv", "no-hosts", "leasefile-ro", "" if proxy else "dhcp-authoritative"),
        # Without another user it ends with this process: setuid(2) would clear the signal.
        "user=root",
        *("enable-tftp", f"tftp-root={tftp}", "tftp-secure", "tftp-no-blocksize"),
        f"dhcp-range={lan.network_address},{'proxy' if proxy else 'static'},{lan.netmask}"
        + ("" if proxy else f",{_LEASE}"),
        *_hosts(images, proxy=proxy),
        "dhcp-ignore=tag:!ours",
        "dhcp-match=set:ipxe,175",
        *(f"dhcp-match=set:uefi,option:client-arch,{number}" for number in _UEFI),
    ]
    url = f"{server.url}{SCRIPT}"
    if proxy:
        lines += [
            f'pxe-service=tag:!ipxe,x86PC,"appliance",{LOADERS["bios"]}',
            f'pxe-service=tag:!ipxe,X86-64_EFI,"appliance",{LOADERS["uefi"]}',
            f'pxe-service=tag:!ipxe,BC_EFI,"appliance",{LOADERS["uefi"]}',
        ]
    else:
        lines += [
            # No router and no DNS: dnsmasq would name this machine as both.
            *("dhcp-option=3", "dhcp-option=6"),
            f"dhcp-boot=tag:!ipxe,tag:!uefi,{LOADERS['bios']}",
            f"dhcp-boot=tag:!ipxe,tag:uefi,{LOADERS['uefi']}",
        ]
    lines.append(f"dhcp-boot=tag:ipxe,{url}")
    return "".join(f"{line}\n" for line in lines if line)


def _hosts(images: Sequence[NodeImage], *, proxy: bool) -> list[str]:
    """A line for each server. One address for all MACs of a bond: only one of them boots."""
    found = []
    for image in images:
        address = "" if proxy else f",{image.address.ip},{_LEASE}"
        found.append(f"dhcp-host={','.join(image.macs)},set:ours{address}")
    return found


def scripts(
    layout: Layout, server: Server, names: Mapping[str, NodeImage], iso: str
) -> dict[str, str]:
    """Scripts of iPXE: path -> text. The first chooses by the MAC that boots; none is for others.

    Args:
        layout: of the medium.
        server: where all of it is served.
        names: folder of a seed under ``/seeds/`` -> the server that it is of.
        iso: URL of the medium; the installer of 20.04 reads the rest of itself from there.
    """
    one = INSTALLERS[layout]
    found = {
        SCRIPT: "#!ipxe\n"
        f"chain {server.url}/pxe/${{netX/mac:hexhyp}}.ipxe || goto nobody\n"
        ":nobody\n"
        "echo appliance: this server is not part of the command that serves here\n"
        "sleep 10\nexit 1\n"
    }
    for folder, image in names.items():
        options = one.from_network.format(iso=iso, seed=f"{server.url}/seeds/{folder}/")
        text = (
            "#!ipxe\n"
            f"kernel {server.url}{KERNEL} initrd=initrd {options}\n"
            f"initrd --name initrd {server.url}{INITRD}\n"
            "boot\n"
        )
        found |= {f"/pxe/{mac.replace(':', '-')}.ipxe": text for mac in image.macs}
    return found


def lan_of(images: Sequence[NodeImage]) -> IPv4Network | None:
    """The one LAN of all servers; None where there are several."""
    found = {image.address.network for image in images}
    return next(iter(found)) if len(found) == 1 else None
