"""What is expected of one machine: its model, the GPUs that models name, and its roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """

    name: str
    model: HardwareModel
    gpus: Mapping[str, GpuCard] = field(default_factory=dict)
    carries_etcd: bool = False
    carries_gpus: bool = False

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

    def most_gpus(self) -> int | None:
        """How many GPUs fit at most; None if the model's file does not say."""
        return max((slots.count for slots in self.model.platform.gpus), default=None)

    @property
    def is_sxm(self) -> bool:
        """Whether one board carries all GPUs."""
        return {slots.form for slots in self.model.platform.gpus} == {"sxm"}
