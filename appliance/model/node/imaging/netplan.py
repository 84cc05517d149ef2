"""The part of netplan that seeds use, as strict models: what another key says is refused here.

netplan's own parser refuses unknown keys too, but only on the node. The forms are those that both
Ubuntu 20.04's netplan and newer ones read: see :mod:`.focal`.
"""

from __future__ import annotations

from ipaddress import IPv4Interface, IPv4Network
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

DEFAULT_ROUTE: Final = IPv4Network("0.0.0.0/0")
Mac = Annotated[str, Field(pattern=r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")]
# The kernel's limit is 15 bytes.
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9]{0,14}$")]
Address = Annotated[str, Field(pattern=r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$")]
Mtu = Annotated[StrictInt, Field(ge=1280, le=9216)]


class Strict(BaseModel):
    """A mapping of which every key is known; names with hyphens are their aliases."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    def plain(self) -> dict[str, Any]:
        """As YAML has it, without what nobody said."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Match(Strict):
    """The port that is meant."""

    macaddress: Mac


class Nameservers(Strict):
    """DNS servers and the domains that a short name is looked up in."""

    addresses: Annotated[tuple[Address, ...], Field(max_length=3)]
    search: Annotated[tuple[str, ...], Field(max_length=6)] = ()


class Route(Strict):
    """A route: ``0.0.0.0/0`` for the default, which 20.04 does not read as ``default``."""

    to: IPv4Network
    via: Address


class Addressed(Strict):
    """What carries an address, or nothing where another device stands on it."""

    dhcp4: StrictBool = False
    dhcp6: StrictBool = False
    addresses: tuple[IPv4Interface, ...] | None = None
    routes: tuple[Route, ...] | None = None
    nameservers: Nameservers | None = None
    mtu: Mtu | None = None


class Ethernet(Addressed):
    """A port, known by its MAC and given a name of ours."""

    match: Match
    set_name: Name


class BondParameters(Strict):
    """How the ports of a bond share the work."""

    mode: Literal["802.3ad", "active-backup"]
    mii_monitor_interval: Annotated[StrictInt, Field(ge=10, le=10000)] = 100
    lacp_rate: Literal["slow", "fast"] | None = None
    transmit_hash_policy: Literal["layer3+4"] | None = None

    @model_validator(mode="after")
    def _lacp_alone(self) -> BondParameters:
        if self.mode != "802.3ad" and (self.lacp_rate or self.transmit_hash_policy):
            raise ValueError("lacp-rate and transmit-hash-policy are for mode 802.3ad alone")
        return self


class BondDevice(Addressed):
    """Several ports as one."""

    interfaces: Annotated[tuple[Name, ...], Field(min_length=2, max_length=8)]
    parameters: BondParameters


class Vlan(Addressed):
    """A tagged network on a port or bond."""

    id: Annotated[StrictInt, Field(ge=1, le=4094)]
    link: Name


class Network(Strict):
    """A netplan document, without the outer key ``network``."""

    version: Literal[2] = 2
    renderer: Literal["networkd"] = "networkd"
    ethernets: dict[Name, Ethernet]
    bonds: dict[Name, BondDevice] | None = None
    vlans: dict[Name, Vlan] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Network:
        """Every device that another one names is there, and one port is in one bond alone."""
        below = [name for bond in (self.bonds or {}).values() for name in bond.interfaces]
        missing = [name for name in below if name not in self.ethernets]
        links = {vlan.link for vlan in (self.vlans or {}).values()}
        missing += sorted(links - {*self.ethernets, *(self.bonds or {})})
        if missing:
            raise ValueError(f"no device named {', '.join(missing)}")
        if len(below) != len(set(below)):
            raise ValueError("a port stands in two bonds")
        macs = [one.match.macaddress for one in self.ethernets.values()]
        if len(macs) != len(set(macs)):
            raise ValueError("two ports have one MAC")
        wrong = [name for name, one in self.ethernets.items() if one.set_name != name]
        if wrong:
            raise ValueError(f"{wrong[0]}: set-name is another name")
        return self

    def document(self) -> dict[str, Any]:
        """The whole document."""
        return {"network": self.plain()}
