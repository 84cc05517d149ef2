"""Build a bundle: take every artifact from the first source that works, then write and seal it.

Nothing that was taken is taken again: a build that was interrupted goes on where it was, because
sources keep what they finish in the cache. Every artifact that can not be had is named at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from appliance.errors import ApplianceError, BuildFailed
from appliance.model.bundle import BundledArtifact, BundleManifest, SourceUsed
from appliance.model.release import Artifact, Release
from appliance.model.sources import ComposeSource, Source
from appliance.model.taken import Taken, TakenFile
from appliance.workflows.bundle_ports import (
    ArtifactSources,
    BuildObserver,
    BundleSigner,
    BundleStore,
    LockFile,
)

PACKAGES = "packages"
WHEELS = "wheels"
NAMED = 10
_STOP_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class BuildRequest:
    """What is to be built.

    Attributes:
        jobs: how many artifacts may be under way at a time.
        created: date of the bundle, UTC, ISO 8601.
    """

    release: Release
    os_name: str
    tool_version: str
    created: str
    jobs: int = 4


@dataclass(frozen=True)
class BuildPorts:
    """The outside, as a build sees it."""

    sources: ArtifactSources
    store: BundleStore
    lock: LockFile
    observer: BuildObserver
    signer: BundleSigner | None = None


@dataclass(frozen=True)
class Built:
    """What came of a build."""

    digest: str
    manifest: BundleManifest
    learned: Mapping[str, str] = field(default_factory=dict)


def build_bundle(request: BuildRequest, ports: BuildPorts) -> Built:
    """Take, write, seal; sign, when there is somebody to.

    Raises:
        BuildFailed: artifacts could not be had from any source; one line for each.
        CommandFailed: the bundle is whole, and could not be signed.
        Refused: the directory holds something else.
    """
    ports.store.prepare(request.release.name, request.os_name)
    takes = _Takes(request, ports)
    outcomes = takes.all()
    shipped = takes.shipped
    files = {file.path: file for one in outcomes.values() for file in one.taken.files}
    ports.observer.note("writing the bundle")
    ports.store.write(
        list(files.values()),
        {
            item.image: (str(taken.image), taken.media_type)
            for item in shipped
            if item.image and (taken := outcomes[_title(item)].taken)
        },
    )
    manifest = _manifest(request, shipped, outcomes)
    learned = dict(one.taken.learned for one in outcomes.values() if one.taken.learned)
    ports.lock.record(learned)
    sealed = ports.store.seal(manifest)
    if sealed.signature_removed:
        ports.observer.note(
            "the manifest is another one now: removed the signature of the earlier one"
        )
    if sealed.strangers:
        ports.observer.note(_left_alone(sealed.strangers))
    if ports.signer:
        ports.observer.note(f"signing: {ports.signer.path}")
        ports.signer.sign()
    return Built(sealed.digest, sealed.manifest, learned)


def _left_alone(strangers: tuple[str, ...]) -> str:
    named = ", ".join(strangers[:NAMED])
    more = f" and {len(strangers) - NAMED} more" if len(strangers) > NAMED else ""
    return f"left alone in the directory, because no build put it there: {named}{more}"


@dataclass(frozen=True)
class _Outcome:
    """What was taken, from where, and what was tried before."""

    taken: Taken
    version: str
    skipped: tuple[tuple[str, str, str], ...] = ()


_Name = Artifact | str


class _Takes:
    """Everything that is to be taken; each once, whoever needs it first."""

    def __init__(self, request: BuildRequest, ports: BuildPorts) -> None:
        self._ports = ports
        self._jobs = request.jobs
        self._artifacts = request.release.artifacts_on(request.os_name)
        self._parts = {item.name: item for item in self._artifacts if item.kind != "image"}
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._done: dict[str, _Outcome | ApplianceError] = {}
        self._stopped = False

    @property
    def shipped(self) -> list[Artifact]:
        """What the bundle shows: everything but parts."""
        return [item for item in self._artifacts if item.kind != "part"]

    def all(self) -> dict[str, _Outcome]:
        """Take everything, by title; parts only when an image is made from them."""
        wanted: list[_Name] = [PACKAGES, WHEELS, *self.shipped]
        self._ports.observer.began([_title(name) for name in wanted])
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = {_title(name): pool.submit(self._one, name) for name in wanted}
            try:
                outcomes = {title: future.result() for title, future in futures.items()}
            except BaseException:
                self._stop(list(futures.values()))
                raise
        return self._refuse_faults(outcomes)

    def _stop(self, futures: Sequence[Future[_Outcome | ApplianceError]]) -> None:
        """End what is under way, again and again: the end of one may begin another."""
        self._stopped = True
        for future in futures:
            future.cancel()
        left: set[Future[_Outcome | ApplianceError]] = set(futures)
        while left:
            self._ports.sources.stop()
            left = wait(left, timeout=_STOP_AGAIN_SECONDS).not_done

    def _refuse_faults(
        self, outcomes: Mapping[str, _Outcome | ApplianceError]
    ) -> dict[str, _Outcome]:
        faults = []
        for title, outcome in outcomes.items():
            if isinstance(outcome, ApplianceError):
                faults.append(f"{title}: {outcome.message}")
                more = [*outcome.details, *([outcome.hint] if outcome.hint else [])]
                faults += [f"    {line}" for line in dict.fromkeys(more)]
        if faults:
            count = sum(isinstance(outcome, ApplianceError) for outcome in outcomes.values())
            raise BuildFailed(
                f"{count} of {len(outcomes)} artifacts could not be had from any source",
                details=faults,
                hint="mend what is named and run the same command again: what is there stays",
            )
        return {title: one for title, one in outcomes.items() if isinstance(one, _Outcome)}

    def _one(self, name: _Name) -> _Outcome | ApplianceError:
        title = _title(name)
        with self._guard:
            lock = self._locks.setdefault(title, threading.Lock())
        with lock:
            if self._stopped:
                return BuildFailed("the build was interrupted")
            if title not in self._done:
                self._ports.observer.started(title)
                began = time.monotonic()
                found = self._take(name)
                self._done[title] = found
                seen = found.taken if isinstance(found, _Outcome) else found
                if not self._stopped:
                    self._ports.observer.ended(title, time.monotonic() - began, seen)
            return self._done[title]

    def _take(self, name: _Name) -> _Outcome | ApplianceError:
        try:
            if isinstance(name, Artifact):
                return self._first_that_works(name)
            take: Callable[[], Taken] = (
                self._ports.sources.packages if name == PACKAGES else self._ports.sources.wheels
            )
            taken = take()
            if stale := taken.details.get("stale"):
                self._ports.observer.skipped(name, taken.ref, stale)
            return _Outcome(taken, "")
        except ApplianceError as error:
            return error

    def _first_that_works(self, artifact: Artifact) -> _Outcome:
        skipped: list[tuple[str, str, str]] = []
        for source in artifact.sources:
            if self._stopped:
                break
            try:
                taken = self._ports.sources.take(artifact, source, self._inputs(source))
            except ApplianceError as error:
                skipped.append((source.kind, source.ref, error.message))
                if not self._stopped:
                    self._ports.observer.skipped(_title(artifact), source.ref, error.message)
                continue
            return _Outcome(taken, source.version or artifact.version, tuple(skipped))
        raise BuildFailed(
            "no source works", details=[f"{kind} {ref}: {why}" for kind, ref, why in skipped]
        )

    def _inputs(self, source: Source) -> dict[str, Taken]:
        if not isinstance(source, ComposeSource):
            return {}
        found = {name: self._one(self._parts[name]) for name in source.inputs}
        broken = {n: one for n, one in found.items() if isinstance(one, ApplianceError)}
        if broken:
            raise BuildFailed(
                "its parts could not be had: "
                + "; ".join(
                    f"{name}: {' / '.join(error.details) or error.message}"
                    for name, error in broken.items()
                )
            )
        return {name: one.taken for name, one in found.items() if isinstance(one, _Outcome)}


def _title(name: _Name) -> str:
    return name if isinstance(name, str) else f"{name.kind} {name.name}"


def _manifest(
    request: BuildRequest, shipped: Sequence[Artifact], outcomes: Mapping[str, _Outcome]
) -> BundleManifest:
    packages, wheels = outcomes[PACKAGES].taken, outcomes[WHEELS].taken
    artifacts = [_artifact(item, outcomes[_title(item)]) for item in shipped]
    artifacts += [_many("package", file, packages) for file in packages.files]
    artifacts += [_many("wheel", file, wheels) for file in wheels.files]
    system = request.release.operating_system(request.os_name)
    return BundleManifest(
        release=request.release.name,
        os=request.os_name,
        architecture=request.release.architecture,
        tool_version=request.tool_version,
        created=request.created,
        artifacts=tuple(artifacts),
        images={
            item.image: f"sha256:{outcomes[_title(item)].taken.image}"
            for item in shipped
            if item.image
        },
        packages={file.name: file.version for file in packages.files},
        package_roots=system.root_names(),
    )


def _artifact(item: Artifact, one: _Outcome) -> BundledArtifact:
    taken = one.taken
    file = taken.file
    if taken.image:
        file = next(file for file in taken.files if file.sha256 == taken.image)
    source = SourceUsed(taken.kind, taken.ref, taken.verified, one.skipped)
    return BundledArtifact(
        item.name, one.version, item.kind, file.path, file.sha256, file.size, source, item.standin
    )


def _many(kind: str, file: TakenFile, taken: Taken) -> BundledArtifact:
    source = SourceUsed(taken.kind, file.origin or taken.ref, taken.verified)
    return BundledArtifact(file.name, file.version, kind, file.path, file.sha256, file.size, source)


def unverified(manifest: BundleManifest) -> Sequence[BundledArtifact]:
    """The artifacts for which nothing vouches yet."""
    return [item for item in manifest.artifacts if item.source.verified == "never"]
