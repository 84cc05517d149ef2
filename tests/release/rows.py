"""The rows of a release, in their order: which slow tests, and which folders they speak for."""

from __future__ import annotations

from dataclasses import dataclass, replace

# A page or a changelog fragment changes no outcome.
PACKAGE = ("appliance", ":(exclude)appliance/docs")
# Except in a row whose test types the commands of the pages in ``appliance/docs/operations``.
WITH_RUNBOOKS = (
    "appliance",
    ":(exclude,glob)appliance/docs/*",
    ":(exclude)appliance/docs/changelog.d",
    ":(exclude)appliance/docs/decisions",
    ":(exclude)appliance/docs/hardware",
)
REST = ("playbooks", "roles", "pyproject.toml")
LAB = (*REST, "tests/lab/conftest.py", "tests/this_run.py")


@dataclass(frozen=True)
class Row:
    """One row of the table.

    Attributes:
        name: a word for ``--only``.
        promise: what is held when it passes.
        tests: files and folders of tests whose slow ones are run, in one process.
        covers: folders and files, as pathspecs of git; once one of them changes, an earlier
            outcome is stale. Of those that only Python reads it is what the row has opened.
        figures: whether what its tests print is shown, as it is what they found.
        elsewhere: whether its processes run from a copy of the tree, so that nothing says what they
            open.
    """

    name: str
    promise: str
    tests: tuple[str, ...]
    covers: tuple[str, ...]
    figures: bool = False
    elsewhere: bool = False


def _lab(
    name: str,
    promise: str,
    *tests: str,
    covers: tuple[str, ...] = (),
    package: tuple[str, ...] = PACKAGE,
) -> Row:
    return Row(name, promise, tests, (*package, *LAB, *tests, *covers))


def _upgrade(name: str, promise: str, *tests: str) -> Row:
    """One of the rows about upgrades: several, so that one that failed is run again alone."""
    return replace(_lab(name, promise, *tests, covers=("tests/lab/support",)), figures=True)


def _pristine(what: str, promise: str) -> Row:
    tests = (f"tests/pristine/test_whole_{what}.py",)
    covers = (*PACKAGE, *REST, "README.md", "tests/pristine")
    return Row(f"pristine-{what}", promise, tests, covers, figures=True, elsewhere=True)


ROWS = (
    Row(
        "fuzz",
        "20,000 inputs at each border with a free seed: no traceback, no change elsewhere",
        ("tests/fuzz", "tests/unit/facts", "tests/unit/support"),
        (*PACKAGE, "tests/fuzz", "tests/unit/facts", "tests/unit/support"),
        figures=True,
    ),
    Row(
        "bmcs",
        "BMCs are driven: sushy-tools' emulator; eight servers imaged at once, one BMC hangs, one "
        "rejects media, SIGKILL",
        ("tests/standins",),
        (*PACKAGE, "tests/standins"),
    ),
    Row(
        "packages",
        "the lab's packages install into an empty Debian without a network",
        ("tests/integration/test_debian_packages.py",),
        ("appliance/releases", "appliance/adapters", "tests/integration"),
    ),
    Row(
        "seeds",
        "seeds pass cloud-init's schema and netplan; a server is installed through a simulated BMC",
        ("tests/integration/test_seeds.py", "tests/integration/test_image_by_redfish.py"),
        (
            *("appliance/model/node/imaging", "appliance/installer", "hardware"),
            *(
                "appliance/workflows/node/imaging",
                "appliance/adapters/imaging",
                "tests/data/imaging",
            ),
            *("appliance/adapters/hardware", "tests/integration", "tests/unit/imaging"),
        ),
    ),
    Row(
        "molecule",
        "the scenarios of roles that are not in every run",
        ("tests/molecule",),
        ("molecule", "roles", "playbooks", "tests/molecule"),
    ),
    _lab(
        "gpu",
        "GPUs are opted out, sliced, shared and brought back; a node is lost, a maintenance killed",
        "tests/lab/gpu",
    ),
    _lab(
        "hostile-worker",
        "a worker that lies stops nothing, is told no secret, and can be removed",
        "tests/lab/test_hostile_worker.py",
    ),
    _lab(
        "faults-in-force",
        "each fault of the matrix is in force while it lasts, and leaves nothing behind",
        "tests/lab/test_faults_in_force.py",
        covers=("tests/lab/support/faults.py",),
    ),
    _lab(
        "faults",
        "the same command heals each fault of the matrix",
        "tests/lab/test_faults.py",
        covers=(
            "tests/lab/support/faults.py",
            "tests/lab/support/faults_cluster.py",
            "tests/lab/support/matrix.py",
        ),
    ),
    _lab(
        "life",
        "a BMC proves a loss, runbooks do what they say, certificates, support bundles, burn-in, "
        "backups",
        "tests/lab/test_backup.py",
        "tests/lab/test_bmc.py",
        "tests/lab/test_burn_in.py",
        "tests/lab/test_runbooks.py",
        "tests/lab/test_certificates.py",
        "tests/lab/test_timers.py",
        "tests/lab/test_support.py",
        "tests/lab/test_care.py",
        covers=("tests/lab/support/random_kills.py",),
        package=WITH_RUNBOOKS,
    ),
    _upgrade(
        "upgrades",
        "Kubernetes 1.23.5 becomes 1.23.17 while pods serve, with faults; a lab is like a site",
        "tests/lab/test_upgrade.py",
        "tests/lab/test_upgrade_faults.py",
        "tests/lab/test_like.py",
    ),
    _upgrade(
        "upgrades-killed",
        "1.23.5 becomes 1.23.17 and 1.24.17 while pods serve, killed at twelve moments",
        "tests/lab/test_upgrade_killed.py",
    ),
    _upgrade(
        "upgrades-hops",
        "1.23.5 becomes 1.23.17 and 1.24.17 while pods serve; killed while the runtime changes",
        "tests/lab/test_two_hops.py",
    ),
    _upgrade(
        "upgrades-three",
        "1.23.5 becomes 1.23.17 and 1.24.17 on three control planes, and the API goes on answering",
        "tests/lab/test_three_upgraded.py",
    ),
    _lab(
        "reset",
        "a lab is taken apart, killed, equals what it was before its install, and is installed",
        "tests/lab/test_reset.py",
        covers=("tests/lab/support/random_kills.py",),
    ),
    _lab(
        "connections",
        "a jump host, whose keys are shown, kept and strict; sudo that asks for a password",
        "tests/lab/test_connections.py",
        "tests/lab/test_sudo_password.py",
    ),
    _lab(
        "applications",
        "storage, access, node roles and Run:ai: kills, and refusals before a change",
        "tests/lab/test_storage.py",
        "tests/lab/test_provisioner.py",
        "tests/lab/test_volumes_backed_up.py",
        "tests/lab/test_runai_refusals.py",
        "tests/lab/test_access.py",
        "tests/lab/test_node_roles.py",
    ),
    _lab(
        "vendor",
        "a vendor bundle is streamed, resumed and installed; waits are named",
        "tests/lab/test_runai_waits.py",
        "tests/lab/test_vendor_bundle.py",
    ),
    _lab(
        "runai-hops",
        "Run:ai 2.4 becomes 2.8 hop by hop, and in one jump; earlier projects are there afterwards",
        "tests/lab/test_runai_hops.py",
        "tests/lab/test_runai_jump.py",
    ),
    _pristine("lab", "README's first command, on a machine with nothing on it"),
    _pristine("tests", "README's test command, all of it, on a machine with nothing on it"),
    _lab(
        "debian-11",
        "on Debian 11, nearest to Ubuntu 20.04: install, life of a node, every file parsed",
        "tests/lab/test_debian_11.py",
        covers=("tests/contract/focal.py", "tests/data/focal"),
    ),
    _lab(
        "secrets",
        "no secret is told anywhere; a rack with Run:ai goes down and up, and is restored",
        "tests/lab/runai/test_rack.py",
        "tests/lab/runai/test_restore_database.py",
        "tests/lab/runai/test_runai.py",
        "tests/lab/runai/test_runai_cli.py",
        "tests/lab/runai/test_secrets.py",
        covers=("tests/lab/runai",),
    ),
    _lab(
        "runai-upgrades",
        "Run:ai is upgraded, killed, taken back; it is whole after two releases of Kubernetes",
        "tests/lab/runai/test_upgrade.py",
        "tests/lab/runai/test_whole_after_upgrade.py",
        covers=("tests/lab/runai",),
    ),
    Row(
        "imaged",
        "a virtual machine is installed through its BMC, by media and PXE, and guarded from a wipe",
        ("tests/lab/test_imaged_machine.py",),
        (
            *PACKAGE,
            *REST,
            "tests/lab/test_imaged_machine.py",
            "tests/lab/support/imaged.py",
            "tests/standins/simulated_bmcs.py",
        ),
        figures=True,
    ),
    _lab(
        "kernel-nfs",
        "the kernel's own NFS server and client, in a virtual machine",
        "tests/lab/test_kernel_nfs.py",
    ),
    _lab(
        "restore",
        "etcd of three control planes is destroyed, or one is left: one command, killed at will",
        "tests/lab/test_restore.py",
    ),
    Row(
        "databases",
        "a real PostgreSQL: dumps are compared by digests, restored beside the old ones, swapped",
        (
            "tests/integration/test_restore_database.py",
            "tests/integration/test_verify_database.py",
        ),
        ("playbooks", "roles/runai_upgrade", "roles/runai_cluster", "tests/integration"),
    ),
    _lab(
        "restore-new-machines",
        "every machine is lost: a backup and its key are a cluster on new ones, killed at will; it "
        "is rehearsed in a lab like the site, which leaves nothing of it",
        "tests/lab/test_restore_new_machines.py",
        "tests/lab/test_restore_rehearsed.py",
    ),
    _lab(
        "three-control-planes",
        "one of three stops or is lost, and one command brings it back",
        "tests/lab/test_three_control_planes.py",
    ),
)
