"""The part of Subiquity's autoinstall (version 1) that seeds use, as strict models.

Version 1 ignores what it does not know without a word (its reference manual, "Autoinstall
configuration reference manual"): a misspelt key would give a server with other disks than meant.
These models know each key that is used, and refuse every other one.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from appliance.model.node.imaging import netplan
from appliance.model.site.imaging_settings import Mirror, PublicKey

# What the early command puts the found disk in place of. No disk has this path: where the
# replacement does not happen, the installer finds no disk and stops.
DISK_TO_FIND: Final = "/dev/disk-chosen-by-serial"
LABEL_UNFINISHED: Final = "app-installing"
# With the first 12 digits of the seed's token behind it, 16 letters in all: ext4's limit.
LABEL_FINISHED: Final = "app-"
# crypt(3) has no such hash, so no password fits it.
NO_PASSWORD: Final = "*"  # noqa: S105

Id = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
Command = tuple[str, ...]


class Strict(netplan.Strict):
    """A mapping of which every key is known; hyphens are underscores here."""


class Curtin(BaseModel):
    """Keys with underscores, as curtin has them."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Disk(Curtin):
    """The disk that is written."""

    type: Literal["disk"] = "disk"
    id: Id
    path: str = DISK_TO_FIND
    ptable: Literal["gpt"] = "gpt"
    wipe: Literal["superblock-recursive"] = "superblock-recursive"
    preserve: Literal[False] = False
    grub_device: StrictBool


class Partition(Curtin):
    """A partition; ``size`` -1 takes what is left, so it is the last."""

    type: Literal["partition"] = "partition"
    id: Id
    device: Id
    size: Literal[-1] | Annotated[str, Field(pattern=r"^[1-9][0-9]{0,5}[MG]$")]
    flag: Literal["boot", "bios_grub"] | None = None
    grub_device: StrictBool | None = None
    wipe: Literal["superblock"] = "superblock"
    preserve: Literal[False] = False


class Format(Curtin):
    """A file system."""

    type: Literal["format"] = "format"
    id: Id
    volume: Id
    fstype: Literal["fat32", "ext4"]
    label: Annotated[str, Field(pattern=r"^[a-z-]{1,16}$")] | None = None
    preserve: Literal[False] = False


class Mount(Curtin):
    """Where a file system is mounted."""

    type: Literal["mount"] = "mount"
    id: Id
    device: Id
    path: Literal["/", "/boot", "/boot/efi", "/var"]


class VolumeGroup(Curtin):
    """A volume group of LVM."""

    type: Literal["lvm_volgroup"] = "lvm_volgroup"
    id: Id
    name: Id
    devices: tuple[Id, ...]
    preserve: Literal[False] = False


class LogicalVolume(Curtin):
    """A logical volume; ``size`` -1 takes the rest of its group."""

    type: Literal["lvm_partition"] = "lvm_partition"
    id: Id
    name: Id
    volgroup: Id
    size: Literal[-1] = -1
    wipe: Literal["superblock"] = "superblock"
    preserve: Literal[False] = False


Action = Annotated[
    Disk | Partition | Format | Mount | VolumeGroup | LogicalVolume, Field(discriminator="type")
]


class Swap(Curtin):
    """No swap file: the kubelet does not start with one."""

    size: Literal[0] = 0


class Storage(Strict):
    """Curtin's actions in their order."""

    swap: Swap = Swap()
    config: tuple[Action, ...]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Each action names what stands before it; one disk is written, ``/`` is mounted once."""
        known: set[str] = set()
        for action in self.config:
            missing = [name for name in _named(action) if name not in known]
            if missing or action.id in known:
                raise ValueError(f"{action.id} comes twice, or before {missing}")
            known.add(action.id)
        if sum(isinstance(action, Disk) for action in self.config) != 1:
            raise ValueError("exactly one disk is written")
        mounts = [action.path for action in self.config if isinstance(action, Mount)]
        if mounts.count("/") != 1 or len(mounts) != len(set(mounts)):
            raise ValueError("/ is mounted once, and no other folder twice")
        return self

    @model_validator(mode="after")
    def _rest_last(self) -> Self:
        """What takes the rest of the disk is its last partition."""
        sizes = [action.size for action in self.config if isinstance(action, Partition)]
        if -1 in sizes[:-1]:
            raise ValueError("a partition comes after what takes the rest of the disk")
        return self


def _named(action: Action) -> tuple[str, ...]:
    """The ids that an action builds on."""
    if isinstance(action, Partition | Mount):
        return (action.device,)
    if isinstance(action, Format):
        return (action.volume,)
    if isinstance(action, VolumeGroup):
        return action.devices
    return (action.volgroup,) if isinstance(action, LogicalVolume) else ()


class Identity(Strict):
    """The user who logs in; the password fits nobody."""

    hostname: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
    username: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_-]{0,31}$")]
    password: Literal["*"] = NO_PASSWORD


class Ssh(Strict):
    """sshd, for keys alone."""

    install_server: Literal[True] = True
    allow_pw: Literal[False] = False
    authorized_keys: Annotated[tuple[PublicKey, ...], Field(min_length=1, max_length=20)]


class PrimaryArchive(Curtin):
    """An archive for every architecture."""

    arches: tuple[Literal["default"], ...] = ("default",)
    uri: Mirror


class Apt(Curtin):
    """The archives; no address of the internet, and no question where the machine stands."""

    preserve_sources_list: Literal[False] = False
    geoip: Literal[False] = False
    primary: Annotated[tuple[PrimaryArchive, ...], Field(max_length=1)] | None = None


class Flavor(Strict):
    """The kernel: ``generic`` is 20.04's first line, ``hwe`` the newer one."""

    flavor: Literal["generic", "hwe"]


class Webhook(Strict):
    """The installer's own reports, by HTTP."""

    type: Literal["webhook"] = "webhook"
    endpoint: Annotated[str, Field(pattern=r"^http://[0-9.]{7,15}:[0-9]{1,5}/report/[0-9a-f]{32}$")]


class Reporting(Strict):
    """Where the reports go."""

    appliance: Webhook


class Refresh(Strict):
    """The installer does not look for a newer installer."""

    update: Literal[False] = False


class Keyboard(Strict):
    """The keyboard; without ``toggle``, which 20.04's first installer refuses as null."""

    layout: Literal["us"] = "us"


class InstalledCloudInit(Curtin):
    """cloud-init of the installed system keeps the host keys that the installer reported."""

    ssh_deletekeys: Literal[False] = False


class NestedNetwork(Strict):
    """The network with the extra key that 20.04's first installer needs; later ones take it."""

    network: netplan.Network


class Autoinstall(Strict):
    """What the installer is told, whole."""

    version: Literal[1] = 1
    early_commands: tuple[Command, ...]
    locale: Literal["en_US.UTF-8"] = "en_US.UTF-8"
    keyboard: Keyboard = Keyboard()
    refresh_installer: Refresh = Refresh()
    network: NestedNetwork
    apt: Apt
    storage: Storage
    kernel: Flavor
    identity: Identity
    ssh: Ssh
    user_data: InstalledCloudInit = InstalledCloudInit()
    reporting: Reporting
    late_commands: tuple[Command, ...]
    error_commands: tuple[Command, ...]
    shutdown: Literal["poweroff"] = "poweroff"


class MetaData(Strict):
    """NoCloud's meta-data."""

    instance_id: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,100}$")]
    local_hostname: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
