"""A node with an export, whose volumes are saved and restored by the programs that run there."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load, load_utils

load("runai_saved_state", role="runai_upgrade")
load_utils("appliance_volume_restore")
from ansible.module_utils import appliance_backup as gathering  # noqa: E402
from ansible.module_utils import appliance_backup_folder as folders  # noqa: E402
from ansible.module_utils import appliance_volume_backup as saving  # noqa: E402
from ansible.module_utils import appliance_volume_restore as restoring  # noqa: E402

CLAIM, FOLDER = "team/data", "team-data-pvc-1"
STAMP = "20260301T030000Z"
KEY = f"rack-20260301T020000Z.{STAMP}"


class Server:
    """The node: its export has the folder of one claim."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.export = folder / "srv"
        self.volume = self.export / FOLDER
        self.volume.mkdir(parents=True)
        (self.volume / "models").mkdir()
        (self.volume / "models" / "weights").write_bytes(b"w" * 200_000)
        (self.volume / "log").write_bytes(b"first\n")
        mark = folder / "nfs-export.json"
        for path in (mark, self.export / saving.MARKER):
            path.write_text(json.dumps({"id": "ab" * 16}))
        patch.setattr(saving, "MARK", mark)
        patch.setattr(saving, "RESERVE", 0)
        patch.setattr(restoring, "RESERVE", 0)
        patch.setattr(restoring, "HOME", folder / "state")
        patch.setattr(folders, "PLACE", folder / "backup")
        self.known: list[dict[str, str]] = [
            {"claim": CLAIM, "volume": "pvc-1", "uid": "u1", "folder": FOLDER}
        ]

    @property
    def want(self) -> dict[str, Any]:
        return {"export": str(self.export), "volumes": self.known}

    def look(self) -> dict[str, Any]:
        found: dict[str, Any] = saving.look(self.want)
        return found

    def save(self) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
        """What is told of the volume, its archive, and the first line of the node."""
        found = gathering.Gathered()
        with folders.working_folder("a-backup") as data:
            saving.of_volumes(found, self.want, data)
            out = io.BytesIO()
            gathering.send(found, out)
        line, _, rest = out.getvalue().partition(b"\n")
        told = json.loads(line)
        if not told["parts"]:
            return {}, b"", told
        (size, _) = (one["size"] for one in told["parts"])
        return json.loads(rest[:size]), rest[size:], told

    def act(self, act: str, key: str = KEY, content: bytes = b"", **more: Any) -> dict[str, Any]:
        want = {
            **self.want, "act": act, "key": key, "stamp": key.rpartition(".")[2],
            "backup": "rack-20260301T020000Z", "file_sha256": "5b" * 32, **more,
        }  # fmt: skip
        found: dict[str, Any] = restoring.act_of(want, io.BytesIO(content))
        return found

    def load(self, told: dict[str, Any], content: bytes, **more: Any) -> dict[str, Any]:
        import hashlib

        part = {
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "digest": told["digest"],
            "data_bytes": told["data_bytes"],
            "counts": told["counts"],
        }
        return self.act("load", content=content, claim=CLAIM, told={**part, **more})

    def names(self) -> list[str]:
        found = (path.name for path in self.export.iterdir())
        return sorted(name for name in found if name != saving.MARKER)
