"""What ``node image`` is asked for, what it is given, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.model.checks.hardware.reading import Qualification
    from appliance.model.node.baseline import Passport
    from appliance.model.node.imaging.batch import Course
    from appliance.model.node.imaging.seed import Programs
    from appliance.model.site.settings import Site
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.model.state.journal import Run
    from appliance.model.state.plan import Refusal
    from appliance.workflows.node.imaging.course import Via


@dataclass(frozen=True)
class ImageRequest:
    """What is asked for.

    Attributes:
        site: with the nodes.
        nodes: names, each once.
        run: for the journal.
        programs: that installers run.
        token: makes a new token for a node's reports; 32 hexadecimal digits.
        wipe: serials of the machines that may be wiped.
        via: virtual media, or the network.
        at_once: how many servers at the same time.
        passports: of the site's nodes, as far as they are known.
        unread: why they are unknown, though the site has a cluster; empty where they are not.
    """

    site: Site
    nodes: tuple[str, ...]
    run: Run
    programs: Programs
    token: Callable[[], str]
    wipe: tuple[str, ...] = ()
    via: Via = "media"
    at_once: int = 8
    dry_run: bool = False
    passports: Mapping[str, Passport] = field(default_factory=dict)
    unread: str = ""


@dataclass(frozen=True)
class ImageResult:
    """What is to be done, and what came of it.

    Attributes:
        courses: node -> what is done to it.
        machines: node -> its machine, as its BMC reports it.
        seconds: node -> how long it took; only of those that were begun.
        failures: node -> why it is not installed.
        media: node -> what its BMC has as discs, in words.
        answering: nodes at whose address something answers.
        off: nodes whose machine was off, as its BMC reports.
        qualifications: of the nodes that are installed, as far as their hardware was read now.
        unqualified: node -> why its hardware was not read, though it is installed.
        warnings: records of qualifications that are not where they belong, in sentences.
    """

    courses: Mapping[str, Course]
    machines: Mapping[str, MachineIdentity] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    media: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    answering: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    qualifications: tuple[Qualification, ...] = ()
    unqualified: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """The nodes to which something is done."""
        return tuple(name for name, one in self.courses.items() if one.kind in ("install", "boot"))

    @property
    def installed(self) -> tuple[str, ...]:
        """The nodes that this run installed."""
        return tuple(name for name in self.seconds if name not in self.failures)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why nodes may not be installed."""
        return tuple(refusal for one in self.courses.values() for refusal in one.refusals)
