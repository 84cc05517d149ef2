"""Removing what a member leaves: whose firewall rules go, which files stay."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.unit.modules.loading import ROOT, load, load_utils
from tests.unit.modules.member_machine import (
    HOMES,
    KEPT,
    REMOVAL,
    RULES,
    Machine,
    account,
    mounted,
    restored,
    which,
)

if TYPE_CHECKING:
    from types import ModuleType

# What a node has that served the bundle and the registry, or pushed to it.
SERVED = (
    *("etc/appliance/tls/artifacts.crt", "etc/appliance/tls/artifacts.key"),
    *("etc/appliance/tls/registry.crt", "etc/appliance/tls/registry.key"),
    "etc/appliance/tls/registry.key.new",
    *("etc/appliance/registry/nginx.conf", "etc/appliance/registry/login/config.json"),
    "etc/nginx/conf.d/appliance.conf",
)
# What the tool saved of etcd: every Secret of the cluster is in each.
SNAPSHOTS = (
    "var/lib/appliance/etcd-snapshots/20260101T000000Z-member.db",
    "var/lib/appliance/etcd-snapshots/20260101T000000Z-api-server.db",
    "var/lib/appliance/etcd-snapshots/20260102T000000Z-member.db.new",
)
# Beside it, and none of ours; what step runai goes on with after a rejoin stays, too.
THEIRS = (
    "var/lib/appliance/etcd-snapshots/their.db",
    *("etc/appliance/tls/their.key", "etc/nginx/conf.d/their.conf", "etc/appliance/ca.crt"),
    "etc/appliance/runai/backend.key",
)


@pytest.fixture(scope="module")
def traces() -> ModuleType:
    return load("member_traces", role="node_reset")


def test_the_rules_of_docker_and_of_the_customer_stay(traces: ModuleType) -> None:
    told, dropped = traces.removal(RULES)
    assert (told, dropped) == (REMOVAL, 10)
    assert restored(RULES, told) == KEPT
    assert traces.removal(KEPT) == ("\n", 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    kept = ("var/lib/appliance/archive/x", "srv/data/x", "home/ubuntu/.ssh/keys", *THEIRS)
    own = (
        *("etc/kubernetes/pki/ca.crt", "etc/kubernetes/admin.conf", "var/lib/etcd/member/wal/0"),
        *("var/lib/cni/networks/x", "run/flannel/subnet.env"),
        *SERVED,
    )
    for name in (*kept, *own, *SNAPSHOTS, "sys/class/net/cni0/mtu", "sys/class/net/docker0/mtu"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for user, server in (("ubuntu", "https://api.test:6443"), ("root", "https://other.test:6443")):
        home = tmp_path / HOMES[user].lstrip("/")
        (home / ".kube").mkdir(parents=True)
        (home / ".kube/config").write_text(f"clusters:\n- cluster:\n    server: {server}\n")
    (tmp_path / "var/lib/kubelet").mkdir()
    volumes = f"{tmp_path}/var/lib/kubelet/pods/a"
    mounted(tmp_path, f"{tmp_path}/var/lib/kubelet", volumes, f"{volumes}/b\\040c\\134\\011\\012")
    return tmp_path


def everything(traces: ModuleType, root: Path, machine: Machine, *, act: bool) -> list[str]:
    found: Any = traces.Traces(root, machine, machine, which, account)
    found.units(["kubelet.service", "haproxy.service"], act)
    found.mounts(act)
    found.links(act)
    found.firewall(act)
    found.credentials(["ubuntu", "root"], ["api.test"], act)
    found.served(act)
    found.snapshots(act)
    found.folders(act)
    return [str(item) for item in found.removed]


def test_what_is_a_members_goes_and_nothing_else(traces: ModuleType, root: Path) -> None:
    machine = Machine(root)
    removed = everything(traces, root, machine, act=True)
    volumes = f"{root}/var/lib/kubelet/pods/a"
    assert removed[:5] == [
        "unit kubelet.service",
        f"mount {volumes}/b c\\\t\n",
        f"mount {volumes}",
        "link cni0",
        "10 rules of iptables-nft",
    ]
    assert ["ip", "link", "delete", "cni0"] in machine.called
    assert machine.rules == KEPT
    left = {str(p.relative_to(root)) for p in root.rglob("*") if stat.S_ISREG(p.stat().st_mode)}
    assert left == {
        *("var/lib/appliance/archive/x", "srv/data/x", "home/ubuntu/.ssh/keys"),
        *THEIRS,
        *("proc/self/mountinfo", "sys/class/net/cni0/mtu", "sys/class/net/docker0/mtu"),
        # It names another cluster.
        "root/.kube/config",
    }
    assert (root / "etc/kubernetes").is_dir()


def test_looking_finds_the_same_and_removes_nothing(traces: ModuleType, root: Path) -> None:
    machine = Machine()
    before = json.dumps(sorted(str(path) for path in root.rglob("*")))
    removed = everything(traces, root, machine, act=False)
    assert len(removed) == 11 + len(SERVED) + len(SNAPSHOTS)
    assert json.dumps(sorted(str(path) for path in root.rglob("*"))) == before
    assert machine.rules == RULES
    assert machine.active == {"kubelet.service"}


def test_a_rule_that_is_added_meanwhile_stays(traces: ModuleType) -> None:
    machine = Machine()
    new = "-A FORWARD -s 192.0.2.0/24 -j DROP"
    machine.meanwhile = [lambda rules: rules.replace("COMMIT", f"{new}\nCOMMIT")]
    traces.Traces(Path("/absent"), machine, machine, which).firewall(True)
    assert machine.rules == KEPT.replace("COMMIT", f"{new}\nCOMMIT")


def test_a_rule_that_is_removed_meanwhile_is_read_again(traces: ModuleType) -> None:
    machine = Machine()
    machine.meanwhile = [lambda rules: rules.replace("-A FORWARD -j APPLIANCE-PODS\n", "")]
    traces.Traces(Path("/absent"), machine, machine, which).firewall(True)
    assert machine.rules == KEPT
    assert [argv[0] for argv in machine.called].count("iptables-nft-restore") == 2


def test_a_table_that_cannot_be_changed_is_said_in_iptables_words(traces: ModuleType) -> None:
    machine = Machine()
    gone = "-A FORWARD -j APPLIANCE-PODS\n"
    machine.meanwhile = [
        lambda rules: rules.replace(gone, ""),
        lambda rules: rules.replace("-A PREROUTING -m comment", "-A PREROUTING -m other"),
        lambda rules: rules.replace("-A PREROUTING -m other", "-A PREROUTING -m comment"),
    ]
    with pytest.raises(OSError, match=r"iptables-nft-restore --noflush --wait=5: Bad rule"):
        traces.Traces(Path("/absent"), machine, machine, which).firewall(True)


def test_old_tables_that_do_not_exist_are_not_asked_for(traces: ModuleType, root: Path) -> None:
    machine = Machine()
    found = traces.Traces(root, machine, machine, lambda name: "/sbin/" + name)
    found.firewall(False)
    assert not any("legacy" in argv[0] for argv in machine.called)
    (root / "proc/net").mkdir()
    (root / "proc/net/ip_tables_names").write_text("nat\n")
    found.firewall(False)
    assert ["iptables-legacy-save"] in machine.called


def test_a_web_server_that_runs_lets_the_keys_go_before_they_are_removed(
    traces: ModuleType, root: Path
) -> None:
    machine = Machine(root)
    machine.active.add("nginx.service")
    keys_at_reload: list[bool] = []

    def run(argv: list[str], data: str | None = None) -> tuple[int, str, str]:
        if argv[:2] == ["systemctl", "reload"]:
            keys_at_reload.append((root / "etc/appliance/tls/registry.key").exists())
            assert not (root / "etc/nginx/conf.d/appliance.conf").exists()
        return machine(argv, data)

    traces.Traces(root, run, run, which).served(True)
    assert keys_at_reload == [True], "a run that is killed in between finds the keys, and reloads"
    assert ["systemctl", "reload", "nginx.service"] in machine.called
    again = Machine(root)
    again.active.add("nginx.service")
    found = traces.Traces(root, again, again, which)
    found.served(True)
    assert (found.removed, again.called) == ([], [])


def test_a_foreign_web_server_is_not_changed(traces: ModuleType, root: Path) -> None:
    for name in SERVED:
        (root / name).unlink()
    machine = Machine(root)
    machine.active.add("nginx.service")
    found = traces.Traces(root, machine, machine, which)
    found.served(True)
    assert (found.removed, machine.called) == ([], [])


def test_the_keys_in_a_folder_that_is_a_link_are_not_ours_to_remove(
    traces: ModuleType, root: Path
) -> None:
    (root / "etc/appliance/tls").rename(root / "etc/their-keys")
    (root / "etc/appliance/tls").symlink_to("../their-keys")
    found = traces.Traces(root, Machine(root), Machine(root), which)
    with pytest.raises(OSError, match="is a link to"):
        found.served(True)
    assert (root / "etc/their-keys/registry.key").exists()


def test_what_a_server_leaves_is_what_the_roles_put_there(traces: ModuleType) -> None:
    """Every path of the roles that is removed here, and none that they do not write."""
    known: dict[str, str] = {}
    for role in ("artifact_server", "container_registry", "runai_bundle"):
        known |= yaml.safe_load((ROOT / f"roles/{role}/vars/main.yml").read_text())
    stems = {known["__artifact_server_certificate"], known["__container_registry_certificate"]}
    trust = yaml.safe_load((ROOT / "roles/registry_trust/vars/main.yml").read_text())
    pulls = [path for path in trust["__registry_trust_logins"] if path.startswith("/etc/")]
    logins = {known["__container_registry_login_dir"], known["__runai_bundle_login_dir"]}
    assert {f"/{path}" for path in (*traces.CONFIGURATION, *traces.PRIVATE)} == {
        known["__artifact_server_configuration"],
        known["__container_registry_front_configuration"],
        *(f"{folder}/config.json" for folder in logins),
        *pulls,
        *(f"{path}.appliance" for path in pulls),
        *(f"{stem}{end}" for stem in stems for end in (".crt", ".key", ".key.new")),
    }
    assert set(SERVED) < {*traces.CONFIGURATION, *traces.PRIVATE}
    units = yaml.safe_load((ROOT / "roles/node_reset/defaults/main.yml").read_text())
    assert known["__container_registry_front"] in units["node_reset_units"]


def test_every_name_of_a_snapshot_is_known_and_none_beside_it(traces: ModuleType) -> None:
    """As playbooks/module_utils/appliance_etcd_snapshot.py writes them, for every reason."""
    folders = sys.modules[traces.snapshots.__module__]
    assert str(load_utils("appliance_etcd_snapshot").SNAPSHOTS) == f"/{folders.SNAPSHOTS}"
    stamp = "20260101T000000Z"
    known = ("member.db", "api-server.db", "member.db.new", "upgrade.db.json")
    for name in (f"{stamp}-{end}" for end in known):
        assert folders.SNAPSHOT.fullmatch(name)
    for name in ("their.db", f"{stamp}-.db", f"copy-{stamp}-member.db", f"{stamp}-member.db.gz"):
        assert not folders.SNAPSHOT.fullmatch(name)


@pytest.mark.parametrize("place", ["var/lib/appliance/etcd-snapshots", "var/lib/appliance"])
def test_snapshots_that_lie_on_network_storage_are_on_no_machine_that_goes(
    traces: ModuleType, root: Path, place: str
) -> None:
    mounted(root, f"{root}/{place}", kind="nfs4")
    found = traces.Traces(root, Machine(root), Machine(root), which)
    found.snapshots(True)
    assert found.removed == []
    assert all((root / name).exists() for name in SNAPSHOTS)


def test_snapshots_in_a_folder_that_is_a_link_elsewhere_are_not_ours_to_remove(
    traces: ModuleType, root: Path
) -> None:
    folder = root / "var/lib/appliance/etcd-snapshots"
    folder.rename(root / "srv/their-backups")
    folder.symlink_to(root / "srv/their-backups")
    found = traces.Traces(root, Machine(root), Machine(root), which)
    with pytest.raises(OSError, match="is a link to"):
        found.snapshots(True)
    assert len(list((root / "srv/their-backups").iterdir())) == len(SNAPSHOTS) + 1


def test_a_worker_that_never_had_a_snapshot_is_done(traces: ModuleType, tmp_path: Path) -> None:
    found = traces.Traces(tmp_path, Machine(tmp_path), Machine(tmp_path), which)
    found.snapshots(True)
    assert found.removed == []


def test_the_home_of_a_user_whom_the_system_does_not_know_is_where_homes_are(
    traces: ModuleType, root: Path
) -> None:
    (root / "home/gone/.kube").mkdir(parents=True)
    (root / "home/gone/.kube/config").write_text("server: https://api.test:6443\n")
    found = traces.Traces(root, Machine(root), Machine(root), which, HOMES.__getitem__)
    found.credentials(["gone"], ["api.test"], True)
    assert found.removed == [f"{root}/home/gone/.kube/config"]


def busy(_argv: list[str], data: str | None = None) -> tuple[int, str, str]:
    """Whatever is called fails."""
    return 1, data or "", "device is busy"


def test_what_cannot_be_removed_is_an_error(traces: ModuleType, root: Path) -> None:
    found = traces.Traces(root, busy, busy, which)
    with pytest.raises(OSError, match=r"umount(?s:.*)--lazy(?s:.*): device is busy"):
        found.mounts(True)


def test_nothing_is_deleted_while_anything_is_mounted_below_a_folder(
    traces: ModuleType, root: Path
) -> None:
    volume = f"{root}/var/lib/etcd/member"
    mounted(root, volume)
    found = traces.Traces(root, Machine(root), Machine(root), which)
    with pytest.raises(OSError, match=r"member is mounted below .*/var/lib/etcd"):
        found.folders(True)
    assert (root / "var/lib/etcd/member/wal/0").exists()
    assert (root / "etc/kubernetes/admin.conf").exists()


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_folder_on_network_storage_is_not_emptied(
    traces: ModuleType, root: Path, kind: str
) -> None:
    mounted(root, f"{root}/var/lib", kind=kind)
    found = traces.Traces(root, Machine(root), Machine(root), which)
    with pytest.raises(OSError, match=f"is on network storage .{kind}"):
        found.folders(True)
    assert (root / "var/lib/etcd/member/wal/0").exists()


PODS = {"1": "k8s_POD_web", "2": "k8s_web_web", "3": "gitlab"}
MOBY = "run/containerd/io.containerd.runtime.v2.task/moby"


def with_docker(machine: Machine) -> Machine:
    machine.active.add("docker.service")
    machine.containers = dict(PODS)
    return machine


def found_by(traces: ModuleType, machine: Machine, *, act: bool = True) -> list[str]:
    found: Any = traces.Traces(machine.root, machine, machine, lambda name: "/usr/bin/" + name)
    found.containers(act)
    return [str(item) for item in found.removed]


def test_containers_that_the_kubelet_made_go_and_no_others(traces: ModuleType, root: Path) -> None:
    machine = with_docker(Machine(root))
    expected = ["container k8s_POD_web", "container k8s_web_web"]
    assert found_by(traces, machine, act=False) == expected
    assert machine.containers == PODS
    assert found_by(traces, machine) == expected
    assert machine.containers == {"3": "gitlab"}
    assert found_by(traces, machine) == []
    assert sum(argv[:2] == ["docker", "rm"] for argv in machine.called) == 1


def test_a_container_that_cannot_be_killed_is_named(traces: ModuleType, root: Path) -> None:
    machine = with_docker(Machine(root))
    machine.stuck = {"2"}
    with pytest.raises(OSError, match=r"1 containers of pods .*k8s_web_web.*reboot the machine"):
        found_by(traces, machine)


def test_a_docker_that_does_not_answer_is_not_treated_as_empty(
    traces: ModuleType, root: Path
) -> None:
    machine = with_docker(Machine(root))
    machine.hangs = True
    with pytest.raises(OSError, match=r"Docker does not list .*did not end within 180 s"):
        found_by(traces, machine)


def test_containers_that_outlive_a_stopped_docker_are_reported(
    traces: ModuleType, root: Path
) -> None:
    machine = Machine(root)
    (root / MOBY).mkdir(parents=True)
    assert found_by(traces, machine) == []
    (root / MOBY / "0123").mkdir()
    with pytest.raises(OSError, match="Docker does not run, but some of its containers do"):
        found_by(traces, machine)
    assert not any(argv[0] == "docker" for argv in machine.called)
