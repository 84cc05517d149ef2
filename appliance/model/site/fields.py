"""The value types of site files, each with its own error message.

A refusal carries what is wrong and what would be right, so that the reader of a message need not
open the manual. Every kind is strict: a number in quotes is a string and is not silently a number.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from appliance.model.site import addresses

Flag = StrictBool
Text = StrictStr

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_DEVICE = re.compile(r"[A-Za-z0-9_.:@-]{1,15}")
_EXPORT = re.compile(r"(/[A-Za-z0-9_.-]+)+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def wrong(problem: str, remedy: str) -> PydanticCustomError:
    """Make the refusal of one value."""
    return PydanticCustomError(
        "site", "{problem}; {remedy}", {"problem": problem, "remedy": remedy}
    )


def _text(value: object, example: str) -> str:
    if isinstance(value, str):
        return value
    raise wrong(f"{value!r} is not text", f"write it like {example}, in quotes if need be")


def _address(value: object) -> IPv4Address:
    if isinstance(value, IPv4Address):
        return value
    text = _text(value, "198.51.100.2")
    if "/" in text:
        bare = text.split("/", 1)[0]
        raise wrong(f"{text!r} has a prefix, expected an address only", f"write {bare}")
    try:
        return IPv4Address(text)
    except ValueError:
        raise wrong(f"{text!r} is not an IPv4 address", "write it like 198.51.100.2") from None


def _interface(value: object) -> IPv4Interface:
    if isinstance(value, IPv4Interface):
        return value
    text = _text(value, "198.51.100.11/24")
    if "/" not in text and addresses.is_address(text):
        raise wrong(
            f"{text!r} has no prefix length: its LAN is unknown",
            f"write it like {text}/24",
        )
    try:
        interface = IPv4Interface(text)
    except ValueError:
        raise wrong(
            f"{text!r} is not an IPv4 address with a prefix length",
            "write it like 198.51.100.11/24",
        ) from None
    if not addresses.usable(interface):
        raise wrong(
            f"{text} is not a host address in {interface.network}",
            "write an address between the first and the last, with the prefix of the LAN",
        )
    return interface


def _network(value: object) -> IPv4Network:
    if isinstance(value, IPv4Network):
        return value
    text = _text(value, "10.244.0.0/16")
    try:
        return IPv4Network(text)
    except ValueError:
        pass
    try:
        meant = IPv4Network(text, strict=False)
    except ValueError:
        raise wrong(f"{text!r} is not an IPv4 range", "write it like 10.244.0.0/16") from None
    raise wrong(f"{text} names a host inside its range", f"write {meant}")


def _dns_name(value: object) -> str:
    text = _text(value, "appliance.example")
    if _SCHEME.match(text):
        raise wrong(f"{text!r} has a scheme", f"write {_SCHEME.sub('', text)!r} without it")
    if addresses.is_address(text):
        raise wrong(
            f"{text} is an address, expected a name for certificates and kubeconfigs",
            "write a name such as api.appliance.example",
        )
    if "*" in text:
        raise wrong(
            f"{text!r} is a wildcard: every unknown name would answer, inside pods too",
            f"write {text.replace('*.', '').replace('*', '') or 'appliance.example'!r}",
        )
    if text.lower() != text and addresses.is_dns_name(text.lower()):
        raise wrong(f"{text!r} has capital letters", f"write {text.lower()!r}")
    if not addresses.is_dns_name(text):
        raise wrong(
            f"{text!r} is not a DNS name",
            "write lower-case letters, digits and hyphens, separated by dots: appliance.example",
        )
    return text


def _zone(value: object) -> str:
    text = _dns_name(value)
    if text == "cluster.local" or text.endswith(".cluster.local"):
        raise wrong(
            f"{text!r} is the cluster's own zone: CoreDNS would answer for the site's names",
            "write the site's zone, such as appliance.example",
        )
    return text


def _host_port(value: object) -> str:
    text = _text(value, "registry.appliance.example:5000")
    if _SCHEME.match(text):
        raise wrong(
            f"{text!r} has a scheme, which is invalid in an image name",
            f"write {_SCHEME.sub('', text)!r}",
        )
    try:
        addresses.split_host_port(text)
    except ValueError:
        raise wrong(
            f"{text!r} is not NAME:PORT",
            "write a DNS name, a colon and a port: registry.appliance.example:5000",
        ) from None
    return text


def _host(value: object) -> str:
    text = _text(value, "198.51.100.2 or ntp.appliance.example")
    if addresses.is_address(text) or addresses.is_dns_name(text):
        return text
    raise wrong(
        f"{text!r} is neither an IPv4 address nor a DNS name",
        "write it like 198.51.100.2 or ntp.appliance.example",
    )


def _jump_host(value: object) -> str:
    text = _text(value, "admin@jump.appliance.example:22")
    user, at, rest = text.rpartition("@")
    host, colon, port = rest.partition(":")
    good_user = not at or _USER.fullmatch(user)
    good_port = not colon or (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535)
    if good_user and good_port and (addresses.is_address(host) or addresses.is_dns_name(host)):
        return text
    raise wrong(
        f"{text!r} is not [USER@]HOST[:PORT]", "write it like admin@jump.appliance.example:22"
    )


def _mac(value: object) -> str:
    text = _text(value, '"52:54:00:12:34:56"').lower()
    if _MAC.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not a MAC address", 'write it like "52:54:00:12:34:56"')


def _user(value: object) -> str:
    text = _text(value, "ubuntu")
    if _USER.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not a Linux user name", "write it like ubuntu")


def _device(value: object) -> str:
    text = _text(value, "eno1")
    if _DEVICE.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not the name of a network interface", "write it like eno1 or bond0")


def _absolute(value: object) -> str:
    text = _text(value, "/srv/runai")
    if text.startswith("/") and ".." not in text.split("/"):
        return text
    raise wrong(f"{text!r} is not an absolute path", "write it like /srv/runai")


def _program(value: object) -> str:
    text = _absolute(value)
    if _EXPORT.fullmatch(text):
        return text
    raise wrong(f"{text!r} is not a program's path", "write it like /usr/bin/python3")


def _export(value: object) -> str:
    text = _absolute(value)
    if not _EXPORT.fullmatch(text):
        raise wrong(
            f"{text!r} has characters that an NFS server or mount(8) may not accept",
            "write folders of letters, digits, dots, hyphens and underscores: /srv/runai",
        )
    return text


class Settings(BaseModel):
    """A section of site.yml: frozen; each attribute's text is its documentation."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


Address = Annotated[
    IPv4Address, BeforeValidator(_address), WithJsonSchema({"type": "string", "format": "ipv4"})
]
Interface = Annotated[
    IPv4Interface,
    BeforeValidator(_interface),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+/[0-9]+$"}),
]
Network = Annotated[
    IPv4Network,
    BeforeValidator(_network),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9.]+/[0-9]+$"}),
]
DnsName = Annotated[str, BeforeValidator(_dns_name)]
Zone = Annotated[str, BeforeValidator(_zone)]
HostPort = Annotated[
    str,
    BeforeValidator(_host_port),
    WithJsonSchema({"type": "string", "pattern": r"^[a-z0-9.-]+:[0-9]+$"}),
]
Host = Annotated[str, BeforeValidator(_host)]
JumpHost = Annotated[str, BeforeValidator(_jump_host)]
Mac = Annotated[str, BeforeValidator(_mac)]
User = Annotated[str, BeforeValidator(_user)]
Device = Annotated[str, BeforeValidator(_device)]
AbsolutePath = Annotated[str, BeforeValidator(_absolute)]
ProgramPath = Annotated[str, BeforeValidator(_program)]
ExportPath = Annotated[str, BeforeValidator(_export)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
Mtu = Annotated[StrictInt, Field(ge=1280, le=9216)]
