"""The packages of one build's target operating system, resolved and fetched once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from appliance.adapters.local.cache import Cache, recipe_key
from appliance.builder.archive_keys import keyring_file
from appliance.builder.sources.apt.isolated import IsolatedApt, ResolvedPackage
from appliance.builder.sources.apt.sources import (
    AptTarget,
    host_target,
    running_system,
    with_host_network,
)
from appliance.errors import ApplianceError, BuildFailed
from appliance.model.bundle.archives.archive import AptArchive
from appliance.model.bundle.release.release import OperatingSystem
from appliance.model.bundle.release.sources import ControllerSource


def target_of(
    name: str,
    operating_system: OperatingSystem,
    architecture: str,
    cache: Cache,
    keys: Mapping[str, bytes],
) -> AptTarget:
    """The package archives of a release's operating system.

    Args:
        name: its name.
        operating_system: what the release knows of it.
        architecture: dpkg's name of the architecture.
        cache: holds the keyring of each archive.
        keys: fingerprint -> the key, as far as this machine has the keys.

    Raises:
        BundleRefused: this machine has no sources for the system.
    """
    if not operating_system.archives:
        return host_target(name, architecture)
    return _named(name, operating_system.archives, architecture, cache, keys)


def controller_target(
    spec: ControllerSource, architecture: str, cache: Cache, keys: Mapping[str, bytes]
) -> AptTarget:
    """The package archives of the controller image: this machine's own if it runs the system."""
    if running_system() == spec.system:
        return host_target(spec.system, architecture)
    return _named(spec.system, spec.archives, architecture, cache, keys)


def _named(
    name: str,
    archives: Sequence[AptArchive],
    architecture: str,
    cache: Cache,
    keys: Mapping[str, bytes],
) -> AptTarget:
    sources = tuple(item.stanza(str(keyring_file(cache, item, keys))) for item in archives)
    return with_host_network(AptTarget(name, architecture, sources))


class TargetPackages:
    """apt for the target; the indexes are read with the first request.

    A failure is remembered: each later request fails at once.

    Attributes:
        stale: why the indexes of an earlier build are used; empty if the indexes are current.
    """

    def __init__(self, cache: Cache, target: Callable[[], AptTarget]) -> None:
        self._cache = cache
        self._target = target
        self._apt: IsolatedApt | None = None
        self._error: ApplianceError | None = None
        self._lock = threading.Lock()
        self.stale = ""

    def closure(self, roots: Sequence[str], *, essential: bool) -> tuple[ResolvedPackage, ...]:
        """The roots and their dependencies.

        Raises:
            BuildFailed: they cannot be resolved.
        """
        with self._alone():
            return self._ready().resolve(roots, essential=essential)

    def fetch(self, packages: Sequence[ResolvedPackage]) -> dict[str, Path]:
        """Download packages into the cache; file name -> path in the cache.

        Raises:
            BuildFailed: a package cannot be downloaded.
        """
        missing = [item for item in packages if not self._cache.holds(item.sha256, item.size)]
        if missing:
            with self._alone():
                landing = self._cache.work("packages")
                for path in self._ready().download(missing, landing):
                    self._cache.adopt(path)
        return {item.filename: self._cache.path(item.sha256) for item in packages}

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Neither a thread of this build nor another build uses apt's folders at the same time."""
        with self._lock, self._cache.alone("apt"):
            yield

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
        """Read the indexes; if the archive is unreachable, use those of the last build."""
        try:
            apt.update()
        except BuildFailed as error:
            if not marker.is_file():
                raise
            self.stale = error.message
        else:
            marker.touch()
