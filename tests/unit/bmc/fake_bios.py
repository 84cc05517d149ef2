"""A fake of BMCs with BIOS settings: machines that take, ignore or forget them at their start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.errors import BmcRefused
from appliance.model.node.bmc.bios import BiosState
from appliance.model.node.bmc.bios_registry import AttributeRule, BiosValue
from appliance.model.node.bmc.orders import BmcMachine, PowerOrder
from appliance.model.site.settings import Node
from tests.fake_bmcs import FakeBmc, FakeDriver

# A folder with a model that asks for settings of these.
MODELS = Path(__file__).parents[2] / "data/hardware/bios_models"
RULES = {
    "IOMMU": AttributeRule("IOMMU", "Enumeration", ("Enabled", "Disabled")),
    "SMT": AttributeRule("SMT", "Boolean"),
    "Retries": AttributeRule("Retries", "Integer", least=0, most=10),
    "Text": AttributeRule("Text", "String", least=0, most=4),
    "Cores": AttributeRule("Cores", "Integer", read_only=True),
    "Secret": AttributeRule("Secret", "Password"),
}
BEFORE: dict[str, BiosValue] = {
    **{"IOMMU": "Disabled", "SMT": True, "Retries": 1, "Text": "", "Cores": 32},
    "Secret": "hunter22",
}


class FakeBiosDriver(FakeDriver):
    """Machines whose BIOS settings can be ordered.

    Attributes:
        bios: node -> its settings.
        ignores: nodes whose BIOS takes nothing.
        sent: (node, values) of every order.
        killed: an order or a look after which the command is killed: raised once.
    """

    def __init__(self, nodes: Any, power: str = "On") -> None:
        super().__init__(nodes, power)
        self.bios = {name: BiosState(BEFORE, {}, RULES) for name in self.machines}
        self.ignores: set[str] = set()
        self.forgets: set[str] = set()
        self.sent: list[tuple[str, dict[str, BiosValue]]] = []
        self.killed = ""

    @contextmanager
    def open(self, node: Node) -> Iterator[FakeBiosBmc]:
        with super().open(node):
            yield FakeBiosBmc(self, node.name)

    def kill_after(self, what: str) -> None:
        if self.killed == what:
            self.killed = ""
            raise Killed


class Killed(BaseException):
    """The command is gone."""


class FakeBiosBmc(FakeBmc):
    """One BMC that let us in."""

    def __init__(self, driver: FakeBiosDriver, name: str) -> None:
        super().__init__(driver, name)
        self._bmcs = driver

    def bios(self) -> BiosState:
        return self._bmcs.bios[self._name]

    def bios_now(self) -> BiosState:
        return replace(self._bmcs.bios[self._name], rules=None)

    def order_bios(self, values: Mapping[str, BiosValue], shown: BiosState) -> None:
        state = self._bmcs.bios[self._name]
        if dict(state.pending) != dict(shown.pending):
            raise BmcRefused(f"{self._name}: somebody else ordered BIOS settings meanwhile")
        self._bmcs.sent.append((self._name, dict(values)))
        if self._name not in self._bmcs.forgets:
            waits = {**state.pending, **values}
            self._bmcs.bios[self._name] = replace(state, pending=waits)
        self._bmcs.kill_after("set")

    def power(self, order: PowerOrder, *args: Any, **more: Any) -> BmcMachine:
        found = super().power(order, *args, **more)
        state = self._bmcs.bios[self._name]
        if order == "on":
            taken = {} if self._name in self._bmcs.ignores else state.pending
            self._bmcs.bios[self._name] = replace(
                state, attributes={**state.attributes, **taken}, pending={}
            )
        self._bmcs.kill_after(order)
        return found
