"""Protocols of the local machine: what workflows need from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from appliance.model.bundle.tool import NewEnvironment, PresentTool
    from appliance.model.checks.control_host import (
        HardwareCatalogue,
        LocalKnowledge,
        MissingPrograms,
    )
    from appliance.model.plan.rack.mark import RackMark
    from appliance.model.plan.reset.remains import Remains
    from appliance.model.site.authority import Authority
    from appliance.model.site.files.diagnostics import SiteFault
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.journal import MergeResult, Record


class ControlHost(Protocol):
    """The machine that runs the command: its programs and its knowledge."""

    def hardware(self) -> HardwareCatalogue:
        """The hardware that this installation knows."""

    def lacks_to_bring(self) -> MissingPrograms:
        """The programs that bundles are brought with, as far as they are missing here."""

    def knows(self, site: Site, *, opens_vault: bool) -> LocalKnowledge:
        """What this machine knows of the site's backend.

        Args:
            site: whose backend.
            opens_vault: whether the vault is opened for it, which costs a second.
        """


class Records(Protocol):
    """The records of a site on this machine."""

    def merge(self, texts: Mapping[str, str]) -> MergeResult:
        """Add those (file name -> document) that are not here; what is no record is named."""

    def read(self) -> Sequence[Record]:
        """All readable records, oldest first."""


class Documents(Protocol):
    """Documents of the archive that are kept on this machine."""

    def keep(self, name: str, text: str) -> bool:
        """Write a document unless it is here already; whether anything was written.

        Raises:
            Unreadable: the name is no name of a document, or the text is not one.
        """

    def read(self, name: str) -> str | None:
        """The text of a document; None where there is none that can be read.

        Raises:
            Unreadable: the name is no name of a document.
        """


class RackRecord(Protocol):
    """What this machine knows of a rack that was taken down; readable while the rack is off."""

    def read(self) -> RackMark | None:
        """The mark; None without one that can be read."""

    def write(self, mark: RackMark) -> None:
        """Write it, in place of an older one.

        Raises:
            OSError: it could not be written.
        """

    def drop(self) -> None:
        """Remove it; none is no error."""


class Remaining(Protocol):
    """What machines still have of the product."""

    def read(self, nodes: Sequence[Node]) -> Mapping[str, Remains | str]:
        """Node -> what it has, or why it did not say; nothing is changed."""


class SiteFolder(Protocol):
    """The directory of a site that is to be written."""

    def schemas(self) -> Mapping[str, str]:
        """The schemas for editors that the site's files name: file -> its text."""

    def existing(self, files: Sequence[str]) -> tuple[str, ...]:
        """Those of ``files`` that already exist."""

    def faults(self, files: Mapping[str, str]) -> tuple[SiteFault, ...]:
        """What a check says of these files, before any is written."""

    def write(self, files: Mapping[str, str]) -> tuple[Path, ...]:
        """Write the files, none over another; returns their paths."""


class Authorities(Protocol):
    """Makes certificate authorities."""

    def make(self, name: str) -> Authority:
        """Create a new self-signed authority."""


class Vault(Protocol):
    """Encrypts what is secret; knows its password."""

    def encrypt(self, text: str) -> str:
        """The content of a vault file."""

    def new_secret(self) -> str:
        """A random secret of letters, digits, '-' and '_'."""


class ToolPlace(Protocol):
    """The environment that this tool runs in, and a new one beside it."""

    def present(self) -> PresentTool:
        """The version in use.

        Raises:
            Refused: it is in no environment that can be replaced.
        """

    def held(self) -> AbstractContextManager[None]:
        """One upgrade at a time.

        Raises:
            Refused: another one is at work.
        """

    def prepare(self) -> NewEnvironment:
        """Where the new version will be, and by which Python; changes nothing.

        Raises:
            Refused: there is no fitting Python, no room, or another folder is in the way.
            BundleRefused: the bundle's wheels are not readable, or for another machine.
        """

    def make(self, new: NewEnvironment) -> None:
        """Make the new environment, unless it is whole already, and start its tool once.

        Raises:
            BundleRefused, CommandFailed: nothing of it is left.
        """

    def check_site(self, new: NewEnvironment, site: Path) -> tuple[str, ...]:
        """What the new version's ``site check`` says of a site; empty if it accepts it."""

    def switch(self, new: NewEnvironment) -> None:
        """Let the program that is typed be the new version's, and start it once.

        Raises:
            CommandFailed: it did not start; the earlier program is typed again.
        """

    def earlier(self) -> PresentTool:
        """The version that the present one replaced.

        Raises:
            Refused: it replaced none.
        """

    def go_back(self) -> PresentTool:
        """Let the program that is typed be the earlier version's; returns that one.

        Raises:
            Refused: nothing was changed: there is no earlier one, or it does not start.
        """
