"""Every place of the product that deletes, with the evidence that it asks for.

A new place is a new line here: what proves that what goes is ours? ``(EVIDENCE, n)`` stands for n
places of one name in one function. Kept equal to what :mod:`tests.contract.deletion_search` finds.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Evidence(NamedTuple):
    """What is asked before something goes, and the test that holds it, where one is needed."""

    asks: str
    test: str = ""


_MODULES: Final = "tests/unit/modules"
_REMOVAL: Final = "tests/unit/membership"
MEMBER: Final = Evidence(
    "machine-id, API server, CA or what vouches for it; nothing mounted below; one file system",
    f"{_MODULES}/test_reset_evidence.py::"
    "test_each_module_of_the_role_refuses_on_its_own_without_changes",
)
OUR_SERVER: Final = Evidence(
    "the kubeconfig names this cluster's API and no other, after the evidence of a member",
    f"{_MODULES}/test_member_traces.py::test_what_is_a_members_goes_and_nothing_else",
)
LEFTOVERS: Final = Evidence(
    "not whole, can be made again, no etcd data on it, kubeconfigs name no other cluster",
    f"{_MODULES}/test_kubeadm_leftovers.py::"
    "test_a_member_of_another_cluster_keeps_its_half_written_files",
)
LABEL: Final = Evidence(
    "a name that a lab can have, and the lab's own label, compared by ourselves",
    f"{_MODULES}/test_lab_removal.py::"
    "test_only_what_carries_this_labs_label_is_removed_and_nothing_is_forced_out_of_use",
)
CONTAINER: Final = Evidence("control groups named after the id of a container of the lab")
LISTED: Final = Evidence(
    "a manifest of ours or the marker of our build lists it, or it is named after its content",
    "tests/unit/bundle/test_bundle_directory.py::"
    "test_what_lies_beside_a_bundle_on_the_medium_stays_and_is_named",
)
PLACED: Final = Evidence(
    "a manifest or marker of ours lists it, its name tells its content, or nothing else was there",
    "tests/unit/bundle/test_bundle_strangers.py::"
    "test_a_strangers_file_is_refused_and_nothing_is_changed",
)
DELTA: Final = Evidence(
    "a document of a build by its kind; another file of its name was refused before",
    "tests/unit/bundle/test_delta.py::test_a_strangers_file_of_the_deltas_name_is_refused",
)
JOINED: Final = Evidence(
    "a target that was empty when the first part was joined, and a path of the bundle's manifest",
    "tests/unit/bundle/test_parts.py::test_a_target_with_something_else_is_not_touched",
)
MIRROR: Final = Evidence(
    "below the folders of a verified bundle in a store that is ours alone, by no link",
    "tests/unit/modules/test_bundle_store.py::"
    "test_what_a_killed_run_left_behind_goes_with_the_last_verification",
)
SERVED: Final = Evidence(
    "the manifest named by its own digest lists it, and another verified bundle is served",
    "tests/unit/modules/test_bundle_store.py::test_a_bundle_is_removed_only_on_evidence",
)
SOCKET: Final = Evidence("a socket named after a server that ended, an empty folder of ours")
ARCHIVES: Final = Evidence("a folder of our own cache that no play used for a week")
PROVEN: Final = Evidence("a path of the manifest, confined to the bundle, whose bytes differ")
DIGEST: Final = Evidence("a blob named by 64 hex digits of a manifest of ours, of another size")
NODE_OBJECT: Final = Evidence(
    "the machine behind it is proved dead, empty or ours; its labels are kept first",
    f"{_REMOVAL}/test_node_remove.py::test_a_node_that_is_ready_and_does_not_answer_is_not_dead",
)
NODE_AND_TOKEN: Final = Evidence(
    "the plan says that the node was wiped; the token that this join made",
    f"{_REMOVAL}/test_node_remove.py::test_a_node_that_is_ready_and_does_not_answer_is_not_dead",
)
QUORUM: Final = Evidence(
    "etcd keeps its quorum, and lists the member under the node's address",
    f"{_REMOVAL}/test_node_remove.py::test_a_quorum_is_never_given_away",
)
EVICTION: Final = Evidence("the API's own budgets decide; asked for a node that is to be emptied")
PROOF: Final = Evidence("a namespace, pod, class or volume of a fixed name or claim of our own")
CREDENTIALS: Final = Evidence("the token and certificate key that this join made, by their id")
HELM: Final = Evidence("a secret of our own name; a release's revision that never got deployed")
SHA: Final = Evidence("a folder of ours named by 64 hex digits of the bundle")
UNFINISHED: Final = Evidence("files that this very write put there, where nothing was before")
ROLE: Final = Evidence("a fixed path that a role of ours names and writes")
KEPT: Final = Evidence("snapshots of ours by name, but for the newest")
MOUNT: Final = Evidence("a mount and an empty folder that the same object made")
STANDIN: Final = Evidence("inside a container of the lab")
CACHE: Final = Evidence("below the cache of this tool, which is made again")
OUR_LOGIN: Final = Evidence(
    "nothing but our own login to one registry was in the file",
    f"{_MODULES}/test_registry_login.py::test_other_logins_and_settings_stay",
)
LINK: Final = Evidence("a link that we made, never what it leads to")
ASIDE: Final = Evidence("renamed beside itself, and kept")
NGINX: Final = Evidence(
    "one Deployment of the vendor, by its name, before the helm that makes it again",
    f"{_MODULES}/test_runai_upgrade_modules.py::"
    "test_nginx_goes_only_before_the_new_chart_and_only_where_the_vendor_says_so",
)
LOCK: Final = Evidence("the site's own lock, held or left by this holder")
POLICY: Final = Evidence("carries our mark")
STATE: Final = Evidence("a fixed file of our own state")
TEMPORARY: Final = Evidence("a temporary file or folder that the same code made")
WRITE: Final = Evidence("a new file of the same text takes the place of the old one in one step")
HALF: Final = Evidence(
    "a receipt of an upgrade in the folder says that it is half made, by a lock's only holder",
    "tests/unit/tool/test_self_upgrade.py::test_a_receipt_that_is_none_makes_no_folder_ours",
)
LAUNCHER: Final = Evidence(
    "a link to another version takes the place of the program, which has a second name by then",
    "tests/unit/tool/test_self_upgrade.py::test_killed_between_the_second_name_and_the_switch",
)
WORDS: Final = Evidence("words for people, or a table: nothing is run here")

Places = dict[str, dict[str, Evidence | tuple[Evidence, int]]]
PLACES: Final[Places] = {
    "appliance/adapters/control_plane/archive.py": {"module: shell rm -": (TEMPORARY, 2)},
    "appliance/builder/sources/apt/isolated.py": {
        "IsolatedApt._fetch: shutil.move": CACHE,
        "IsolatedApt._fetch: unlink": CACHE,
        "_link: unlink": CACHE,
    },
    "appliance/builder/sources/go/c_library.py": {"_made: rmtree": CACHE},
    "appliance/builder/sources/oci/compose.py": {
        "_applets: unlink": CACHE,
        "package_layer.layer: rmtree": CACHE,
    },
    "appliance/builder/sources/oci/controller.py": {
        "Controller._tool_layer.layer: rmtree": (CACHE, 2)
    },
    "appliance/builder/sources/go/programs.py": {"Go._build_in: rmtree": CACHE},
    "appliance/builder/sources/go/file.py": {"_copied: rmtree": CACHE},
    "appliance/builder/sources/go/openapi.py": {"openapi_module: rmtree": CACHE},
    "appliance/builder/sources/oci/registry.py": {"_fetch_blob: unlink": CACHE},
    "appliance/builder/sources/apt/package_root.py": {
        "file_of: unlink": CACHE,
        "root_entries: rmtree": CACHE,
        "root_entries: unlink": CACHE,
    },
    "appliance/builder/sources/url.py": {
        "Url._whole: unlink": CACHE,
        "fetch: unlink": (CACHE, 2),
    },
    "appliance/builder/sources/wheels.py": {
        "_download_whole: unlink": CACHE,
        "refuse_state: unlink": CACHE,
        "write_wheel_closure: replace": (CACHE, 2),
        "write_wheel_closure: rmtree": CACHE,
        "write_wheel_closure: unlink": CACHE,
    },
    "appliance/builder/wheel_files.py": {
        "_entries: open w": CACHE,
        "_set_interpreter: write_bytes": CACHE,
    },
    "appliance/adapters/bundle/signature.py": {"SshSigner._write: replace": WRITE},
    "appliance/builder/join.py": {
        "_Join._begin: replace": WRITE,
        "_Join._require_whole: chmod": JOINED,
        "_Join._seal: replace": WRITE,
        "_Join._seal: rmdir": STATE,
        "_Join._seal: unlink": STATE,
    },
    "appliance/builder/parts.py": {
        "_copy: replace": WRITE,
        "_one: replace": WRITE,
        "_replace: replace": WRITE,
    },
    "appliance/builder/writer.py": {
        "BundleWriter._clear: unlink": LISTED,
        "BundleWriter._index_packages: unlink": LISTED,
        "BundleWriter._remove_signature: unlink": LISTED,
        "BundleWriter._write: unlink": LISTED,
        "BundleWriter._write_delta: replace": WRITE,
        "BundleWriter._write_delta: unlink": DELTA,
        "BundleWriter.seal: replace": WRITE,
        "BundleWriter.seal: unlink": TEMPORARY,
        "Locks.record: replace": WRITE,
        "_write_marker: replace": WRITE,
    },
    "appliance/adapters/local/cache.py": {
        "Cache.adopt: replace": CACHE,
        "Cache.adopt: unlink": (CACHE, 2),
        "Cache.place: replace": PLACED,
        "Cache.place: unlink": (CACHE, 2),
        "Cache.remember: replace": CACHE,
    },
    "appliance/adapters/control_plane/etcd_members.py": {"module: shell member/remove": QUORUM},
    "appliance/adapters/control_plane/journal.py": {"FileJournal._forget_index: unlink": STATE},
    "appliance/adapters/runai/jumpboxes.py": {
        "_extract: replace": WRITE,
        "_extract: unlink": TEMPORARY,
    },
    "appliance/adapters/kubernetes/nodes/drain.py": {
        "KubernetesDrain.evict: create_namespaced_pod_eviction": EVICTION,
    },
    "appliance/adapters/kubernetes/nodes/members.py": {
        "KubernetesMembers.delete: delete_node": NODE_OBJECT,
    },
    "appliance/lab/vendor/bundle.py": {
        "_chart: rmtree": TEMPORARY,
        "_values: replace": TEMPORARY,
        "_values: unlink": TEMPORARY,
        "write_vendor_bundle: replace": TEMPORARY,
        "write_vendor_bundle: rmtree": (TEMPORARY, 2),
    },
    "appliance/adapters/control_plane/lock.py": {"module: shell rm -": (LOCK, 6)},
    "appliance/adapters/kubernetes/pod_tests/engine.py": {"own_namespace: delete_namespace": PROOF},
    "appliance/adapters/runai/access.py": {"certificate_request: unlink": TEMPORARY},
    "appliance/adapters/control_plane/local_lock.py": {"site_lock: truncate": LOCK},
    "appliance/adapters/site/folder.py": {
        "SiteDirectory._move: replace": WRITE,
        "SiteDirectory._move: unlink": (UNFINISHED, 2),
        "SiteDirectory.write: unlink": STATE,
    },
    "appliance/adapters/local/state_files.py": {
        "_give_name: rename": WRITE,
        "_written_beside: unlink": TEMPORARY,
        "replace_file: replace": WRITE,
    },
    "appliance/adapters/tool/making.py": {
        "Maker._fill: rmtree": TEMPORARY,
        "Maker.make: rmtree": (HALF, 2),
        "_claim: rename": WRITE,
        "_claim: rmdir": TEMPORARY,
        "_claim: rmtree": HALF,
    },
    "appliance/adapters/tool/switch.py": {
        "previous_of: replace": WRITE,
        "switch: replace": LAUNCHER,
        "switch: unlink": TEMPORARY,
    },
    "appliance/adapters/support/archive.py": {
        "_give_name: rename": TEMPORARY,
        "new_bundle: fchmod": TEMPORARY,
        "new_bundle: open w": TEMPORARY,
        "new_bundle: unlink": TEMPORARY,
    },
    "appliance/adapters/bundle/vendor_diagnostics.py": {"module: shell rm -": TEMPORARY},
    "appliance/cli/commands/lab/parts.py": {"LabParts._build_vendor_bundle: replace": TEMPORARY},
    "appliance/lab/node/rootfs/usr/local/lib/appliance-lab/mount_nfs_standin.py": {
        "Export.rmdir: argv rmdir": STANDIN,
    },
    "appliance/lab/standins/gpu_operator_standin/device_plugin.py": {
        "_smi: replace": STANDIN,
        "serve: unlink": STANDIN,
    },
    "appliance/lab/standins/gpu_operator_standin/pci_tree.py": {"write: rmtree": STANDIN},
    "appliance/lab/standins/vendor_bundle_standin/images/agent.py": {"main: unlink": STANDIN},
    "appliance/lab/standins/vendor_bundle_standin/images/store.py": {
        "Documents.do_PUT: replace": STANDIN,
    },
    "playbooks/library/bundle_files.py": {
        "Server.fetch: replace": ROLE,
        "Server.fetch: unlink": ROLE,
    },
    "playbooks/library/helm_release.py": {
        "upgrade: unlink": TEMPORARY,
        "write_values: replace": WRITE,
        "write_values: unlink": TEMPORARY,
    },
    "playbooks/library/kube_node.py": {"remove: argv delete": NODE_OBJECT},
    "playbooks/library/kubeadm_join_credentials.py": {"withdraw: argv delete": CREDENTIALS},
    "playbooks/library/kubeadm_leftovers.py": {
        "remove: rmtree": LEFTOVERS,
        "remove: unlink": LEFTOVERS,
    },
    "playbooks/library/text_files.py": {"put: unlink": ROLE},
    "playbooks/module_utils/appliance_api_server.py": {
        "Change._end: unlink": (STATE, 2),
        "Change._take_up: unlink": STATE,
        "Change._undo: unlink": STATE,
        "write: replace": WRITE,
    },
    "playbooks/module_utils/appliance_etcd_snapshot.py": {
        "_held: unlink": TEMPORARY,
        "_save: replace": WRITE,
        "_save: unlink": TEMPORARY,
        "snapshot: unlink": KEPT,
    },
    "playbooks/module_utils/appliance_files.py": {
        "put_aside: rename": ASIDE,
        "write: replace": WRITE,
        "write: unlink": TEMPORARY,
    },
    "playbooks/module_utils/appliance_helm.py": {"Releases.remove: argv delete": HELM},
    "playbooks/module_utils/appliance_job.py": {"NodeJob._start: unlink": TEMPORARY},
    "playbooks/module_utils/appliance_packages.py": {
        "module: shell rm -": POLICY,
        "remove_stale_policy: unlink": POLICY,
    },
    "playbooks/callback_plugins/prepared_workers.py": {"prune: rmtree": ARCHIVES},
    "playbooks/module_server/server.py": {
        "serve: rmdir": SOCKET,
        "serve: unlink": SOCKET,
        "sweep: unlink": SOCKET,
    },
    "roles/api_oidc/library/api_server_flags.py": {"carry_out: unlink": STATE},
    "roles/artifact_client/tasks/main.yml": {"absent: true": ROLE},
    "roles/artifact_server/library/bundle_current.py": {
        "switch: replace": LINK,
        "switch: unlink": TEMPORARY,
    },
    "roles/artifact_server/library/bundle_fill.py": {
        "copied: chmod": TEMPORARY,
        "make_folder: chmod": TEMPORARY,
        "put: replace": WRITE,
        "put: unlink": (TEMPORARY, 2),
    },
    "roles/artifact_server/library/bundle_layout.py": {
        "Layout.adopt: rename": ASIDE,
        "Layout.adopt: rmdir": STATE,
        "Layout.adopt: unlink": (LINK, 2),
        "Layout.carry_out: chmod": STATE,
        "Layout.move_record: replace": STATE,
    },
    "roles/artifact_server/library/bundle_remove.py": {
        "Removal.carry_out: rmdir": SERVED,
        "Removal.carry_out: unlink": (SERVED, 3),
    },
    "roles/artifact_server/module_utils/bundles_on_disk.py": {
        "Verification.prune: unlink": MIRROR,
        "Verification.settle: unlink": PROVEN,
        "mark: unlink": STATE,
    },
    "roles/container_registry/library/registry_push.py": {
        "clear: rmtree": DIGEST,
        "single_layout: unlink": LINK,
    },
    "roles/gpu_node/library/nouveau_blocked.py": {"block: replace": WRITE},
    "roles/kubernetes_certificates/module_utils/certificate_renewal.py": {
        "Renewal.run: unlink": STATE,
        "Renewal.run: write_text": STATE,
    },
    "roles/kubeadm_control_plane/tasks/admit.yml": {"state: absent": NODE_OBJECT},
    "roles/kubeadm_control_plane/tasks/join.yml": {
        "absent: true": ROLE,
        "state: absent": CREDENTIALS,
    },
    "roles/kubeadm_control_plane/vars/main.yml": {
        "{{ [{'path': '/etc/kubernetes/bootstrap-kubelet.conf', 'absent': true}]": ROLE,
    },
    "roles/kubeadm_worker/tasks/join.yml": {
        "absent: true": ROLE,
        "state: absent": (NODE_AND_TOKEN, 2),
    },
    "roles/kubeadm_worker/vars/main.yml": {
        "{{ [{'path': '/etc/kubernetes/bootstrap-kubelet.conf', 'absent': true}]": ROLE,
    },
    "roles/lab_node/library/lab_image.py": {
        "build: rename": WRITE,
        "build: unlink": TEMPORARY,
        "build_command: shell rm -": (TEMPORARY, 2),
    },
    "roles/lab_node/library/lab_nodes.py": {"absent: argv rm": (LABEL, 2)},
    "roles/lab_node/module_utils/lab_commands.py": {"remove_container: argv rm": LABEL},
    "roles/lab_node/module_utils/lab_machine.py": {
        "prepare: rename": WRITE,
        "remove_tree: rmdir": CONTAINER,
        "restore: unlink": TEMPORARY,
    },
    "roles/lab_node/tasks/remove.yml": {"state: absent": LABEL},
    "roles/nfs_client/library/nfs_write_test.py": {
        "Mount.__enter__: rmdir": MOUNT,
        "Mount.__exit__: argv umount": (MOUNT, 2),
        "Mount.__exit__: rmdir": MOUNT,
        "Mount.__exit__: shell umount": (MOUNT, 2),
        "keep: os.replace": WRITE,
        "owner_of_roots_file: unlink": TEMPORARY,
        "timed_writes: unlink": TEMPORARY,
    },
    "roles/nfs_server/library/nfs_folder.py": {
        "_write: os.replace": WRITE,
        "_write: unlink": TEMPORARY,
    },
    "roles/nfs_volumes/library/storage_class_made_again.py": {"converge: argv delete": PROOF},
    "roles/nfs_volumes/library/volume_write_test.py": {"remove: argv delete": PROOF},
    "roles/node_reset/module_utils/reset_evidence.py": {
        "Evidence.begin: replace": STATE,
        "Evidence.end: unlink": STATE,
    },
    "roles/node_reset/tasks/reset.yml": {"- reset": MEMBER},
    "roles/registry_trust/library/registry_login.py": {"settle: unlink": OUR_LOGIN},
    "roles/runai_address/tasks/leave.yml": {"state: stopped": ROLE},
    "roles/runai_bundle/library/vendor_bundle_prepare.py": {
        "Preparation.carry_out: unlink": SHA,
        "module: shell rm -": SHA,
    },
    "roles/runai_bundle/library/vendor_bundle_unpack.py": {
        "module: shell rm -": (SHA, 3),
        "unpack: unlink": SHA,
    },
    "roles/runai_cluster/module_utils/runai_backend_api.py": {"Record.forget: argv delete": HELM},
    "roles/runai_cli/library/researcher_kubeconfigs.py": {
        "write_config: replace": WRITE,
        "write_config: unlink": TEMPORARY,
    },
    "roles/runai_cluster/tasks/connection.yml": {"absent: true": ROLE},
    "roles/runai_cluster/tasks/logins.yml": {"absent: true": ROLE},
    "roles/runai_cluster/tasks/projects.yml": {"absent: true": ROLE},
    "roles/runai_cluster/tasks/values.yml": {"absent: true": ROLE},
    "roles/runai_upgrade/library/runai_kept_values.py": {"read_yaml: open w": TEMPORARY},
    "roles/runai_upgrade/library/runai_rolled_back.py": {"restore_files: unlink": ROLE},
    "roles/runai_upgrade/library/runai_saved_state.py": {
        "module: shell mv": WRITE,
        "save: chmod": STATE,
    },
    "roles/runai_upgrade/module_utils/runai_upgrade_record.py": {
        "remove_nginx: argv delete": NGINX
    },
    "roles/site_certificate/library/certificate_request.py": {
        "Certificate.make_key: replace": WRITE,
        "Certificate.make_key: unlink": TEMPORARY,
    },
}
