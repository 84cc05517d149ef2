"""NoCloud seeds: what an unattended installer reads about one server, rendered from its image.

A seed has no secret: the keys in it are public, no password fits, and its token ends with the
command that serves it. What must not be here: reading the programs of :mod:`appliance.installer`,
which the caller hands over as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

import yaml

from appliance.model.node.imaging.autoinstall import (
    DISK_TO_FIND,
    LABEL_FINISHED,
    LABEL_UNFINISHED,
    Apt,
    Autoinstall,
    Flavor,
    Identity,
    MetaData,
    NestedNetwork,
    PrimaryArchive,
    Reporting,
    Ssh,
    Webhook,
)
from appliance.model.node.imaging.image import NodeImage
from appliance.model.node.imaging.storage import storage

TOKEN: Final = re.compile(r"[0-9a-f]{32}")
# Where Subiquity keeps the document, and reads it again after the early commands.
AUTOINSTALL_FILE: Final = "/autoinstall.yaml"
MEDIUM_FOLDER: Final = "/cdrom/appliance"
_NETPLAN_FILE: Final = "/target/etc/netplan/00-installer-config.yaml"
_HOST_KEY: Final = "/target/etc/ssh/ssh_host_ed25519_key.pub"
# Why no disk was taken; it comes before the log, whose last line tells nothing of it.
_WHY: Final = "/run/appliance-not-installed"
_LOG: Final = "/var/log/installer/subiquity-server-debug.log"
_CLOUD_CONFIG: Final = "#cloud-config\n"
_Dumper: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Programs:
    """The texts of the programs that the installer runs.

    Attributes:
        disk: finds the disk, and refuses one that is not empty.
        report: sends a report.
        choose: chooses a seed on a medium for many.
    """

    disk: str
    report: str
    choose: str


@dataclass(frozen=True)
class Server:
    """Where seeds are served and reports are taken, for the length of one command.

    Attributes:
        address: of this machine, as the servers reach it.
    """

    address: IPv4Address
    port: int

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://{self.address}:{self.port}"


@dataclass(frozen=True)
class Seed:
    """The files of one server's seed.

    Attributes:
        name: of the node, and of the seed's folder.
        serial: of its machine; None: its MACs decide.
        document: the autoinstall document, as plain values.
    """

    name: str
    serial: str | None
    macs: tuple[str, ...]
    user_data: str
    meta_data: str
    network_config: str
    document: dict[str, Any]

    @property
    def files(self) -> dict[str, str]:
        """File name -> text, as NoCloud wants them."""
        return {
            "user-data": self.user_data,
            "meta-data": self.meta_data,
            "network-config": self.network_config,
            "vendor-data": "",
        }


@dataclass(frozen=True)
class OnDisk:
    """What an installer may write over.

    Attributes:
        wipe: whatever is there.
        labels: of systems that runs of ours finished, and never met.
    """

    wipe: bool = False
    labels: tuple[str, ...] = ()


EMPTY: Final = OnDisk()


def render(
    image: NodeImage,
    programs: Programs,
    server: Server,
    token: str,
    disk: OnDisk = EMPTY,
) -> Seed:
    """The seed of one server.

    Args:
        image: what it is to become.
        programs: what its installer runs.
        server: where its reports go.
        token: 32 hexadecimal digits, by which its reports are known.
        disk: what may be on its disk.

    Raises:
        ValueError: a value has a form that no installer may read.
    """
    if not TOKEN.fullmatch(token):
        raise ValueError("a token is 32 hexadecimal digits")
    report = ("python3", "-c", programs.report, f"{server.url}/report/{token}")
    during = image.network(server.address if image.apt_mirror is None else None)
    mirror = image.apt_mirror
    autoinstall = Autoinstall(
        early_commands=(_find_disk(image, programs, token, disk),),
        network=NestedNetwork(network=during),
        apt=Apt(primary=None if mirror is None else (PrimaryArchive(uri=mirror),)),
        storage=storage(image.storage, image.firmware),
        kernel=Flavor(flavor="hwe" if image.kernel == "hwe" else "generic"),
        identity=Identity(hostname=image.name, username=image.user),
        ssh=Ssh(authorized_keys=image.authorized_keys),
        reporting=Reporting(
            appliance=Webhook(endpoint=f"{server.url}/report/{token}"),
        ),
        late_commands=(*_finish(image, token), (*report, "installed", _HOST_KEY)),
        error_commands=((*report, "failed", _WHY, _LOG),),
    )
    document = autoinstall.plain()
    return Seed(
        name=image.name,
        serial=image.machine_serial,
        macs=image.macs,
        user_data=_CLOUD_CONFIG + dump({"autoinstall": document}),
        meta_data=dump(
            MetaData(
                instance_id=f"{image.name}-{digest(document, token)}", local_hostname=image.name
            ).plain()
        ),
        network_config=dump(during.plain()),
        document=document,
    )


def digest(document: dict[str, Any], token: str = "") -> str:
    """Short digest of a seed, without its token: the same for the same settings."""
    text = json.dumps(document, sort_keys=True)
    text = text.replace(token, "").replace(finished_label(token), "") if token else text
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def for_many(programs: Programs, seeds: Sequence[Seed]) -> dict[str, str]:
    """The files of a medium for many: path on it -> text.

    Its own user-data only runs the choice. Its storage names a disk that does not exist: an
    installer that did not choose stops, and does not take the largest disk.
    """
    choose = ["python3", f"{MEDIUM_FOLDER}/choose.py", f"{MEDIUM_FOLDER}/seeds", AUTOINSTALL_FILE]
    batch = {
        "autoinstall": {
            "version": 1,
            "early-commands": [choose],
            "storage": storage("root", "uefi").plain(),
        }
    }
    index = [{"name": seed.name, "serial": seed.serial, "macs": list(seed.macs)} for seed in seeds]
    files = {
        "nocloud/user-data": _CLOUD_CONFIG + dump(batch),
        "nocloud/meta-data": dump({"instance-id": "appliance-batch"}),
        "appliance/choose.py": programs.choose,
        "appliance/seeds/index.json": json.dumps(index, indent=1) + "\n",
    }
    for seed in seeds:
        folder = f"appliance/seeds/{seed.name}"
        files |= {f"{folder}/{name}": text for name, text in seed.files.items()}
        files[f"{folder}/autoinstall.json"] = json.dumps(seed.document, indent=1) + "\n"
    return files


def dump(document: Any) -> str:
    """As YAML, with texts of several lines as they are read best."""
    return str(yaml.dump(document, Dumper=_Readable, sort_keys=False, width=100))


class _Readable(_Dumper):  # type: ignore[misc] # its base is chosen above
    """Writes a text of several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        """Write every value out: who reads a seed follows no references."""
        return True


def _block(dumper: Any, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Readable.add_representer(str, _block)


def finished_label(token: str) -> str:
    """The label of a root file system that the seed with this token finished."""
    return LABEL_FINISHED + token[:12]


def _find_disk(image: NodeImage, programs: Programs, token: str, disk: OnDisk) -> tuple[str, ...]:
    mode, unfinished = "wipe" if disk.wipe else "keep", ",".join((LABEL_UNFINISHED, *disk.labels))
    end = (mode, AUTOINSTALL_FILE, DISK_TO_FIND, unfinished, finished_label(token), _WHY)
    return ("python3", "-c", programs.disk, image.disk_serial, *end)


def _finish(image: NodeImage, token: str) -> tuple[tuple[str, ...], ...]:
    """What is done in the installed system, before its first boot."""
    network = dump(image.network().document())
    sudo = "/target/etc/sudoers.d/90-appliance"
    return (
        ("curtin", "in-target", "--target=/target", "--", "ssh-keygen", "-A"),
        (
            *("sh", "-c"),
            f"echo '{image.user} ALL=(ALL) NOPASSWD:ALL' >{sudo} && chmod 440 {sudo}",
        ),
        ("sh", "-c", f"cat >{_NETPLAN_FILE} <<'END'\n{network}END\nchmod 600 {_NETPLAN_FILE}\n"),
        ("sh", "-c", f'e2label "$(findmnt -n -o SOURCE /target)" {finished_label(token)}'),
    )
