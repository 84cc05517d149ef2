"""The port of ``self upgrade``: this machine's environments of this tool."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from appliance import __version__
from appliance.adapters.local.processes import run as run_program
from appliance.adapters.tool.environment import (
    PROGRAM,
    Environment,
    Receipt,
    read_receipt,
    write_receipt,
)
from appliance.adapters.tool.making import (
    Maker,
    Run,
    clean,
    is_whole,
    place_for,
    require_version,
)
from appliance.adapters.tool.switch import held, kept_name, leads_to, previous_of, switch
from appliance.errors import ApplianceError, BundleRefused, CommandFailed, Refused
from appliance.model.bundle.tool import NewEnvironment, Offer, PresentTool, unfit_wheels

_CHECK_SECONDS = 300.0


class Environments:
    """The environment of this process, and those beside it.

    Args:
        here: the environment of this process.
        offer: the bundle with the new version; None to go back.
        note: receives what is done, one sentence each.
        run: starts programs.
    """

    def __init__(
        self,
        here: Environment,
        offer: Offer | None,
        note: Callable[[str], None],
        run: Run = run_program,
    ) -> None:
        self._here = here
        self._given, self._note, self._run = offer, note, run

    @property
    def _offer(self) -> Offer:
        if self._given is None:
            raise AssertionError("to go back there is no bundle")
        return self._given

    @property
    def _maker(self) -> Maker:
        return Maker(self._offer.directory, self._offer.tool, self._note, self._run)

    def present(self) -> PresentTool:
        """The version of this process."""
        return PresentTool(__version__, self._here.folder, self._here.launcher)

    def held(self) -> AbstractContextManager[None]:
        """One upgrade of this launcher at a time."""
        return held(self._here.launcher)

    def prepare(self) -> NewEnvironment:
        """Find a Python, a place and its disk; changes nothing.

        Raises:
            Refused: there is no such Python, no room, or another folder is in the way.
            BundleRefused: the wheels are not readable, or for another machine.
        """
        maker, tool = self._maker, self._offer.tool
        python = maker.choose_python()
        version = f"3.{python.name.rpartition('.')[2]}"
        unfit = unfit_wheels(tool.file_names, version, maker.tags(python))
        if unfit:
            raise BundleRefused(
                f"the bundle's wheels are for another CPU or C library: {unfit[0]}",
                details=unfit[1:],
                hint="build the bundle on a machine of this one's architecture",
            )
        folder = place_for(self._here.home, tool.version, self._offer.digest)
        free = shutil.disk_usage(folder.parent).free
        if is_whole(folder, tool.version, self._offer.digest):
            return NewEnvironment(folder, python, 0, free, is_whole=True)
        needed = maker.needed_bytes()
        if needed > free:
            raise Refused(
                f"{folder.parent} has {free >> 20} MiB free, and the new environment needs "
                f"{needed >> 20} MiB: nothing was changed",
                hint=f"see what fills it: df -h {folder.parent}",
            )
        return NewEnvironment(folder, python, needed, free)

    def make(self, new: NewEnvironment) -> None:
        """Make the environment, or start the tool of one that is whole.

        Raises:
            BundleRefused, CommandFailed: nothing of a new environment is left.
        """
        if new.is_whole:
            try:
                self._maker.start(new.folder)
            except CommandFailed as error:
                folder = shlex.quote(str(new.folder))
                raise CommandFailed(
                    f"an earlier upgrade made {new.folder}, and it does not start any more: "
                    f"{error.message}",
                    hint=f"move it away, then run the same command again: mv {folder} "
                    f"{folder}.aside",
                    details=error.details,
                ) from error
            return
        self._maker.make(new.folder, new.python, self._receipt())

    def check_site(self, new: NewEnvironment, site: Path) -> tuple[str, ...]:
        """What the new version says of a site, one line each; empty if it accepts it."""
        self._note(f"checking {site} by the new version")
        done = self._run(
            [new.folder / "bin" / PROGRAM, "site", "check", "--site", site.absolute()],
            cwd=site.absolute(),
            env=clean(),
            timeout=_CHECK_SECONDS,
            check=False,
        )
        return () if done.ok else tuple(done.output.splitlines()) or (f"exit {done.returncode}",)

    def switch(self, new: NewEnvironment) -> None:
        """Let the launcher lead to the new version, and start it by the launcher.

        Raises:
            CommandFailed: it did not start; the launcher leads to the earlier version again.
        """
        launcher, program = self._here.launcher, new.folder / "bin" / PROGRAM
        if leads_to(launcher, program):
            return
        # A whole one may be of an earlier upgrade: the way back leads to what is in use now.
        write_receipt(new.folder, self._receipt(), whole=True)
        before, version = self._before()
        before = previous_of(launcher, version) if launcher.exists() else before
        switch(launcher, program)
        try:
            require_version(launcher, self._offer.tool.version, self._run)
        except ApplianceError:
            switch(launcher, before)
            raise

    def earlier(self) -> PresentTool:
        """The version that this one replaced.

        Raises:
            Refused: no upgrade made this environment.
        """
        receipt = self._here.receipt
        if receipt is None or not receipt.whole:
            raise Refused(
                f"no upgrade made the environment {self._here.folder}, so there is no version to "
                "go back to: nothing was changed",
                hint="see which program is typed: type -a appliance",
            )
        folder = Path(receipt.previous).parent.parent
        return PresentTool(receipt.previous_version, folder, self._here.launcher)

    def go_back(self) -> PresentTool:
        """Let the launcher lead to the version that this one replaced.

        Raises:
            Refused: no upgrade made this environment, or the earlier version does not start.
        """
        found, receipt = self.earlier(), self._here.receipt
        program = Path(receipt.previous if receipt else "")
        if program.resolve() == (self._here.folder / "bin" / PROGRAM).resolve():
            raise Refused(
                f"{program} is in use already, so there is no version to go back to: nothing was "
                "changed",
                hint="install another version from its bundle: appliance self upgrade --bundle DIR",
            )
        if leads_to(found.launcher, program):
            return found
        try:
            require_version(program, found.version, self._run)
        except CommandFailed as error:
            raise Refused(
                f"the earlier version does not start: {error.message}: nothing was changed",
                hint=f"see what is wrong: {program} --version",
                details=error.details,
            ) from error
        switch(found.launcher, program)
        return found

    def _receipt(self) -> Receipt:
        before, version = self._before()
        return Receipt(
            version=self._offer.tool.version,
            bundle=self._offer.digest,
            launcher=str(self._here.launcher),
            previous=str(before),
            previous_version=version,
        )

    def _before(self) -> tuple[Path, str]:
        """The program to go back to, and its version.

        It is the one that the launcher leads to. Where somebody removed that one, it is the program
        of this process.
        """
        launcher = self._here.launcher
        if launcher.exists():
            version = self._launcher_version()
            return kept_name(launcher, version), version
        own = self._here.folder / "bin" / PROGRAM
        kept = own.with_name(f"{PROGRAM}-{__version__}")
        return kept if os.path.lexists(kept) else own, __version__

    def _launcher_version(self) -> str:
        """The version that the launcher leads to; that of this process, if nothing says another."""
        if self._here.launcher.is_symlink():
            receipt = read_receipt(self._here.launcher.resolve().parent.parent)
            if receipt is not None:
                return receipt.version
        return __version__
