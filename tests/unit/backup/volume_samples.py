"""A site whose own node serves the export, its claims, and what a backup has of one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from appliance.model.backup.answer import read_answer
from appliance.model.backup.volumes.choice import Choice, Measured, MeasuredVolumes
from appliance.model.backup.volumes.record import Claim, User, VolumeRecord
from appliance.model.site.settings import Nfs, Site
from tests import samples
from tests.unit.backup.fake_sources import FakeStream
from tests.unit.modules.volume_course import Server

NFS = Nfs(server="198.18.7.11", path="/srv/nfs")
DATA = Claim("team/data", "u1", "pvc-1", "198.18.7.11", "/srv/nfs/team-data-pvc-1")
USED = Claim(
    "team/busy", "u2", "pvc-2", "cp1", "/srv/nfs/team-busy-pvc-2",
    (User("train-0", "statefulset/train"), User("web-x", "deployment/web")),
)  # fmt: skip
FILER = Claim("team/filer", "u3", "pvc-3", "198.18.7.200", "/export/team")
LOCAL = Claim("team/local", "u4", "pvc-4", "", "/mnt/disk1")
DEEP = Claim("team/deep", "u5", "pvc-5", "198.18.7.11", "/srv/nfs/a/b")
CLAIMS = (DATA, USED, FILER, LOCAL, DEEP)


def site(**changes: Any) -> Site:
    return samples.site(1, 2, **{"nfs": NFS, "runai": {}, **changes})


def saved(folder: Path, patch: pytest.MonkeyPatch) -> tuple[VolumeRecord, bytes, bytes]:
    """What a node gives of one volume: the record, and the content of both parts."""
    told, content, _ = Server(folder, patch).save()
    text = json.dumps(told, sort_keys=True).encode()
    return VolumeRecord(**told), text, content


class FakeVolumes:
    """The cluster's claims, and the node that serves their folders."""

    def __init__(self, record: bytes, archive: bytes) -> None:
        self.contents = [record, archive]
        self.listed: Sequence[Claim] = CLAIMS
        self.measures = {one.claim: Measured(4, 200_006) for one in CLAIMS}
        self.free_bytes = 1 << 40
        self.asked: list[tuple[str, ...]] = []
        self.breaks = False

    def claims(self) -> Sequence[Claim]:
        return self.listed

    def measure(self, choice: Choice) -> MeasuredVolumes:
        assert choice.node is not None
        return MeasuredVolumes(self.measures, self.free_bytes)

    @contextmanager
    def of_volumes(self, choice: Choice, folder: str) -> Iterator[FakeStream]:
        assert folder
        self.asked.append(tuple(one.claim.claim for one in choice.volumes))
        names = ("volume.json", "data.tar.gz")
        parts = [
            {
                "name": f"volumes/team/data/{name}",
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            for name, content in zip(names, self.contents, strict=True)
        ]
        answer = read_answer(json.dumps({"parts": parts}).encode(), "cp1", ["volumes"])
        yield FakeStream(answer, self.contents, breaks_after=1 if self.breaks else None)


def plain(record: VolumeRecord, **changes: Any) -> bytes:
    return json.dumps({**asdict(record), **changes}).encode()
