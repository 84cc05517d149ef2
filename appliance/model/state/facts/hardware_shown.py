"""What a machine of a model shows and how it has to be set; None until read from a machine."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class ReadFrom(_Data):
    """The machine that was read; ``appliance hardware inspect --write`` fills it in."""

    serial: str | None = None
    day: str
    """ISO 8601."""
    by: Literal["probe", "redfish"]
    tool_version: str


class Shows(_Data):
    """What a machine of the model shows; nobody fills it in by hand."""

    board: str | None = None
    cpu_models: tuple[str, ...] | None = None
    """Model of the CPU in each socket."""
    dimm_slots: tuple[str, ...] | None = None
    """Names of all slots, in the order of the firmware."""
    dimms_in: tuple[str, ...] | None = None
    """Names of the slots that hold a module as delivered."""
    dimms_gib: tuple[int, ...] | None = None
    """Size of the module in each slot of ``dimms_in``, in its order."""
    dimm_speed_mts: int | None = None
    """The speed at which all modules run; None where they differ."""
    disks_gb: tuple[int, ...] | None = None
    """Size of each disk in GB of 1000 x 1000 x 1000 bytes, sorted; without USB."""
    gpus: int | None = None
    """How many GPUs are on PCI."""
    gpu_ids: tuple[str, ...] | None = None
    """vendor:device of each GPU, sorted."""
    nic_ids: tuple[str, ...] | None = None
    """vendor:device of each port of a network card on PCI, sorted."""
    read_from: ReadFrom | None = None


class FirmwareMinimum(_Data):
    """The oldest version that may be delivered."""

    part: Literal["bios", "bmc", "nic", "gpu", "disk"]
    of: str | None = None
    """Which nic or gpu, as vendor:device; which disk, as its model. None for bios and bmc."""
    least: str

    @model_validator(mode="after")
    def _names_which(self) -> Self:
        if (self.of is None) != (self.part in ("bios", "bmc")):
            raise ValueError("nic, gpu and disk need `of`, which bios and bmc do not have")
        return self


class Wanted(_Data):
    """How a machine of the model has to be set; None: no rule, the found value is a note."""

    firmware: tuple[FirmwareMinimum, ...] = ()
    secure_boot: bool | None = None
    iommu: bool | None = None
    numa_nodes: int | None = Field(default=None, ge=1)
    power_profile: str | None = None
    virtualisation: bool | None = None
    bios: dict[str, str | bool | int] = {}
    """Redfish's name of a BIOS attribute -> its value."""
    why: dict[str, str] = {}
    """Name of a rule, or of a BIOS attribute -> why it matters."""


class BiosSetting(_Data):
    """One setting of hardware/bios.yml, as people call it."""

    fact: str
    """What ``hardware qualify`` calls it."""
    needed: str | None = None
    """None: nothing that was read says which value."""
    gpus_only: bool = False
    """Whether it matters only where there are GPUs."""
    why: str
    source: str | None = None


class GpuCard(_Data):
    """One GPU of hardware/gpus.yml."""

    form: Literal["double_width", "single_width", "sxm"]
    pci_ids: tuple[str, ...]
    """vendor:device; several where the name stands for several cards."""
    memory_gib: int | None = None
    link_width: int | None = None
    """Lanes; None: what the card itself says it can do."""
    source: str


class ConfiguredServer(_Data):
    """One line of a configuration."""

    hardware: str
    """A model, as vendor/model."""
    count: int = Field(ge=1)
    role: str


class Configuration(_Data):
    """One configuration of hardware/configurations.yml."""

    purpose: str
    servers: tuple[ConfiguredServer, ...]
    source: str
