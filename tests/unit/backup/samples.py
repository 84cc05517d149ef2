"""A backup that is written, and one that is described."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from appliance.adapters.backup.age import new_identity
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.writer import BackupWriter, new_backup
from appliance.model.backup.record import About, EtcdContent, Manifest, Sidecar

MOMENT = 1_790_000_000.0
NAME = "rack7-20260921T141320Z"
CONTENT = {
    "etcd/snapshot.db": b"snapshot" * 20_000,
    "control_plane/cp1/pki/ca.key": b"CANARY-CA-KEY",
    "site/group_vars/all/vault.yml": b"$ANSIBLE_VAULT;1.1;AES256",
    "state/journal/empty.jsonl": b"",
}


def about(name: str = NAME, site: str = "rack7", **changes: Any) -> About:
    given: dict[str, Any] = {
        "id": name,
        "site": site,
        "created": "2026-09-21T14:13:20+00:00",
        "release": "k8s-1.23.5-r1",
        "tool_version": "0.1.0",
        "recipients": ("SHA256:" + "0" * 64,),
        "kinds": (),
    }
    return About(**{**given, **changes})


def sidecar(
    name: str = NAME, site: str = "rack7", size: int = 10, sha256: str = "1" * 64, **more: Any
) -> Sidecar:
    return Sidecar(about(name, site, **more), size, sha256)


def key(folder: Path) -> tuple[Path, str]:
    """A new identity in a file, and its recipient."""
    identity, recipient = new_identity()
    path = folder / "key.txt"
    path.write_text(f"# public key: {recipient}\n{identity}\n")
    return path, recipient


def write(folder: Path, recipient: str, name: str = NAME) -> BackupWriter:
    """A whole backup in a folder."""
    with new_backup(FolderPlace(folder), name, [recipient], MOMENT) as writer:
        for part, content in CONTENT.items():
            writer.put(part, content, "cp1" if part.startswith("control_plane") else "")
        finish(writer, name)
    return writer


def finish(writer: BackupWriter, name: str = NAME) -> None:
    digest = hashlib.sha256(CONTENT["etcd/snapshot.db"]).hexdigest()
    etcd = EtcdContent(7, 3, "2" * 64, digest, "3.5.1")
    writer.finish(Manifest(about(name), "api.appliance.example:6443", (), etcd))
