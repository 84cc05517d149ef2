"""What is asked before something of the product is deleted, and the test that holds it."""

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
OPENED: Final = Evidence(
    "noted as a lab where a backup was opened; the mark of a lab like a site; by no link",
    "tests/unit/lab/test_opened.py::test_no_link_leads_the_removal_elsewhere",
)
BMCS: Final = Evidence(
    "the BMCs of one lab as their own configuration names them: addresses, a node, its folder",
    "tests/unit/lab/test_bmc_processes.py::"
    "test_the_addresses_are_taken_at_the_start_and_given_back_at_the_end",
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
RESTORE: Final = Evidence(
    "a name of ours with the word of this restore, below a folder of ours with its mark",
    "tests/unit/restore/test_acts_on_a_node.py::"
    "test_a_folder_with_something_else_in_it_is_not_emptied",
)
VOLUME: Final = Evidence(
    "in the export: a folder half made by a restore that its record names; a volume is renamed",
    f"{_MODULES}/test_volume_course.py::"
    "test_what_an_abandoned_restore_left_goes_before_the_next_one",
)
SITE_COPY: Final = Evidence(
    "a folder of fixed name with our mark, of this user, with nothing else in it",
    "tests/unit/restore/test_site_from_backup.py::"
    "test_a_folder_of_somebody_else_beside_it_is_not_emptied",
)
CLAIMED: Final = Evidence(
    "a machine that was bare when it was claimed, by its mark",
    "tests/unit/restore/test_new_machine_program.py::test_the_range_of_pods_is_forgotten_once",
)
ASIDE_FIRST: Final = Evidence(
    "the same bytes, or the same folder, are under their other name first",
    "tests/unit/restore/test_acts_on_a_node.py::"
    "test_the_same_acts_end_a_restore_that_was_killed_at_any_change",
)
BURN_IN: Final = Evidence(
    "files of fixed names in a folder of ours that only root enters, while no burn-in runs",
    "tests/unit/hardware/test_burn_in_program.py::test_a_second_start_changes_nothing",
)
IMAGING: Final = Evidence(
    "a folder that was made empty for this command alone",
    "tests/integration/test_medium.py::test_a_medium_is_served_and_gone_with_the_command",
)
NOTE: Final = Evidence(
    "a note of ours about a server of the inventory, which is installed",
    "tests/unit/imaging/test_image_workflow.py::"
    "test_what_a_killed_run_left_is_finished_without_wipe",
)
RACK_RECORD: Final = Evidence(
    "our own record of a rack that was taken down, once every node of it was verified in service",
    "tests/unit/rack/test_rack_down_up.py::"
    "test_a_worker_that_does_not_come_is_named_and_the_rest_is_up",
)
PINS: Final = Evidence(
    "our own pins of a discovery, once the site has every one of its keys",
    "tests/cli/test_site_discover.py::test_a_changed_certificate_is_refused_by_the_second_run",
)
VAULT_COPY: Final = Evidence(
    "our own encrypted copy of an earlier vault, by its name's form, once fifty newer ones exist",
    "tests/unit/bmc/test_vault_change.py::test_old_copies_make_room_and_other_files_stay",
)
LEFT_MEDIUM: Final = Evidence(
    "a folder of media that a killed run left; the site's lock is held, so no other run is at work",
    "tests/unit/imaging/test_server.py::test_what_a_killed_run_left_is_removed",
)
SEED: Final = Evidence(
    "the installer's own document, in memory; its disk has the serial, and is empty",
    "tests/unit/imaging/test_programs.py::test_a_refused_disk_leaves_the_document_as_it_is",
)
SERVED: Final = Evidence(
    "the manifest named by its own digest lists it, and another verified bundle is served",
    "tests/unit/modules/test_bundle_store.py::test_a_bundle_is_removed_only_on_evidence",
)
NEEDLESS_IMAGE: Final = Evidence(
    "an earlier bundle lists this name with this digest, the site's registry, and no container",
    f"{_MODULES}/test_runtime_images.py::"
    "test_only_what_is_asked_with_its_digest_and_is_not_in_use_goes",
)
OLD_RUN: Final = Evidence(
    "named by the id of a run, below the site's own state, with nothing but what a run writes",
    "tests/unit/care/test_records.py::test_only_the_folder_of_a_run_is_removed",
)
READ_ONLY: Final = Evidence("a drop-in of our name below /run, which the same unit wrote")
SOCKET: Final = Evidence("a socket named after a server that ended, an empty folder of ours")
ARCHIVES: Final = Evidence("a folder of our own cache that no play used for a week")
PROVEN: Final = Evidence("a path of the manifest, confined to the bundle, whose bytes differ")
DIGEST: Final = Evidence("a blob named by 64 hex digits of a manifest of ours, of another size")
BACKUP: Final = Evidence(
    "a whole backup: the file beside it is of this site and has its sha256; or a name that this "
    "machine wrote down before, without a file beside it",
    "tests/unit/backup/test_backup_create.py::test_one_that_was_changed_is_not_removed",
)
BACKUP_COPY: Final = Evidence(
    "files with a backup's name in a folder of our prefix and user, which no process holds",
    "tests/unit/backup/test_fetching.py::test_what_a_killed_command_left_goes_and_nothing_else",
)
NODE_BACKUP: Final = Evidence(
    "in our own folder: a backup whose file beside it is of this site, name and size; or a name of "
    "this site's without a file beside it",
    "tests/unit/timers/test_timed_backup.py::test_the_newest_stay_and_nothing_of_others_goes",
)
TIMER: Final = Evidence(
    "a unit of our name that begins with our words, and is no link",
    "tests/unit/timers/test_timer_absent.py::test_a_unit_of_somebody_else_stays",
)
GATHERED: Final = Evidence(
    "a folder of ours with our marker, which nothing holds, and with nothing else in it",
    f"{_MODULES}/test_backup_folder.py::test_what_no_backup_wrote_stays",
)
TRIAL: Final = Evidence(
    "a folder of ours with our marker, which nothing holds, and with nothing else in it",
    f"{_MODULES}/test_etcd_trial.py::test_what_no_trial_wrote_stays",
)
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
OPERANDS: Final = Evidence(
    "a pod of a DaemonSet of the operator's namespace, of an older template, on a cordoned node",
    f"{_MODULES}/test_gpu_operands_renewed.py::test_a_node_that_takes_pods_is_refused",
)
CREDENTIALS: Final = Evidence("the token and certificate key that this join made, by their id")
BOOTSTRAP: Final = Evidence(
    "a bootstrap-kubelet.conf whose first line is ours",
    f"{_MODULES}/test_kubelet_certificate.py::test_a_file_of_others_is_not_touched",
)
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
EMPTIED: Final = Evidence(
    "the kubelet is stopped, and no container of a pod is left; nothing of containers that are no "
    "pods",
    f"{_MODULES}/test_docker_replaced.py::"
    "test_containers_that_are_no_pods_stop_it_before_any_change",
)
UPGRADED: Final = Evidence(
    "the files that a whole record of an upgrade names by kind, not of the release that is brought "
    "now; the kubelet on disk has what that upgrade brought",
    f"{_MODULES}/test_kubelet_before.py::"
    "test_what_an_upgrade_kept_goes_once_the_node_has_what_it_brought",
)
UNUSED_DOCKER: Final = Evidence(
    "the kubelet is on containerd; Docker is stopped and disabled, without container or volume",
    f"{_MODULES}/test_docker_removed.py::test_what_others_may_need_stops_it_before_any_change",
)
_BARE: Final = f"{_MODULES}/test_node_bare.py"
BARE: Final = Evidence(
    "machine-id, the site's CA on it, no member; fixed paths of our roles, no link, no mount",
    f"{_BARE}::test_another_machine_and_a_member_are_refused",
)
BROUGHT: Final = Evidence(
    "our record names it, apt takes nothing of others with it, no container of others is there",
    f"{_BARE}::test_what_the_product_brought_goes_and_nothing_of_others",
)
FORGOTTEN: Final = Evidence(
    "our own kubeconfig, once every machine of its cluster was verified bare",
    "tests/unit/reset/test_reset.py::test_workers_first_then_the_control_plane_and_documents_last",
)
WORDS: Final = Evidence("words for people, or a table: nothing is run here")

Places = dict[str, dict[str, Evidence | tuple[Evidence, int]]]
