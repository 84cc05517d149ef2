"""All kinds of sources, for one release on one operating system."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.adapters.local import processes
from appliance.adapters.local.cache import Cache, recipe_key
from appliance.adapters.local.control_host import present
from appliance.builder.sources import oci, url
from appliance.builder.sources.compose import AptFile, Compose
from appliance.builder.sources.go import Go
from appliance.builder.sources.local import LocalChart, LocalFile, OperatorFile
from appliance.builder.sources.packages import TargetPackages, target_of
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context, Fetcher
from appliance.builder.sources.wheels import closure_recipe, write_wheel_closure
from appliance.model.bundle.builders import BUILDERS, lacking_programs
from appliance.model.bundle.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release import Artifact, Release
from appliance.model.bundle.sources import OciSource, UrlSource
from appliance.model.bundle.sources import Source as Spec


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
    ) -> None:
        system = release.operating_system(os_name)
        self._release, self._os_name = release, os_name
        self._roots = system.roots
        self._context = Context(
            cache=cache,
            folder=folder,
            architecture=release.architecture,
            packages=TargetPackages(
                cache, lambda: target_of(os_name, system, release.architecture)
            ),
            reach=Reach(),
            files=files,
            locked=locked or {},
            standins=standins,
        )
        self._by_kind: dict[str, Fetcher[Any]] = {
            "url": url.Url(),
            "oci": oci.Oci(),
            "go": Go(),
            "apt": AptFile(),
            "compose": Compose(),
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
        if isinstance(source, UrlSource):
            known = url.in_cache(source, self._context) is not None
            return known or self._answers(source.url)
        if isinstance(source, OciSource):
            known = oci.in_cache(source, self._context) is not None
            return known or self._answers(oci.address_of(source))
        return False

    def _answers(self, address: str) -> bool:
        return self._context.reach.why_not(address) is None

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
        return FetchedArtifact("pypi", "the tool and its dependencies", "pypi", files)

    def stop(self) -> None:
        """Stop every compiler and download of this build."""
        processes.end_all()
