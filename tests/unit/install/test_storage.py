"""Shared storage in an install: when it runs, what the roles are told, what the API says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.kubernetes.storage import read_storage
from appliance.errors import StepNotVerified
from appliance.model.checks.preflight import probe_arguments
from appliance.model.components.storage.variables import groups
from appliance.model.components.storage.variables import variables as storage_vars
from appliance.model.site.settings import Site
from appliance.model.site.shared_storage import NO_PROVISIONER, export_of, users_of
from appliance.model.state.cluster.cluster import Cluster, ClusterStorage, NoCluster, Volume
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from tests import samples
from tests.fakes import FakeRack
from tests.unit.install.test_install import ALL, Bench

OWN = {"server": "cp1", "path": "/srv/runai"}
THEIRS = {"server": "nfs.rack.test", "path": "/export/runai", "volumes": 2}


def desired(nfs: dict[str, Any] | None) -> Desired:
    site = samples.site(nfs=nfs)
    found = samples.manifest()
    roots = {
        **found.package_roots,
        "storage": ("nfs-common",),
        "storage_server": ("nfs-kernel-server", "nfs-ganesha", "nfs-ganesha-vfs"),
    }
    names = [name for group in ("storage", "storage_server") for name in roots[group]]
    packages = {**found.packages, **dict.fromkeys(names, "1")}
    whole = dataclasses.replace(found, packages=packages, package_roots=roots)
    return dataclasses.replace(samples.desired(site), manifest=whole)


def test_the_step_runs_last_and_is_verified() -> None:
    bench = Bench(rack=FakeRack(desired(OWN)))
    assert list(bench.install().steps) == [*ALL, "storage"]
    assert bench.install().steps == ()


def test_what_only_writing_shows_is_reported_by_the_run_that_wrote() -> None:
    slow = Bench(rack=FakeRack(desired({**THEIRS, "fsync_warning_ms": 1})))
    slow.install()
    told = fsync_warnings(slow)
    assert [text.split(": ")[1] for text in told] == ["cp1", "w1", "w2"]
    assert "2 ms for an fsync" in told[0]
    assert "hint: check the disks of nfs.rack.test" in told[0]
    quick = Bench(rack=FakeRack(desired(THEIRS)))
    quick.install()
    assert fsync_warnings(quick) == []


def fsync_warnings(bench: Bench) -> list[str]:
    notes = [str(item[1]) for item in bench.observer.said if item[0] == "note"]
    return [text for text in notes if "nfs_fsync" in text]


def test_a_worker_alone_tries_a_filer_again_and_nothing_else_runs() -> None:
    bench = Bench(rack=FakeRack(desired(THEIRS)))
    bench.install()
    bench.rack.documents["w2"]["storage"]["proof"] = None
    assert bench.install().steps == ("preflight", "storage_client")
    assert bench.rack.plays[-1].limit == ("w2",)


def test_a_worker_that_lost_our_own_servers_test_brings_the_leader() -> None:
    bench = Bench(rack=FakeRack(desired(OWN)))
    bench.install()
    bench.rack.documents["w2"]["storage"]["proof"] = None
    assert bench.install().steps == ("preflight", "storage")
    assert bench.rack.plays[-1].limit == ("w2", "cp1")


def test_a_filer_is_tested_after_the_bundle_is_served_and_before_docker() -> None:
    steps = list(Bench(rack=FakeRack(desired(THEIRS))).install().steps)
    at = steps.index("storage_client")
    assert steps[at - 1 : at + 2] == ["artifacts", "storage_client", "runtime"]
    assert steps[-1] == "storage"


def test_a_play_without_effect_does_not_verify_the_storage() -> None:
    bench = Bench(rack=FakeRack(desired(OWN)))
    bench.rack.without_effect.add("storage")
    with pytest.raises(StepNotVerified, match="storage ran, but cp1: the kernel NFS server is not"):
        bench.install()


def test_a_site_without_storage_has_no_step_no_variables_and_no_question() -> None:
    plain = desired(None)
    assert export_of(plain.site) is None
    assert users_of(plain.site) == ()
    assert plain.manifest is not None
    assert storage_vars(samples.planned_run(plain)) == {}
    assert groups(plain) == {"appliance_nfs_server": {"hosts": {}}}
    assert "--nfs" not in probe_arguments(plain)


def test_a_server_of_the_sites_own_gets_nothing_installed() -> None:
    asked = desired(THEIRS)
    assert asked.manifest is not None
    found = storage_vars(samples.planned_run(asked))
    assert groups(asked) == {"appliance_nfs_server": {"hosts": {}}}
    assert found["nfs_client_server"] == "nfs.rack.test"
    assert found["nfs_client_root_squash_allowed"] is True
    assert found["nfs_client_folders"] == [
        "appliance-proof",
        "appliance-volume-01",
        "appliance-volume-02",
    ]
    assert found["nfs_client_packages"] == {"nfs-common": "1"}
    digest = samples.IMAGES["busybox:1.35.0"]
    assert found["nfs_volumes_test_image"] == f"registry.rack.test:5000/busybox@{digest}"


def test_a_node_of_the_site_serves_by_its_address() -> None:
    asked = desired(OWN)
    assert asked.manifest is not None
    found = storage_vars(samples.planned_run(asked))
    assert groups(asked) == {"appliance_nfs_server": {"hosts": {"cp1": None}}}
    assert found["nfs_volumes_server"] == "198.18.7.11"
    assert found["nfs_server_clients"] == ["198.18.7.0/24"]
    assert found["nfs_client_root_squash_allowed"] is False
    assert found["nfs_server_kernel_packages"] == {"nfs-kernel-server": "1"}
    assert found["nfs_server_ganesha_packages"] == {"nfs-ganesha": "1", "nfs-ganesha-vfs": "1"}


def test_the_probe_is_told_what_to_ask() -> None:
    asked = probe_arguments(desired(THEIRS))
    at = asked.index("--nfs")
    assert asked[at : at + 6] == (
        "--nfs",
        "nfs.rack.test:/export/runai",
        "--nfs-folders",
        "appliance-proof,appliance-volume-01,appliance-volume-02",
        "--nfs-ports",
        "2049",
    )
    old = probe_arguments(desired({**THEIRS, "version": "v3"}))
    assert old[old.index("--nfs-ports") + 1] == "2049,111"


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, ()),
        ({"version": "v3"}, ("nfsvers=3",)),
        ({"version": "v3", "locks": "node"}, ("nfsvers=3", "nolock")),
        ({"version": "v4.1"}, ("nfsvers=4.1",)),
    ],
)
def test_the_version_of_the_site_is_what_the_test_and_the_volumes_mount_with(
    settings: dict[str, Any], options: tuple[str, ...]
) -> None:
    found = storage_vars(samples.planned_run(desired({**THEIRS, **settings})))
    assert found["nfs_client_options"] == found["nfs_volumes_options"] == list(options)


def test_free_space_is_asked_for_before_the_first_use_alone() -> None:
    asked = desired({**THEIRS, "minimum_free_gb": 7})
    in_use = storage_vars(samples.planned_run(asked))
    new = storage_vars(samples.planned_run(asked, Observed({}, NoCluster())))
    assert in_use["nfs_client_minimum_free_bytes"] == 0
    assert new["nfs_client_minimum_free_bytes"] == 7 * 10**9


def test_the_provisioner_prefers_system_nodes_and_comes_by_digest() -> None:
    asked = desired(THEIRS)
    found = storage_vars(samples.planned_run(asked))
    digest = samples.IMAGES["nfs-subdir-external-provisioner:v4.0.2"]
    image = f"registry.rack.test:5000/nfs-subdir-external-provisioner@{digest}"
    assert found["nfs_volumes_provisioner_image"] == image
    wanted = asked.site.system_nodes or asked.site.control_plane
    assert found["nfs_volumes_provisioner_nodes"] == [node.name for node in wanted]


def test_a_bundle_without_the_provisioner_leaves_the_volumes_that_exist() -> None:
    asked = desired(THEIRS)
    assert asked.manifest is not None
    left = {name: d for name, d in asked.manifest.images.items() if "provisioner" not in name}
    old = dataclasses.replace(asked, manifest=dataclasses.replace(asked.manifest, images=left))
    assert storage_vars(samples.planned_run(old))["nfs_volumes_provisioner_image"] == ""
    bench = Bench(rack=FakeRack(old))
    bench.install()
    assert isinstance(bench.rack.cluster, Cluster)
    assert bench.rack.cluster.storage.provisioner == NO_PROVISIONER
    assert bench.install().steps == ()


def test_a_server_outside_the_cluster_takes_part() -> None:
    site = samples.site(nfs={"server": "store", "path": "/srv/runai"})
    store = dataclasses.replace(site.nodes[0], name="store", groups=frozenset({"services"}))
    masters = dataclasses.replace(site.nodes[0], groups=frozenset({"control_plane"}))
    whole = Site(site.name, site.directory, site.settings, (masters, *site.nodes[1:], store))
    assert [node.name for node in users_of(whole)] == ["cp1", "w1", "w2", "store"]


def _object(name: str, **more: Any) -> SimpleNamespace:
    notes = more.pop("annotations", None)
    return SimpleNamespace(metadata=SimpleNamespace(name=name, annotations=notes), **more)


def _volume(name: str, cls: str, nfs: Any = None) -> SimpleNamespace:
    spec = SimpleNamespace(storage_class_name=cls, nfs=nfs)
    return _object(name, spec=spec, status=SimpleNamespace(phase="Bound", message=None))


def _class(name: str, provisioner: str = "x", **more: Any) -> SimpleNamespace:
    return _object(name, provisioner=provisioner, mount_options=None, **more)


def _pod(ready: str, *, going: bool = False) -> SimpleNamespace:
    conditions = [SimpleNamespace(type="Ready", status=ready)]
    return SimpleNamespace(
        metadata=SimpleNamespace(deletion_timestamp="now" if going else None),
        status=SimpleNamespace(conditions=conditions),
    )


def _read(classes: list[Any], volumes: list[Any], pods: Sequence[Any] = ()) -> ClusterStorage:
    answers = {
        "list_storage_class": classes,
        "list_persistent_volume": volumes,
        "list_namespaced_pod": pods,
    }
    return read_storage(None, lambda f, *_: SimpleNamespace(items=answers[f.__name__]))


@pytest.mark.parametrize(
    ("pods", "ready"),
    [
        ([], False),
        ([_pod("False")], False),
        ([_pod("True", going=True)], False),
        ([_pod("False"), _pod("True")], True),
    ],
)
def test_a_provisioner_is_there_when_a_pod_of_it_is_ready_and_stays(
    pods: list[Any], *, ready: bool
) -> None:
    ours = _class("appliance-nfs", "appliance.dev/nfs")
    ours.mount_options = ["nfsvers=3"]
    found = _read([ours], [], pods)
    assert (found.provisioner, found.provisioner_ready) == ("appliance.dev/nfs", ready)
    assert found.mount_options == ("nfsvers=3",)
    assert _read([_class("appliance-nfs")], [], pods).provisioner_ready is False


def test_the_api_tells_class_default_proof_and_volumes_of_the_class_alone() -> None:
    notes = {
        "storageclass.kubernetes.io/is-default-class": "true",
        "appliance.dev/storage-proven": "198.18.7.11:/srv/runai",
    }
    nfs = SimpleNamespace(server="198.18.7.11", path="/srv/runai/one")
    found = _read(
        [_class("other"), _class("appliance-nfs", annotations=notes)],
        [
            _volume("one", "appliance-nfs", nfs),
            _volume("x", "other"),
            _volume("l", "appliance-nfs"),
        ],
    )
    assert found == ClusterStorage(
        is_class=True,
        is_default=True,
        tested="198.18.7.11:/srv/runai",
        provisioner="x",
        volumes={
            "one": Volume("198.18.7.11:/srv/runai/one", "Bound"),
            "l": Volume("no NFS", "Bound"),
        },
    )
    assert _read([], []) == ClusterStorage()


def test_a_kernel_server_that_answers_over_udp_is_not_as_it_should_be() -> None:
    bench = Bench(rack=FakeRack(desired(OWN)))
    bench.install()
    sockets = [{"port": 2049, "proto": "tcp", "address": "::", "process": None}]
    sockets += [{"port": 111, "proto": "udp", "address": "::", "process": "rpcbind"}]
    bench.rack.documents["cp1"]["listening"] = sockets
    assert bench.install().steps == ()
    bench.rack.documents["cp1"]["listening"] = [{**sockets[0], "proto": "udp"}]
    with pytest.raises(StepNotVerified, match="storage ran, but cp1: nfs-server answers over UDP"):
        bench.install()
