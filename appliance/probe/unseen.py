"""Map each answer to its facts, so that a missing answer makes exactly those facts unknown.

A negative answer is an observation. Without an answer, a fact is neither present nor absent.
``*`` stands for each entry of a list.
"""

from __future__ import annotations

from typing import Dict, Sequence, Tuple

_CLOCK = tuple("clock." + key for key in ("synchronised", "source", "stratum", "offset_seconds"))
_UNITS: Tuple[str, ...] = ("clock.service", "firewall.ufw_active", "firewall.firewalld_active")
_UNITS += ("firewall.nftables_active", "kubernetes.kubelet_active", "swap.units", "proxy.docker")
_DOCKER = ("version", "cgroup_driver", "cgroup_version", "storage_driver", "default_runtime")

_RULES = ("iptables_rules_foreign", "foreign_rules", "policies", "pod_guard")

# The key of an answer as in recordings, or its prefix -> paths in the document.
FEEDS: Dict[str, Sequence[str]] = {
    "apt-config-dump": ("packages.unattended_upgrades", "proxy.apt"),
    "chronyc-tracking": _CLOCK,
    "containerd-version": ("runtime.containerd.version",),
    "crictl-images": ("runtime.docker.images_only_here",),
    "dmidecode-17": ("memory.dimms", "memory.dimm_slots"),
    "docker-containers": (
        "runtime.docker.containers_foreign",
        "runtime.docker.containers_of_pods",
        "runtime.docker.foreign_running",
    ),
    "docker-du": ("runtime.docker.data_bytes",),
    "docker-images": ("runtime.docker.images",),
    "docker-info": tuple("runtime.docker." + key for key in (*_DOCKER, "containers_running")),
    "ip-address": ("nics", "cni.interfaces", "neighbours.conflicts"),
    "ip-neighbour": ("neighbours.table",),
    "ip-route": ("routes",),
    "iptables-save": tuple(
        "firewall." + key
        for key in ("iptables_rules_foreign", "foreign_rules", "policies", "pod_guard")
    ),
    "kubeadm-version": ("kubernetes.kubeadm_version",),
    "kubectl-version": ("kubernetes.kubectl_version",),
    "kubelet-version": ("kubernetes.kubelet_version",),
    "lsblk": ("disks",),
    "nvidia-smi": ("gpus.*.uuid", "gpus.*.ecc_uncorrected"),
    "openssl-pkey-etc-kubernetes": ("kubernetes.pki.*.key_matches",),
    "openssl-pkey-var-lib-kubelet": ("kubernetes.pki.*.key_matches",),
    "openssl-x509-etc-appliance-ca.crt": ("trust.site_ca_not_after",),
    "openssl-x509-etc-appliance-runai": ("runai.certificate",),
    "openssl-x509-etc-kubernetes": ("kubernetes.pki.*.not_after",),
    "openssl-x509-kubeconfig": ("kubernetes.kubeconfigs.*.not_after",),
    "openssl-x509-var-lib-kubelet": ("kubernetes.pki.*.not_after",),
    "openssl": ("certificates",),
    "systemctl-failed": ("systemd.failed",),
    "systemctl-manager": ("systemd.state", "systemd.version"),
    "systemctl-show": ("services", "jobs", "timers", *_UNITS, *_CLOCK),
    "systemd-detect-virt": ("hypervisor",),
}


def fed_by(key: str, section: str) -> Tuple[str, ...]:
    """Return the facts that come from an answer; its whole section if it is not in the table."""
    known = [name for name in FEEDS if key.startswith(name)]
    return tuple(FEEDS[max(known, key=len)]) if known else (section,)
