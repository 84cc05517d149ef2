"""All kinds of sources, for one release on one operating system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from appliance.adapters.local import processes
from appliance.adapters.local.cache import Cache, recipe_key
from appliance.adapters.local.control_host import present
from appliance.builder.archive_keys import find_keys
from appliance.builder.sources import url
from appliance.builder.sources.apt.packages import TargetPackages, controller_target, target_of
from appliance.builder.sources.apt.sources import AptTarget, running_system
from appliance.builder.sources.apt.updates import NodeUpdates, UpdatesRequest
from appliance.builder.sources.go.c_library import CLibrary
from appliance.builder.sources.go.file import GoFile
from appliance.builder.sources.go.programs import Go
from appliance.builder.sources.local import LocalChart, LocalFile, OperatorFile, why_not_there
from appliance.builder.sources.oci import registry as oci
from appliance.builder.sources.oci.compose import AptFile, Compose
from appliance.builder.sources.oci.controller import Controller, resolved
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context, Fetcher
from appliance.builder.sources.wheels import (
    carried,
    closure_recipe,
    this_python,
    write_wheel_closure,
)
from appliance.builder.space import require_space
from appliance.builder.wheel_needs import describe
from appliance.errors import ApplianceError, BundleRefused
from appliance.model.bundle.builds.builders import BUILDERS, impossible, lacking_programs
from appliance.model.bundle.builds.causes import Failure, by_cause
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact, Release
from appliance.model.bundle.release.sources import (
    ControllerSource,
    FileSource,
    OciSource,
    UrlSource,
)
from appliance.model.bundle.release.sources import Source as Spec

_SUPPLY = "make one of these sources reachable, or supply the file, and run the same command again"
_AGAIN = "fix the causes above and run the same command again"


class Sources:
    """Fetches artifacts, packages and wheels into a cache."""

    def __init__(  # noqa: PLR0913 - what is optional is a keyword
        self,
        release: Release,
        os_name: str,
        cache: Cache,
        *,
        folder: Path,
        files: Path | None = None,
        locked: Mapping[str, str] | None = None,
        standins: Path | None = None,
        keyrings: Sequence[Path] = (),
        command: str = "",
        updates: UpdatesRequest | None = None,
    ) -> None:
        system = release.operating_system(os_name)
        self._release, self._os_name = release, os_name
        self._roots = system.roots
        self._controllers = {
            spec.ref: TargetPackages(cache, partial(self._controller_target, spec, cache))
            for spec in release.controllers_on(os_name)
        }
        foreign = [
            spec for spec in release.controllers_on(os_name) if spec.system != running_system()
        ]
        self._archives = (*system.archives, *(one for spec in foreign for one in spec.archives))
        self._keyrings, self._command = keyrings, command

        def target() -> AptTarget:
            return target_of(os_name, system, release.architecture, cache, self._keys)

        self._updates = NodeUpdates(cache, target, updates) if updates else None
        self._context = Context(
            cache=cache,
            folder=folder,
            architecture=release.architecture,
            packages=TargetPackages(cache, target),
            reach=Reach(),
            files=files,
            locked=locked or {},
            standins=standins,
            bases=tuple(folder.parent / name for name in release.based_on),
        )
        self._by_kind: dict[str, Fetcher[Any]] = {
            "url": url.Url(),
            "oci": oci.Oci(),
            "go": Go(),
            "c-library": CLibrary(),
            "go-file": GoFile(),
            "apt": AptFile(),
            "compose": Compose(),
            "controller": Controller(self._controllers, self.wheels),
            "file": OperatorFile(),
            "local": LocalFile(),
            "local-chart": LocalChart(),
        }

    def fetch(
        self, artifact: Artifact, source: Spec, inputs: Mapping[str, FetchedArtifact]
    ) -> FetchedArtifact:
        """Fetch an artifact from one source."""
        context = replace(self._context, inputs=inputs)
        return self._by_kind[source.kind].fetch(artifact, source, context)

    @cached_property
    def _keys(self) -> Mapping[str, bytes]:
        return find_keys(self._archives, self._keyrings, again=self._command)

    def require_keys(self) -> None:
        """Find the key of every package archive; nothing is asked or downloaded for it.

        Raises:
            BundleRefused: archives have no key on this machine; all of them at once.
        """
        if self._archives or self._keyrings:
            _ = self._keys

    def require_possible(self) -> None:
        """Refuse what is known to be fatal before any artifact is fetched or compiled.

        The archives are asked for their indexes, hosts for an answer, and pip for the wheels,
        which stay in the cache.

        Raises:
            BundleRefused: all that is fatal, at once.
        """
        artifacts = self._release.artifacts_on(self._os_name)
        lost = impossible(artifacts, self._why_not)
        faults = [Failure(name, "no source works", why, _SUPPLY) for name, why in lost.items()]
        found = [*self._fails(self._resolve), *self._fails(self.wheels)]
        for spec in self._release.controllers_on(self._os_name):
            found += self._fails(partial(resolved, self._controllers[spec.ref], spec))
        faults += [Failure("", one.message, tuple(one.details), one.hint) for one in found]
        if len(faults) == 1:
            (one,) = faults
            message = f"{one.title}: {one.message}" if one.title else one.message
            raise BundleRefused(message, details=one.reasons, hint=one.hint)
        if faults:
            causes = by_cause(faults)
            of = f" of {len(causes)} causes" if len(causes) < len(faults) else ""
            raise BundleRefused(
                f"{len(faults)} faults{of} make this build impossible",
                details=[line for paragraph in causes for line in paragraph],
                hint=_AGAIN,
            )

    def _controller_target(self, spec: ControllerSource, cache: Cache) -> AptTarget:
        keys = {} if spec.system == running_system() else self._keys
        return controller_target(spec, self._release.architecture, cache, keys)

    def _resolve(self) -> object:
        closure = self._context.packages.closure(self._roots, essential=True)
        cache = self._context.cache
        new = sum(item.size for item in closure if not cache.holds(item.sha256, item.size))
        require_space(cache.root, new, "what is missing of the operating system's packages")
        return closure

    @staticmethod
    def _fails(fetch: Callable[[], object]) -> list[ApplianceError]:
        try:
            fetch()
        except ApplianceError as error:
            return [error]
        return []

    def _why_not(self, spec: Spec) -> str | None:
        if isinstance(spec, FileSource):
            return why_not_there(spec, self._context)
        if isinstance(spec, (UrlSource, OciSource)) and not self._in_cache(spec):
            address = spec.url if isinstance(spec, UrlSource) else oci.address_of(spec)
            why = self._context.reach.why_not(address)
            return f"{spec.ref}: the host cannot be reached: {why}" if why else None
        return None

    def _in_cache(self, spec: UrlSource | OciSource) -> bool:
        if isinstance(spec, UrlSource):
            return url.in_cache(spec, self._context) is not None
        return oci.in_cache(spec, self._context) is not None

    def lacking(self) -> frozenset[str]:
        """Missing programs that the build needs, as far as this can be known beforehand.

        Only what cannot be fetched is built here; a host that answers is assumed to have the file.
        """
        artifacts = self._release.artifacts_on(self._os_name)
        with ThreadPoolExecutor() as pool:  # hosts are asked in parallel
            specs = {spec.ref: spec for item in artifacts for spec in item.sources}
            answers = pool.map(self._can_be_fetched, specs.values())
            fetchable = dict(zip(specs, answers, strict=True))
        installed = present(BUILDERS)
        return lacking_programs(artifacts, installed, lambda spec: fetchable[spec.ref])

    def _can_be_fetched(self, source: Spec) -> bool:
        return isinstance(source, (UrlSource, OciSource)) and self._why_not(source) is None

    def packages(self) -> FetchedArtifact:
        """The closure of the release's packages, essential ones included."""
        closure = self._context.packages.closure(self._roots, essential=True)
        self._context.packages.fetch(closure)
        files = tuple(
            FetchedFile(
                f"apt/pool/{item.filename}",
                item.sha256,
                item.size,
                name=item.name,
                version=item.version,
                origin=item.uri,
            )
            for item in closure
        )
        stale = self._context.packages.stale
        details = {"stale": f"{stale}; using the indexes of the last build"} if stale else {}
        return FetchedArtifact("apt", " ".join(self._roots), "apt", files, details=details)

    def updates(self) -> FetchedArtifact:
        """The updates of the nodes' packages."""
        if self._updates is None:
            raise BundleRefused("no updates were asked for", hint="give --updates-since")
        return self._updates.fetch()

    def wheels(self) -> FetchedArtifact:
        """The tool itself, as wheels."""
        cache = self._context.cache
        key = recipe_key({"kind": "wheels", "of": closure_recipe()})
        with cache.alone("wheels"):
            known = cache.recall(key)
            if known is not None:
                fetched = FetchedArtifact.parse(known)
                if all(cache.holds(file.sha256, file.size) for file in fetched.files):
                    return fetched
            fetched = self._closed(cache)
            cache.remember(key, fetched.as_json())
        return fetched

    def _closed(self, cache: Cache) -> FetchedArtifact:
        landing = cache.work("wheels") / "closure"
        wheels = write_wheel_closure(landing)
        for wheel in wheels:
            cache.adopt(landing / wheel.filename)
        files = tuple(
            FetchedFile(
                f"wheels/{wheel.filename}",
                wheel.sha256,
                wheel.size,
                name=wheel.name,
                version=wheel.version,
            )
            for wheel in wheels
        )
        tried = describe((target.python for target in carried()), this_python().python)
        return FetchedArtifact(
            "pypi", "the tool and its dependencies", "pypi", files, details=tried
        )

    def stop(self) -> None:
        """Stop every compiler and download of this build."""
        processes.end_all()
