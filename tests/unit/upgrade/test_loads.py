"""What an upgrade brings to the nodes, and the space that it takes."""

from __future__ import annotations

from dataclasses import replace

from appliance.cli.commands.cluster.upgrade_view.loads import load_lines, loads_as_json
from appliance.model.bundle.manifest import BundledFile
from appliance.model.components.base.subject import size
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.moves.loads import KUBERNETES_BYTES, Load
from appliance.model.upgrade.points.disks import SPARE_BYTES, DiskNeed
from appliance.workflows.cluster.upgrading.loads import Loads
from tests.fakes import FakeBundle
from tests.unit.upgrade import rack as upgrades
from tests.unit.upgrade.rack import NEW, NEXT, Bench

GB = 1000**3


def test_a_plan_says_what_each_node_loads() -> None:
    found = Bench().upgrade(dry_run=True).loads.nodes
    assert "etcd:3.5.1-0" in found["cp1"][0].images
    (worker,) = found["w1"]
    assert {name.partition(":")[0] for name in worker.images} == {"flannel", "kube-proxy", "pause"}
    assert (worker.release, worker.programs, worker.packages) == (NEW, ("kubeadm", "crictl"), ())


def test_a_node_that_changes_its_runtime_is_brought_packages_as_well() -> None:
    found = Bench(workers=1, to=NEXT).upgrade(dry_run=True).loads.nodes["w1"]
    assert [(one.release, one.packages) for one in found] == [
        (NEW, ()),
        (NEXT, ("containerd 1.6.20",)),
    ]


def test_a_release_without_a_bundle_is_named() -> None:
    found = Bench(workers=1, to=NEXT).upgrade(dry_run=True, supplies={}).loads
    assert found.unknown == (NEW, NEXT)
    assert f"what {NEW} brings: not known without its bundle: --bundle DIR" in [*load_lines(found)]
    assert [one["node"] for one in loads_as_json(found)["disks"]] == ["cp1", "w1"]


def test_a_plan_says_how_much_space_is_needed_and_free() -> None:
    bench = Bench()
    for document in bench.rack.documents.values():
        document["filesystems"] = [
            {"mount": "/", "for": ["/", "/var", "/var/lib/appliance"], "free_bytes": 40 * GB}
        ]
        document["kubernetes"]["etcd_data"] = {"bytes": 50 << 20}
    whole = upgrades.manifest()
    blob = BundledFile("images/blobs/sha256/" + "ab" * 32, "ab" * 32, GB)
    bench.bundle = FakeBundle(replace(whole, files=(*whole.files, blob)))
    found = bench.upgrade(dry_run=True).loads
    needed = KUBERNETES_BYTES + SPARE_BYTES
    assert found.disks["w1"] == (DiskNeed("w1", "/", needed, 40 * GB),)
    told = loads_as_json(found)
    assert told["disks"][-1] == {
        **{"node": "w2", "mount": "/", "needed_bytes": needed, "free_bytes": 40 * GB}
    }
    assert told["bundles"] == [
        {"release": NEW, "node": "cp1", "most_bytes": GB + 3, "free": 40 * GB}
    ]
    lines = [*load_lines(found)]
    assert lines[0] == f"bundle of {NEW} to cp1: at most 954 MiB, 37.3 GiB free"
    assert lines[-2:] == ["disk of w1, w2: /:", "   2.2 GiB needed, 37.3 GiB free (w1 has least)"]


def test_two_hundred_equal_nodes_are_five_lines_of_a_terminal() -> None:
    names = [f"gpu-worker-{n:03d}" for n in range(200)]
    load = Load(NEXT, ("pause:3.7",), KUBERNETES_BYTES, ("kubelet",), ("containerd 1.6.21",), GB)
    disks = {n: (DiskNeed(n, "/var/lib/docker", 3 * GB, 50 * GB),) for n in names}
    lines = [*load_lines(Loads(dict.fromkeys(names, (load,)), disks))]
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) == 5
    assert "and 198 more" in lines[0]


def test_a_size_has_the_largest_unit_that_it_fills() -> None:
    asked = (1023, 1024, 1536 * 1024, 3 * 1024**3 / 2, 1024**4, 30 * 1000**4)
    told = ["1023 bytes", "1 KiB", "2 MiB", "1.5 GiB", "1.0 TiB", "27.3 TiB"]
    assert [size(one) for one in asked] == told


def test_a_disk_that_was_not_read_is_said() -> None:
    found = Loads(disks={"w2": Silence("no answer within 30 s")})
    assert [*load_lines(found)] == ["disk of w2: no answer within 30 s"]
    assert loads_as_json(found)["disks"] == [{"node": "w2", "unknown": "no answer within 30 s"}]
