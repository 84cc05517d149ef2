"""A disk that fills is foreseen, by what is free and by earlier looks."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.care.disks import DiskFiles
from appliance.model.checks.health.disks import HINT, disks
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.state.facts.disk_history import (
    APART_SECONDS,
    MOST_SAMPLES,
    DiskHistory,
    Sample,
    read_disk_history,
    used_of,
    with_sample,
)
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Look, Observed
from tests import samples

GIB = 1 << 30
DAY = 86400.0
NOW = 1_790_000_000.0
DESIRED = samples.desired()
MASTER = DESIRED.site.control_plane[0]
FOLDERS = ["/", "/var/lib/kubelet", "/var/lib/docker", "/var/lib/etcd"]


def facts(free: float, inodes: int = 90, folders: list[str] | None = None) -> NodeFacts:
    """A node whose one disk of 100 GiB has so many GiB free."""
    document = samples.converged(MASTER, DESIRED)
    document["filesystems"] = [
        {"mount": "/", "device": "/dev/sda2", "fstype": "ext4", "read_only": False,
         "for": FOLDERS if folders is None else folders, "size_bytes": 100 * GIB,
         "free_bytes": int(free * GIB), "free_inodes_percent": inodes}
    ]  # fmt: skip
    (found,) = samples.node_facts({MASTER.name: document}).values()
    return replace(found, received_at=NOW)


def history(*used: float, apart: float = DAY) -> DiskHistory:
    """A day between each two samples; the last one is now."""
    first = NOW - apart * (len(used) - 1)
    points = [Sample(first + apart * n, {"/": int(gib * GIB)}) for n, gib in enumerate(used)]
    return DiskHistory(MASTER.name, tuple(points))


def found(seen: NodeFacts, before: DiskHistory | None = None, **kubelet: Any) -> list[Finding]:
    settings = DESIRED.site.settings
    kubernetes = settings.kubernetes.model_copy(update={"kubelet": kubelet})
    site = replace(DESIRED.site, settings=settings.model_copy(update={"kubernetes": kubernetes}))
    observed = Observed({MASTER.name: seen}, samples.cluster(DESIRED))
    inputs = HealthInputs(replace(DESIRED, site=site), observed)
    inputs = replace(inputs, disks={MASTER.name: before} if before else {})
    return [one for one in disks(inputs) if isinstance(one, Finding)]


CASES: dict[str, tuple[NodeFacts, DiskHistory | None, str, str]] = {
    "plenty": (facts(60), None, "", ""),
    "at the kubelet's threshold for images": (facts(16), None, "error", "more than 17 %: at 15 %"),
    "no cluster folder on it": (facts(16, folders=["/"]), None, "", ""),
    "what cannot evict fails": (facts(3, folders=["/"]), None, "error", "writes there fails"),
    "no inodes": (facts(60, inodes=6), None, "error", "at 5 % the kubelet evicts pods"),
    "it grows by 1 GiB a day": (facts(35), history(62, 63, 64, 65), "warning", "30 days of"),
    "it grows fast": (facts(25), history(45, 55, 65, 75), "error", "30 days of"),
    "it grows slowly": (facts(60), history(39.7, 39.8, 39.9, 40), "", ""),
    "two looks are too few": (facts(25), history(65, 75), "", ""),
    "hours are too short": (facts(25), history(45, 55, 65, 75, apart=3600), "", ""),
    "it shrinks": (facts(35), history(68, 67, 66, 65), "", ""),
    "a clean-up begins it anew": (facts(60), history(80, 85, 90, 38, 40), "", ""),
}


@pytest.mark.parametrize(("seen", "before", "severity", "words"), CASES.values(), ids=CASES)
def test_what_is_foreseen(
    seen: NodeFacts, before: DiskHistory | None, severity: str, words: str
) -> None:
    said = found(seen, before)
    assert [one.severity for one in said] == ([severity] if severity else [])
    assert all(words in one.expected and one.hint == HINT for one in said)


def test_the_warning_has_a_date() -> None:
    (one,) = found(facts(35), history(62, 63, 64, 65))
    assert one.seen == "35 % free on / (35.0 GiB), and 1.0 GiB more each day: 15 % on 2026-10-11"


def test_the_site_may_have_other_thresholds() -> None:
    given = {"imagefs.available": "0%", "nodefs.available": "0%"}
    assert found(facts(16), evictionHard=given) == []
    assert found(facts(16), evictionHard={"imagefs.available": "20%"})[0].severity == "error"
    assert found(facts(16), evictionHard={"imagefs.available": "1Gi"})[0].severity == "error"


def test_samples_are_apart_bounded_and_never_from_the_future() -> None:
    kept = DiskHistory("cp1")
    for number in range(3 * MOST_SAMPLES):
        kept = with_sample(kept, NOW + number * APART_SECONDS / 2, {"/": number})
    assert len(kept.samples) <= MOST_SAMPLES
    gaps = {b.seen - a.seen for a, b in pairwise(kept.samples)}
    assert min(gaps) >= APART_SECONDS
    assert [one.seen for one in with_sample(kept, NOW, {"/": 1}).samples] == [NOW]
    assert with_sample(DiskHistory("cp1"), NOW, {}).samples == ()


def test_a_look_is_kept_and_a_strange_file_counts_as_absent(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path, [MASTER.name])
    files.saw_nodes(Look({MASTER.name: facts(35), "other": facts(35)}))
    assert files.read()[MASTER.name].samples == (Sample(NOW, {"/": 65 * GIB}),)
    (path,) = (tmp_path / "facts/disks").iterdir()
    assert read_disk_history(path.read_bytes()) == files.read()[MASTER.name]
    for text in ("", "{}", json.dumps({"schema": 2, "node": MASTER.name, "samples": []})):
        path.write_text(text)
        assert files.read()[MASTER.name].samples == ()
    files.saw_nodes(Look({MASTER.name: facts(35)}))
    assert len(files.read()[MASTER.name].samples) == 1


def test_what_a_node_says_is_not_believed_blindly() -> None:
    seen = facts(35)
    for free in (-1, 200 * GIB, "much", None, True):
        seen.document["filesystems"][0]["free_bytes"] = free
        if free is not True:
            assert used_of(seen) == {}
            assert found(seen) == []
