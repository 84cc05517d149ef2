"""Build a bundle: fetch every artifact from the first source that works, then write and seal it.

Sources store finished artifacts in the cache: an interrupted build resumes, and nothing is fetched
twice. All artifacts that cannot be fetched are reported together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from appliance.builder.ports import (
    ArtifactSources,
    BuildObserver,
    BundleSigner,
    BundleStore,
    LockFile,
)
from appliance.errors import ApplianceError, BuildFailed
from appliance.model.bundle.builds.causes import Failure, by_cause
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.manifest import (
    BundledArtifact,
    BundleManifest,
    SourceUsed,
    Updates,
)
from appliance.model.bundle.release.release import Artifact, Release
from appliance.model.bundle.release.sources import Source, inputs_of, is_genuine, is_standin

PACKAGES = "packages"
WHEELS = "wheels"
UPDATES = "updates"
NAMED = 10
_STOP_AGAIN_SECONDS = 0.2


@dataclass(frozen=True)
class BuildRequest:
    """The bundle to build.

    Attributes:
        jobs: how many artifacts to fetch in parallel.
        created: date of the bundle, UTC, ISO 8601.
        updates_since: the first day of the updates of the nodes' packages; empty: no updates.
        updated_nodes: the nodes whose packages were asked for.
    """

    release: Release
    os_name: str
    tool_version: str
    created: str
    jobs: int = 4
    updates_since: str = ""
    updated_nodes: Sequence[str] = ()


@dataclass(frozen=True)
class BuildPorts:
    """The adapters that a build uses."""

    sources: ArtifactSources
    store: BundleStore
    lock: LockFile
    observer: BuildObserver
    signer: BundleSigner | None = None


@dataclass(frozen=True)
class BuildResult:
    """The result of a build.

    Attributes:
        learned: digests that were not known before: reference -> sha256.
        left_out: paths that a delta leaves out.
    """

    digest: str
    manifest: BundleManifest
    learned: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def build_bundle(request: BuildRequest, ports: BuildPorts) -> BuildResult:
    """Fetch, write and seal; sign if there is a signer.

    Raises:
        BuildFailed: artifacts could not be fetched from any source; one line for each.
        CommandFailed: the bundle is complete, but could not be signed.
        Refused: the directory holds something else.
    """
    ports.store.prepare(request.release.name, request.os_name)
    fetches = _Fetches(request, ports)
    outcomes = fetches.all()
    shipped = fetches.shipped
    files = {file.path: file for one in outcomes.values() for file in one.fetched.files}
    ports.observer.note("writing the bundle")
    ports.store.write(
        list(files.values()),
        {
            item.image: (str(fetched.image), fetched.media_type)
            for item in shipped
            if item.image and (fetched := outcomes[_title(item)].fetched)
        },
    )
    manifest = _manifest(request, shipped, outcomes)
    learned = dict(one.fetched.learned for one in outcomes.values() if one.fetched.learned)
    ports.lock.record(learned)
    sealed = ports.store.seal(manifest)
    if sealed.signature_removed:
        ports.observer.note(
            "the manifest has changed: removed the signature of the earlier manifest"
        )
    if sealed.strangers:
        ports.observer.note(_left_alone(sealed.strangers))
    if ports.signer:
        ports.observer.note(f"signing: {ports.signer.path}")
        ports.signer.sign()
    return BuildResult(sealed.digest, sealed.manifest, learned, sealed.left_out)


def _left_alone(strangers: tuple[str, ...]) -> str:
    named = ", ".join(strangers[:NAMED])
    more = f" and {len(strangers) - NAMED} more" if len(strangers) > NAMED else ""
    return f"foreign files in the directory, not removed: {named}{more}"


@dataclass(frozen=True)
class _Outcome:
    """The fetched artifact, its version, and the sources that were skipped before.

    Attributes:
        standin: it plays the part of the vendor's own.
    """

    fetched: FetchedArtifact
    version: str
    skipped: tuple[tuple[str, str, str], ...] = ()
    standin: bool = False


_Name = Artifact | str


class _Fetches:
    """Fetches every artifact once, in parallel."""

    def __init__(self, request: BuildRequest, ports: BuildPorts) -> None:
        self._ports = ports
        self._jobs = request.jobs
        self._many = [PACKAGES, WHEELS, *([UPDATES] if request.updates_since else [])]
        self._artifacts = request.release.artifacts_on(request.os_name)
        self._parts = {item.name: item for item in self._artifacts if item.kind != "image"}
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._done: dict[str, _Outcome | ApplianceError] = {}
        self._stopped = False

    @property
    def shipped(self) -> list[Artifact]:
        """The artifacts that the bundle lists: all except parts."""
        return [item for item in self._artifacts if item.kind != "part"]

    def all(self) -> dict[str, _Outcome]:
        """Fetch all artifacts, by title; a part only if an image is made from it."""
        names: list[_Name] = [*self._many, *self.shipped]
        self._ports.observer.began([_title(name) for name in names])
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = {_title(name): pool.submit(self._one, name) for name in names}
            try:
                outcomes = {title: future.result() for title, future in futures.items()}
            except BaseException:
                self._stop(list(futures.values()))
                raise
        return self._refuse_faults(outcomes)

    def _stop(self, futures: Sequence[Future[_Outcome | ApplianceError]]) -> None:
        """Stop all fetches, repeatedly: when one ends, another may start."""
        self._stopped = True
        for future in futures:
            future.cancel()
        running: set[Future[_Outcome | ApplianceError]] = set(futures)
        while running:
            self._ports.sources.stop()
            running = wait(running, timeout=_STOP_AGAIN_SECONDS).not_done

    def _refuse_faults(
        self, outcomes: Mapping[str, _Outcome | ApplianceError]
    ) -> dict[str, _Outcome]:
        faults = [
            Failure(title, outcome.message, tuple(outcome.details), outcome.hint)
            for title, outcome in outcomes.items()
            if isinstance(outcome, ApplianceError)
        ]
        if faults:
            raise BuildFailed(
                f"{len(faults)} of {len(outcomes)} artifacts could not be fetched or built",
                details=[line for paragraph in by_cause(faults) for line in paragraph],
                hint="fix the causes above and run the same command again: finished artifacts are "
                "kept",
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
                outcome = self._fetch(name)
                self._done[title] = outcome
                result = outcome.fetched if isinstance(outcome, _Outcome) else outcome
                if not self._stopped:
                    self._ports.observer.ended(title, time.monotonic() - began, result)
            return self._done[title]

    def _fetch(self, name: _Name) -> _Outcome | ApplianceError:
        try:
            if isinstance(name, Artifact):
                return self._first_that_works(name)
            sources = self._ports.sources
            fetch: Mapping[str, Callable[[], FetchedArtifact]] = {
                PACKAGES: sources.packages,
                WHEELS: sources.wheels,
                UPDATES: sources.updates,
            }
            fetched = fetch[name]()
            if name == PACKAGES and (stale := fetched.details.get("stale")):
                self._ports.observer.skipped(name, fetched.ref, stale)
            return _Outcome(fetched, "")
        except ApplianceError as error:
            return error

    def _first_that_works(self, artifact: Artifact) -> _Outcome:
        skipped: list[tuple[str, str, str]] = []
        reasons: list[str] = []
        for source in artifact.sources:
            if self._stopped:
                break
            try:
                fetched = self._ports.sources.fetch(artifact, source, self._inputs(source))
            except ApplianceError as error:
                skipped.append((source.kind, source.ref, error.message))
                # The cause is that of the parts, so that both are told together.
                parts = error.details if inputs_of(source) else ()
                reasons += parts or [f"{source.kind} {source.ref}: {error.message}"]
                if not self._stopped:
                    self._ports.observer.skipped(_title(artifact), source.ref, error.message)
                continue
            played = is_standin(source) or (artifact.standin and not is_genuine(source))
            version = source.version or artifact.version
            return _Outcome(fetched, version, tuple(skipped), played)
        raise BuildFailed("no source works", details=reasons)

    def _inputs(self, source: Source) -> dict[str, FetchedArtifact]:
        outcomes = {name: self._one(self._parts[name]) for name in inputs_of(source)}
        failed = {n: one for n, one in outcomes.items() if isinstance(one, ApplianceError)}
        if failed:
            raise BuildFailed(
                "its parts could not be fetched or built: "
                + "; ".join(
                    f"{name}: {' / '.join(error.details) or error.message}"
                    for name, error in failed.items()
                ),
                details=[
                    f"part {name} from {line}" if ": " in line else f"part {name}: {line}"
                    for name, error in failed.items()
                    for line in (*error.details, *(() if error.details else (error.message,)))
                ],
            )
        return {name: one.fetched for name, one in outcomes.items() if isinstance(one, _Outcome)}


def _title(name: _Name) -> str:
    return name if isinstance(name, str) else f"{name.kind} {name.name}"


def _manifest(
    request: BuildRequest, shipped: Sequence[Artifact], outcomes: Mapping[str, _Outcome]
) -> BundleManifest:
    packages, wheels = outcomes[PACKAGES].fetched, outcomes[WHEELS].fetched
    artifacts = [_artifact(item, outcomes[_title(item)]) for item in shipped]
    artifacts += [_many("package", file, packages) for file in packages.files]
    artifacts += [_many("wheel", file, wheels) for file in wheels.files]
    if UPDATES in outcomes:
        updates = outcomes[UPDATES].fetched
        artifacts += [_many("update", file, updates) for file in updates.files]
    system = request.release.operating_system(request.os_name)
    return BundleManifest(
        release=request.release.name,
        os=request.os_name,
        architecture=request.release.architecture,
        tool_version=request.tool_version,
        created=request.created,
        artifacts=tuple(artifacts),
        images={
            item.image: f"sha256:{outcomes[_title(item)].fetched.image}"
            for item in shipped
            if item.image
        },
        packages={file.name: file.version for file in packages.files},
        package_roots=system.root_names(),
        pythons=wheels.details,
        updates=_updates(request, outcomes[UPDATES].fetched) if UPDATES in outcomes else None,
    )


def _updates(request: BuildRequest, fetched: FetchedArtifact) -> Updates:
    return Updates(
        since=request.updates_since,
        nodes=tuple(request.updated_nodes),
        packages={file.name: file.version for file in fetched.files},
        older=dict(fetched.details),
    )


def _artifact(item: Artifact, one: _Outcome) -> BundledArtifact:
    fetched = one.fetched
    file = fetched.file
    if fetched.image:
        file = next(file for file in fetched.files if file.sha256 == fetched.image)
    source = SourceUsed(fetched.kind, fetched.ref, fetched.verified, one.skipped)
    return BundledArtifact(
        item.name, one.version, item.kind, file.path, file.sha256, file.size, source,
        one.standin,
    )  # fmt: skip


def _many(kind: str, file: FetchedFile, fetched: FetchedArtifact) -> BundledArtifact:
    source = SourceUsed(fetched.kind, file.origin or fetched.ref, fetched.verified)
    return BundledArtifact(file.name, file.version, kind, file.path, file.sha256, file.size, source)


def unverified(manifest: BundleManifest) -> Sequence[BundledArtifact]:
    """The artifacts whose digest was never verified."""
    return [item for item in manifest.artifacts if item.source.verified == "never"]
