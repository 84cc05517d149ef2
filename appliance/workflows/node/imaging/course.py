"""The course of one server: medium, one boot from it, its installer's reports, the first login.

It runs in a thread of its own and speaks of its server alone. Every wait has an end: the node's
deadline. What must not be here: which servers, and whether they may be installed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from appliance.errors import (
    ApplianceError,
    BmcRefused,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.node.imaging.batch import MOST_LABELS, Note, name_of
from appliance.model.node.imaging.wipe import differences
from appliance.model.state.facts.identity import likeness
from appliance.workflows.node.imaging.discs import discs_of

if TYPE_CHECKING:
    from appliance.model.node.imaging.batch import Course
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.node.imaging.reports import Heard
    from appliance.model.site.settings import Node
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.workflows.node.imaging.ports import (
        FirstContact,
        Notes,
        ServedBatch,
    )
    from appliance.workflows.node.maintenance.driving import BmcDriver, DrivenBmc
    from appliance.workflows.session.ports import Clock, Nodes

Via = Literal["media", "pxe"]
# How often what a BMC is asked for is tried, from the medium to power on.
TRIES: Final = 3
BETWEEN_TRIES_SECONDS: Final = 15.0
POLL_SECONDS: Final = 5.0
# An installer goes off by itself; a machine that stays on after its last report is cut.
OFF_SECONDS: Final = 180.0
# A machine that is off, and whose installer reported nothing, for so long: nothing was installed.
LOST_SECONDS: Final = 60.0
_TRIED_AGAIN: Final = (BmcRefused, StepNotVerified, NodeUnreachable)


class _Taken(Refused):
    """Another command installs the server."""


@dataclass(frozen=True)
class CourseContext:
    """What a course is given.

    Attributes:
        say: node and what it does now; called from many threads.
        stop: set once the operator wants no further step.
    """

    driver: BmcDriver
    served: ServedBatch
    contact: FirstContact
    notes: Notes
    nodes: Nodes
    clock: Clock
    say: Callable[[str, str], None]
    stop: threading.Event


@dataclass(frozen=True)
class Target:
    """One server.

    Attributes:
        node: of the site.
        image: what it becomes.
        course: what is done to it.
        machine: as its BMC reported it when the course was decided.
        operating_system: that is expected afterwards.
        url: of the medium; empty with PXE.
        seconds: what it may take in all.
        accepted: when the node was last accepted; empty for never.
        media: what its BMC had as discs when the course was decided, in words.
        answered: whether something answered at its address then.
        off: whether it was off then.
        label: that its installer gives the system once it is finished; empty: none is installed.
    """

    node: Node
    image: NodeImage
    course: Course
    machine: MachineIdentity
    operating_system: str
    url: str
    seconds: float
    accepted: str = ""
    media: tuple[str, ...] = ()
    answered: bool = False
    off: bool = False
    label: str = ""


class NodeCourse:
    """One server, from where it is to its verified first login."""

    def __init__(self, target: Target, ports: CourseContext) -> None:
        self._target, self._node, self._ports = target, target.node, ports
        self._end = ports.clock.monotonic() + target.seconds
        self._strange_before = 0
        # One of a run that was killed stays on the disk until another one is installed over it.
        self._labels = (*target.course.labels, *filter(None, [target.label]))[-MOST_LABELS:]
        self._media = (*target.course.media, *filter(None, [target.url]))[-MOST_LABELS:]

    def run(self) -> None:
        """From where the server is to its verified first login.

        Raises:
            ApplianceError: why it is not installed.
            Interrupted: the operator wants no further step.
        """
        host_key = self._target.course.host_key
        with self._ports.driver.open(self._node) as bmc:
            if self._ports.stop.is_set():
                raise Interrupted(f"{self._node.name}: its BMC answered after the command ended")
            self._require_machine(bmc)
            try:
                if not host_key:
                    self._require_alone(bmc)
                    # What --wipe allows ends with this run, until the installer took the disk.
                    self._keep(writing=self._target.course.ours)
                    self._several_times(lambda: self._start(bmc))
                    host_key = self._follow(bmc)
                    self._keep(writing=True, host_key=host_key)
                    self._several_times(lambda: self._boot(bmc))
                elif self._ports.contact.meet(self._node, host_key):
                    self._several_times(lambda: self._boot(bmc))
                else:
                    self._leave(bmc)
            except _Taken:
                raise  # the medium and the boot are of somebody else
            except (ApplianceError, OSError):
                # A note that a full disk refuses is an OSError.
                self._leave(bmc)
                raise
        self._meet(host_key)
        self._verify()
        self._keep(installed=True)

    def _start(self, bmc: DrivenBmc) -> None:
        """Boot from the medium, or from the network, once."""
        self._require_machine(bmc)
        self._begin("power off")
        bmc.power("cut")
        if self._target.url:
            self._begin("insert the medium")
            bmc.insert(self._target.url)
        self._begin("boot once")
        bmc.boot_once("cd" if self._target.url else "pxe")
        self._strange_before = self._ports.served.strange_reports(self._node.ip)
        self._begin("power on")
        bmc.power("on")

    def _require_machine(self, bmc: DrivenBmc) -> None:
        """The BMC is still of the machine that the course was decided for.

        Raises:
            Refused: it is not.
        """
        found = bmc.machine().identity
        if likeness(self._target.machine, found) != "same":
            raise Refused(
                f"{self._node.name}: its BMC now reports a machine with {found.words()}, "
                f"not {self._target.machine.words()}",
                hint=f"correct bmc_address in host_vars/{self._node.name}.yml",
            )

    def _require_alone(self, bmc: DrivenBmc) -> None:
        """Nobody inserted a medium or installed it since the course was decided.

        The lock is of one machine, and the turn of a server may come an hour after the decision.

        Raises:
            Refused: somebody did: another command installs this server.
        """
        new = [one for one in discs_of(bmc) if one not in self._target.media]
        if new:
            raise _Taken(
                f"{self._node.name}: {new[0]}: another command installs it",
                hint="ask who else installs servers; when they are done: the same command again",
            )
        look = self._ports.nodes.look([self._node])
        now = "the probe was read" if look.node_facts else look.alive(self._node.name)
        if now and not self._target.answered:
            raise _Taken(
                f"{self._node.name}: it answers now: {now}; it did not before",
                hint="ask who installed it or switched it on; then run the same command again",
            )
        power = bmc.machine().power
        # With PXE nothing is inserted: that somebody switched it on is all that shows.
        if self._target.off and power not in (None, "Off"):
            raise _Taken(
                f"{self._node.name}: its BMC reports power {power}; it was off when the plan was "
                "made: another command may install it",
                hint="ask who switched it on; then run the same command again",
            )

    def _leave(self, bmc: DrivenBmc) -> None:
        """Leave no medium and no boot override behind, as far as the BMC obeys."""
        try:
            self._require_machine(bmc)
        except ApplianceError:
            return
        for what, order in (("eject the medium", bmc.eject), ("clear the boot", bmc.clear_boot)):
            try:
                order()
            except ApplianceError as error:
                self._say(f"cannot {what}: {error.message}")

    def _follow(self, bmc: DrivenBmc) -> str:
        """Wait for the installer's last report; the host key in it."""
        said, off_since, noted = "", None, False
        self._say("wait for the installer")
        while True:
            heard = self._heard()
            if heard.host_key:
                return heard.host_key
            self._require_own_installer()
            if heard.writes and not noted:
                noted = True
                self._keep(writing=True)
            if heard.failure:
                raise StepNotVerified(
                    f"{self._node.name}: its installer stopped: {heard.failure}",
                    hint="see its console; then run the same command again",
                )
            if heard.last and heard.last != said:
                said = heard.last
                self._say(said)
            off_since = self._off_since(bmc, off_since)
            last = f"its last report: {said}" if said else "it reported nothing"
            self._wait(f"its installer has not finished; {last}")

    def _heard(self) -> Heard:
        """What its installer reported.

        Raises:
            Refused: two host keys were reported, so somebody else has its token.
        """
        heard = self._ports.served.heard(self._node.name)
        if heard.rival:
            raise Refused(
                f"{self._node.name}: two host keys were reported: somebody else reports for it",
                hint="find out who else is on the LAN; then run the same command again",
            )
        return heard

    def _require_own_installer(self) -> None:
        """The installer of no other run reports from its address since it was switched on.

        Raises:
            Refused: one does; whatever it reports is not counted.
        """
        if self._ports.served.strange_reports(self._node.ip) > self._strange_before:
            raise _Taken(
                f"{self._node.name}: an installer reports from its address with the token of "
                "another run: another machine runs appliance node image for it",
                hint="see its console, and ask who else installs servers; then run the same "
                "command again",
            )

    def _off_since(self, bmc: DrivenBmc, since: float | None) -> float | None:
        """Since when the machine is off, though its installer is not at its end.

        Raises:
            StepNotVerified: for too long.
        """
        now = self._ports.clock.monotonic()
        try:
            off = bmc.machine().power == "Off"
        except NodeUnreachable:
            return since
        if not off:
            return None
        if since is not None and now - since >= LOST_SECONDS:
            raise StepNotVerified(
                f"{self._node.name}: it powered off, and its installer did not report "
                "that it finished",
                hint="see its console; then run the same command again",
            )
        return now if since is None else since

    def _boot(self, bmc: DrivenBmc) -> None:
        """Boot the installed system from its disk, without the medium."""
        self._begin("wait until the installer is off")
        off_until = self._ports.clock.monotonic() + OFF_SECONDS
        while not self._target.course.host_key and bmc.machine().power != "Off":
            if self._ports.clock.monotonic() >= off_until:
                break
            self._wait("it does not power off")
        self._begin("power off")
        bmc.power("cut")
        self._begin("eject the medium")
        bmc.eject()
        bmc.clear_boot()
        self._begin("boot the installed system")
        bmc.power("on")

    def _meet(self, host_key: str) -> None:
        self._say("wait for the first login")
        self._heard()
        while why := self._ports.contact.meet(self._node, host_key):
            self._wait(f"no first login: {why}")
            self._heard()

    def _verify(self) -> None:
        """Read it with the probe: it is what was asked for.

        Raises:
            StepNotVerified: it differs.
        """
        self._say("read it with the probe")
        while True:
            look = self._ports.nodes.look([self._node])
            facts = look.node_facts.get(self._node.name)
            if facts is not None:
                break
            why = look.faults[0].reason if look.faults else "no answer"
            self._wait(f"the probe was not read: {why}")
        left = differences(self._target.image, facts, self._target.operating_system)
        if left:
            raise StepNotVerified(f"{self._node.name}: installed, but {left[0]}", details=left[1:])

    def _several_times(self, work: Callable[[], None]) -> None:
        """Try again what a BMC may do the next time.

        Raises:
            ApplianceError: as the last try did.
        """
        for left in range(TRIES - 1, -1, -1):
            try:
                work()
            except _TRIED_AGAIN as error:
                if not left:
                    raise
                self._say(f"again: {error.message}")
                self._pause(BETWEEN_TRIES_SECONDS, error.message)
            else:
                return

    def _begin(self, what: str) -> None:
        """Say what is done next, unless nothing may be: no order goes out after the end.

        Raises:
            StepNotVerified, Interrupted: see :meth:`_pause`.
        """
        self._require_going(f"before: {what}")
        self._say(what)

    def _wait(self, why: str) -> None:
        self._pause(POLL_SECONDS, why)

    def _pause(self, seconds: float, why: str) -> None:
        """Wait a moment.

        Raises:
            StepNotVerified: the server's time is over.
            Interrupted: the operator wants no further step.
        """
        self._require_going(why)
        self._ports.clock.sleep(seconds)

    def _require_going(self, why: str) -> None:
        if self._ports.stop.is_set():
            raise Interrupted(f"{self._node.name}: interrupted: {why}")
        if self._ports.clock.monotonic() >= self._end:
            minutes = round(self._target.seconds / 60)
            raise StepNotVerified(
                f"{self._node.name}: not done after {minutes} minutes: {why}",
                hint="see its console; then run the same command again",
            )

    def _say(self, what: str) -> None:
        self._ports.say(self._node.name, what)

    def _keep(self, *, writing: bool = False, host_key: str = "", installed: bool = False) -> None:
        """Keep what another run needs to know, should this one end here."""
        disk = self._target.image.disk_serial
        machine = name_of(self._target.machine)
        kept = (machine, disk, writing, host_key, self._target.accepted)
        note = Note(*kept, labels=self._labels, media=self._media)
        note = note.once_installed() if installed else note
        self._ports.notes.keep(self._node.name, note)
