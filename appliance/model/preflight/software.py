"""What is on the node already: packages, containers, an earlier cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase

from appliance.model.preflight.finding import Finding, Subject

ASKED_MODULES = ("br_netfilter", "overlay", "vxlan", "nf_conntrack")
OTHER_DRIVERS = ("aufs", "devicemapper", "btrfs", "zfs", "vfs", "overlay")
AUTOMATIC = ("apt.systemd.dai", "apt-get -qq", "unattended-upgr", "apt-daily", "packagekitd")
# Holding a package is such a write; a killed run of ours may have just begun one.
MOMENTARY = ("dpkg --set-selections",)
# The transient units that playbooks/module_utils/appliance_job.py starts.
OUR_UNITS = "appliance-*.service"
OUR_NETWORK = "10-flannel.conflist"
RUNTIME_PACKAGES = (
    "docker-ce",
    "docker.io",
    "containerd.io",
    "containerd",
    "podman-docker",
    "runc",
)


def root(subject: Subject) -> Iterator[Finding]:
    """The user of the connection becomes root without being asked for a password."""
    unread = [
        str(entry.get("reason"))
        for entry in subject.photo.items("unreadable")
        if "needs root" in str(entry.get("reason"))
    ]
    if unread:
        user = subject.site.settings.ssh.user
        yield subject.error(
            "root",
            f"the user {user} without the rights of root ({unread[0]})",
            "root, or sudo without a password",
            subject.ssh(
                f"-t \"echo '{user} ALL=(ALL) NOPASSWD:ALL' | sudo tee /etc/sudoers.d/{user}\""
            ),
        )


def package_lock(subject: Subject) -> Iterator[Finding]:
    """Somebody else is installing packages right now."""
    holder = str(subject.photo.at("packages.manager_lock_held_by") or "").strip()
    if not holder:
        return
    # Nodes choose these words, and a person types the hint.
    process = shlex.quote(holder.split()[0])
    unit = str(subject.photo.at("packages.manager_lock_unit"))
    if fnmatchcase(unit, OUR_UNITS):
        yield subject.info(
            "package_lock",
            f"the package manager locked by {holder}, a job of an earlier run",
            "the job to end; the install waits for it",
            subject.ssh(f"systemctl status {shlex.quote(unit)}"),
        )
    elif any(name in holder for name in MOMENTARY):
        yield subject.info(
            "package_lock",
            f"the package manager locked by {holder}, for a moment",
            "that to end; the install waits for it",
            subject.ssh(f"ps -fp {process}"),
        )
    elif any(name in holder for name in AUTOMATIC):
        yield subject.warning(
            "package_lock",
            f"the package manager locked by {holder}",
            "the automatic update to end; the install waits for it",
            subject.ssh("systemctl status apt-daily.service apt-daily-upgrade.service"),
        )
    else:
        yield subject.error(
            "package_lock",
            f"the package manager locked by {holder}",
            "nobody else installing packages",
            subject.ssh(f"ps -fp {process}"),
        )


def broken_packages(subject: Subject) -> Iterator[Finding]:
    """Half-done package work is finished by the install."""
    broken = subject.photo.at("packages.broken") or []
    if subject.photo.at("packages.dpkg_interrupted"):
        yield subject.info(
            "broken_packages",
            f"interrupted package work ({', '.join(broken[:3]) or 'in dpkg/updates'})",
            "whole packages: the install finishes it",
            subject.ssh("sudo dpkg --configure -a"),
        )


def package_conflicts(subject: Subject) -> Iterator[Finding]:
    """A runtime of other packages would be torn out by ours, with what runs on it."""
    manifest = subject.desired.manifest
    if manifest is None or subject.is_ours:
        return
    installed = subject.photo.at("packages.installed") or {}
    for name in RUNTIME_PACKAGES:
        if name in installed and name not in manifest.packages:
            yield subject.error(
                "package_conflicts",
                f"the package {name} {installed[name]}",
                "no container runtime but the bundle's",
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


def foreign_containers(subject: Subject) -> Iterator[Finding]:
    """Docker restarts and its settings change: somebody else's containers would suffer."""
    names = subject.photo.at("runtime.docker.containers_foreign") or []
    if names:
        yield subject.error(
            "foreign_containers",
            f"{len(names)} containers that Kubernetes did not start: {', '.join(names[:5])}",
            "a Docker that nobody else uses",
            f"move them, then: {subject.ssh('sudo docker rm -f ' + shlex.join(names[:5]))}",
        )
    elif subject.photo.at("runtime.docker.data_containers") and not (
        subject.photo.at("runtime.docker.version") or subject.is_ours
    ):
        yield subject.error(
            "foreign_containers",
            f"{subject.photo.at('runtime.docker.data_containers')} containers of a Docker that "
            "does not run",
            "no containers of somebody else",
            subject.ssh("sudo ls /var/lib/docker/containers")
            + "; start Docker and remove them, or move the folder away",
        )


def docker_answers(subject: Subject) -> Iterator[Finding]:
    """A daemon that hangs says nothing of what it runs, and every step through it would hang."""
    if silence := subject.photo.docker_silence:
        yield subject.error(
            "docker_answers",
            f"a Docker that runs and does not answer ({silence})",
            "an answer within seconds",
            f"{subject.ssh('sudo journalctl -u docker -n 50')}; a restart stops and starts the "
            f"containers of this node: {subject.ssh('sudo systemctl restart docker')}",
        )


def docker_storage(subject: Subject) -> Iterator[Finding]:
    """Images under another storage driver would vanish from sight and keep their space."""
    driver = subject.photo.at("runtime.docker.storage_driver")
    old = [d for d in subject.photo.at("runtime.docker.data_drivers") or () if d in OTHER_DRIVERS]
    if driver not in (None, "overlay2"):
        old = [driver]
    if old:
        yield subject.error(
            "docker_storage",
            f"Docker data of the storage driver {', '.join(old)}",
            "overlay2, or no data",
            f"if nothing of it is needed: {subject.ssh('sudo rm -r /var/lib/docker')}",
        )


def docker_version(subject: Subject) -> Iterator[Finding]:
    """Kubelet 1.23 was tested with one line of Docker."""
    seen = subject.photo.at("runtime.docker.version")
    line = ".".join(subject.desired.release.versions.docker.split(".")[:2])
    if not seen or str(seen).startswith(line + "."):
        return
    name = subject.node.name
    yield subject.error(
        "docker_version",
        f"Docker {seen}" + (" on a member of the cluster" if subject.is_ours else ""),
        f"Docker {line}, the release's",
        f"take the node out first: appliance node maintain {name}; then change its Docker, and: "
        f"appliance node return {name}"
        if subject.is_ours
        else "if nothing needs it: " + subject.ssh("sudo apt-get remove docker-ce docker.io"),
    )


def docker_settings(subject: Subject) -> Iterator[Finding]:
    """An existing daemon.json is merged into, so it must be readable."""
    broken = subject.photo.at("runtime.docker.daemon_json_error")
    driver = subject.photo.at("runtime.docker.cgroup_driver")
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
    """Containerd with work that is not Docker's belongs to somebody else."""
    spaces = subject.photo.at("runtime.containerd.namespaces") or []
    foreign = [name for name in spaces if name != "moby"]
    if foreign:
        yield subject.error(
            "foreign_containerd",
            f"containerd running containers of {', '.join(foreign)}",
            "a containerd that only Docker uses",
            subject.ssh(f"sudo ctr -n {shlex.quote(foreign[0])} containers list"),
        )


def cgroups(subject: Subject) -> Iterator[Finding]:
    """The unified hierarchy needs a Docker that knows it."""
    version = subject.photo.at("runtime.docker.version") or subject.desired.release.versions.docker
    if subject.photo.at("os.cgroup") == "v2" and _numbers(str(version)) < (20, 10):
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
    """What pods need from the kernel is there, loaded, built in or on disk."""
    modules = subject.photo.at("modules") or {}
    missing = [name for name in ASKED_MODULES if name not in (modules.get("loaded") or ())]
    if missing and not modules.get("available"):
        yield subject.error(
            "kernel",
            f"neither loaded nor on disk: {', '.join(missing)} "
            f"(kernel {subject.photo.at('os.kernel')})",
            f"the modules of kernel {subject.photo.at('os.kernel')}",
            "reboot into an installed kernel: " + subject.ssh("ls /lib/modules"),
        )


def python(subject: Subject) -> Iterator[Finding]:
    """Ansible's modules need it."""
    seen = str(subject.photo.at("os.python") or "0")
    if _numbers(seen) < (3, 8):
        yield subject.error(
            "python",
            f"Python {seen}",
            "Python 3.8 or newer",
            "set ssh.python in site.yml to a newer one",
        )


def leftovers(subject: Subject) -> Iterator[Finding]:
    """A pod network of an earlier cluster keeps its addresses and breaks the new one."""
    if subject.is_ours or subject.photo.at("kubernetes.manifests"):
        return
    links = sorted(set(subject.photo.at("cni.interfaces") or ()) - {"docker0"})
    if links:
        yield subject.error(
            "leftovers",
            f"the links {', '.join(links)} of an earlier cluster",
            "no pod network yet",
            subject.ssh("'" + "; ".join(f"sudo ip link delete {link}" for link in links) + "'"),
        )


def foreign_cni(subject: Subject) -> Iterator[Finding]:
    """The kubelet takes the network whose file name comes first."""
    files = [name for name in subject.photo.at("cni.conf") or () if name != OUR_NETWORK]
    files = [name for name in files if name.endswith((".conf", ".conflist", ".json"))]
    if not files or not subject.node.in_cluster:
        return
    finding = subject.error if files[0] < OUR_NETWORK else subject.warning
    yield finding(
        "foreign_cni",
        f"the pod network /etc/cni/net.d/{shlex.quote(files[0])}",
        "none but flannel's",
        subject.ssh(f"sudo rm /etc/cni/net.d/{shlex.quote(files[0])}"),
    )


def kubelet_version(subject: Subject) -> Iterator[Finding]:
    """An install never changes the version of a running member."""
    wanted = subject.desired.kubernetes_version
    for program in ("kubelet", "kubeadm"):
        seen = subject.photo.at(f"kubernetes.{program}_version")
        if seen in (None, wanted):
            continue
        if subject.is_ours:
            yield subject.error(
                "kubelet_version",
                f"{program} {seen} on a member of the cluster",
                f"{wanted}, the release's",
                "an install never changes a running version, and no command upgrades a cluster "
                "yet: in site.yml, appliance_release of the version that runs",
            )
        else:
            yield subject.info(
                "kubelet_version",
                f"{program} {seen}",
                f"{wanted}: the install replaces it",
                "nothing to do",
            )


def swap(subject: Subject) -> Iterator[Finding]:
    """The kubelet does not start with swap on."""
    active = subject.photo.at("swap.active") or []
    if active:
        yield subject.info(
            "swap",
            f"swap on {', '.join(active)}",
            "none: the install turns it off for good",
            "nothing to do",
        )


def updates(subject: Subject) -> Iterator[Finding]:
    """Automatic updates are kept off kernel, driver, Docker and Kubernetes by the install."""
    if subject.photo.at("packages.unattended_upgrades.enabled"):
        yield subject.info(
            "updates",
            "unattended-upgrades enabled",
            "kept off kernel, driver, Docker and Kubernetes packages: the install does it",
            "nothing to do",
        )


def nouveau(subject: Subject) -> Iterator[Finding]:
    """It keeps NVIDIA's driver from the GPUs; the step gpu removes it."""
    if "nouveau" in (subject.photo.at("modules.loaded") or ()):
        yield subject.info(
            "nouveau",
            "the nouveau driver loaded",
            "NVIDIA's driver, later: the step gpu sees to it",
            "nothing to do",
        )


def failed_units(subject: Subject) -> Iterator[Finding]:
    """Somebody should look at units that failed before we came."""
    failed = subject.photo.at("systemd.failed") or []
    if failed:
        yield subject.warning(
            "failed_units",
            f"failed units: {', '.join(failed[:5])}",
            "none",
            subject.ssh(f"systemctl status {shlex.quote(failed[0])}"),
        )
