"""Evidence that this machine is the node to empty, read from the machine itself.

The role's caller has judged by the probe's facts of a moment ago (model/node/ownership.py). That
is not enough to delete anything: the code that deletes checks again here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from urllib.parse import urlsplit

ARGUMENTS = {
    "node_name": {"type": "str", "required": True},
    "machine_id": {"type": "str", "required": True},
    "api_hosts": {"type": "list", "elements": "str", "required": True},
    "ca_sha256": {"type": "str", "default": ""},
    "vouched": {
        "type": "str",
        "choices": ["", "ca", "serial", "machine", "removal", "operator"],
        "default": "",
    },
    "root": {"type": "path", "default": "/"},
}
# The others point to a control-plane node's own API server, in any cluster.
KUBECONFIGS = ("kubelet.conf", "bootstrap-kubelet.conf", "admin.conf")
MARK = "var/lib/appliance/node-reset.json"
PEM_BODY = re.compile(r"-----BEGIN CERTIFICATE-----\s*(.*?)\s*-----END CERTIFICATE-----", re.DOTALL)
SERVER = re.compile(r"^\s*server:\s*[\"']?([^\s\"']+)", re.MULTILINE)


def text_of(path):
    """Return a file's text, or None where there is no file; an unreadable file is an error."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


class Evidence:
    """The machine's own evidence."""

    def __init__(self, root):
        self._home = root / "etc/kubernetes"
        self._etcd = root / "var/lib/etcd"
        self._mark = root / MARK
        self.machine_id = (text_of(root / "etc/machine-id") or "").strip()
        self.hostname = os.uname().nodename

    def servers(self):
        """Return the API servers in the kubeconfigs."""
        texts = [text_of(self._home / name) or "" for name in KUBECONFIGS]
        return sorted({server for text in texts for server in SERVER.findall(text)})

    def ca(self):
        """Return the sha256 of the cluster's CA; None without a file, "" for one without PEM."""
        text = text_of(self._home / "pki/ca.crt")
        if text is None:
            return None
        match = PEM_BODY.search(text)
        try:
            return hashlib.sha256(base64.b64decode(match.group(1))).hexdigest() if match else ""
        except ValueError:
            return ""

    def has_etcd_data(self):
        """Return whether there is anything in etcd's folder."""
        return self._etcd.is_dir() and any(self._etcd.iterdir())

    def traces(self):
        """Return whether any file still shows whose member this is or was."""
        names = (*KUBECONFIGS, "pki", "manifests")
        return self.has_etcd_data() or any((self._home / name).exists() for name in names)

    def begun(self):
        """Return (node, CA) of an unfinished reset of ours, or (None, None)."""
        try:
            found = json.loads(text_of(self._mark) or "")
            return str(found["node"]), str(found["ca_sha256"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return None, None

    def begin(self, node, ca):
        """Record whose member is emptied, because the evidence is removed first."""
        self._mark.parent.mkdir(parents=True, exist_ok=True)
        new = self._mark.with_name(self._mark.name + ".new")
        with new.open("w", encoding="utf-8") as stream:
            json.dump({"node": node, "ca_sha256": ca}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(self._mark)

    def end(self):
        """Remove the record; return whether there was one."""
        there = self._mark.exists()
        if there:
            self._mark.unlink()
        return there


def host_of(server):
    """Return the host of a URL in lower case, or None."""
    try:
        return urlsplit(server).hostname
    except ValueError:
        return None


def refusal(evidence, want):
    """Return why this machine is not emptied, or None where it is verified to be the node."""
    who = "the machine %s" % evidence.hostname
    if not want["machine_id"] or evidence.machine_id != want["machine_id"]:
        return "%s has the machine-id %s, expected %s, that of the probed machine" % (
            who,
            evidence.machine_id or "none",
            want["machine_id"] or "none (it is not known)",
        )
    own, ca, etcd = want["ca_sha256"], evidence.ca(), evidence.has_etcd_data()
    strange = [one for one in evidence.servers() if host_of(one) not in want["api_hosts"]]
    theirs = ca is not None and own and ca != own
    if etcd and (theirs or strange):
        return "%s has etcd data of another cluster (%s): this role never empties it" % (
            who,
            ", ".join(strange) or "another CA",
        )
    if strange and want["vouched"] != "operator":
        return "%s is a member of another cluster: its kubeconfig points to %s, expected %s" % (
            who,
            ", ".join(strange),
            " or ".join(want["api_hosts"]),
        )
    if own and (ca == own or (ca is None and evidence.begun() == (want["node_name"], own))):
        return None
    accepted = ("removal", "operator") if etcd else ("serial", "machine", "removal", "operator")
    if want["vouched"] in accepted:
        return None
    return "%s: nothing on it shows that it is %s: its cluster's CA is %s, expected %s%s" % (
        who,
        want["node_name"],
        "absent" if ca is None else ca[:16] or "not readable",
        own[:16] or "unknown",
        ", and it has etcd data" if etcd else "",
    )
