"""Every place of the product that deletes, with the evidence that it asks for.

A new place is a new line here, or in :mod:`tests.contract.deletion_table_nodes`: what proves that
what goes is ours? ``(EVIDENCE, n)`` stands for n places of one name in one function. Kept equal to
what :mod:`tests.contract.deletion_search` finds.
"""

from __future__ import annotations

from typing import Final

# isort: off
# fmt: off
from tests.contract.deletion_evidence import (
    BACKUP, BACKUP_COPY, BMCS, BURN_IN, CACHE, DELTA, EVICTION, FORGOTTEN, HALF, IMAGING, JOINED,
    LAUNCHER, LEFT_MEDIUM, LISTED, LOCK, NODE_OBJECT, NOTE, OLD_RUN, OPENED, PINS, PLACED, PROOF,
    QUORUM, RACK_RECORD, SEED, SITE_COPY, STANDIN, STATE, TEMPORARY, UNFINISHED, VAULT_COPY, WORDS,
    WRITE, Places,
)
# fmt: on
from tests.contract.deletion_table_nodes import ON_NODES
# isort: on

PLACES: Final[Places] = {
    **ON_NODES,
    "appliance/adapters/backup/fetching.py": {
        "_remove: rmdir": BACKUP_COPY,
        "_remove: unlink": BACKUP_COPY,
    },
    "appliance/adapters/backup/key_file.py": {"write_key: unlink": UNFINISHED},
    "appliance/adapters/backup/places.py": {
        "FolderPlace._give_name: rename": UNFINISHED,
        "FolderPlace.new: unlink": UNFINISHED,
        "FolderPlace.remove: unlink": BACKUP,
    },
    "appliance/adapters/local/site_copy.py": {
        "_remove: rmtree": SITE_COPY,
        "_staged: rmdir": SITE_COPY,
        "_staged: unlink": SITE_COPY,
        "write_site: rename": SITE_COPY,
    },
    "appliance/adapters/backup/sftp_place.py": {"SftpPlace.new: rename": UNFINISHED},
    "appliance/adapters/backup/writer.py": {"new_backup: open w": WORDS},
    "appliance/adapters/care/runs.py": {
        "RunFiles.remove_facts: unlink": STATE,
        "RunFiles.remove_run: rmtree": OLD_RUN,
    },
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
    "appliance/adapters/site/vault_files.py": {"keep_copy: unlink": VAULT_COPY},
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
    "appliance/adapters/kubernetes/pod_tests/engine.py": {
        "own_namespace: delete_namespace": PROOF,
        "_is_deleted: delete_namespace": PROOF,
    },
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
    "appliance/lab/bmcs.py": {
        "address_commands: argv del": (BMCS, 2),
        "configuration: argv kill": BMCS,
    },
    "appliance/lab/machine/bmcs.py": {"BmcProcesses.stop: rmtree": BMCS},
    "appliance/lab/rehearsal/opened.py": {
        "OpenedLabs.destroy: rmtree": OPENED,
        "OpenedLabs.destroy: unlink": (OPENED, 2),
    },
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
    "appliance/lab/standins/vendor_bundle_standin/images/pg_dump.py": {
        "Databases.write: replace": STANDIN,
        "_change: rmtree": STANDIN,
    },
    "appliance/lab/standins/vendor_bundle_standin/images/store.py": {
        "Documents.do_PUT: replace": STANDIN,
    },
}
