"""What is expected of one machine: its model, the GPUs that models name, and its roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.model.checks.hardware.found import Machine
from appliance.model.state.facts.hardware_models import HardwareModel
from appliance.model.state.facts.hardware_shown import GpuCard

# etcd's documentation (hardware guide, "Disks"): 99 % of fdatasync calls within 10 ms.
ETCD_FSYNC_MS = 10.0


@dataclass(frozen=True)
class Expectation:
    """What one machine is compared with.

    Attributes:
        name: of the model, as vendor/model.
        gpus: every GPU that a model may name, by name.
        carries_etcd: whether it is a control-plane node.
        carries_gpus: whether the site has it as a GPU worker.
        gpus_ordered: how many GPUs the node's host_vars name; None: they do not say.
    """

    name: str
    model: HardwareModel
    gpus: Mapping[str, GpuCard] = field(default_factory=dict)
    carries_etcd: bool = False
    carries_gpus: bool = False
    gpus_ordered: int | None = None

    def cards(self) -> Mapping[str, GpuCard]:
        """The GPUs that this model may carry: name -> card."""
        names = [name for slots in self.model.platform.gpus for name in slots.models]
        return {name: self.gpus[name] for name in names if name in self.gpus}

    def card_of(self, pci_id: str | None) -> tuple[str, GpuCard] | None:
        """The GPU with this vendor:device; None for one that no file names."""
        for name, card in self.gpus.items():
            if pci_id is not None and pci_id in card.pci_ids:
                return name, card
        return None

    def room(self) -> Mapping[str, int]:
        """Form -> how many GPUs of it fit; forms exclude each other."""
        found: dict[str, int] = {}
        for slots in self.model.platform.gpus:
            found[slots.form] = max(slots.count, found.get(slots.form, 0))
        return found

    def gpus_delivered(self) -> tuple[int, str] | None:
        """How many GPUs there have to be, and who says so; None where nothing says it."""
        reference, shows, room = self.model.reference, self.model.shows, self.room()
        if self.gpus_ordered is not None:
            return self.gpus_ordered, "as its host_vars say"
        if reference.gpus is not None:
            return reference.gpus, "as delivered"
        if shows.gpus is not None:
            return shows.gpus, "as the machine has that was read"
        if self.is_sxm:
            return room["sxm"], "one board carries all"
        return None

    def unlike(self, machine: Machine) -> str | None:
        """Why names that a machine of the model showed are not compared: another source."""
        read = self.model.shows.read_from
        if read is None or read.by == machine.source:
            return None
        return f"the machine of the model's file was read by {read.by}: names differ"

    @property
    def is_sxm(self) -> bool:
        """Whether one board carries all GPUs."""
        return set(self.room()) == {"sxm"}
