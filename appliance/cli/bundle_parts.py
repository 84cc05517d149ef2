"""Builds the adapters of the bundle's workflow, and shows how it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import click

from appliance import __version__
from appliance.adapters.artifacts.taking import Sources
from appliance.adapters.bundle_signature import SshSigner, read_signature
from appliance.adapters.bundle_writer import BundleWriter, Locks
from appliance.adapters.cache import Cache
from appliance.adapters.content import (
    RELEASES,
    STANDINS,
    load_release,
    load_release_with_standins,
)
from appliance.adapters.control_host import refusal, require
from appliance.errors import ApplianceError
from appliance.model.programs import Use, used_by
from appliance.model.signature import Signature
from appliance.model.taken import Taken
from appliance.workflows.bundle_build import BuildPorts, BuildRequest, Built, build_bundle
from appliance.workflows.bundle_ports import BuildObserver

DEFAULT_JOBS = 4
QUIET_SECONDS = 30.0


def build(
    release: str,
    os_name: str,
    directory: Path,
    *,
    jobs: int = DEFAULT_JOBS,
    files: Path | None = None,
    sign_key: Path | None = None,
    replace_other: bool = False,
    standins: bool = False,
    observer: BuildObserver | None = None,
) -> Built:
    """Run the workflow with this machine's adapters."""
    progress = observer or BuildProgress()
    require(Use.BUILD, *([Use.SIGN] if sign_key else []))
    found = load_release_with_standins(release) if standins else load_release(release)
    found.operating_system(os_name)
    cache = Cache()
    locks = Locks(release, RELEASES, cache)
    sources = Sources(
        found, os_name, cache, folder=RELEASES / release, files=files, locked=locks.known,
        standins=STANDINS if standins else None,
    )  # fmt: skip
    lacking = sources.lacking()
    if lacking:
        raise refusal([row for row in used_by([Use.COMPILE]) if row.name in lacking])
    ports = BuildPorts(
        sources=sources,
        store=BundleWriter(directory, cache, replace_other=replace_other),
        lock=locks,
        observer=progress,
        signer=SshSigner(directory, sign_key) if sign_key else None,
    )
    request = BuildRequest(
        release=found,
        os_name=os_name,
        tool_version=__version__,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        jobs=jobs,
    )
    with progress if isinstance(progress, BuildProgress) else nullcontext():
        return build_bundle(request, ports)


def signature_of(directory: Path) -> Signature:
    """Whether the bundle that was built has a signature; whose is not asked."""
    return read_signature(directory, b"", None)


class BuildProgress:
    """One line on stderr for each thing that is finished, with what is left.

    As a context manager it also says now and then what has been under way for long.
    """

    def __init__(self, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._began = time.monotonic()
        self._quiet = quiet_seconds
        self._spoke = self._began
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._wanted: set[str] = set()
        self._done: set[str] = set()
        self._under_way: dict[str, float] = {}
        self._said: set[str] = set()

    def __enter__(self) -> Self:
        """Begin to watch."""
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop watching."""
        self._over.set()

    def began(self, names: Sequence[str]) -> None:
        """Say how much there is to do."""
        self._wanted = set(names)
        self.note(f"taking {len(names)} artifacts")

    def started(self, name: str) -> None:
        """Remember what is under way."""
        with self._lock:
            self._under_way[name] = time.monotonic()

    def skipped(self, name: str, ref: str, reason: str) -> None:
        """Say once why a source does not work; many artifacts share a host."""
        with self._lock:
            fresh = reason not in self._said
            self._said.add(reason)
        if fresh:
            self.note(f"{name}: not from {ref}: {reason}")

    def ended(self, name: str, took_seconds: float, outcome: Taken | ApplianceError) -> None:
        """Say what was taken from where, and what is left."""
        with self._lock:
            self._under_way.pop(name, None)
            if name in self._wanted:
                self._done.add(name)
            left = len(self._wanted) - len(self._done)
            now = ", ".join(sorted(self._under_way))
        what = (
            f"FAILED: {outcome.message}"
            if isinstance(outcome, ApplianceError)
            else f"from {outcome.kind}"
        )
        rest = f"{left} left" + (f", now {now}" if now else "")
        self.note(f"{name}: {what} ({took_seconds:.1f} s; {rest})")

    def note(self, text: str) -> None:
        """Print a line."""
        self._spoke = time.monotonic()
        click.echo(f"[{time.monotonic() - self._began:6.1f} s] {text}", err=True)

    def _watch(self) -> None:
        while not self._over.wait(self._quiet / 10):
            now = time.monotonic()
            with self._lock:
                busy = [f"{name} ({now - at:.0f} s)" for name, at in self._under_way.items()]
                left = len(self._wanted) - len(self._done)
            if busy and now - self._spoke > self._quiet:
                self.note(f"still at it: {', '.join(busy)}; {left} left")
