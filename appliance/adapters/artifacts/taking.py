"""All kinds of sources together, for one release on one operating system."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.adapters import processes
from appliance.adapters.artifacts import Context, Source, oci, url
from appliance.adapters.artifacts.compose import AptFile, Compose
from appliance.adapters.artifacts.file import OperatorFile
from appliance.adapters.artifacts.go import Go
from appliance.adapters.artifacts.local import LocalChart, LocalFile
from appliance.adapters.artifacts.packages import TargetPackages, target_of
from appliance.adapters.artifacts.reach import Reach
from appliance.adapters.artifacts.wheels import write_wheel_closure
from appliance.adapters.artifacts.wheels_recipe import closure_recipe
from appliance.adapters.cache import Cache, recipe_key
from appliance.adapters.control_host import present
from appliance.model.builders import BUILDERS, lacking_programs
from appliance.model.release import Artifact, Release
from appliance.model.sources import OciSource, UrlSource
from appliance.model.sources import Source as Spec
from appliance.model.taken import Taken, TakenFile


class Sources:
    """Takes artifacts, packages and wheels into a cache."""

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
        self._by_kind: dict[str, Source[Any]] = {
            "url": url.Url(),
            "oci": oci.Oci(),
            "go": Go(),
            "apt": AptFile(),
            "compose": Compose(),
            "file": OperatorFile(),
            "local": LocalFile(),
            "local-chart": LocalChart(),
        }

    def take(self, artifact: Artifact, source: Spec, inputs: Mapping[str, Taken]) -> Taken:
        """Take an artifact from one source."""
        context = replace(self._context, inputs=inputs)
        return self._by_kind[source.kind].take(artifact, source, context)

    def lacking(self) -> frozenset[str]:
        """Programs without which something can not be had from anywhere, as far as can be seen.

        Only what can not be fetched is built here; a host that answers is believed to have it.
        """
        artifacts = self._release.artifacts_on(self._os_name)
        with ThreadPoolExecutor() as pool:  # hosts are asked at the same time
            specs = {spec.ref: spec for item in artifacts for spec in item.sources}
            answers = pool.map(self._can_be_fetched, specs.values())
            fetched = dict(zip(specs, answers, strict=True))
        here = present(BUILDERS)
        return lacking_programs(artifacts, here, lambda spec: fetched[spec.ref])

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

    def packages(self) -> Taken:
        """The closure of the release's packages, essential ones included."""
        closure = self._context.packages.closure(self._roots, essential=True)
        self._context.packages.fetch(closure)
        files = tuple(
            TakenFile(
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
        details = {"stale": f"{stale}; the indexes of the last build serve"} if stale else {}
        return Taken("apt", " ".join(self._roots), "apt", files, details=details)

    def wheels(self) -> Taken:
        """The tool itself, as wheels."""
        cache = self._context.cache
        key = recipe_key({"kind": "wheels", "of": closure_recipe()})
        with cache.alone("wheels"):
            known = cache.recall(key)
            if known is not None:
                taken = Taken.parse(known)
                if all(cache.holds(file.sha256, file.size) for file in taken.files):
                    return taken
            taken = self._closed(cache)
            cache.remember(key, taken.as_json())
        return taken

    def _closed(self, cache: Cache) -> Taken:
        landing = cache.work("wheels") / "closure"
        wheels = write_wheel_closure(landing)
        for wheel in wheels:
            cache.adopt(landing / wheel.filename)
        files = tuple(
            TakenFile(
                f"wheels/{wheel.filename}",
                wheel.sha256,
                wheel.size,
                name=wheel.name,
                version=wheel.version,
            )
            for wheel in wheels
        )
        return Taken("pypi", "the tool and what it needs", "pypi", files)

    def stop(self) -> None:
        """End every compiler and download of ours."""
        processes.end_all()
