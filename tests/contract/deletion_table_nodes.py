"""Every place of playbooks and roles that deletes; see :mod:`tests.contract.deletion_table`."""

from __future__ import annotations

from typing import Final

# isort: off
# fmt: off
from tests.contract.deletion_evidence import (
    ARCHIVES, ASIDE, ASIDE_FIRST, BARE, BOOTSTRAP, BROUGHT, CLAIMED, CONTAINER, CREDENTIALS, DIGEST,
    EMPTIED, GATHERED, HELM, KEPT, LABEL, LEFTOVERS, LINK, MEMBER, MIRROR, MOUNT,
    NEEDLESS_IMAGE, NGINX, NODE_AND_TOKEN, NODE_BACKUP, NODE_OBJECT, OPERANDS, OUR_LOGIN, POLICY,
    PROOF, PROVEN,
    READ_ONLY, RESTORE, ROLE, SERVED, SHA, SOCKET, STATE, TEMPORARY, TIMER, TRIAL, UNFINISHED,
    UNUSED_DOCKER, UPGRADED, VOLUME, WORDS, WRITE, Places,
)
# fmt: on
# isort: on

ON_NODES: Final[Places] = {
    "playbooks/module_utils/appliance_volume_extract.py": {
        "_file: ftruncate": UNFINISHED,
        "_give: fchmod": UNFINISHED,
        "_give: fchown": UNFINISHED,
        "_make: chmod": UNFINISHED,
        "_make: chown": UNFINISHED,
    },
    "playbooks/module_utils/appliance_volume_restore.py": {
        "Course._rename: rename": VOLUME,
        "Course._take_away: rmtree": VOLUME,
        "Course.load: rename": VOLUME,
    },
    "playbooks/module_utils/appliance_image_restore.py": {"load: write_text": (GATHERED, 2)},
    "playbooks/module_utils/appliance_backup_folder.py": {
        "take_away: rmdir": (GATHERED, 2),
        "take_away: rmtree": GATHERED,
        "take_away: unlink": GATHERED,
        "_make_place: chmod": STATE,
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
    "playbooks/module_utils/appliance_timer_archive.py": {
        "_archive: open w": TEMPORARY,
        "_beside: rename": WRITE,
        "place: chmod": STATE,
        "retire: unlink": (NODE_BACKUP, 2),
        "tidy: unlink": NODE_BACKUP,
        "write: unlink": TEMPORARY,
    },
    "roles/node_timers/library/node_timer_absent.py": {
        "take_off: argv disable": TIMER,
        "take_off: unlink": TIMER,
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
    "playbooks/module_utils/appliance_registry_push.py": {
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
    "playbooks/module_utils/appliance_brought.py": {"begin: unlink": STATE},
    "playbooks/module_utils/appliance_new_machine.py": {
        "_place: rename": CLAIMED,
        "_write: replace": WRITE,
        "_delete_link: argv delete": CLAIMED,
        "made: unlink": CLAIMED,
    },
    "playbooks/module_utils/appliance_restore_intake.py": {
        "append: truncate": RESTORE,
        "folder_of: replace": WRITE,
        "seal: replace": WRITE,
    },
    "roles/etcd_restore/module_utils/etcd_image_programs.py": {
        "_write: replace": WRITE,
        "_write: unlink": RESTORE,
    },
    "roles/etcd_restore/module_utils/etcd_restoration.py": {
        "Restoration._inherit: move": ASIDE_FIRST,
        "Restoration._move_aside: rename": ASIDE_FIRST,
        "Restoration._restore: rmtree": RESTORE,
        "Restoration._remove_brought: rmtree": RESTORE,
        "Restoration._remove_brought: unlink": RESTORE,
        "Restoration.place: rename": ASIDE_FIRST,
        "Restoration.place: rmdir": RESTORE,
        "Restoration.salvage: rmtree": (RESTORE, 2),
        "Restoration.start: move": ASIDE_FIRST,
        "Restoration._move_manifests: move": ASIDE_FIRST,
    },
    "roles/etcd_restore/module_utils/etcd_salvage.py": {
        "_write: replace": WRITE,
        "save: open w": RESTORE,
        "save: unlink": RESTORE,
    },
    "roles/etcd_restore/module_utils/restored_files.py": {
        "move: unlink": ASIDE_FIRST,
        "remove: rmdir": RESTORE,
        "remove: unlink": RESTORE,
    },
    "roles/kubernetes_certificates/module_utils/certificate_renewal.py": {
        "Renewal.run: unlink": STATE,
        "Renewal.run: write_text": STATE,
    },
    "roles/kubelet_certificate/library/kubelet_certificate.py": {
        "Kubelet._remove_token: unlink": BOOTSTRAP,
        "Kubelet._sign: replace": WRITE,
        "Kubelet._sign: unlink": LINK,
        "Kubelet.carry_out: unlink": STATE,
    },
    "roles/kubelet_certificate/tasks/bootstrap.yml": {"state: absent": CREDENTIALS},
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
        "Bare.packages: argv remove": BROUGHT,
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
    "playbooks/module_utils/appliance_node_images.py": {
        "Containerd.remove: argv rm": (NEEDLESS_IMAGE, 2),
        "Docker.remove: argv rm": (NEEDLESS_IMAGE, 2),
    },
    "roles/container_registry/library/registry_clean.py": {"module: shell rm -": READ_ONLY},
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
