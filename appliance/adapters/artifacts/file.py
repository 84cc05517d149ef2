"""Files that the operator brings: nothing fetches them, and their sha256 comes with them."""

from __future__ import annotations

import shutil

from appliance.adapters.artifacts import Context
from appliance.errors import SourceUnavailable
from appliance.model.release import Artifact
from appliance.model.sources import FileSource
from appliance.model.taken import Taken, TakenFile


class OperatorFile:
    """Takes a file from the folder that ``--files`` names."""

    def take(self, artifact: Artifact, spec: FileSource, context: Context) -> Taken:
        """Check a file against its ``.sha256`` and copy it into the cache."""
        if context.files is None:
            raise SourceUnavailable(f"{spec.name} is yours to bring: give its folder with --files")
        path = context.files / spec.name
        beside = path.with_name(f"{path.name}.sha256")
        for needed in (path, beside):
            if not needed.is_file():
                raise SourceUnavailable(f"{needed} is not there")
        words = beside.read_text(encoding="utf-8").split()
        landing = context.cache.work("files") / artifact.name
        shutil.copyfile(path, landing)
        digest, size = context.cache.adopt(landing)
        if not words or words[0].lower() != digest:
            raise SourceUnavailable(f"{path} has sha256 {digest}, and {beside.name} says otherwise")
        file = TakenFile(artifact.path, digest, size, executable=artifact.executable)
        return Taken("file", spec.ref, "sha256", (file,))
