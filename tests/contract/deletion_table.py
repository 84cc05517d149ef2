"""Every place of the product that deletes, with the evidence that it asks for.

A new place is a new line here: what proves that what goes is ours? ``(EVIDENCE, n)`` stands for n
places of one name in one function. Kept equal to what :mod:`tests.contract.deletion_search` finds.
"""

from __future__ import annotations

from typing import Final

# isort: off
# fmt: off
from tests.contract.deletion_evidence import (
    ARCHIVES, ASIDE, BURN_IN, CACHE, CONTAINER, CREDENTIALS, DELTA, DIGEST, EMPTIED, EVICTION,
    HALF, HELM, IMAGING, JOINED, KEPT, LABEL, LAUNCHER, LEFTOVERS, LINK, LISTED, LOCK, MEMBER,
    MIRROR,
    MOUNT, NGINX, NODE_AND_TOKEN, NODE_OBJECT, NOTE, OPERANDS, OUR_LOGIN, PLACED, POLICY, PROOF,
    BARE, BROUGHT, FORGOTTEN, RACK_RECORD, LEFT_MEDIUM, PINS,
    PROVEN, QUORUM, ROLE, SEED, SERVED, SHA, SOCKET, STANDIN, STATE, TEMPORARY, TRIAL,
    UNFINISHED, UNUSED_DOCKER, UPGRADED, WORDS, WRITE, Places,
)
# fmt: on
# isort: on

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
    "appliance/adapters/imaging/medium.py": {
        "remaster: chmod": IMAGING,
        "remaster: write_text": IMAGING,
    },
    "appliance/adapters/imaging/notes.py": {"NoteFiles.drop: unlink": NOTE},
    "appliance/adapters/local/discovery_pins.py": {"SitePins.forget: unlink": PINS},
    "appliance/adapters/local/rack_record.py": {"RackFile.drop: unlink": RACK_RECORD},
    "appliance/adapters/imaging/serving.py": {
        "HttpServing.open: rmtree": LEFT_MEDIUM,
        "dnsmasq: open w": IMAGING,
        "dnsmasq: write_text": IMAGING,
    },
    "appliance/installer/choose.py": {"main: write_text": SEED, "tell: write_text": SEED},
    "appliance/installer/disk.py": {"main: write_text": (SEED, 2)},
    "appliance/lab/machine/installer_medium.py": {
        "module: shell rm -": STANDIN,
        "build_base: rmtree": TEMPORARY,
    },
    "appliance/probe/burn_in/control.py": {
        "Control._prepare: chmod": BURN_IN,
        "Control._prepare: unlink": BURN_IN,
        "Control._prepare: write_bytes": BURN_IN,
        "Control.start: chmod": BURN_IN,
        "Control.start: open w": BURN_IN,
    },
    "appliance/probe/burn_in/order.py": {"write: os.replace": WRITE},
    "appliance/lab/standins/installer_standin/installer_standin.py": {
        "install: argv -F": STANDIN,
        "install: shell mkfs": STANDIN,
        "main: argv umount": STANDIN,
        "main: shell umount": STANDIN,
    },
    "appliance/adapters/bundle/signature.py": {"SshSigner._write: replace": WRITE},
    "appliance/builder/join.py": {
        "_Join._require_whole: chmod": JOINED,
        "_Join._seal: replace": WRITE,
    },
    "appliance/builder/joining.py": {
        "JoiningFolder.begin: replace": WRITE,
        "JoiningFolder.forget: rmdir": STATE,
        "JoiningFolder.forget: unlink": STATE,
    },
    "appliance/builder/parts.py": {
        "_copy: replace": WRITE,
        "_one: replace": WRITE,
        "_replace: replace": WRITE,
        "_write: unlink": DELTA,
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
    "appliance/adapters/reset/local_state.py": {"forget_cluster: unlink": FORGOTTEN},
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
        "_claim: rename": WRITE,
        "_remove: rmtree": (HALF, 2),
        "_remove: unlink": HALF,
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
    "playbooks/module_utils/appliance_etcd_proof.py": {"examine: unlink": KEPT},
    "playbooks/module_utils/appliance_etcd_folder.py": {
        "take_away: rmdir": (TRIAL, 2),
        "take_away: rmtree": TRIAL,
        "take_away: unlink": (TRIAL, 2),
    },
    "playbooks/module_utils/appliance_etcd_trial.py": {"_Scratch.running: open w": TRIAL},
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
        "Layout.adopt: rmdir": (STATE, 2),
        "Layout.adopt: unlink": (LINK, 2),
        "Layout.carry_out: chmod": STATE,
        "Layout.move_record: replace": STATE,
        "Layout.swap: rename": ASIDE,
        "Layout.swap: unlink": LINK,
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
    "roles/kubernetes_runtime/library/docker_removed.py": {
        "Leftovers.data: argv rm": UNUSED_DOCKER
    },
    "roles/kubernetes_runtime/library/docker_replaced.py": {
        "Node.clean_network: argv -F": EMPTIED,
        "Node.clean_network: argv delete": EMPTIED,
        "Node.clean_network: unlink": EMPTIED,
        "Node.disable_docker: argv disable": EMPTIED,
        "Node.end_containers: argv rm": EMPTIED,
    },
    "roles/kubernetes_upgrade/library/kubelet_before.py": {
        "_remove: rmdir": UPGRADED,
        "_remove: unlink": UPGRADED,
        "copy: replace": WRITE,
        "copy: unlink": TEMPORARY,
        "keep: chmod": STATE,
    },
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
    "roles/gpu_operator/library/gpu_operands_renewed.py": {"converge: argv delete": OPERANDS},
    "roles/nfs_volumes/library/storage_class_made_again.py": {"converge: argv delete": PROOF},
    "roles/nfs_volumes/library/volume_write_test.py": {"remove: argv delete": PROOF},
    "roles/node_bare/library/node_bare.py": {
        "module: shell iptables-nft-restore": BROUGHT,
        "module: shell iptables-legacy-restore": BROUGHT,
        "Bare.units: argv disable": BARE,
        "Bare.packages: argv purge": BROUGHT,
        "Bare._with: argv purge": WORDS,
        "Bare.end_docker: argv delete": BROUGHT,
        "Bare.end_docker: argv umount": BROUGHT,
        "Bare.end_docker: shell umount": BROUGHT,
        "Bare._put: open w": BARE,
        "Bare.empty_folders: rmdir": BARE,
        "Bare._remove: unlink": BARE,
        "Bare._remove: argv rm": BARE,
    },
    "roles/node_reset/module_utils/reset_evidence.py": {
        "Evidence.begin: replace": STATE,
        "Evidence.end: unlink": STATE,
    },
    "roles/node_reset/tasks/reset.yml": {"- reset": MEMBER},
    "roles/registry_trust/library/registry_login.py": {
        "settle: unlink": OUR_LOGIN,
        "note: unlink": OUR_LOGIN,
    },
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
    "roles/runai_upgrade/library/runai_saved_state.py": {"save: chmod": STATE},
    "roles/runai_upgrade/module_utils/runai_dump.py": {
        "module: shell mv": WRITE,
        "module: shell rm -": TEMPORARY,
    },
    "roles/runai_upgrade/module_utils/runai_upgrade_record.py": {
        "remove_nginx: argv delete": NGINX
    },
    "roles/site_certificate/library/certificate_request.py": {
        "Certificate.make_key: replace": WRITE,
        "Certificate.make_key: unlink": TEMPORARY,
    },
}
