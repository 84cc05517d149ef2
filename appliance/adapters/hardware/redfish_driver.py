"""Drives BMCs by Redfish: power, virtual media, the next boot. Each order is verified by reading.

An order that a BMC accepts proves nothing: sushy ignores some refusals of an eject, and some BMCs
report a state late, or accept and forget. So every order is read back until a deadline, and the
machine's identity is compared before the first one. Which reset is sent, and what counts as done:
:mod:`appliance.model.node.bmc.orders`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from appliance.adapters.hardware.redfish import BMC_SECONDS, MOST_BYTES
from appliance.adapters.hardware.redfish_documents import read_machine, read_medium
from appliance.adapters.hardware.redfish_session import (
    HTTPS,
    BmcFailed,
    OpenBmc,
    RedfishSessions,
)
from appliance.adapters.local.clock import SystemClock, WaitClock
from appliance.errors import BmcRefused, NodeUnreachable, Refused, StepNotVerified
from appliance.model.node.bmc.orders import (
    AGAIN_SECONDS,
    BOOT_SECONDS,
    MEDIA_SECONDS,
    MOST_ORDERS,
    POWER_SECONDS,
    BmcMachine,
    BootOverride,
    BootSource,
    Medium,
    PowerOrder,
    boot_override,
    boot_target,
    disc_of,
    reset_of,
)
from appliance.model.state.facts.identity import MachineIdentity, likeness

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

Seen = TypeVar("Seen")
POLL_SECONDS: Final = 2.0
# A BMC is slow hardware: what takes long is looked at less often.
LATER_POLL_SECONDS: Final = 5.0
LATER: Final = 30.0
CLEAR_SECONDS: Final = 10.0
_MOST_MEDIA: Final = 16


class RedfishDriver:
    """Drives the BMCs of one site. Each call is about one BMC: threads may drive several at once.

    Args:
        secrets: the vault's secrets, read with the first request.
        port: the port of the BMCs.
        clock: for waits.
    """

    def __init__(
        self,
        secrets: Callable[[], Mapping[str, str]],
        port: int = HTTPS,
        clock: WaitClock | None = None,
    ) -> None:
        self.sessions = RedfishSessions(secrets, port)
        self._clock = clock or SystemClock()

    @contextmanager
    def open(self, node: Node) -> Iterator[DrivenBmc]:
        """Open the node's BMC.

        Raises:
            Refused: the inventory has no BMC for the node.
            NodeUnreachable: the BMC was not reached, or did not let us in.
        """
        self.require_address(node)
        with unreachable(node.name), self.sessions.open(node, BMC_SECONDS, MOST_BYTES) as bmc:
            bmc.require_system()
            yield DrivenBmc(bmc, self._clock)

    @staticmethod
    def require_address(node: Node) -> None:
        """Refuse a node without a BMC in the inventory."""
        if node.bmc_address is None:
            raise Refused(
                f"{node.name}: the inventory has no BMC for it",
                hint=f"write bmc_address into host_vars/{node.name}.yml",
            )


class DrivenBmc:
    """One BMC that let us in."""

    def __init__(self, bmc: OpenBmc, clock: WaitClock) -> None:
        self._bmc, self._clock = bmc, clock
        self._name = bmc.node.name

    def machine(self) -> BmcMachine:
        """The machine as the BMC reports it now.

        Raises:
            NodeUnreachable: the BMC did not answer, or not with Redfish.
        """
        with unreachable(self._name):
            return self._machine()

    def require(self, accepted: MachineIdentity) -> BmcMachine:
        """The machine, if it is this one.

        Raises:
            Refused: it is another one, or cannot be identified.
            NodeUnreachable: see :meth:`machine`.
        """
        found = self.machine()
        if likeness(accepted, found.identity) != "same":
            raise Refused(
                f"{self._name}: the BMC at {self._bmc.url} reports a machine with "
                f"{found.identity.words()}, expected {accepted.words()}",
                hint=f"correct bmc_address or bmc_system in host_vars/{self._name}.yml",
            )
        return found

    def power(
        self,
        order: PowerOrder,
        seconds: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> BmcMachine:
        """Bring the power to a state; nothing is sent where it is already there.

        Args:
            order: which.
            seconds: how long is waited for it.
            wanted: whether it still is; nothing is sent, nor again, once it is not.

        Raises:
            BmcRefused: the BMC accepts no such order, or refused it.
            StepNotVerified: it accepted, and the state was not observed within ``seconds``.
        """
        patience = _Patience(self._clock, POWER_SECONDS[order] if seconds is None else seconds)
        sent, sent_at, last, trouble = 0, 0.0, BmcMachine(), ""
        while True:
            try:
                last = self._machine()
                if last.is_after(order):
                    return last
                again = order != "off" and self._clock.monotonic() - sent_at >= AGAIN_SECONDS
                if wanted() and (sent == 0 or (again and sent < MOST_ORDERS)):
                    sent_at, sent = self._clock.monotonic(), sent + 1
                    self._reset(order, last)
            except BmcFailed as failed:
                trouble = failed.reason
            if patience.is_over() or not wanted():
                found = f"its BMC reports power {last.power or 'unknown'}"
                raise StepNotVerified(
                    f"{self._name}: {found} {patience.words} after the order {order}",
                    hint=_after(order, self._name),
                    details=[trouble] if trouble else [],
                )
            patience.sleep()

    def media(self) -> tuple[Medium, ...]:
        """Its virtual media; empty where it has none.

        Raises:
            NodeUnreachable: see :meth:`machine`.
        """
        with unreachable(self._name):
            return tuple(self._media())

    def insert(self, url: str) -> Medium:
        """Insert an image as a disc; what is inserted in its place is ejected first.

        Raises:
            BmcRefused: the BMC has no virtual medium for a disc, or refused the image.
            StepNotVerified: it accepted, and the image was not seen inserted.
        """
        with unreachable(self._name):
            media = self._media()
        chosen = disc_of(tuple(media))
        if chosen is None:
            raise BmcRefused(
                f"{self._name}: the BMC at {self._bmc.url} has no virtual CD",
                hint="virtual media may need a licence: look at the BMC's web page",
            )
        if chosen.image == url and chosen.inserted:
            return chosen
        if chosen.is_taken:
            self.eject()
        with self._ordering("insert the image"):
            media[chosen].insert_media(url)
        return self._medium_when(chosen.name, lambda seen: seen.holds(url), "the image inserted")

    def eject(self) -> tuple[Medium, ...]:
        """Eject every disc that is inserted; those that were.

        Raises:
            BmcRefused: the BMC refused.
            StepNotVerified: it accepted, and a disc is still inserted.
        """
        with unreachable(self._name):
            media = self._media()
        taken = tuple(one for one in media if one.is_taken and (one.is_disc or not one.types))
        for one in taken:
            with self._ordering("eject the image"):
                media[one].eject_media()
            self._medium_when(one.name, lambda seen: not seen.is_taken, "the image ejected")
        return taken

    def boot_once(self, source: BootSource) -> BootOverride:
        """Let the next boot, and only that one, come from a source.

        Raises:
            BmcRefused: the BMC has no such source, or refused.
            StepNotVerified: it accepted, and does not report the override.
        """
        import sushy

        target = boot_target(source, self.machine().boot_sources)
        if target is None:
            raise BmcRefused(f"{self._name}: its BMC offers no boot from {source}")
        self._override(sushy.BootSource(target), sushy.BootSourceOverrideEnabled.ONCE)
        found = self._machine_when(
            lambda seen: boot_override(seen, target) is not None, f"one boot from {target}"
        )
        override = boot_override(found, target)
        assert override is not None  # noqa: S101  (waited for)
        return override

    def clear_boot(self) -> BmcMachine:
        """Remove the override: the machine boots by its own order, or else from its disk.

        Raises:
            BmcRefused: the BMC refused.
            StepNotVerified: it accepted, and still reports another override.
        """
        import sushy

        found = self.machine()
        if found.boot_enabled in (None, "Disabled"):
            return found
        enabled = sushy.BootSourceOverrideEnabled
        try:
            self._override(None, enabled.DISABLED)
            return self._machine_when(
                lambda seen: seen.boot_enabled == "Disabled", "no override", CLEAR_SECONDS
            )
        except (BmcRefused, StepNotVerified):
            # Some BMCs always report an override: one to the disk does the same.
            if boot_target("disk", found.boot_sources) is None:
                raise
        self._override(sushy.BootSource.HDD, enabled.CONTINUOUS)
        return self._machine_when(lambda seen: seen.boot == "Hdd", "boot from the disk")

    def _override(self, target: Any, enabled: Any) -> None:
        with self._ordering("set the boot source"):
            self._bmc.own_system().set_system_boot_options(target=target, enabled=enabled)

    def _reset(self, order: PowerOrder, machine: BmcMachine) -> None:
        import sushy

        word = reset_of(order, machine.resets)
        if word is None:
            raise BmcRefused(
                f"{self._name}: its BMC accepts {', '.join(machine.resets)}, and no order {order}",
                hint=_after(order, self._name),
            )
        try:
            with self._bmc.asking():
                self._bmc.own_system().reset_system(sushy.ResetType(word))
        except BmcFailed as failed:
            # Refused for good; all else may have had its effect, and is looked at again.
            if failed.status in (400, 401, 403, 404, 405, 501):
                raise BmcRefused(f"{self._name}: {failed.reason}") from failed
            raise

    def _machine(self) -> BmcMachine:
        self._bmc.limits.renew()
        system = self._bmc.own_system()
        with self._bmc.asking():
            return read_machine(system.json)

    def _media(self) -> dict[Medium, Any]:
        """Medium -> sushy's object of it: of the system, else of its managers."""
        from sushy.exceptions import MissingAttributeError, ResourceNotFoundError

        self._bmc.limits.renew()
        system = self._bmc.own_system()
        found: dict[Medium, Any] = {}
        with self._bmc.asking():
            for of_managers in (False, True):
                try:
                    owners = system.managers if of_managers else [system]
                    collections = [one.virtual_media for one in owners]
                    objects = [one for every in collections for one in every.get_members()]
                except (MissingAttributeError, ResourceNotFoundError):
                    continue
                found = {read_medium(one.json): one for one in objects[:_MOST_MEDIA]}
                if found:
                    break
        return found

    def _medium_when(self, name: str, done: Callable[[Medium], bool], what: str) -> Medium:
        def look() -> Medium:
            return next((one for one in self._media() if one.name == name), Medium(name))

        return self._when(look, done, MEDIA_SECONDS, what, lambda seen: seen.words())

    def _machine_when(
        self, done: Callable[[BmcMachine], bool], what: str, seconds: float = BOOT_SECONDS
    ) -> BmcMachine:
        def words(seen: BmcMachine) -> str:
            return f"boot override {seen.boot_enabled or 'unknown'} {seen.boot or ''}".strip()

        return self._when(self._machine, done, seconds, what, words)

    def _when(
        self,
        look: Callable[[], Seen],
        done: Callable[[Seen], bool],
        seconds: float,
        what: str,
        words: Callable[[Seen], str],
    ) -> Seen:
        """What is seen, as soon as it is what was ordered."""
        patience, last = _Patience(self._clock, seconds), "nothing"
        while True:
            try:
                seen = look()
                last = words(seen)
                if done(seen):
                    return seen
            except BmcFailed as failed:
                last = failed.reason
            if patience.is_over():
                raise StepNotVerified(
                    f"{self._name}: expected {what}, found after {patience.words}: {last}",
                    hint="run the same command again; if it is the same: restart the BMC, or use "
                    "its web page",
                )
            patience.sleep()

    @contextmanager
    def _ordering(self, what: str) -> Iterator[None]:
        self._bmc.limits.renew()
        try:
            with self._bmc.asking():
                yield
        except BmcFailed as failed:
            raise BmcRefused(
                f"{self._name}: the order to {what} failed: {failed.reason}",
                hint="run the same command again; if it is the same: use the BMC's web page",
            ) from failed


class _Patience:
    """How long is waited for one order."""

    def __init__(self, clock: WaitClock, seconds: float) -> None:
        self._clock, self._begun, self._seconds = clock, clock.monotonic(), seconds
        self.words = f"{seconds:g} s"

    def is_over(self) -> bool:
        """Whether it is."""
        return self._waited >= self._seconds

    def sleep(self) -> None:
        """Wait until the next look."""
        self._clock.sleep(POLL_SECONDS if self._waited < LATER else LATER_POLL_SECONDS)

    @property
    def _waited(self) -> float:
        return self._clock.monotonic() - self._begun


@contextmanager
def unreachable(name: str) -> Iterator[None]:
    """Translate what goes wrong with a BMC before an order."""
    try:
        yield
    except BmcFailed as failed:
        raise NodeUnreachable(
            f"{name}: {failed.reason}", hint="check the BMC's address, network and login"
        ) from failed


def _after(order: PowerOrder, name: str) -> str:
    if order == "off":
        return (
            "its operating system did not stop; look at its console, or cut its power: "
            f"appliance node power off {name} --hard"
        )
    return f"look at its console and its power LED: appliance node power status {name}"
