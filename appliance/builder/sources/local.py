"""The lab's stand-ins: files of this installation, and charts packed from its folders."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from appliance.builder.sources.source import Context
from appliance.errors import BuildFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import FileSource, LocalChartSource, LocalSource


class LocalFile:
    """Copies one file of the stand-ins."""

    def fetch(self, artifact: Artifact, spec: LocalSource, context: Context) -> FetchedArtifact:
        """Copy a file into the cache."""
        path = _inside(context, spec.path)
        if not path.is_file():
            raise SourceUnavailable(f"{spec.ref} is not a file")
        landing = context.cache.work("standins") / f"{artifact.kind}-{artifact.name}"
        shutil.copyfile(path, landing)
        digest, size = context.cache.adopt(landing)
        file = FetchedFile(artifact.path, digest, size, executable=artifact.executable)
        return FetchedArtifact("local", spec.ref, "own", (file,))


class LocalChart:
    """Packs a chart; the same folder gives the same bytes on every machine."""

    def fetch(
        self, artifact: Artifact, spec: LocalChartSource, context: Context
    ) -> FetchedArtifact:
        """Pack a folder as Helm would, under the name in its Chart.yaml."""
        folder = _inside(context, spec.path)
        if not (folder / "Chart.yaml").is_file():
            raise SourceUnavailable(f"{spec.ref} has no Chart.yaml")
        chart = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        name, version = chart["name"], str(chart["version"])
        if (name, version.removeprefix("v")) != (artifact.name, artifact.version.removeprefix("v")):
            raise BuildFailed(
                f"{spec.ref}Chart.yaml: found {name} {version}, "
                f"expected {artifact.name} {artifact.version}",
                hint="use the name and version of the list of stand-ins",
            )
        inside = {
            place: context.cache.path(context.inputs[part].file.sha256)
            for place, part in spec.files.items()
        }
        digest, size = context.cache.add_bytes(packed_chart(folder, name, inside))
        file = FetchedFile(artifact.path, digest, size)
        return FetchedArtifact("local-chart", spec.ref, "own", (file,))


def packed_chart(folder: Path, name: str, more: Mapping[str, Path] | None = None) -> bytes:
    """A chart's archive, not compressed: compressors differ between machines.

    Args:
        folder: the chart's own files.
        name: the chart's name, which is the folder in the archive.
        more: path in the chart -> a file that is elsewhere.
    """
    own = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for place, path in sorted({**own, **(more or {})}.items()):
            member = tarfile.TarInfo(f"{name}/{place}")
            member.size = path.stat().st_size
            with path.open("rb") as stream:
                archive.addfile(member, stream)
    return gzip.compress(content.getvalue(), compresslevel=0, mtime=0)


def _inside(context: Context, path: str) -> Path:
    if context.standins is None:
        raise SourceUnavailable("stand-ins need the option --standins")
    return context.standins / path


class OperatorFile:
    """Copies a file from the folder given by ``--files``."""

    def fetch(self, artifact: Artifact, spec: FileSource, context: Context) -> FetchedArtifact:
        """Check a file against its ``.sha256`` and copy it into the cache."""
        reason = why_not_there(spec, context)
        if context.files is None or reason:
            raise SourceUnavailable(reason or "")
        path, checksum = _operators(spec, context.files)
        words = checksum.read_text(encoding="utf-8").split()
        landing = context.cache.work("files") / artifact.name
        shutil.copyfile(path, landing)
        digest, size = context.cache.adopt(landing)
        if not words or words[0].lower() != digest:
            raise SourceUnavailable(f"{path} has sha256 {digest}, {checksum.name} has another one")
        fetched = FetchedFile(artifact.path, digest, size, executable=artifact.executable)
        return FetchedArtifact("file", spec.ref, "sha256", (fetched,))


def why_not_there(spec: FileSource, context: Context) -> str | None:
    """Why the operator's file cannot be taken; None if it and its ``.sha256`` are there."""
    if context.files is None:
        return f"you supply {spec.name}: give its folder with --files"
    absent = [file for file in _operators(spec, context.files) if not file.is_file()]
    return f"{absent[0]} does not exist" if absent else None


def _operators(spec: FileSource, folder: Path) -> tuple[Path, Path]:
    path = folder / spec.name
    return path, path.with_name(f"{path.name}.sha256")
