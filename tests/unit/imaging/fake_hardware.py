"""Hardware of installed servers, with faults; what judges it and keeps the records is real."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from appliance.adapters.local.hardware_models import load_gpus, load_hardware
from appliance.model.checks.hardware.reading import Reading
from appliance.model.checks.hardware.trials.stream import Stream
from appliance.model.site.settings import Node
from appliance.workflows.hardware.qualify import Catalogue
from appliance.workflows.hardware.qualifying import Qualifying
from tests.fakes import FakeArchive, FakeClock
from tests.unit.hardware.made_up import DATA, machine

# A model of which nothing is expected.
STANDIN = "lab/container"


class Hardware:
    """What the probes and BMCs of a rack tell, and the records on this machine.

    Attributes:
        changes: node -> how its machine differs from one that is as it should be; a text: why it
            tells nothing.
        asked: nodes, one entry for each time that hardware was read.
        kept: the documents on this machine.
        before: called before each record is written, with the document's name.
    """

    def __init__(self) -> None:
        self.changes: dict[str, dict[str, Any] | str] = {}
        self.asked: list[tuple[str, ...]] = []
        self.kept: dict[str, str] = {}
        self.archive = FakeArchive()
        self.before: Callable[[str], None] = lambda _name: None

    def qualifying(self) -> Qualifying:
        """What judges it."""
        models = {**load_hardware(), **load_hardware(DATA / "models")}
        catalogue = Catalogue(models, load_gpus())
        return Qualifying(
            catalogue, self, lambda _pods: self, Documents(self), self.archive,
            FakeClock(), "ops@desk", "1",
        )  # fmt: skip

    def read(
        self,
        nodes: Sequence[Node],
        way: Any,
        trials: Collection[str] = (),
    ) -> Mapping[str, Reading]:
        """Each node's machine by its probe."""
        assert (way, tuple(trials)) == ("both", ("fsync", "memory"))
        self.asked.append(tuple(node.name for node in nodes))
        return {node.name: self._reading(node.name) for node in nodes}

    def _reading(self, name: str) -> Reading:
        change = self.changes.get(name, {})
        if isinstance(change, str):
            return Reading(change)
        return Reading(machine({"identity.serial": f"SN-{name}", **change}))

    def measure(self, _nodes: Sequence[Node], _slow: Any) -> tuple[Stream, ...]:
        """No stream is measured."""
        return ()


class Documents:
    """The documents on this machine."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware

    def keep(self, name: str, text: str) -> bool:
        """Write one."""
        self._hardware.before(name)
        self._hardware.kept[name] = text
        return True

    def read(self, name: str) -> str | None:
        """Read one."""
        return self._hardware.kept.get(name)
