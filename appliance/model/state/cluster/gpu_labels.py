"""What NVIDIA's software writes on a Node about its GPUs, read strictly.

Sources: gpu-feature-discovery v0.7.0, internal/lm/resource.go and mig-strategy.go (count, replicas,
product, mig.strategy); k8s-device-plugin v0.13.0, internal/rm/rm.go and api/config/v1/resources.go
(names of resources); GPU Operator 22.9.2 (mig.config and its state). A kubelet may write labels:
nothing here is believed before it has the form that these programs give it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

PREFIX: Final = "nvidia.com/"
WHOLE: Final = "nvidia.com/gpu"
SHARED: Final = ".shared"
MIG: Final = "nvidia.com/mig-"
STRATEGY: Final = "nvidia.com/mig.strategy"
CONFIG: Final = "nvidia.com/mig.config"
CONFIG_STATE: Final = "nvidia.com/mig.config.state"
CAPABLE: Final = "nvidia.com/mig.capable"
# The label by which the device plugin's config manager chooses a configuration for one node.
PLUGIN_CONFIG: Final = "nvidia.com/device-plugin.config"
STRATEGIES: Final = ("none", "single", "mixed")
PROFILE: Final = r"(?:\d{1,2}c\.)?\d{1,2}g\.\d{1,3}gb(?:\.[a-z]{1,8}){0,2}"
_COUNT: Final = re.compile(r"[0-9]{1,6}")
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_OF_PROFILE: Final = re.compile(rf"nvidia\.com/mig-({PROFILE})\.count")
_LETTERS: Final = 40


@dataclass(frozen=True)
class Devices:
    """One kind of device: whole GPUs, or MIG devices of one profile.

    Attributes:
        count: how many there are; None where no label says so.
        replicas: how often each is offered; 0 where gpu-feature-discovery says that it is not.
        slices: GPU instance slices of each; None for a whole GPU.
        product: the model, with NVIDIA's suffixes for MIG and sharing.
    """

    count: int | None = None
    replicas: int | None = None
    slices: int | None = None
    product: str = ""

    @property
    def times(self) -> int:
        """How often each device is offered."""
        return self.replicas or 1

    @property
    def renamed(self) -> bool:
        """Whether the shared devices have a resource of their own name.

        The product of shared devices ends in SHARED, unless the resource is renamed.
        """
        return self.times > 1 and not self.product.endswith("-SHARED")


@dataclass(frozen=True)
class GpuLabels:
    """The labels of one node.

    Attributes:
        strategy: of MIG; None where gpu-feature-discovery wrote none.
        gpus: what is offered as ``nvidia.com/gpu``.
        profiles: MIG profile -> its devices; with strategy ``mixed`` only.
        config: the MIG configuration that the node was asked to have, or None.
        config_state: what the MIG manager says of it, or None.
        capable: whether its GPUs can be divided by MIG; None where no label says so.
        faults: labels that have no form that NVIDIA's software gives them.
    """

    strategy: str | None = None
    gpus: Devices = Devices()
    profiles: Mapping[str, Devices] = field(default_factory=dict)
    config: str | None = None
    config_state: str | None = None
    capable: bool | None = None
    faults: tuple[str, ...] = ()

    def devices(self, resource: str) -> Devices | None:
        """The devices behind a resource, renamed or not; None where no label speaks of them."""
        name = resource.removesuffix(SHARED)
        return self.gpus if name == WHOLE else self.profiles.get(name.removeprefix(MIG))


def read_gpu_labels(labels: Mapping[str, str]) -> GpuLabels:
    """Read the labels of a Node."""
    reader = _Reader(labels)
    profiles = {name: reader.devices(f"{MIG}{name}") for name in reader.profiles()}
    capable = reader.one_of(CAPABLE, ("true", "false"))
    return GpuLabels(
        strategy=reader.one_of(STRATEGY, STRATEGIES),
        gpus=reader.devices(WHOLE),
        profiles=profiles,
        config=reader.word(CONFIG),
        config_state=reader.word(CONFIG_STATE),
        capable=None if capable is None else capable == "true",
        faults=tuple(reader.faults),
    )


class _Reader:
    """Reads values, and keeps what has no known form."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self.faults: list[str] = []

    def profiles(self) -> Iterator[str]:
        """Every MIG profile that a label names, once."""
        found: dict[str, None] = {}
        for key in sorted(self._labels):
            if not key.startswith(MIG) or not key.endswith(".count"):
                continue
            match = _OF_PROFILE.fullmatch(key)
            if match:
                found[match[1]] = None
            else:
                self.faults.append(f"label {_shown(key)} names no MIG profile")
        yield from found

    def devices(self, resource: str) -> Devices:
        """The devices of one resource."""
        return Devices(
            self.count(f"{resource}.count"),
            self.count(f"{resource}.replicas"),
            self.count(f"{resource}.slices.gi"),
            self.word(f"{resource}.product") or "",
        )

    def count(self, key: str) -> int | None:
        """A number; None where there is no such label."""
        value = self._matching(key, _COUNT, "number")
        return None if value is None else int(value)

    def word(self, key: str) -> str | None:
        """A word as a label may have it."""
        return self._matching(key, _WORD, "word")

    def one_of(self, key: str, words: tuple[str, ...]) -> str | None:
        """One of some words."""
        value = self._labels.get(key)
        if value is not None and value not in words:
            self.faults.append(f"label {key} is {_shown(value)}, not {' or '.join(words)}")
            return None
        return value

    def _matching(self, key: str, form: re.Pattern[str], what: str) -> str | None:
        value = self._labels.get(key)
        if value is None or form.fullmatch(value):
            return value
        self.faults.append(f"label {key} is {_shown(value)}, which is no {what}")
        return None


def _shown(text: str) -> str:
    """Foreign text that cannot steer a terminal."""
    return ascii(text[:_LETTERS])
