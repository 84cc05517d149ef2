"""Replaces a customer's names and addresses, each by the same pseudonym everywhere.

Addresses keep their prefixes and their last octet: two addresses of one network are of one network
afterwards, so the checks of ``support explain`` judge the same. Ranges that are not the customer's
stay: loopback, netmasks, multicast, and the ranges of pods and services.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Any, Final

from appliance.model.site.settings import Site
from appliance.model.support import coded

_V4: Final = re.compile(
    r"(?<![0-9.])((?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?:25[0-5]|2[0-4]\d|1?\d?\d)){3})"
    r"(?:/(3[0-2]|[12]?\d)(?!\d))?(?![\w]|\.\d|\.in-addr)"
)
_V6: Final = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]{0,39}:[0-9A-Fa-f:]{0,39}:)[0-9A-Fa-f:]{3,39}(?![\w:]|\.\d)"
)
# As in names of machines and of pods, and the other way round as in DNS.
_V4_JOINED: Final = re.compile(
    r"(?<![A-Za-z0-9])(\d{1,3})([-_])(\d{1,3})\2(\d{1,3})\2(\d{1,3})(?![\d_-])"
)
_V4_ARPA: Final = re.compile(
    r"(?<![\w.])(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})(?=\.in-addr\.arpa)"
)
_V4_ZEROS: Final = re.compile(
    r"(?<![\w.])0{0,2}(\d+)\.0{0,2}(\d+)\.0{0,2}(\d+)\.0{0,2}(\d+)(?![\w.])"
)
# Of Ethernet, and the longer ones of InfiniBand; with each mark between, or with none after the
# beginning of an interface's name.
_MAC: Final = re.compile(
    r"(?<![\w:])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![\w:])"
    r"|(?<![\w-])(?:[0-9A-Fa-f]{2}-){5,19}[0-9A-Fa-f]{2}(?![\w-])"
    r"|(?<![\w.])(?:[0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}(?![\w.])"
    r"|(?<=\benx)[0-9a-f]{12}(?!\w)"
)
_HOME: Final = re.compile(r"(/(?:home|Users)/)([A-Za-z_][\w.-]{0,40})")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
_KEPT: Final = tuple(
    IPv4Network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")
)
_KEPT_MACS: Final = ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff")
_SERIALS: Final = re.compile(r"(^|_)(serial|uuid|wwn|machine_id|asset_tag)s?$")
# Shorter ones are no serial numbers of anything.
_SHORTEST_SERIAL: Final = 5
# The first octets of pseudonyms, in the order in which the true ones appear.
_OCTETS: Final = (*range(11, 127), *range(128, 224))
# The bits of an address that are replaced: the last octet stays, as it tells no customer.
_PREFIX: Final = range(8, 24)
# Names of hosts that a site shares with the world, as words of programs.
_ORDINARY: Final = frozenset({"localhost", "ubuntu", "root", "debian", "admin"})


class Pseudonyms:
    """The replacements of one site.

    Args:
        key: a secret of the site; who has it not cannot guess what a pseudonym stands for.
        names: name -> pseudonym, as :func:`names_of` makes them.
        kept: ranges whose addresses stay.
    """

    def __init__(
        self, key: bytes, names: Mapping[str, str], kept: Sequence[IPv4Network] = ()
    ) -> None:
        self._key = key
        self._names = {name.lower(): other for name, other in names.items()}
        self._kept = (*_KEPT, *kept)
        # Nothing becomes an address of a range that stays.
        taken = {int(network.network_address) >> 24 for network in self._kept}
        self._free = [octet for octet in _OCTETS if octet not in taken]
        self._octets: dict[int, int] = {}
        self._used: dict[str, str] = {}
        words = sorted(self._names, key=len, reverse=True)
        inside = "|".join(map(re.escape, words)) or r"(?!)"
        # A name may end where the number of a pod or a domain begins. In an address of HTTP, the
        # digits of an encoded sign may stand before it.
        before = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2}))"
        self._pattern = re.compile(rf"{before}(?:{inside})(?![A-Za-z0-9])", re.I)

    @property
    def used(self) -> Mapping[str, str]:
        """What was replaced so far: the true name -> its pseudonym."""
        return dict(sorted(self._used.items()))

    def replace(self, text: str) -> str:
        """The text with pseudonyms, also within what stands in base64."""
        return self._plainly(coded.replace(text, self._plainly))

    def _plainly(self, text: str) -> str:
        text = self._pattern.sub(self._name, text)
        text = _HOME.sub(self._home, text)
        text = _MAC.sub(self._mac, text)
        text = _V4_ARPA.sub(self._arpa, text)
        text = _V4_JOINED.sub(self._joined, text)
        text = _V4_ZEROS.sub(self._without_zeros, text)
        # Before those of six, whose last part may be one of four.
        text = _V4.sub(self._v4, text)
        return _V6.sub(self._v6, text)

    def _name(self, found: re.Match[str]) -> str:
        return self._told(found[0], self._names[found[0].lower()])

    def _mac(self, found: re.Match[str]) -> str:
        true = found[0].lower()
        if true in _KEPT_MACS:
            return found[0]
        plain = re.sub("[^0-9a-f]", "", true)
        form = ":".join(plain[at : at + 2] for at in range(0, len(plain), 2))
        if form in _KEPT_MACS:
            return found[0]
        other = f"02{self._digest(f'mac {form}').hex()[:10]}".ljust(len(plain), "0")
        digits = iter(other)
        return self._told(found[0], "".join(c if c in ":-." else next(digits) for c in true))

    def _home(self, found: re.Match[str]) -> str:
        name = found[2]
        if name.lower() in _ORDINARY or name.startswith(("name-", "person-")):
            return found[0]
        return found[1] + self._told(name, f"person-{self._digest(f'home {name}').hex()[:6]}")

    def _arpa(self, found: re.Match[str]) -> str:
        other = self._other(list(reversed(found.groups())))
        return ".".join(reversed(other)) if other else found[0]

    def _joined(self, found: re.Match[str]) -> str:
        other = self._other([found[place] for place in (1, 3, 4, 5)])
        return found[2].join(other) if other else found[0]

    def _without_zeros(self, found: re.Match[str]) -> str:
        return ".".join(str(int(part)) for part in found.groups())

    def _other(self, octets: list[str]) -> list[str]:
        """The octets of the other address; none where it is no address, or one that stays."""
        true = ".".join(str(int(octet)) for octet in octets)
        found = _V4.fullmatch(true)
        other = self._v4(found) if found else true
        return other.split(".") if other != true else []

    def _v6(self, found: re.Match[str]) -> str:
        try:
            address = IPv6Address(found[0])
        except AddressValueError:
            return found[0]
        if int(address) < 2:
            return found[0]
        digest = self._digest(f"v6 {address}")
        return self._told(found[0], str(IPv6Address(b"\xfd\x00" + bytes(6) + digest[:8])))

    def _v4(self, found: re.Match[str]) -> str:
        address, width = IPv4Address(found[1]), int(found[2]) if found[2] else 32
        if any(address in network for network in self._kept):
            return found[0]
        bits = int(address)
        is_network = bits & ((1 << (32 - width)) - 1) == 0
        other = self._address(bits, width if is_network else 32)
        suffix = f"/{found[2]}" if found[2] else ""
        return self._told(found[1], str(IPv4Address(other))) + suffix

    def _address(self, bits: int, width: int) -> int:
        """Another address; each bit depends on those before it alone, so prefixes stay."""
        first = bits >> 24
        octet = self._octets.setdefault(first, self._free[len(self._octets) % len(self._free)])
        result = octet << 24 | bits & 0xFF
        for place in _PREFIX[: max(width - 8, 0)]:
            before = bits >> (32 - place)
            flip = self._digest(f"v4 {place} {before}")[0] & 1
            bit = (bits >> (31 - place)) & 1
            result |= (bit ^ flip) << (31 - place)
        return result

    def _told(self, true: str, other: str) -> str:
        self._used[true] = other
        return other

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")


def names_of(
    site: Site, facts: Iterable[Mapping[str, Any]], people: Collection[str], key: bytes
) -> dict[str, str]:
    """The customer's names: of nodes, machines, zones, people; and serial numbers.

    Args:
        site: whose.
        facts: documents of the probe, which know serial numbers and other host names.
        people: operators and their machines, as the journal names them.
        key: as for :class:`Pseudonyms`.
    """
    names: dict[str, str] = {}
    for number, node in enumerate(site.nodes, 1):
        names[node.name] = f"node-{number:02d}"
    documents = list(facts)
    serials = sorted({serial for document in documents for serial in _serials(document)})
    for serial in serials:
        names.setdefault(serial, pseudonym_of_serial(serial, key))
    for number, name in enumerate(_zones(site), 1):
        names.setdefault(name, f"zone{number}.example")
        names.setdefault(_ldap(name), _ldap(f"zone{number}.example"))
    for number, name in enumerate(_hosts(site), 1):
        names.setdefault(name, f"host{number}.example")
    others = [str((d.get("host") or {}).get("hostname") or "") for d in documents]
    for number, name in enumerate(sorted({*others, *people} - names.keys()), 1):
        if len(name) > 1 and name.lower() not in _ORDINARY:
            names[name] = f"name-{number:02d}"
    names.setdefault(site.name, "site")
    return _in_each_form({name: other for name, other in names.items() if name})


def _in_each_form(names: Mapping[str, str]) -> dict[str, str]:
    """The names in punycode as well, and out of it, each with the same pseudonym."""
    found = dict(names)
    for name, other in names.items():
        for form in coded.domain_forms(name):
            found.setdefault(form, other)
    return found


def kept_ranges(site: Site) -> tuple[IPv4Network, ...]:
    """The ranges of pods and services: no customer's, as no packet leaves the cluster with them."""
    return (site.settings.network.pod_cidr, site.settings.network.service_cidr)


def _zones(site: Site) -> list[str]:
    """The domain of the site, and what is above it and above its other hosts."""
    domain = str(site.settings.domain)
    found = {domain}
    for host in (domain, *_hosts(site)):
        labels = host.split(".")
        # What all the world has above its names tells no customer.
        found |= {".".join(labels[at:]) for at in range(1, len(labels) - 1)}
    return [domain, *sorted(found - {domain}, key=lambda zone: (-len(zone), zone))]


def _ldap(zone: str) -> str:
    return ",".join(f"dc={label}" for label in zone.split("."))


def _hosts(site: Site) -> list[str]:
    """Names of machines that the site's files hold and that are no nodes."""
    settings = site.settings
    found = [*map(str, settings.ntp_servers), settings.control_plane_endpoint.name]
    found += [settings.registry.rpartition(":")[0], settings.artifacts.rpartition(":")[0]]
    if settings.runai is not None and settings.runai.domain:
        found.append(str(settings.runai.domain))
    if settings.nfs is not None:
        found.append(str(settings.nfs.server))
    if settings.ssh.jump_host is not None:
        found.append(settings.ssh.jump_host.rpartition("@")[2].partition(":")[0])
    nodes = {node.name for node in site.nodes}
    zone = f".{settings.domain}"
    return sorted(
        {
            name
            for name in found
            if name and name not in nodes and not name.endswith(zone) and not _V4.fullmatch(name)
        }
    )


def _serials(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, str) and _SERIALS.search(str(key)):
                if len(inner.strip()) >= _SHORTEST_SERIAL:
                    yield inner.strip()
            else:
                yield from _serials(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _serials(inner)


def pseudonym_of_serial(true: str, key: bytes) -> str:
    """Another serial number, of the same form where that is a UUID's."""
    text = hmac.digest(key, f"serial {true}".encode(), "sha256").hex()
    if _UUID.fullmatch(true):
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:32]}"
    return f"SN{text[:10].upper()}"
