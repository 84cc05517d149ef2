"""The real command in a process of its own, on an installed rack that is nobody's.

``main`` is the venv's program at a desk (``desk.put_program``): its first word is the folder of
the rack. What is the matter with the rack is in ``rack.json`` there, written by the test between
two commands; what plays did is in ``played``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.login_failure import login_failure
from appliance.cli import exits
from appliance.cli.app import Application
from appliance.cli.site_session import SiteSession
from appliance.errors import Interrupted
from appliance.model.node.lost import Workloads
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.observed import Fault
from tests import samples
from tests.cli.faked_command import Site
from tests.fakes import FakeBundle, FakeRack

SILENT_MINUTES = 4


@dataclass
class World:
    """What is the matter with the rack.

    Attributes:
        installed: by an earlier command; else it is bare.
        away: the nodes that do not answer.
        hangs: the play that never ends, after its first task.
    """

    installed: bool = True
    away: tuple[str, ...] = ()
    hangs: str = ""

    def write(self, folder: Path) -> None:
        """Let the next command find the rack so."""
        fresh = folder / "rack.json.new"
        fresh.write_text(json.dumps(asdict(self)), "utf-8")
        fresh.rename(folder / "rack.json")


class Rack(FakeRack):
    """What earlier commands played is done; one play may never end."""

    def __init__(self, folder: Path) -> None:
        self.world = World(**json.loads((folder / "rack.json").read_text("utf-8")))
        self._played = folder / "played"
        super().__init__(samples.desired(replace(samples.site(), directory=folder)))
        if self.world.installed:
            self._become_installed()
        elif self._played.exists():
            for line in self._played.read_text("utf-8").splitlines():
                name, _, limit = line.partition(" ")
                self._take_effect(Play("", name, tuple(limit.split(",")), {}))
        for name in self.world.away:
            self._lose(name)
        if "cp1" in self.world.away:
            self.cluster = Unreachable(f"no API server answers: {self.faults['cp1'].reason}")

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        """Name a task of each node, then do all of them at once."""
        for name in play.limit:
            on_task(name, f"{play.playbook} : Install the packages", None)
        if play.playbook == self.world.hangs:
            self._hang(play)
        super().play(play, on_task)
        with self._played.open("a") as written:
            written.write(f"{play.playbook} {','.join(play.limit)}\n")

    def _hang(self, play: Play) -> None:
        """Go on until Ctrl-C, which a play says as the real one does."""
        (self.desired.site.directory / "hangs").touch()
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            raise Interrupted(
                f"interrupted while {play.playbook} was running on {', '.join(play.limit)}",
                hint="run the same command again: it resumes here",
            ) from None

    def close(self) -> None:
        """There is no connection."""

    def workloads(self) -> Workloads:
        """What the API says of nodes that went away."""
        assert isinstance(self.cluster, Cluster)
        now = datetime.now(UTC)
        beats = {
            name: now - timedelta(minutes=0 if node.ready else SILENT_MINUTES)
            for name, node in self.cluster.nodes.items()
        }
        return Workloads(self.cluster.nodes, beats, self.cluster.pods)

    def _become_installed(self) -> None:
        nodes = self.desired.site.nodes
        self.documents = {node.name: samples.converged(node, self.desired) for node in nodes}
        self.cluster = samples.cluster(self.desired)

    def _lose(self, name: str) -> None:
        site = self.desired.site
        said = login_failure(site, site.node(name), TimeoutError())
        hint, cause = said.hint or "", said.cause
        self.faults[name] = Fault(name, said.message, hint, said.answers, cause=cause)
        if isinstance(self.cluster, Cluster):
            gone = replace(self.cluster.nodes[name], ready=False)
            self.cluster = replace(self.cluster, nodes={**self.cluster.nodes, name: gone})


class RackSite(Site):
    """The site of such a rack."""

    def session(self, *args: Any, **more: Any) -> Any:
        """The ports, with the workloads of the rack."""
        rack: Any = self.nodes
        return replace(super().session(*args, **more), read_workloads=rack.workloads)


def main() -> None:
    """Run the command that was typed."""
    folder = Path(sys.argv.pop(1))

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        rack: Any = Rack(folder)
        bundle: Any = FakeBundle(samples.manifest())
        return RackSite(rack.desired.site, rack.desired, rack, rack, bundle)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "connect", connect)
        patch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)
        exits.main()
