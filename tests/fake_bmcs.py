"""A fake of the driver of BMCs: machines that obey, refuse, hang or lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.node.bmc.orders import BmcMachine, BootOverride, BootSource, Medium, PowerOrder
from appliance.model.site.settings import Node
from appliance.model.state.facts.identity import MachineIdentity, likeness

RESETS = ("On", "ForceOff", "GracefulShutdown")


class FakeDriver:
    """One BMC a node. Its serial is the one that samples give the node.

    Attributes:
        machines: node -> what its BMC reports.
        fails: node -> what is raised when its BMC is opened.
        orders: (node, order) of everything that was sent.
        ordered_fails: node -> what is raised by an order.
    """

    def __init__(self, nodes: Sequence[str], power: str = "On") -> None:
        self.machines = {
            name: BmcMachine(f"SN-{name}", power=power, resets=RESETS) for name in nodes
        }
        self.fails: dict[str, ApplianceError] = {}
        self.order_fails: dict[str, ApplianceError] = {}
        self.orders: list[tuple[str, str]] = []

    @contextmanager
    def open(self, node: Node) -> Iterator[FakeBmc]:
        if node.name in self.fails:
            raise self.fails[node.name]
        if node.name not in self.machines:
            raise NodeUnreachable(f"{node.name}: no BMC")
        yield FakeBmc(self, node.name)


class FakeBmc:
    """One BMC that let us in."""

    def __init__(self, driver: FakeDriver, name: str) -> None:
        self._driver, self._name = driver, name
        self._media: tuple[Medium, ...] = (Medium("CD1", ("CD",)),)

    def machine(self) -> BmcMachine:
        return self._driver.machines[self._name]

    def require(self, accepted: MachineIdentity) -> BmcMachine:
        if likeness(accepted, self.machine().identity) != "same":
            raise Refused(f"{self._name}: another machine")
        return self.machine()

    def power(
        self,
        order: PowerOrder,
        seconds: float | None = None,  # noqa: ARG002
        wanted: Callable[[], bool] = lambda: True,  # noqa: ARG002
    ) -> BmcMachine:
        if self._name in self._driver.order_fails:
            raise self._driver.order_fails[self._name]
        self._driver.orders.append((self._name, order))
        return self._becomes(power="On" if order == "on" else "Off")

    def media(self) -> tuple[Medium, ...]:
        return self._media

    def insert(self, url: str) -> Medium:
        self._driver.orders.append((self._name, f"insert {url}"))
        self._media = (Medium("CD1", ("CD",), url, inserted=True),)
        return self._media[0]

    def eject(self) -> tuple[Medium, ...]:
        self._driver.orders.append((self._name, "eject"))
        taken = tuple(one for one in self._media if one.is_taken)
        self._media = (Medium("CD1", ("CD",)),)
        return taken

    def boot_once(self, source: BootSource) -> BootOverride:
        self._driver.orders.append((self._name, f"boot {source}"))
        self._becomes(boot=source, boot_enabled="Once")
        return BootOverride(source, stays=False)

    def clear_boot(self) -> BmcMachine:
        return self._becomes(boot=None, boot_enabled="Disabled")

    def _becomes(self, **changes: str | None) -> BmcMachine:
        found = replace(self.machine(), **changes)  # type: ignore[arg-type]
        self._driver.machines[self._name] = found
        return found
