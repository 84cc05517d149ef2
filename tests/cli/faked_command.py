"""The real command in a process of its own, on a site whose adapters are fakes.

``python -m tests.cli.faked_command FOLDER HANG words...``: the rack is bare, records go to FOLDER;
the play ``HANG`` says so (a file ``FOLDER/hangs``) and goes on for a minute.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import exits
from appliance.cli.app import Application
from appliance.cli.site_session import SiteSession
from appliance.model.plan.play import Play
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeBundle, FakeRack

COMMAND = (sys.executable, "-m", "tests.cli.faked_command")
ROOT = Path(__file__).parents[2]


class Rack(FakeRack):
    """A bare rack, on which one play may never end."""

    hangs = ""

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.playbook == self.hangs:
            (self.desired.site.directory / "hangs").touch()
            time.sleep(60)
        super().play(play, on_task)


class Site(FakedSite):
    @property
    def archive(self) -> Any:
        return FakeArchive()

    def preflight(self, *_: Any) -> Any:
        return ()

    def _opened_for_plays(self, confirm: Any) -> Any:
        return confirm


def words(folder: Path, hangs: str, *typed: str) -> Sequence[str]:
    """The whole command line."""
    return [*COMMAND, str(folder), hangs, *typed, "--site", str(folder)]


def main(folder: str, hangs: str, *typed: str) -> None:
    desired = samples.desired(replace(samples.site(), directory=Path(folder)))
    rack = Rack(desired)
    rack.hangs = hangs

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        bundle: Any = FakeBundle(samples.manifest())
        return Site(desired.site, desired, rack, rack, bundle)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "connect", connect)
        patch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)
        patch.setattr(sys, "argv", ["appliance", *typed])
        exits.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
