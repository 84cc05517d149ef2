"""Every place that empties, gives away, stops or unmarks without deleting, with its evidence.

The other half of :mod:`tests.contract.deletion_table`, in the same form.
"""

from __future__ import annotations

from typing import Final

from tests.contract.deletion_evidence import (
    CACHE,
    LISTED,
    LOCK,
    MEMBER,
    OUR_SERVER,
    POLICY,
    QUORUM,
    ROLE,
    SHA,
    STANDIN,
    STATE,
    TEMPORARY,
    UNFINISHED,
    WORDS,
    WRITE,
    Evidence,
    Places,
)

_MODULES: Final = "tests/unit/modules"
PODS: Final = Evidence(
    "the kubelet's name and its label, both, after the evidence of a member",
    f"{_MODULES}/test_member_traces.py::test_containers_that_the_kubelet_made_go_and_no_others",
)
SERVED: Final = Evidence(
    "fixed paths that roles of ours write, in folders that are no links, after that of a member",
    f"{_MODULES}/test_member_traces.py::test_what_a_server_leaves_is_what_the_roles_put_there",
)
SNAPSHOTS: Final = Evidence(
    "a name that only the tool's snapshots have, on no network storage, after that of a member",
    f"{_MODULES}/test_member_traces.py::test_every_name_of_a_snapshot_is_known_and_none_beside_it",
)
FIREWALL: Final = Evidence(
    "rules and chains of our names alone, deleted by name; what is not named is left alone",
    f"{_MODULES}/test_member_firewall.py::"
    "test_rules_of_others_stay_also_one_that_came_after_the_look",
)
GUARD: Final = Evidence("a file of our chain alone, restored with --noflush")
EXPORT: Final = Evidence(
    "absent, empty, written down as ours or user 1001's, and the one that was exported before",
    f"{_MODULES}/test_nfs_folder.py::"
    "test_the_folder_below_a_disk_that_is_not_mounted_is_refused_and_nothing_is_written",
)
OUR_MARK: Final = Evidence(
    "our annotation and our cordon alone, for maintenance that the Node tells"
)
UPGRADE_MARK: Final = Evidence(
    "one annotation of ours, by its name, under the site's lock",
    "tests/unit/upgrade/test_upgrade_workflow.py::"
    "test_a_pause_leaves_the_mark_and_the_same_command_goes_on",
)
OUR_TAINT: Final = Evidence(
    "the list without our taint, written against the version that was read",
    "tests/unit/life/test_drain_conflicts.py::test_a_taint_is_written_again_after_a_conflict",
)
KEPT_MARKS: Final = Evidence(
    "what a Node had before, put beside what it has, against the version that was read",
    "tests/unit/membership/test_put_back.py::"
    "test_taints_are_put_back_beside_those_that_came_meanwhile",
)
EMPTIED: Final = Evidence("the workflow emptied the node, and its Node tells of the maintenance")
RESTARTED: Final = Evidence(
    "the workflow emptied the node, and its kernel has loaded another driver than the bundle's",
    "tests/unit/gpu/test_upgrade_workflow.py::"
    "test_the_operator_comes_first_and_then_each_node_on_its_own",
)
BOOTED: Final = Evidence(
    "the workflow emptied the node, and an update takes effect only with the next boot",
    "tests/unit/patch/test_patch_workflow.py::"
    "test_a_new_kernel_boots_the_node_and_its_return_accepts_it",
)
SWAP: Final = Evidence(
    "units of swap that a lab does not share; the old fstab is kept",
    f"{_MODULES}/test_host_base.py::test_active_swap_is_turned_off_and_its_units_masked",
)
TIMERS: Final = Evidence(
    "two units by name, where the site says so",
    "molecule/host_base_default/tests/test_host_base.py::test_apt_daily_runs_where_the_site_lets_it",
)
SERVER: Final = Evidence("the one other server of the same port, by name, that a role gives")
KERNEL: Final = Evidence("one value below /proc/sys")
ACCESS: Final = Evidence("the owner or mode of a file that the same role made, made narrower")
NEW: Final = Evidence("the new file, before it gets its name")
LOCK_FILE: Final = Evidence("an empty file that is locked, never read")
NOTHING: Final = Evidence("an archive in memory, /dev/null, or a folder of this process alone")

PLACES: Final[Places] = {
    "appliance/adapters/control_plane/archive.py": {
        "ControlPlaneArchive.spread: open w": NOTHING,
        "module: shell mv": (NEW, 2),
    },
    "appliance/builder/writer.py": {
        "BundleWriter._write: write_bytes": (LISTED, 2),
        "BundleWriter._write: write_text": LISTED,
    },
    "appliance/adapters/local/cache.py": {
        "Cache.add_bytes: write_bytes": CACHE,
        "Cache.alone: open w": LOCK_FILE,
    },
    "appliance/adapters/control_plane/etcd_members.py": {
        "EtcdMembers.remove: argv remove": QUORUM,
    },
    "appliance/adapters/kubernetes/connection/client.py": {
        "_private: write_bytes": TEMPORARY,
    },
    "appliance/adapters/kubernetes/nodes/drain.py": {
        "KubernetesDrain.clear.read_and_write: patch_node": OUR_MARK,
        "KubernetesDrain.mark.read_and_write: patch_node": OUR_MARK,
        "KubernetesDrain.taint.read_and_write: patch_node": OUR_TAINT,
    },
    "appliance/adapters/kubernetes/nodes/members.py": {
        "KubernetesMembers.annotate: patch_node": UPGRADE_MARK,
        "KubernetesMembers.put_back: patch_node": KEPT_MARKS,
        "_put_taints_back: patch_node": KEPT_MARKS,
    },
    "appliance/adapters/control_plane/lock.py": {
        "module: shell mv": (LOCK, 4),
    },
    "appliance/adapters/ssh/power.py": {
        "module: shell systemctl poweroff": EMPTIED,
    },
    "appliance/adapters/hardware/redfish_session.py": {
        "authority_file: write_text": TEMPORARY,
    },
    "appliance/adapters/runai/files.py": {
        "write_new: fchmod": UNFINISHED,
    },
    "appliance/adapters/local/state_files.py": {
        "_keep_owner: chown": NEW,
        "_written_beside: fchmod": NEW,
    },
    "appliance/cli/commands/node/group.py": {
        "remove_role: argv remove": (WORDS, 2),
    },
    "appliance/cli/screen/terminal.py": {
        "shown_streams: open w": NOTHING,
    },
    "appliance/lab/node/rootfs/usr/local/lib/appliance-lab/mount_nfs_standin.py": {
        "Export.truncate: argv truncate": STANDIN,
    },
    "appliance/releases/k8s-1.23.17-r1.yml": {
        "/usr/sbin/ip6tables-restore: ip6tables-legacy-restore": WORDS,
        "/usr/sbin/ip6tables-restore: ip6tables-nft-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-legacy-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-nft-restore": WORDS,
    },
    "appliance/releases/k8s-1.23.5-r1.yml": {
        "/usr/sbin/ip6tables-restore: ip6tables-legacy-restore": WORDS,
        "/usr/sbin/ip6tables-restore: ip6tables-nft-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-legacy-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-nft-restore": WORDS,
    },
    "appliance/releases/k8s-1.24.17-r1.yml": {
        "/usr/sbin/ip6tables-restore: ip6tables-legacy-restore": WORDS,
        "/usr/sbin/ip6tables-restore: ip6tables-nft-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-legacy-restore": WORDS,
        "/usr/sbin/iptables-restore: iptables-nft-restore": WORDS,
    },
    "playbooks/library/own_secrets.py": {
        # Into memory.
        "names_only: open w": TEMPORARY,
        "would_be: write_bytes": TEMPORARY,
        "write: replace": WRITE,
    },
    "playbooks/library/runai_values.py": {
        "generate: replace": WRITE,
        "generate: unlink": TEMPORARY,
        "install: write_text": STATE,
        "keep: replace": WRITE,
        "keep: unlink": TEMPORARY,
        "take_program: replace": WRITE,
        "private: chmod": ROLE,
    },
    "playbooks/library/service_current.py": {
        "Unit.remember: write_text": STATE,
        "mask_conflicting: argv mask": SERVER,
    },
    "playbooks/module_utils/appliance_files.py": {
        "write: fchown": NEW,
    },
    "playbooks/module_utils/appliance_packages.py": {
        "module: shell mv": POLICY,
        "write_configuration: write_text": (STATE, 2),
    },
    "playbooks/module_utils/appliance_registry_push.py": {
        "push: write_text": STATE,
        "single_layout: write_text": (STATE, 2),
    },
    "roles/gpu_driver/tasks/upgrade.yml": {"reboot_command: systemctl reboot": RESTARTED},
    "roles/node_patch/tasks/effect.yml": {"reboot_command: systemctl reboot": BOOTED},
    "roles/host_base/library/kernel_sysctls.py": {
        "bring: open w": KERNEL,
    },
    "roles/host_base/library/swap_off.py": {
        "bring: argv mask": SWAP,
    },
    "roles/host_base/tasks/main.yml": {
        "state: stopped": TIMERS,
    },
    "roles/kubeadm_control_plane/library/etcd_member.py": {
        "Etcd.remove: argv remove": QUORUM,
    },
    "roles/kubeadm_control_plane/library/operator_kubeconfig.py": {
        "remember: write_text": STATE,
        "save: chown": NEW,
    },
    "roles/kubernetes_node/templates/pod-guard.sh.j2": {
        "iptables-restore --wait 10 --noflush < {{ __kubernetes_node_guard_rules }}": GUARD,
    },
    "roles/nfs_server/library/nfs_folder.py": {
        "Folder.converge: chmod": EXPORT,
        "Folder.converge: chown": EXPORT,
    },
    "roles/nfs_volumes/library/volume_write_test.py": {
        "alone: open w": LOCK_FILE,
    },
    "roles/node_reset/library/member_traces.py": {
        "Traces._empty: argv rm": MEMBER,
        "Traces.containers: argv rm": PODS,
        "Traces.credentials: unlink": OUR_SERVER,
        "Traces.links: argv delete": MEMBER,
        "Traces.mounts: argv umount": MEMBER,
        "Traces.served: unlink": (SERVED, 2),
        "Traces.snapshots: unlink": SNAPSHOTS,
        "Traces.mounts: shell umount": MEMBER,
        "module: shell kubeadm reset": WORDS,
        "Traces.containers: shell docker rm": PODS,
        "Traces.units: argv disable": MEMBER,
        "module: shell ip6tables-legacy-restore": FIREWALL,
        "module: shell ip6tables-nft-restore": FIREWALL,
        "module: shell iptables-legacy-restore": FIREWALL,
        "module: shell iptables-nft-restore": FIREWALL,
    },
    "roles/runai_bundle/library/vendor_bundle_prepare.py": {
        "module: shell mv": SHA,
    },
    "roles/runai_bundle/library/vendor_bundle_unpack.py": {
        "module: shell mv": SHA,
    },
    "roles/runai_cli/library/researcher_kubeconfigs.py": {
        "bring: chmod": ACCESS,
    },
    "roles/site_certificate/library/certificate_request.py": {
        "key_access: chmod": ACCESS,
        "key_access: chown": ACCESS,
    },
}
