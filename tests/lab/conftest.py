"""One lab for all end-to-end tests: bare nodes, one bundle, the real command line.

``APPLIANCE_TEST_KEEP=1`` leaves the lab up for a look afterwards; ``APPLIANCE_TEST_SITE=DIR`` uses
the lab of that site, which is up already, and leaves it as it ends; ``APPLIANCE_TEST_BUNDLE=DIR``
takes that bundle instead of building one. The rows of a release share the lab while they pass.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import appliance, succeed
from tests.this_run import (
    OS,
    STORY,
    alone,
    folder,
    is_release,
    lab_down,
    lab_name,
    labs,
    story_name,
    worker,
)

GPUS = 2


@dataclass(frozen=True)
class LabSite:
    """A lab's site directory and what tests ask of it."""

    name: str
    directory: Path
    bundle: Path

    def node(self, short: str) -> str:
        """The full name of ``cp1`` or ``w1``."""
        return f"{self.name}-{short}"

    def address(self, short: str) -> str:
        """The node's address as the site has it."""
        host_vars = self.directory / "host_vars" / f"{self.node(short)}.yml"
        return str(yaml.safe_load(host_vars.read_text())["address"]).partition("/")[0]

    def shell(self, short: str, command: str, *, check: bool = True) -> str:
        """Run a shell command as root inside a node, past SSH."""
        done = subprocess.run(
            ["podman", "exec", self.node(short), "sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout

    def install_words(self) -> list[str]:
        """The words of the one command that always heals."""
        return ["install", "--site", str(self.directory), "--bundle", str(self.bundle), "--yes"]

    def install(self, *more: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run it to its end, whatever that is."""
        return appliance(*self.install_words(), *more, timeout=timeout)

    def status(self) -> dict[str, Any]:
        """``appliance status`` as data."""
        done = succeed("status", "--site", str(self.directory), "--output", "json")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def settled(self, seconds: float = 120) -> dict[str, Any]:
        """Wait until every step is so, and return that status.

        What was disturbed may be reported late, and a busy node's probe may be late once.
        """
        found = self.status()
        deadline = time.monotonic() + seconds
        while found["unmet"]:
            assert time.monotonic() < deadline, f"after {seconds:.0f} s: {found['unmet']}"
            time.sleep(1)
            found = self.status()
        return found

    def records(self) -> list[dict[str, Any]]:
        """``appliance history`` as data."""
        done = succeed("history", "--site", str(self.directory), "--output", "json")
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found


def wait_for(what: str, probe: Callable[[], bool], seconds: float = 300) -> None:
    """Poll until ``probe`` is true; fail with ``what`` when time runs out."""
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain for: {what}"
        time.sleep(0.1)


@contextmanager
def lab_up(short: str, tmp: Path, *words: str) -> Iterator[Path]:
    """``lab up --bare``, the site's directory, and ``lab down`` whatever happens."""
    site = tmp / lab_name(short)
    # A lab that only waits would slow this one down, and its story is over.
    lab_down(story_name())
    try:
        _begin(site, *words)
        yield site
    finally:
        if not os.environ.get("APPLIANCE_TEST_KEEP"):
            lab_down(site.name)


@contextmanager
def installed_as(short: str, tmp: Path, bundle: Path, *words: str) -> Iterator[LabSite]:
    """A lab of its own, installed from a bundle; without words one control plane, two workers."""
    with lab_up(short, tmp, *words) as site:
        lab = LabSite(site.name, site, bundle)
        done = lab.install()
        assert done.returncode == 0, done.stderr
        yield lab


def _begin(site: Path, *words: str) -> None:
    # The first one of a machine installs programs and builds the image of a node.
    with alone("machine"):
        begin = ["lab", "up", "--name", site.name, "--site", str(site), "--os", OS]
        succeed(*begin, "--bare", "--yes", *words, timeout=1800)


def _shared() -> Path:
    """The site of the lab that rows of a release share; it is made when there is none."""
    site = folder() / story_name()
    if site.name not in labs():
        shutil.rmtree(site, ignore_errors=True)
        _begin(site)
    return site


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """One control plane and two workers, bare."""
    if os.geteuid() != 0:
        pytest.fail("the lab needs root: run pytest as root, or leave it out with -m 'not lab'")
    assert shutil.which("podman") or shutil.which("apt-get"), "no podman and no way to get it"
    if given := os.environ.get("APPLIANCE_TEST_SITE"):
        yield LabSite(Path(given).name, Path(given), bundle_directory)
        return
    if is_release():
        site = _shared()
        yield LabSite(site.name, site, bundle_directory)
        return
    with lab_up(f"{STORY}{worker()}", tmp_path_factory.mktemp("labs")) as site:
        yield LabSite(site.name, site, bundle_directory)


@pytest.fixture(scope="session")
def installed_lab(lab: LabSite) -> LabSite:
    """The same lab, brought to its end by the one command, which is quick when it was."""
    done = lab.install()
    assert done.returncode == 0, done.stderr
    return lab
