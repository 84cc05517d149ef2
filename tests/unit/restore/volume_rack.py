"""A backup with the data of volumes, and the node that restores it."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import IO, Any

from appliance.model.backup.record import About, Manifest, Part
from appliance.model.backup.volumes.record import Claim, VolumeRecord
from appliance.model.backup.volumes.restore import Target
from appliance.model.backup.volumes.view import BegunRestore, SeenVolume, VolumesView
from tests.unit.backup.volume_samples import DATA, USED, site
from tests.unit.restore.database_rack import BACKUP, FILE

ARCHIVES = {"team/data": b"archive of data", "team/busy": b"archive of busy"}
IDLE = replace(USED, users=())


def record(claim: str, **changes: Any) -> VolumeRecord:
    uid = {DATA.claim: DATA.uid, USED.claim: USED.uid}[claim]
    found = VolumeRecord(
        claim, "pvc", uid, "old-folder", f"volumes/{claim}/data.tar.gz", {"file": 2, "folder": 1},
        2000, 1500, "d1" * 32,
    )  # fmt: skip
    return replace(found, **changes)


class FakeBackup:
    """A backup with two volumes."""

    sha256 = FILE

    def __init__(self, **changes: Any) -> None:
        self.content: dict[str, bytes] = {}
        for claim, archive in ARCHIVES.items():
            known = asdict(record(claim, **changes.pop(claim, {})))
            self.content[f"volumes/{claim}/volume.json"] = json.dumps(known).encode()
            self.content[f"volumes/{claim}/data.tar.gz"] = archive
        for name in changes.pop("without", ()):
            del self.content[name]
        self.content.update(changes.pop("content", {}))
        about = About(BACKUP, site().name, "2026-03-01T02:00:00+00:00", "r1", "0.1.0",
                      ("SHA256:" + "ab" * 32,), ("volumes",))  # fmt: skip
        parts = (
            Part(name, hashlib.sha256(content).hexdigest(), len(content), "cp1")
            for name, content in self.content.items()
        )
        self.manifest = Manifest(replace(about, **changes), "api.rack.test:6443", tuple(parts))

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        take(io.BytesIO(self.content[name]))


class FakeVolumes:
    """The cluster's claims, and the node: what it holds, and what it was asked to do."""

    def __init__(self, *claims: Claim) -> None:
        self.listed: list[Claim] = list(claims or (DATA, IDLE))
        self.free_bytes = 1 << 40
        self.record: BegunRestore | None = None
        self.whole: dict[str, set[str]] = {}
        self.swapped: dict[str, set[str]] = {}
        self.done: list[str] = []
        self.happens: Callable[[str], None] = lambda _what: None

    def _act(self, what: str) -> None:
        self.happens(f"before {what}")
        self.done.append(what)

    def claims(self) -> Sequence[Claim]:
        return self.listed

    def look(self, key: str, targets: Sequence[Target]) -> VolumesView:
        swapped, whole = self.swapped.get(key, set()), self.whole.get(key, set())
        seen = {
            one.claim: SeenVolume(True, one.claim in whole - swapped, one.claim in swapped)
            for one in targets
        }
        return VolumesView(self.free_bytes, self.record, seen, ("old.before-20250101T000000Z",))

    def load(
        self,
        key: str,
        targets: Sequence[Target],
        one: tuple[VolumeRecord, Part],
        backup: tuple[str, str],
        content: IO[bytes],
    ) -> None:
        claim = one[0].claim
        assert claim in {target.claim for target in targets}
        assert content.read() == ARCHIVES[claim]
        assert one[1].name == one[0].archive
        assert backup == (BACKUP, FILE)
        self.record = BegunRestore(key, key.rpartition(".")[2], *backup, ended=False)
        self._act(f"load {claim}")
        self.whole.setdefault(key, set()).add(claim)
        self.happens(f"after load {claim}")

    def swap(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        new = {one.claim for one in targets} - self.swapped.get(key, set())
        assert new <= self.whole[key]
        if new:
            self._act("swap")
        self.swapped.setdefault(key, set()).update(new)
        self.happens("after swap")
        return self._kept(key)

    def end(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        self._act("end")
        assert self.swapped[key] >= {one.claim for one in targets}
        assert self.record is not None
        self.record = replace(self.record, ended=True)
        return self._kept(key)

    def _kept(self, key: str) -> Mapping[str, str]:
        return {claim: f"{claim}.before" for claim in sorted(self.swapped[key])}
