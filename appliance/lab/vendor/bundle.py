"""Builds the stand-in of a vendor bundle: the documented file names and layout, our own content.

Three generations, from the sources in ``appliance/lab/standins/vendor_bundle_standin``. The same
inputs give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import TypeAdapter

from appliance.adapters.bundle.oci import referenced
from appliance.adapters.local import processes
from appliance.adapters.local.cache import Cache
from appliance.adapters.local.content import RELEASES, STANDINS, default_release, load_release
from appliance.builder.fetch import Sources
from appliance.builder.sources.local import packed_chart
from appliance.errors import ApplianceError, BuildFailed
from appliance.lab.vendor import definitions as vendor_definitions
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.runai_versions import LINES, minor_of
from appliance.model.bundle.release.sources import ComposeSource

FOLDER = STANDINS / "vendor_bundle_standin"
SCHEDULER_PLUGINS = "sigs.k8s.io/scheduler-plugins"
_PREFIX = "gcr.io/run-ai-prod"
# The archive of each image; the division in the vendor's bundle is not known.
_OF_BACKEND = ("backend-standin", "postgresql-standin")


@dataclass(frozen=True)
class StandinImage:
    """An image as files.

    Attributes:
        config: its configuration.
        layers: sha256 and file of each layer, not compressed.
    """

    name: str
    config: Path
    config_sha256: str
    layers: tuple[tuple[str, Path], ...]


@dataclass(frozen=True)
class Ingredients:
    """The content of a bundle besides our own sources.

    Attributes:
        helm: the program, or None for a bundle without it.
        crds: further CustomResourceDefinitions of the cluster's chart, name -> content.
    """

    images: tuple[StandinImage, ...] = ()
    helm: Path | None = None
    helm_version: str = "3.8.2"
    crds: tuple[tuple[str, bytes], ...] = ()


def build_vendor_bundle(
    version: str,
    folder: Path,
    *,
    release: str | None = None,
    os_name: str = "debian-12",
    compressed: bool = False,
) -> Path:
    """Build the images, or recall them from the cache, and write the bundle to ``folder``.

    Args:
        version: of Run:ai, which is played.
        folder: where the file is written.
        release: whose Helm is in it; None for that of a new site.
        os_name: the operating system of the images.
        compressed: write it as the vendor does.

    Raises:
        ApplianceError: a source of an image is not available.
    """
    return write_vendor_bundle(
        version,
        folder,
        ingredients(release or default_release(), os_name, Cache()),
        compressed=compressed,
    )


def ingredients(release: str, os_name: str, cache: Cache) -> Ingredients:
    """Build the images of the stand-in."""
    loaded = load_release(release)
    listed = yaml.safe_load((FOLDER / "artifacts.yml").read_text(encoding="utf-8"))["artifacts"]
    artifacts = TypeAdapter(tuple[Artifact, ...]).validate_python(listed)
    standins = _Fetcher(
        Sources(loaded, os_name, cache, folder=FOLDER, standins=STANDINS), artifacts
    )
    released = _Fetcher(
        Sources(loaded, os_name, cache, folder=RELEASES / release), loaded.artifacts_on(os_name)
    )
    images = tuple(_image(a.name, standins.fetch(a), cache) for a in artifacts if a.kind == "image")
    helm = released.fetch(released.artifact("helm"))
    return Ingredients(
        images, cache.path(helm.file.sha256), loaded.versions.helm, tuple(_scheduler_crds())
    )


class _Fetcher:
    """Fetches an artifact and its parts from the first source that works."""

    def __init__(self, sources: Sources, artifacts: Sequence[Artifact]) -> None:
        self._sources = sources
        self._artifacts = artifacts

    def artifact(self, name: str) -> Artifact:
        return next(item for item in self._artifacts if item.name == name and item.kind != "image")

    def fetch(self, artifact: Artifact) -> FetchedArtifact:
        errors = []
        for source in artifact.sources:
            names = source.inputs if isinstance(source, ComposeSource) else ()
            inputs = {name: self.fetch(self.artifact(name)) for name in names}
            try:
                return self._sources.fetch(artifact, source, inputs)
            except ApplianceError as error:
                errors += [f"{source.ref}: {error.message}", *error.details]
        raise BuildFailed(f"{artifact.name} could not be fetched or built", details=errors)


def _image(name: str, fetched: FetchedArtifact, cache: Cache) -> StandinImage:
    manifest = json.loads(cache.path(str(fetched.image)).read_bytes())
    config, *layers = referenced(manifest)
    return StandinImage(
        name,
        cache.path(config.sha256),
        config.sha256,
        tuple((layer.sha256, cache.path(layer.sha256)) for layer in layers),
    )


def _scheduler_crds() -> Iterable[tuple[str, bytes]]:
    """The definitions of PodGroup and ElasticQuota from the scheduler's module."""
    environment = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    listing = processes.run(
        ["go", "mod", "download", "-json", SCHEDULER_PLUGINS],
        cwd=FOLDER / "go" / "scheduler-plugins",
        env=environment,
        timeout=300,
    ).stdout
    module = Path(json.loads(listing)["Dir"])
    for name in ("coscheduling", "capacityscheduling"):
        yield f"{name}.yaml", (module / "manifests" / name / "crd.yaml").read_bytes()


def write_vendor_bundle(
    version: str, folder: Path, parts: Ingredients, *, compressed: bool = False
) -> Path:
    """Write the tar of one version; its generation decides names and layout."""
    line = minor_of(version)
    if line is None:
        raise BuildFailed(f"{version!r} is not a version, expected one such as 2.7.1")
    name = f"runai-{version}.tar" if line <= (2, 8) else f"runai-air-gapped-{version}.tar"
    destination = folder / (name + (".gz" if compressed else ""))
    work = folder / f".{name}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    _fill(work / "deploy", version, line, parts)
    new = work / "new"
    with new.open("wb") as raw:
        if compressed:
            with gzip.GzipFile("", "wb", 1, raw, mtime=0) as stream:
                _pack(stream, work, "deploy")
        else:
            _pack(raw, work, "deploy")
    new.replace(destination)
    shutil.rmtree(work)
    return destination


def _fill(deploy: Path, version: str, line: tuple[int, int], parts: Ingredients) -> None:
    (deploy / "images").mkdir(parents=True)
    _program(deploy / "prepare_installation.sh", (FOLDER / "prepare_installation.sh").read_bytes())
    backend = "runai-backend" if line <= (2, 11) else "control-plane"
    chart = _chart(deploy.parent, "runai-backend", backend, version)
    # Documented in both places: install page and upgrade page.
    beside = deploy / "runai-backend" if (2, 9) <= line <= (2, 11) else deploy
    beside.mkdir(exist_ok=True)
    (beside / f"{backend}-{version}.tgz").write_bytes(chart)
    crds = vendor_definitions.written(line, FOLDER)
    (deploy / "runai-crds.yaml").write_bytes(crds)
    of_chart = (("runai-crds.yaml", crds), *parts.crds)
    cluster = _chart(deploy.parent, "runai-cluster", "runai-cluster", version, of_chart)
    (deploy / f"runai-cluster-{version}.tgz").write_bytes(cluster)
    _admin_cli(deploy, version, line)
    if parts.helm:
        packed = _archive({"linux-amd64/helm": (parts.helm.read_bytes(), 0o755)})
        (deploy / f"helm-v{parts.helm_version}-linux-amd64.tar.gz").write_bytes(packed)
    of_backend = [image for image in parts.images if image.name in _OF_BACKEND]
    of_cluster = [image for image in parts.images if image.name not in _OF_BACKEND]
    if of_backend:
        with (deploy / "images/control-plane.tar").open("wb") as stream:
            _docker_archive(stream, of_backend, version)
    if of_cluster:
        with (
            (deploy / "images/cluster.tar.gz").open("wb") as raw,
            gzip.GzipFile("", "wb", 1, raw, mtime=0) as packed_stream,
        ):
            _docker_archive(packed_stream, of_cluster, version)


def _program(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o755)


def _admin_cli(deploy: Path, version: str, line: tuple[int, int]) -> None:
    """An archive in the first generation, the bare program in the second, none in the third."""
    source = (FOLDER / "runai_adm.py").read_text(encoding="utf-8")
    program = source.replace('VERSION = "0.0.0"', f'VERSION = "{version}"', 1).encode()
    if line <= (2, 8):
        packed = _archive({"runai-adm": (program, 0o755)})
        (deploy / f"runai-admin-cli-{version}-linux-amd64.tar.gz").write_bytes(packed)
    elif line <= (2, 11):
        _program(deploy / "runai-adm", program)


def _chart(
    work: Path, source: str, name: str, version: str, crds: Iterable[tuple[str, bytes]] = ()
) -> bytes:
    folder = work / "chart"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(FOLDER / "charts" / source, folder)
    chart = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    chart.update(name=name, version=version, appVersion=version)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart, sort_keys=False), encoding="utf-8")
    _values(folder, name, version)
    for file_name, content in crds:
        (folder / "crds").mkdir(exist_ok=True)
        (folder / "crds" / file_name).write_bytes(content)
    return packed_chart(folder, name)


def _values(folder: Path, name: str, version: str) -> None:
    """Give the chart the values of its generation, with its version's first password."""
    values, later = folder / "values.yaml", folder / "control-plane-values.yaml"
    if later.exists():
        later.replace(values if name == "control-plane" else later)
        later.unlink(missing_ok=True)
    line = LINES.get(minor_of(version) or (0, 0))
    text = values.read_text(encoding="utf-8")
    password = line.first_password if line else "Abcd!234"
    values.write_text(text.replace("FIRST_PASSWORD", password), encoding="utf-8")


def _archive(files: dict[str, tuple[bytes, int]]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, (data, mode) in files.items():
            _add(archive, name, data, mode)
    return gzip.compress(content.getvalue(), compresslevel=1, mtime=0)


def _add(archive: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    archive.addfile(member, io.BytesIO(data))


def _docker_archive(stream: io.IOBase, images: Sequence[StandinImage], version: str) -> None:
    """An archive as ``docker save`` writes it; shared layers are stored once."""
    manifest = [
        {
            "Config": f"{image.config_sha256}.json",
            "RepoTags": [f"{_PREFIX}/{image.name}:{version}"],
            "Layers": [f"{sha256}/layer.tar" for sha256, _ in image.layers],
        }
        for image in images
    ]
    layers = {sha256: path for image in images for sha256, path in image.layers}
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for image in images:
            _add(archive, f"{image.config_sha256}.json", image.config.read_bytes())
        for sha256, path in sorted(layers.items()):
            _add_file(archive, f"{sha256}/layer.tar", path, 0o644)
        _add(archive, "manifest.json", json.dumps(manifest).encode())


def _add_file(archive: tarfile.TarFile, name: str, path: Path, mode: int) -> None:
    member = tarfile.TarInfo(name)
    with path.open("rb") as content:
        member.size, member.mode = os.fstat(content.fileno()).st_size, mode
        archive.addfile(member, content)


def _pack(stream: io.IOBase, root: Path, top: str) -> None:
    with tarfile.open(fileobj=stream, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for path in (root / top, *sorted((root / top).rglob("*"))):
            name = str(path.relative_to(root))
            if path.is_dir():
                member = tarfile.TarInfo(name)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            else:
                _add_file(archive, name, path, path.stat().st_mode & 0o755 | 0o644)
