"""Files that a Go module brings beside its packages, such as the schemas of its objects.

The wrapper's go.sum verifies the module. The file is a vendor's: it is taken at build time, and
never kept.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from appliance.adapters.local import processes
from appliance.adapters.local.cache import recipe_key
from appliance.builder.sources.go.programs import go_environment, module_folder
from appliance.builder.sources.source import Context
from appliance.errors import CommandFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import GoFileSource


class GoFile:
    """The Go client of this machine, which downloads and verifies the module."""

    def fetch(self, artifact: Artifact, spec: GoFileSource, context: Context) -> FetchedArtifact:
        """Copy the file out of the module, or recall it from the cache."""
        if processes.find_program("go") is None:
            raise SourceUnavailable("this machine has no Go toolchain")
        module = module_folder(spec.module, context)
        key = recipe_key(
            {
                "kind": "go-file",
                "spec": spec.model_dump(exclude={"version", "at"}),
                "module": [(module / name).read_text("utf-8") for name in ("go.mod", "go.sum")],
            }
        )
        digest, size = context.cache.made(key, lambda: _copied(spec, context, key))
        file = FetchedFile(artifact.path, digest, size, executable=artifact.executable)
        return FetchedArtifact("go-file", spec.ref, "gosum", (file,))


def _copied(spec: GoFileSource, context: Context, key: str) -> Path:
    work = context.cache.work(f"go-file-{key[:16]}")
    module = work / "module"
    shutil.copytree(module_folder(spec.module, context), module, dirs_exist_ok=True)
    try:
        done = processes.run(
            ["go", "mod", "download", "-json", spec.of],
            cwd=module, env=go_environment(context, cgo=False),
        )  # fmt: skip
    except CommandFailed as error:
        raise SourceUnavailable(
            f"module {spec.of} could not be downloaded: {error.message}", details=error.details
        ) from error
    found = Path(json.loads(done.stdout)["Dir"]) / spec.path
    if not found.is_file():
        raise SourceUnavailable(f"module {spec.of} {spec.at} has no file {spec.path}")
    copy = work / found.name
    shutil.copyfile(found, copy)
    shutil.rmtree(module)
    return copy
