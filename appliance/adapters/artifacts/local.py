"""The lab's stand-ins: files of this installation, and charts packed from its folders."""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from pathlib import Path

import yaml

from appliance.adapters.artifacts import Context
from appliance.errors import BuildFailed, SourceUnavailable
from appliance.model.release import Artifact
from appliance.model.sources import LocalChartSource, LocalSource
from appliance.model.taken import Taken, TakenFile


class LocalFile:
    """Takes one file."""

    def take(self, artifact: Artifact, spec: LocalSource, context: Context) -> Taken:
        """Copy a file into the cache."""
        path = _inside(context, spec.path)
        if not path.is_file():
            raise SourceUnavailable(f"{spec.ref} is no file")
        landing = context.cache.work("standins") / f"{artifact.kind}-{artifact.name}"
        shutil.copyfile(path, landing)
        digest, size = context.cache.adopt(landing)
        file = TakenFile(artifact.path, digest, size, executable=artifact.executable)
        return Taken("local", spec.ref, "own", (file,))


class LocalChart:
    """Packs a chart; the same folder gives the same bytes on every machine."""

    def take(self, artifact: Artifact, spec: LocalChartSource, context: Context) -> Taken:
        """Pack a folder as Helm would, under the name that its Chart.yaml says."""
        folder = _inside(context, spec.path)
        if not (folder / "Chart.yaml").is_file():
            raise SourceUnavailable(f"{spec.ref} has no Chart.yaml")
        said = yaml.safe_load((folder / "Chart.yaml").read_text(encoding="utf-8"))
        name, version = said["name"], str(said["version"])
        if (name, version.removeprefix("v")) != (artifact.name, artifact.version.removeprefix("v")):
            raise BuildFailed(
                f"{spec.ref}Chart.yaml is of {name} {version}, "
                f"not of {artifact.name} {artifact.version}",
                hint="write the name and version that the list of stand-ins says",
            )
        digest, size = context.cache.add_bytes(packed_chart(folder, name))
        file = TakenFile(artifact.path, digest, size)
        return Taken("local-chart", spec.ref, "own", (file,))


def packed_chart(folder: Path, name: str) -> bytes:
    """A chart's archive; stored rather than compressed, because compressors differ."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(f"{name}/{path.relative_to(folder)}")
                member.size = path.stat().st_size
                with path.open("rb") as stream:
                    archive.addfile(member, stream)
    return gzip.compress(content.getvalue(), compresslevel=0, mtime=0)


def _inside(context: Context, path: str) -> Path:
    if context.standins is None:
        raise SourceUnavailable("stand-ins are only taken where they are asked for: --standins")
    return context.standins / path
