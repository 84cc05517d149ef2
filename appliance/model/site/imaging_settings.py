"""What a site says of the operating system of bare servers: how ``node image`` installs it.

Optional sections of ``site.yml`` and of ``host_vars``. Every value ends in a file that an installer
reads, and in a shell there: each has a narrow form, and what does not fit it is refused here.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, StrictInt

from appliance.model.site import addresses
from appliance.model.site.fields import Address, Mac, Settings, wrong

Firmware = Literal["uefi", "bios"]
Kernel = Literal["ga", "hwe"]
StorageProfile = Literal["root", "root_and_var", "lvm"]
BondMode = Literal["802.3ad", "active-backup"]

_KEY_TYPES: Final = frozenset({
    *("ssh-ed25519", "ssh-rsa"),
    *("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"),
    *("sk-ssh-ed25519@openssh.com", "sk-ecdsa-sha2-nistp256@openssh.com"),
})  # fmt: skip
_KEY: Final = re.compile(r"(?P<type>\S+) (?P<blob>[A-Za-z0-9+/]{40,2400}={0,2})(?: (?P<note>.*))?")
_MOST_KEYS: Final = 20
_NOTE: Final = re.compile(r"[A-Za-z0-9@._+: -]{0,100}")
# As lsblk prints it. No blanks, no wildcards, nothing that a shell reads.
_SERIAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{3,63}")
_MIRROR: Final = re.compile(
    r"https?://([a-z0-9.-]{1,253})(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]{0,200})?"
)


def is_disk_serial(text: str) -> bool:
    """Whether it can be a disk's serial; a row of one character is a placeholder."""
    return _SERIAL.fullmatch(text) is not None and len(set(text)) > 1


def is_public_key(text: str) -> bool:
    """Whether it is one line of an OpenSSH public key, without options."""
    found = _KEY.fullmatch(text)
    if found is None or found["type"] not in _KEY_TYPES:
        return False
    if found["note"] is not None and not _NOTE.fullmatch(found["note"]):
        return False
    try:
        blob = base64.b64decode(found["blob"], validate=True)
    except (binascii.Error, ValueError):
        return False
    # RFC 4253, section 6.6: the blob begins with the type's length and the type itself.
    name = found["type"].encode()
    return blob.startswith(len(name).to_bytes(4, "big") + name) and len(blob) > len(name) + 8


def _disk_serial(value: object) -> str:
    if isinstance(value, str) and is_disk_serial(value):
        return value
    raise wrong(
        f"{value!r} is not a disk's serial",
        "write it in quotes, as lsblk -d -o NAME,SERIAL shows it: 4 to 64 letters and digits",
    )


def _public_key(value: object) -> str:
    if isinstance(value, str) and is_public_key(value):
        return value
    # The value is not repeated: it may be a private key.
    raise wrong(
        "not an OpenSSH public key of one line, without options",
        "write the line of a .pub file: ssh-ed25519 AAAA... name",
    )


def _mirror(value: object) -> str:
    text = value if isinstance(value, str) else ""
    found = _MIRROR.fullmatch(text)
    host = found[1] if found else ""
    port = int((found[2] or ":80")[1:]) if found else 0
    good_host = addresses.is_address(host) or addresses.is_dns_name(host)
    if found and good_host and 1 <= port <= 65535 and ".." not in text:
        return text
    raise wrong(
        f"{value!r} is not the address of an apt archive",
        "write it like http://198.51.100.5/ubuntu, without user and password",
    )


def _some_keys(value: object) -> object:
    if isinstance(value, list | tuple) and not 1 <= len(value) <= _MOST_KEYS:
        raise wrong(
            f"{len(value)} keys, expected 1 to {_MOST_KEYS}: without one nobody could log in",
            "write the public keys of those who install and operate this site",
        )
    return value


DiskSerial = Annotated[str, BeforeValidator(_disk_serial)]
PublicKey = Annotated[str, BeforeValidator(_public_key)]
Mirror = Annotated[str, BeforeValidator(_mirror)]
VlanId = Annotated[StrictInt, Field(ge=1, le=4094)]


class Imaging(Settings):
    """How ``node image`` installs Ubuntu on bare servers."""

    authorized_keys: Annotated[tuple[PublicKey, ...], BeforeValidator(_some_keys)]
    """Public SSH keys that may log in; nobody logs in with a password."""
    gateway: Address | None = None
    """The nodes' default gateway; an install needs one, even an unused address; null: none."""
    vlan: VlanId | None = None
    """VLAN of the nodes' addresses, where switches send it tagged; null: untagged."""
    storage: StorageProfile = "root"
    """root: one file system; root_and_var: /var apart; lvm: root on a logical volume."""
    firmware: Firmware = "uefi"
    """How the servers boot: uefi or bios."""
    kernel: Kernel = "ga"
    """ga: 5.4, which 20.04 came with; hwe: the newer line of 20.04."""
    apt_mirror: Mirror | None = None
    """The archive that nodes use; null: only what the installer's medium carries."""
    minutes: Annotated[StrictInt, Field(ge=5, le=600)] = 90
    """Minutes that one node may take, from power on to its first login."""


class Bond(Settings):
    """Two or more ports that carry the address together."""

    macs: Annotated[tuple[Mac, ...], Field(min_length=2, max_length=8)]
    """MACs of its ports."""
    mode: BondMode = "802.3ad"
    """802.3ad: LACP, which the switches must speak too; active-backup: no switch is asked."""


class NodeImaging(Settings):
    """How ``node image`` installs this one server."""

    disk_serial: DiskSerial
    """Serial of the disk that the system goes to; every other disk stays as it is."""
    machine_serial: DiskSerial | None = None
    """The machine's serial, as its BMC and DMI have it; null: it is known by its MACs."""
    bond: Bond | None = None
    """The bond that carries the address; null: the port with mac."""
    gateway: Address | None = None
    """Its default gateway; null: the site's."""
    vlan: VlanId | None = None
    """VLAN of its address; null: the site's."""
    storage: StorageProfile | None = None
    """Its storage profile; null: the site's."""
    firmware: Firmware | None = None
    """How it boots; null: as the site's servers."""
    kernel: Kernel | None = None
    """Its kernel; null: the site's."""
