"""What this product puts on a machine, and what it never takes from one: names, and no code.

The survey beside it uses them. Python 3.8. What must not be here: a look at a machine.
"""

from __future__ import annotations

# Fixed paths that roles of ours write; in folders of others the name says whose it is.
FILES = (
    "etc/apt/apt.conf.d/52appliance-unattended-upgrades",
    "etc/apt/apt.conf.d/90appliance",
    "etc/crictl.yaml",
    "etc/dnsmasq.d/appliance.conf",
    "etc/exports.d/appliance.exports",
    "etc/keepalived/runai-address.conf",
    "etc/modules-load.d/appliance.conf",
    "etc/nginx/conf.d/appliance.conf",
    "etc/sysctl.d/90-appliance.conf",
    "etc/systemd/system/appliance-runai-address.service",
    "etc/systemd/system/appliance-timed-backup.service",
    "etc/systemd/system/appliance-timed-backup.timer",
    "etc/systemd/system/appliance-timed-certificates.service",
    "etc/systemd/system/appliance-timed-certificates.timer",
    "etc/systemd/system/docker-registry-tls.service",
    "etc/systemd/system/docker-registry.service.d/appliance.conf",
    "etc/systemd/system/kubelet.service",
    "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    "etc/systemd/system/kubelet.service.d/20-pod-guard.conf",
    "etc/systemd/system/nfs-server.service.d/appliance.conf",
    "etc/systemd/system/pod-guard.service",
    "opt/bin/flanneld",
    "usr/local/bin/crictl",
    "usr/local/bin/helm",
    "usr/local/bin/kubeadm",
    "usr/local/bin/kubectl",
    "usr/local/bin/kubelet",
    "usr/local/sbin/appliance-pod-guard",
    # The login for pulls; a node that never joined has nothing else there.
    "var/lib/kubelet/config.json",
)
# Of containernetworking/plugins, and flannel's.
PLUGINS = (
    *("bandwidth", "bridge", "dhcp", "dummy", "firewall", "flannel", "host-device", "host-local"),
    *("ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan"),
    "vrf",
)
PLUGIN_DIR = "opt/cni/bin"
# Removed where they are empty afterwards.
FOLDERS = (
    "etc/systemd/system/docker-registry.service.d",
    "etc/systemd/system/kubelet.service.d",
    "etc/systemd/system/nfs-server.service.d",
    PLUGIN_DIR,
    "opt/cni/net.d",
    "opt/cni",
    "etc/cni/net.d",
    "etc/cni",
    "etc/kubernetes",
    "etc/exports.d",
    "run/flannel",
    "var/backups/appliance",
    "var/lib/cni",
    "var/lib/dockershim",
    "var/lib/etcd",
    "var/lib/kubelet",
)
UNITS = (
    *("kubelet.service", "pod-guard.service", "appliance-runai-address.service"),
    "docker-registry-tls.service",
    # A run that is at work would go on, and write after everything went; its timer stops first.
    *("appliance-timed-backup.timer", "appliance-timed-certificates.timer"),
    *("appliance-timed-backup.service", "appliance-timed-certificates.service"),
)
# Where a timer keeps its backups, in a folder that the system shares.
TIMED_BACKUPS = "var/backups/appliance"
# What a package of ours alone could have put there: it goes once the package is purged.
OF_PACKAGES = {
    "chrony": ("etc/chrony", "etc/default/chrony", "var/lib/chrony"),
    "containerd": ("etc/containerd", "var/lib/containerd", "opt/containerd"),
    "containerd.io": ("etc/containerd", "var/lib/containerd", "opt/containerd"),
    "dnsmasq": ("etc/default/dnsmasq", "etc/dnsmasq.d"),
    "docker-ce": ("etc/docker", "var/lib/docker", "var/lib/dockershim"),
    "docker-registry": ("etc/docker/registry", "var/lib/docker-registry"),
    "docker.io": ("etc/docker", "var/lib/docker", "var/lib/dockershim"),
    "haproxy": ("etc/haproxy", "var/lib/haproxy"),
    "keepalived": ("etc/keepalived",),
    "nfs-ganesha": ("etc/ganesha", "var/lib/nfs/ganesha"),
    "nginx": ("etc/nginx",),
}
RUNTIMES = ("docker.io", "docker-ce", "containerd", "containerd.io")
# Where a restore moved etcd's data: every Secret of the cluster before.
ETCD_ASIDE = ("var/lib", "etcd.before-*")
# Folders in which others add what a package of ours serves; these names in them are no others'.
SERVED = {
    "nfs-kernel-server": (("etc/exports.d", ".exports", ("appliance.exports",)),),
    "nginx": (
        ("etc/nginx/conf.d", ".conf", ("appliance.conf",)),
        ("etc/nginx/sites-enabled", "", ("default",)),
    ),
}
EXPORTS = "etc/exports"
# As node remove leaves them: the driver, what it is built with, and what gives GPUs to containers.
DRIVER = ("*nvidia*", "cuda*", "libcuda*", "dkms", "linux-*", "datacenter-gpu-manager*")
# Without these nobody gets in, or nothing boots: never purged, whatever the record says.
VITAL = (
    *("apt", "bash", "cloud-init", "coreutils", "dash", "dpkg", "grub*", "ifupdown", "initramfs*"),
    *("init", "iproute2", "isc-dhcp-client", "kmod", "libc6", "libpam*", "login", "lvm2", "mdadm"),
    *("mount", "netplan*", "network-manager*", "openssh*", "passwd", "python3", "python3.[0-9]*"),
    *("python3-minimal", "shim*", "ssh", "sudo*", "systemd*", "ubuntu-minimal", "ubuntu-server*"),
    *("udev", "util-linux"),
)
