"""The packages of one build's target operating system, resolved and fetched once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from appliance.adapters.artifacts.apt import IsolatedApt, ResolvedPackage
from appliance.adapters.artifacts.apt_sources import AptTarget, host_target, with_host_network
from appliance.adapters.cache import Cache, recipe_key
from appliance.errors import ApplianceError, BuildFailed
from appliance.model.release import OperatingSystem


def target_of(name: str, operating_system: OperatingSystem, architecture: str) -> AptTarget:
    """Where the packages of a release's operating system come from.

    Raises:
        BundleRefused: this machine can not know: no keyring, or no sources of its own for it.
    """
    if not operating_system.archives:
        return host_target(name, architecture)
    sources = tuple(archive.stanza for archive in operating_system.archives)
    return with_host_network(AptTarget(name, architecture, sources))


class TargetPackages:
    """apt for the target; the indexes are read when the first package is asked for.

    An outcome that could not be had is remembered too: each later question is answered at once.

    Attributes:
        stale: why the indexes of an earlier build had to serve; empty when they are of today.
    """

    def __init__(self, cache: Cache, target: Callable[[], AptTarget]) -> None:
        self._cache = cache
        self._target = target
        self._apt: IsolatedApt | None = None
        self._error: ApplianceError | None = None
        self._lock = threading.Lock()
        self.stale = ""

    def closure(self, roots: Sequence[str], *, essential: bool) -> tuple[ResolvedPackage, ...]:
        """The roots and everything they need.

        Raises:
            BuildFailed: they can not be resolved.
        """
        with self._lock:
            return self._ready().resolve(roots, essential=essential)

    def fetch(self, packages: Sequence[ResolvedPackage]) -> dict[str, Path]:
        """Bring packages into the cache; file name -> content there.

        Raises:
            BuildFailed: one can not be had.
        """
        missing = [item for item in packages if not self._cache.holds(item.sha256, item.size)]
        if missing:
            with self._lock:
                landing = self._cache.work("packages")
                for path in self._ready().download(missing, landing):
                    self._cache.adopt(path)
        return {item.filename: self._cache.path(item.sha256) for item in packages}

    def _ready(self) -> IsolatedApt:
        if self._error is not None:
            raise self._error
        if self._apt is None:
            self.stale = ""
            try:
                target = self._target()
                key = recipe_key({"target": [target.name, target.architecture, target.sources]})
                folder = self._cache.work(f"apt-{key[:12]}")
                self._apt = IsolatedApt(folder, target)
                self._update(self._apt, folder / "updated")
            except ApplianceError as error:
                self._error, self._apt = error, None
                raise
        return self._apt

    def _update(self, apt: IsolatedApt, marker: Path) -> None:
        """Read the indexes; where the archive is out of reach, those of the last time serve."""
        try:
            apt.update()
        except BuildFailed as error:
            if not marker.is_file():
                raise
            self.stale = error.message
        else:
            marker.touch()
