"""Words of kubectl, k0sctl, kubeadm and helm, and what does the same here.

A contract test runs every command of this table through the parser, and opens every page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_BACKUP: Final = "Did you mean: appliance cluster backup create"
_RESTORE: Final = "Did you mean: appliance cluster restore --help"
_RESET: Final = "Did you mean: appliance reset --dry-run"
_UPGRADE: Final = "Did you mean: appliance cluster upgrade --to RELEASE"
_CERTIFICATES: Final = "Did you mean: appliance cluster certificates renew"
_SUPPORT: Final = "Did you mean: appliance support bundle"
_SHELL: Final = "Did you mean: appliance node ssh NODE -- COMMAND"
_DRAIN: Final = "Did you mean: appliance node maintain NODE"
_CORDON: Final = "Did you mean: appliance node maintain NODE --mode cordon"
_REBOOT: Final = (
    "It is done by hand: appliance node maintain NODE, then appliance node ssh NODE -- sudo reboot"
)
_RETURN: Final = "Did you mean: appliance node return NODE"
_STATUS: Final = "Did you mean: appliance status"
_ADD: Final = "Did you mean: appliance node add NODE"
_REMOVE: Final = "Did you mean: appliance node remove NODE"
_PASSPORT: Final = "Did you mean: appliance node passport NODE"
_LOGS: Final = "Did you mean: appliance node logs NODE"
_CHECK: Final = "Did you mean: appliance site check"
_LAB_DOWN: Final = "Did you mean: appliance lab down"

# The words typed after ``appliance``, and the answer.
FOREIGN: Final[Mapping[str, str]] = {
    **dict.fromkeys(("drain", "node drain", "taint", "node taint"), _DRAIN),
    **dict.fromkeys(("cordon", "node cordon"), _CORDON),
    **dict.fromkeys(("uncordon", "node uncordon", "untaint", "node untaint"), _RETURN),
    **dict.fromkeys(("get", "nodes", "pods", "ls", "list", "top", "watch"), _STATUS),
    **dict.fromkeys(("node list", "node ls", "node get", "node status", "node top"), _STATUS),
    **dict.fromkeys(("describe", "node describe", "node show", "node inspect"), _PASSPORT),
    **dict.fromkeys(("join", "token", "scale", "node join", "node create"), _ADD),
    **dict.fromkeys(("delete", "rm", "node delete", "node rm", "node reset"), _REMOVE),
    **dict.fromkeys(("log", "logs", "dmesg", "journal", "node log", "node journal"), _LOGS),
    **dict.fromkeys(("exec", "shell", "ssh", "node exec", "node shell", "node login"), _SHELL),
    **dict.fromkeys(("uninstall", "rm-cluster", "site reset"), _RESET),
    **dict.fromkeys(("upgrade", "update", "rollout", "node upgrade"), _UPGRADE),
    "rollback": f"{_UPGRADE} --back NODE",
    "runai update": "Did you mean: appliance runai upgrade FILE",
    **dict.fromkeys(("backup", "etcd", "snapshot"), _BACKUP),
    **dict.fromkeys(("restore", "recover"), _RESTORE),
    **dict.fromkeys(("cert", "certs", "certificates", "renew"), _CERTIFICATES),
    **dict.fromkeys(("support-bundle", "must-gather", "debug"), _SUPPORT),
    **dict.fromkeys(("validate", "lint", "check", "site validate", "site lint"), _CHECK),
    **dict.fromkeys(("verify", "doctor", "diagnose", "test"), "Did you mean: appliance health"),
    **dict.fromkeys(("down", "destroy", "lab destroy", "lab delete", "lab stop"), _LAB_DOWN),
    "apply": "Did you mean: appliance install",
    "deploy": "Did you mean: appliance install",
    "resume": "Did you mean: appliance install",
    "preflight": "Did you mean: appliance install --dry-run",
    "diff": "Did you mean: appliance plan",
    "init": "Did you mean: appliance site init DIR, or for the cluster: appliance install",
    "create": "Did you mean: appliance site init DIR, or for the cluster: appliance install",
    "up": "Did you mean: appliance install, or for a rehearsal: appliance lab up",
    "config": "Did you mean: appliance site show, or for kubectl: appliance kubeconfig",
    "events": "Did you mean: appliance history",
    "version": "Did you mean: appliance --version",
    "help": "Did you mean: appliance --help, or for the pages: appliance docs",
    "man": "Did you mean: appliance docs",
    "doc": "Did you mean: appliance docs",
    "node replace": "Did you mean: appliance node add NODE --replace OLD",
    "node label": "Did you mean: appliance node role set NODE --role gpu",
    # Not --shutdown: a machine that is off does not come back by itself.
    "node reboot": _REBOOT,
    "node shutdown": "Did you mean: appliance node maintain NODE --shutdown",
    "runai install": "Did you mean: appliance install --only runai",
    "site create": "Did you mean: appliance site init DIR",
    "site new": "Did you mean: appliance site init DIR",
    "bundle create": "Did you mean: appliance bundle build DIR",
    "bundle check": "Did you mean: appliance bundle verify DIR",
    "bundle inspect": "Did you mean: appliance bundle show DIR",
    "bundle list": "Did you mean: appliance bundle show DIR",
    "lab create": "Did you mean: appliance lab up",
    "lab start": "Did you mean: appliance lab up",
    "lab list": "Did you mean: appliance lab status",
    "lab ssh": "Did you mean: appliance lab shell NODE",
    "lab exec": "Did you mean: appliance lab shell NODE",
}
