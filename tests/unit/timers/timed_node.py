"""A control-plane node as far as a backup of its timer sees it: the program is the real one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.age import fingerprint, new_identity
from tests.unit.modules.loading import load
from tests.unit.timers.age_standin import age_standin

load("runai_saved_state", role="runai_upgrade")

from ansible.module_utils import (  # noqa: E402
    appliance_backup_folder,
    appliance_timer_archive,
    appliance_timer_backup,
    appliance_timer_record,
)

__all__ = [
    "ETCD",
    "SNAPSHOT",
    "Node",
    "appliance_backup_folder",
    "appliance_timer_archive",
    "appliance_timer_backup",
    "appliance_timer_record",
    "placed",
    "run",
    "write_settings",
]
SNAPSHOT = b"snapshot of etcd" * 1000
ETCD = {
    "revision": 7,
    "keys": 3,
    "digest": "d" * 64,
    "sha256": hashlib.sha256(SNAPSHOT).hexdigest(),
    "version": "3.5.1",
    "members": [{"node": "cp1", "address": "198.18.7.11:2380", "id": "ab"}],
}


class Node:
    """A control-plane node as far as a backup sees it."""

    def __init__(self, folder: Path) -> None:
        secret, self.public = new_identity()
        self.key = folder / "key.txt"
        self.key.write_text(secret + "\n")
        self.folder = folder
        self.etcd: dict[str, Any] | None = ETCD
        self.fault: BaseException | None = None
        self.kubernetes: str | None = "1.24.17"

    def want(self, **more: Any) -> dict[str, Any]:
        """What the site says."""
        return {
            "site": "rack7",
            "node": "cp1",
            "kinds": ["etcd", "control_plane"],
            "registry": "registry.rack7.example:5000",
            "recipients": [self.public],
            "fingerprints": [fingerprint(self.public)],
            "keep": 2,
            "most_gb": 50,
            "release": "k8s-1.23.5-r1",
            "tool_version": "0.1.0",
            "endpoint": "api.rack7.example:6443",
            "elsewhere": [{"where": "this machine", "what": "site", "why": "made on a node"}],
            "seconds": 60,
            "memory_mb": 512,
            **more,
        }

    def gather(self, _want: dict[str, Any], data: Path) -> Any:
        """Plays what the node holds."""
        found = appliance_timer_backup.appliance_backup.Gathered()
        if self.fault is not None:
            raise self.fault
        if self.etcd is None:
            found.lacks("etcd", "etcd is not healthy: password=hunter2")
            return found
        (data / "snapshot.db").write_bytes(SNAPSHOT)
        found.file("etcd/snapshot.db", data / "snapshot.db")
        found.text("control_plane/cp1/pki/ca.key", b"key of the CA")
        found.lacks("objects", "no answer; token: abcdef.0123")
        found.told["etcd"] = self.etcd
        if self.kubernetes is not None:
            found.told["kubernetes"] = self.kubernetes
        return found

    @property
    def place(self) -> Path:
        return self.folder / "backups"

    @property
    def record(self) -> Any:
        return json.loads((self.folder / "timers/backup.json").read_text())


def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose folders are below this one."""
    found = Node(tmp_path)
    monkeypatch.setattr(appliance_timer_archive, "AGE", age_standin(tmp_path))
    monkeypatch.setattr(appliance_timer_archive, "PLACE", tmp_path / "backups")
    monkeypatch.setattr(appliance_timer_record, "HOME", tmp_path / "timers")
    monkeypatch.setattr(appliance_timer_record, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(appliance_timer_record, "SETTINGS", tmp_path / "settings")
    monkeypatch.setattr(appliance_timer_backup, "DATABASE", tmp_path / "no-database")
    monkeypatch.setattr(appliance_timer_backup, "RESERVE", 0)
    monkeypatch.setattr(appliance_timer_backup, "SPARE", 0)
    monkeypatch.setattr(appliance_backup_folder, "PLACE", tmp_path / "work")
    monkeypatch.setattr(appliance_timer_backup.appliance_backup, "gather", found.gather)
    write_settings(found, found.want())
    return found


def write_settings(node: Node, want: dict[str, Any]) -> None:
    (node.folder / "settings").mkdir(exist_ok=True)
    (node.folder / "settings/backup.json").write_text(json.dumps(want))


def run() -> int:
    found: int = appliance_timer_record.carry_out("backup", appliance_timer_backup.work)
    return found
