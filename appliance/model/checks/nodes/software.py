"""Existing software on the node: packages, containers, an earlier cluster."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from appliance.model.bundle.release.gpu_matrix import numbers_of
from appliance.model.bundle.release.release import is_of_line
from appliance.model.components.base.subject import Subject
from appliance.model.site.vault_ref import BECOME_PASSWORD
from appliance.model.state.findings import Finding

ASKED_MODULES = ("br_netfilter", "overlay", "vxlan", "nf_conntrack")
OTHER_DRIVERS = ("aufs", "devicemapper", "btrfs", "zfs", "vfs", "overlay")
AUTOMATIC = ("apt.systemd.dai", "apt-get -qq", "unattended-upgr", "apt-daily", "packagekitd")
# Holding a package writes; a killed run of ours may have just started that.
MOMENTARY = ("dpkg --set-selections",)
# The transient units that playbooks/module_utils/appliance_job.py starts.
OUR_UNITS = "appliance-*.service"
OUR_NETWORK = "10-flannel.conflist"
DOCKERS = ("docker-ce", "docker.io")
RUNTIME_PACKAGES = (
    *DOCKERS,
    "containerd.io",
    "containerd",
    "podman-docker",
    "runc",
)


def root(subject: Subject) -> Iterator[Finding]:
    """The user of the connection becomes root, by itself or by sudo."""
    unread = [
        str(entry.get("reason"))
        for entry in subject.facts.items("unreadable")
        if "needs root" in str(entry.get("reason"))
    ]
    if not unread:
        return
    connection = subject.site.settings.ssh
    found = f"the user {connection.user} without root rights ({unread[0]})"
    if connection.become and connection.become_password:
        vault = shlex.quote(str(subject.site.vault_file))
        yield subject.error(
            "root",
            found,
            f"that sudo takes {BECOME_PASSWORD.name} of the vault",
            f"ansible-vault edit {vault}; to try a password: {subject.ssh('-t sudo -k true')}",
        )
        return
    user = connection.user
    yield subject.error(
        "root",
        found,
        "root, sudo without a password, or ssh.become_password in site.yml",
        subject.ssh(
            f"-t \"echo '{user} ALL=(ALL) NOPASSWD:ALL' | sudo tee /etc/sudoers.d/{user}\""
        ),
    )


def package_lock(subject: Subject) -> Iterator[Finding]:
    """No other process is installing packages."""
    holder = str(subject.facts.at("packages.manager_lock_held_by") or "").strip()
    if not holder:
        return
    # These words come from the node, and a person runs the hint.
    process = shlex.quote(holder.split()[0])
    unit = str(subject.facts.at("packages.manager_lock_unit"))
    if fnmatchcase(unit, OUR_UNITS):
        yield subject.info(
            "package_lock",
            f"the package manager locked by {holder}, a job of an earlier run",
            "no lock; the install waits for the job to end",
            subject.ssh(f"systemctl status {shlex.quote(unit)}"),
        )
    elif any(name in holder for name in MOMENTARY):
        yield subject.info(
            "package_lock",
            f"the package manager briefly locked by {holder}",
            "no lock; the install waits for it to end",
            subject.ssh(f"ps -fp {process}"),
        )
    elif any(name in holder for name in AUTOMATIC):
        yield subject.warning(
            "package_lock",
            f"the package manager locked by {holder}",
            "no lock; the install waits for the automatic update to end",
            subject.ssh("systemctl status apt-daily.service apt-daily-upgrade.service"),
        )
    else:
        yield subject.error(
            "package_lock",
            f"the package manager locked by {holder}",
            "no other process installing packages",
            subject.ssh(f"ps -fp {process}"),
        )


def broken_packages(subject: Subject) -> Iterator[Finding]:
    """No package is half-installed; the install completes it."""
    broken = subject.facts.at("packages.broken") or []
    if subject.facts.at("packages.dpkg_interrupted"):
        yield subject.info(
            "broken_packages",
            f"interrupted package work ({', '.join(broken[:3]) or 'in dpkg/updates'})",
            "completely installed packages: the install completes them",
            subject.ssh("sudo dpkg --configure -a"),
        )


def package_conflicts(subject: Subject) -> Iterator[Finding]:
    """No runtime of other packages: installing ours would remove it and its containers."""
    manifest = subject.desired.manifest
    if manifest is None or subject.is_ours:
        return
    installed = subject.facts.at("packages.installed") or {}
    left = _left_by_an_upgrade(subject)
    for name in RUNTIME_PACKAGES:
        if name in installed and name not in manifest.packages and name not in left:
            yield subject.error(
                "package_conflicts",
                f"the package {name} {installed[name]}",
                "no container runtime except the bundle's",
                f"if nothing needs it: {subject.ssh(f'sudo apt-get remove {name}')}",
            )
    for name in ("kubeadm", "kubelet"):
        if name in installed:
            yield subject.error(
                "package_conflicts",
                f"the package {name} {installed[name]}",
                "Kubernetes from the bundle, not from a package",
                subject.ssh(f"sudo apt-get remove --allow-change-held-packages {name}"),
            )


def _left_by_an_upgrade(subject: Subject) -> Collection[str]:
    """The packages of a Docker that stands still beside a release on containerd."""
    runs = subject.facts.at("runtime.docker.version")
    return () if subject.desired.release.runtime.name == "docker" or runs else DOCKERS


def foreign_containers(subject: Subject) -> Iterator[Finding]:
    """Docker runs no foreign containers: the install restarts it and changes its settings."""
    names = subject.facts.at("runtime.docker.containers_foreign") or []
    if names:
        yield subject.error(
            "foreign_containers",
            f"{len(names)} containers that Kubernetes did not start: {', '.join(names[:5])}",
            "only containers of Kubernetes",
            f"move them, then: {subject.ssh('sudo docker rm -f ' + shlex.join(names[:5]))}",
        )
    elif subject.facts.at("runtime.docker.data_containers") and not (
        subject.facts.at("runtime.docker.version") or subject.is_ours
    ):
        yield subject.error(
            "foreign_containers",
            f"{subject.facts.at('runtime.docker.data_containers')} containers of a stopped Docker",
            "no foreign containers",
            subject.ssh("sudo ls /var/lib/docker/containers")
            + "; start Docker and remove them, or move the folder away",
        )


def docker_answers(subject: Subject) -> Iterator[Finding]:
    """Docker answers: a hanging daemon hides its containers and blocks every step."""
    if silence := subject.facts.docker_silence:
        yield subject.error(
            "docker_answers",
            f"a running Docker that does not answer ({silence})",
            "an answer within seconds",
            f"{subject.ssh('sudo journalctl -u docker -n 50')}; a restart stops and starts the "
            f"containers of this node: {subject.ssh('sudo systemctl restart docker')}",
        )


def docker_storage(subject: Subject) -> Iterator[Finding]:
    """No data of another storage driver: its images would become invisible but keep their space."""
    if subject.desired.release.runtime.name != "docker":
        return
    driver = subject.facts.at("runtime.docker.storage_driver")
    old = [d for d in subject.facts.at("runtime.docker.data_drivers") or () if d in OTHER_DRIVERS]
    if driver not in (None, "overlay2"):
        old = [driver]
    if old:
        yield subject.error(
            "docker_storage",
            f"Docker data of the storage driver {', '.join(old)}",
            "overlay2, or no data",
            f"if none of it is needed: {subject.ssh('sudo rm -r /var/lib/docker')}",
        )


def docker_version(subject: Subject) -> Iterator[Finding]:
    """Docker is of the line that the release was tested with."""
    seen = subject.facts.at("runtime.docker.version")
    line = subject.desired.release.needs.get("docker")
    if not seen or line is None or is_of_line(str(seen), line):
        return
    name = subject.node.name
    yield subject.error(
        "docker_version",
        f"Docker {seen}" + (" on a member of the cluster" if subject.is_ours else ""),
        f"Docker {line}, the release's",
        f"drain the node first: appliance node maintain {name}; then change its Docker, and: "
        f"appliance node return {name}"
        if subject.is_ours
        else "if nothing needs it: " + subject.ssh("sudo apt-get remove docker-ce docker.io"),
    )


def docker_settings(subject: Subject) -> Iterator[Finding]:
    """An existing daemon.json is valid, because the install merges settings into it."""
    if subject.desired.release.runtime.name != "docker":
        return
    broken = subject.facts.at("runtime.docker.daemon_json_error")
    driver = subject.facts.at("runtime.docker.cgroup_driver")
    if broken:
        yield subject.error(
            "docker_settings",
            f"/etc/docker/daemon.json: {broken}",
            "JSON that our settings can be merged into",
            subject.ssh("python3 -m json.tool /etc/docker/daemon.json"),
        )
    if driver not in (None, "systemd"):
        yield subject.info(
            "docker_settings",
            f"Docker's cgroup driver {driver}",
            "systemd: the install changes it, and Docker restarts",
            "nothing to do",
        )


def foreign_containerd(subject: Subject) -> Iterator[Finding]:
    """Only Docker, and the kubelet of a member, use containerd: other containers are foreign."""
    spaces = subject.facts.at("runtime.containerd.namespaces") or []
    ours = {"moby", "k8s.io"} if subject.is_ours else {"moby"}
    foreign = [name for name in spaces if name not in ours]
    if foreign:
        yield subject.error(
            "foreign_containerd",
            f"containerd running containers of {', '.join(foreign)}",
            "a containerd without containers of others",
            subject.ssh(f"sudo ctr -n {shlex.quote(foreign[0])} containers list"),
        )


def cgroups(subject: Subject) -> Iterator[Finding]:
    """With cgroup v2, Docker supports it."""
    version = subject.facts.at("runtime.docker.version") or subject.desired.release.versions.docker
    if version and subject.facts.at("os.cgroup") == "v2" and _numbers(str(version)) < (20, 10):
        yield subject.error(
            "cgroups",
            f"cgroup v2 with Docker {version}",
            "Docker 20.10 or newer, or cgroup v1",
            "boot with systemd.unified_cgroup_hierarchy=0, or use a newer release",
        )


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+", maxsplit=1)[0].split("-", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in parts[:2] if part.isdigit())


def kernel(subject: Subject) -> Iterator[Finding]:
    """The kernel modules for pods are loaded, built in or on disk."""
    modules = subject.facts.at("modules") or {}
    missing = [name for name in ASKED_MODULES if name not in (modules.get("loaded") or ())]
    if missing and not modules.get("available"):
        yield subject.error(
            "kernel",
            f"neither loaded nor on disk: {', '.join(missing)} "
            f"(kernel {subject.facts.at('os.kernel')})",
            f"the modules of kernel {subject.facts.at('os.kernel')}",
            "reboot into an installed kernel: " + subject.ssh("ls /lib/modules"),
        )


def python(subject: Subject) -> Iterator[Finding]:
    """Python is recent enough for Ansible's modules."""
    seen = str(subject.facts.at("os.python") or "0")
    if _numbers(seen) < (3, 8):
        yield subject.error(
            "python",
            f"Python {seen}",
            "Python 3.8 or newer",
            "set ssh.python in site.yml to a newer one",
        )


def leftovers(subject: Subject) -> Iterator[Finding]:
    """No links of an earlier pod network: their addresses break the new one."""
    if subject.is_ours or subject.facts.at("kubernetes.manifests"):
        return
    links = sorted(set(subject.facts.at("cni.interfaces") or ()) - {"docker0"})
    if links:
        yield subject.error(
            "leftovers",
            f"the links {', '.join(links)} of an earlier cluster",
            "no pod network yet",
            subject.ssh("'" + "; ".join(f"sudo ip link delete {link}" for link in links) + "'"),
        )


def foreign_cni(subject: Subject) -> Iterator[Finding]:
    """No other CNI configuration: the kubelet uses the first file by name."""
    files = [name for name in subject.facts.at("cni.conf") or () if name != OUR_NETWORK]
    files = [name for name in files if name.endswith((".conf", ".conflist", ".json"))]
    if not files or not subject.node.in_cluster:
        return
    finding = subject.error if files[0] < OUR_NETWORK else subject.warning
    yield finding(
        "foreign_cni",
        f"the pod network /etc/cni/net.d/{shlex.quote(files[0])}",
        "only flannel's",
        subject.ssh(f"sudo rm /etc/cni/net.d/{shlex.quote(files[0])}"),
    )


def kubelet_version(subject: Subject) -> Iterator[Finding]:
    """Installed programs have the release's version, or the node is no member yet."""
    wanted = subject.desired.kubernetes_version
    if subject.desired.upgrading:
        return  # its own plan judges every version that runs
    for program in ("kubelet", "kubeadm"):
        seen = subject.facts.at(f"kubernetes.{program}_version")
        if seen in (None, wanted):
            continue
        if subject.is_ours:
            ours = numbers_of(wanted) or ()
            yield subject.error(
                "kubelet_version",
                f"{program} {seen} on a member of the cluster",
                f"{wanted}, the release's",
                "this node is newer than site.yml, and Kubernetes cannot be downgraded: set "
                "appliance_release in site.yml to the release that runs (appliance status)"
                if (numbers_of(str(seen)) or ()) > ours
                else "to upgrade it: appliance cluster upgrade --to "
                f"{subject.desired.release.name} --bundle DIR; or set appliance_release in "
                "site.yml to the release that runs",
            )
        else:
            yield subject.info(
                "kubelet_version",
                f"{program} {seen}",
                f"{wanted}: the install replaces it",
                "nothing to do",
            )


def swap(subject: Subject) -> Iterator[Finding]:
    """Swap is off: the kubelet does not start with it."""
    active = subject.facts.at("swap.active") or []
    if active:
        yield subject.info(
            "swap",
            f"swap on {', '.join(active)}",
            "no swap: the install turns it off, also after a reboot",
            "nothing to do",
        )


def updates(subject: Subject) -> Iterator[Finding]:
    """Automatic updates do not touch kernel, driver, Docker and Kubernetes packages."""
    if subject.facts.at("packages.unattended_upgrades.enabled"):
        yield subject.info(
            "updates",
            "unattended-upgrades enabled",
            "no automatic updates of kernel, driver, Docker, Kubernetes: the install excludes them",
            "nothing to do",
        )


def nouveau(subject: Subject) -> Iterator[Finding]:
    """The nouveau driver, which blocks NVIDIA's, is not loaded; the step gpu removes it."""
    if "nouveau" in (subject.facts.at("modules.loaded") or ()):
        yield subject.info(
            "nouveau",
            "the nouveau driver loaded",
            "NVIDIA's driver: the step gpu installs it",
            "nothing to do",
        )


def failed_units(subject: Subject) -> Iterator[Finding]:
    """No unit failed before the install."""
    failed = subject.facts.at("systemd.failed") or []
    if failed:
        yield subject.warning(
            "failed_units",
            f"failed units: {', '.join(failed[:5])}",
            "none",
            subject.ssh(f"systemctl status {shlex.quote(failed[0])}"),
        )
