"""Builds the adapters of the bundle's workflow, and shows its progress."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Self

import click

from appliance import __version__
from appliance.adapters.bundle.have import read_have
from appliance.adapters.bundle.installed import read_installed
from appliance.adapters.bundle.signature import SshSigner, read_signature
from appliance.adapters.local.cache import Cache, recipe_key
from appliance.adapters.local.content import (
    RELEASES,
    STANDINS,
    load_release,
    load_release_with_standins,
)
from appliance.adapters.local.control_host import refusal, require
from appliance.builder.build import BuildPorts, BuildRequest, BuildResult, build_bundle
from appliance.builder.fetch import Sources
from appliance.builder.parts import PartsResult, write_parts
from appliance.builder.ports import BuildObserver
from appliance.builder.sources.apt.updates import UpdatesRequest, nodes_of
from appliance.builder.writer import BundleWriter, Locks
from appliance.cli.options import REAL
from appliance.errors import ApplianceError, BundleRefused, ConfigError
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.bundle.builds.time_left import seconds_left, words
from appliance.model.bundle.carry.delta import KIND, Delta
from appliance.model.bundle.signature import Signature
from appliance.model.programs import Use, used_by

DEFAULT_JOBS = 4
MEGABYTE = 1_000_000
QUIET_SECONDS = 30.0
# A shorter time is that of a copy out of the cache.
_WORK_SECONDS = 1.0


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
    genuine: bool = False,
    keyrings: Sequence[Path] = (),
    kernels: Sequence[str] = (),
    without: Path | None = None,
    part_bytes: int | None = None,
    since: date | None = None,
    installed: Path | None = None,
    observer: BuildObserver | None = None,
) -> BuildResult:
    """Run the workflow with this machine's adapters.

    What is known to be fatal ends it before anything is fetched, compiled or written.
    """
    require(Use.BUILD, *([Use.SIGN] if sign_key else []))
    loaded = (
        load_release_with_standins(release, genuine=genuine) if standins else load_release(release)
    )
    loaded.operating_system(os_name)
    loaded = loaded.with_kernels(os_name, kernels)
    cache = Cache()
    held = read_have(without) if without else None
    updates = _updates(os_name, since, installed) if since and installed else None
    store = BundleWriter(directory, cache, replace_other=replace_other, without=held)
    store.check(loaded.name, os_name, _asks_to_replace)
    progress = observer or BuildProgress(jobs=jobs, times=BuildTimes(cache))
    locks = Locks(release, RELEASES, cache)
    sources = Sources(
        loaded, os_name, cache, folder=RELEASES / release, files=files, locked=locks.known,
        standins=STANDINS if standins else None, keyrings=keyrings,
        command=_command(
            release, os_name, directory, files, sign_key, keyrings, kernels, without, part_bytes,
            since, installed, standins=standins, genuine=genuine,
        ),
        updates=updates,
    )  # fmt: skip
    sources.require_keys()
    missing = sources.lacking()
    if missing:
        raise refusal([row for row in used_by([Use.COMPILE]) if row.name in missing])
    progress.note("checking package archives, hosts and wheels")
    sources.require_possible()
    ports = BuildPorts(
        sources=sources,
        store=store,
        lock=locks,
        observer=progress,
        signer=SshSigner(directory, sign_key) if sign_key else None,
    )
    request = BuildRequest(
        release=loaded,
        os_name=os_name,
        tool_version=__version__,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        jobs=jobs,
        updates_since=str(since) if updates else "",
        updated_nodes=nodes_of(updates) if updates else (),
    )
    with progress if isinstance(progress, BuildProgress) else nullcontext():
        return build_bundle(request, ports)


def _updates(os_name: str, since: date, installed: Path) -> UpdatesRequest:
    """Which updates to carry.

    Raises:
        BundleRefused: the list is of nodes with another operating system.
    """
    found = read_installed(installed)
    if found.os != os_name:
        raise BundleRefused(
            f"{installed} has the packages of {found.os}, and the bundle is for {os_name}",
            hint="write the list at the site of this bundle: appliance site packages --out FILE",
        )
    return UpdatesRequest(since, found)


def cut(directory: Path, part_bytes: int) -> PartsResult:
    """Write the parts of a bundle that was just built."""
    from appliance.adapters.bundle.directory import BundleDirectory

    began = time.monotonic()

    def note(text: str) -> None:
        click.echo(f"[{time.monotonic() - began:6.1f} s] {text}", err=True)

    return write_parts(BundleDirectory(directory), part_bytes, note)


def delta_of(built: BuildResult, without: Path) -> Delta:
    """What a build left out."""
    return Delta(KIND, built.digest, read_have(without).bundle, built.left_out)


def _asks_to_replace(other: str) -> bool:
    """The answer of a person; no where nobody is there to ask."""
    return sys.stdin.isatty() and click.confirm(f"{other}; replace it?", err=True)


def _command(
    release: str, os_name: str, directory: Path, files: Path | None, sign_key: Path | None,
    keyrings: Sequence[Path], kernels: Sequence[str], without: Path | None,
    part_bytes: int | None, since: date | None, installed: Path | None, *, standins: bool,
    genuine: bool,
) -> str:  # fmt: skip
    """What was typed, for hints; further options can follow."""
    words = ["appliance", "bundle", "build", str(directory), "--release", release, "--os", os_name]
    words += ["--standins"] if standins else []
    words += ["--gpu-operands", REAL] if genuine else []
    words += ["--files", str(files)] if files else []
    words += ["--sign-key", str(sign_key)] if sign_key else []
    words += [word for path in keyrings for word in ("--keyring", str(path))]
    words += [word for kernel in kernels for word in ("--kernel", kernel)]
    words += ["--without", str(without)] if without else []
    words += ["--parts", f"{part_bytes // MEGABYTE}M"] if part_bytes else []
    words += ["--updates-since", str(since)] if since else []
    words += ["--installed", str(installed)] if installed else []
    return shlex.join(words)


def kernels_of(site: Path | None, kernels: Sequence[str]) -> tuple[str, ...]:
    """The kernels of the command line and those that a site names, each once.

    Raises:
        ConfigError: the site has a fault, or names no kernel.
    """
    if site is None:
        return tuple(dict.fromkeys(kernels))
    from appliance.adapters.site.files import load_site

    wanted = load_site(site).settings.gpu
    if wanted is None or not (wanted.kernels or kernels):
        raise ConfigError(
            f"the site {site} names no kernel",
            hint="write the kernels of its workers with GPUs (uname -r) into gpu.kernels of "
            "site.yml, or give --kernel",
        )
    return tuple(dict.fromkeys((*kernels, *wanted.kernels)))


def signature_of(directory: Path) -> Signature:
    """Whether the built bundle has a signature; its signer is not checked."""
    return read_signature(directory, b"", None)


class BuildTimes:
    """How long each artifact took in earlier builds; kept in the cache."""

    def __init__(self, cache: Cache | None = None) -> None:
        self._cache = cache
        self._key = recipe_key({"kind": "build times"})
        found = cache.recall(self._key) if cache else None
        self.seconds: dict[str, float] = {
            name: float(took)
            for name, took in (found or {}).items()
            if isinstance(took, int | float)
        }

    def keep(self, took: Mapping[str, float]) -> None:
        """Remember times; what came out of the cache took none, and its earlier time stays."""
        new = {name: seconds for name, seconds in took.items() if seconds >= _WORK_SECONDS}
        if self._cache is not None and new:
            self._cache.remember(self._key, {**self.seconds, **new})


class BuildProgress:
    """One line on stderr for each finished artifact, with the number that remain.

    As a context manager it also reports, after a quiet while, what is still running.
    """

    def __init__(
        self,
        quiet_seconds: float = QUIET_SECONDS,
        *,
        jobs: int = DEFAULT_JOBS,
        times: BuildTimes | None = None,
    ) -> None:
        self._jobs, self._times = jobs, times or BuildTimes()
        self._took: dict[str, float] = {}
        self._began = time.monotonic()
        self._quiet = quiet_seconds
        self._last_line = self._began
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._done: set[str] = set()
        self._running: dict[str, float] = {}
        self._reasons: set[str] = set()

    def __enter__(self) -> Self:
        """Begin to watch."""
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop watching, and keep the times for the next build."""
        self._over.set()
        self._times.keep(self._took)

    def began(self, names: Sequence[str]) -> None:
        """Print how many artifacts there are."""
        self._names = set(names)
        self.note(f"fetching {len(names)} artifacts")

    def started(self, name: str) -> None:
        """Remember when an artifact was started."""
        with self._lock:
            self._running[name] = time.monotonic()

    def skipped(self, name: str, ref: str, reason: str) -> None:
        """Print once why a source does not work; many artifacts share a host."""
        with self._lock:
            fresh = reason not in self._reasons
            self._reasons.add(reason)
        if fresh:
            self.note(f"{name}: skipped {ref}: {reason}")

    def ended(
        self, name: str, took_seconds: float, outcome: FetchedArtifact | ApplianceError
    ) -> None:
        """Print the source of a finished artifact, and how many remain."""
        what = (
            f"FAILED: {outcome.message}"
            if isinstance(outcome, ApplianceError)
            else f"from {outcome.kind}"
        )
        with self._lock:
            self._running.pop(name, None)
            if not isinstance(outcome, ApplianceError):
                self._took[name] = took_seconds
            if name in self._names:
                self._done.add(name)
            remaining = len(self._names) - len(self._done)
            now = ", ".join(sorted(self._running))
            rest = self._rest(remaining) + (f", now {now}" if now else "")
            # Under the lock, so that the lines count down.
            self.note(f"{name}: {what} ({took_seconds:.1f} s; {rest})")

    def _rest(self, remaining: int) -> str:
        """How many artifacts are left, and for how long, as far as this is known."""
        at = time.monotonic()
        running = {name: at - began for name, began in self._running.items()}
        left = seconds_left(
            self._names - self._done - set(running),
            running,
            earlier=self._times.seconds,
            finished=list(self._took.values()),
            jobs=self._jobs,
        )
        about = words(left)
        return f"{remaining} left" + (f", {about}" if about else "")

    def note(self, text: str) -> None:
        """Print a line."""
        self._last_line = time.monotonic()
        click.echo(f"[{time.monotonic() - self._began:6.1f} s] {text}", err=True)

    def _watch(self) -> None:
        while not self._over.wait(self._quiet / 10):
            now = time.monotonic()
            with self._lock:
                busy = [f"{name} ({now - at:.0f} s)" for name, at in self._running.items()]
                rest = self._rest(len(self._names) - len(self._done))
            if busy and now - self._last_line > self._quiet:
                self.note(f"still running: {', '.join(busy)}; {rest}")
