#!/usr/bin/python
"""Ansible module: remove half-written files of an interrupted kubeadm before the next run."""

from __future__ import annotations

import base64
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from ansible.module_utils.appliance_mounts import require_local
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: kubeadm_leftovers
short_description: Remove unusable files of an interrupted kubeadm
description:
  - kubeadm uses every complete file that it finds and fails on a truncated one. This removes
    truncated or unpaired certificates, keys and kubeconfigs that can be created again.
  - A CA or service account key can be created again only where no etcd data depends on it. With
    C(init) and without etcd data, everything kubeadm made is removed with it; with etcd data this
    fails.
  - With C(join) the cluster has the originals, so only what is broken is removed.
  - Nothing is removed where a kubeconfig names another cluster's API, or anything is mounted.
options:
  endpoint: {description: HOST:PORT by which members reach the cluster's API, type: str,
    required: true}
  before: {description: The next action, type: str, choices: [init, join], required: true}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Clear the way
  kubeadm_leftovers:
    before: init
    endpoint: k8s.example.com:6443
"""

RETURN = r"""
removed: {description: What was removed, type: list, elements: str, returned: always}
"""

ORIGINALS = ("ca", "front-proxy-ca", "etcd/ca")
LEAVES = (
    "apiserver",
    "apiserver-kubelet-client",
    "apiserver-etcd-client",
    "front-proxy-client",
    "etcd/server",
    "etcd/peer",
    "etcd/healthcheck-client",
)
KUBECONFIGS = (
    "admin.conf",
    "controller-manager.conf",
    "scheduler.conf",
    "kubelet.conf",
    "bootstrap-kubelet.conf",
)
# The others point to a control-plane node's own API server, in any cluster.
OF_MEMBERS = ("admin.conf", "kubelet.conf", "bootstrap-kubelet.conf")
SERVER = re.compile(r"^\s*server:\s*[\"']?([^\s\"']+)", re.MULTILINE)
DATA = re.compile(r"^\s*[a-z-]+-data: ?(\S*)$", re.MULTILINE)
CREDENTIAL = re.compile(r"^\s*(client-key-data|client-key|token): ?\S+$", re.MULTILINE)


def is_whole_kubeconfig(text):
    """Return whether a kubeconfig of kubeadm is complete."""
    if "kind: Config" not in text or not CREDENTIAL.search(text):
        return False
    for encoded in DATA.findall(text):
        try:
            decoded = base64.b64decode(encoded, validate=True)
        except ValueError:
            return False
        if not decoded.rstrip().endswith(b"-----"):
            return False
    return True


def _host(server):
    """Return the host of a URL in lower case, or None."""
    try:
        return urlsplit(server).hostname
    except ValueError:
        return None


class Leftovers:
    """The files below /etc/kubernetes."""

    def __init__(self, root, run):
        self._root = root
        self.home = root / "etc/kubernetes"
        self._pki = self.home / "pki"
        self._run = run

    def strange_servers(self, endpoint):
        """Return the API servers of another cluster in a member's kubeconfigs."""
        host = endpoint.rpartition(":")[0].lower()
        texts = [
            (self.home / name).read_text(errors="replace")
            for name in OF_MEMBERS
            if (self.home / name).is_file()
        ]
        found = {server for text in texts for server in SERVER.findall(text)}
        return sorted(server for server in found if _host(server) != host)

    def has_etcd_data(self):
        """Return whether an etcd member has data here."""
        return (self._root / "var/lib/etcd/member").is_dir()

    def _public(self, path, *command):
        """Return the public key in a file, or None when it is incomplete."""
        if not path.is_file():
            return None
        rc, out, _ = self._run(["openssl", *command, "-in", str(path)])
        return out.strip() if rc == 0 and out.strip() else None

    def _pair(self, name, public, *command):
        """Return the files of an incomplete or mismatched pair."""
        key, other = self._pki / (name + ".key"), self._pki / (name + public)
        here = [path for path in (key, other) if path.exists()]
        if not here:
            return []
        known = self._public(key, "pkey", "-pubout")
        fits = known is not None and known == self._public(other, *command)
        return [] if fits else here

    def broken_originals(self):
        """Return the files of incomplete pairs of CAs and service account keys."""
        found = self._pair("sa", ".pub", "pkey", "-pubin", "-pubout")
        for name in ORIGINALS:
            found += self._pair(name, ".crt", "x509", "-noout", "-pubkey")
        return found

    def broken_ca_certificate(self):
        """Return the CA's certificate when it is truncated; a worker has no key for it."""
        path = self._pki / "ca.crt"
        whole = self._public(path, "x509", "-noout", "-pubkey")
        return [path] if path.exists() and whole is None else []

    def broken_copies(self):
        """Return the files that can be created from the originals."""
        found = []
        for name in LEAVES:
            found += self._pair(name, ".crt", "x509", "-noout", "-pubkey")
        for name in KUBECONFIGS:
            path = self.home / name
            if path.is_file() and not is_whole_kubeconfig(path.read_text(errors="replace")):
                found.append(path)
        return found

    def everything(self):
        """Return all files that kubeadm made."""
        paths = [self._pki, self.home / "manifests", self._root / "var/lib/kubelet/pki"]
        paths += [self.home / name for name in KUBECONFIGS]
        return [path for path in paths if path.exists()]


def judge(leftovers, before, endpoint):
    """Return (what to remove, why that is refused or None)."""
    paths, refusal = to_remove(leftovers, before)
    strange = leftovers.strange_servers(endpoint) if paths else []
    if strange:
        return [], (
            "%s: incomplete files of kubeadm, but the kubeconfigs here point to %s, expected %s: "
            "this is a member of another cluster. Nothing was changed"
            % (", ".join(map(str, paths)), ", ".join(strange), endpoint)
        )
    return paths, refusal


def to_remove(leftovers, before):
    """Return (what to remove, why that is refused or None), if this machine is ours."""
    copies = leftovers.broken_copies()
    if before == "join":
        return copies + leftovers.broken_ca_certificate(), None
    originals = leftovers.broken_originals()
    if not originals:
        return copies, None
    if leftovers.has_etcd_data():
        names = ", ".join(str(path) for path in originals)
        return [], (
            "%s: an incomplete pair, and etcd data that may depend on it is in /var/lib/etcd. "
            "Nothing was changed. Restore the keys from a backup; or, if this cluster may be lost, "
            "empty the node and install again" % names
        )
    return leftovers.everything(), None


def remove(path):
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    else:
        path.unlink()


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "endpoint": {"type": "str", "required": True},
            "before": {"type": "str", "choices": ["init", "join"], "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Path(module.params["root"])
    leftovers = Leftovers(root, runner(module))
    try:
        paths, refusal = judge(leftovers, module.params["before"], module.params["endpoint"])
        if refusal:
            module.fail_json(msg=refusal, removed=[])
        if not module.check_mode:
            require_local(root, [path for path in paths if path.is_dir() and not path.is_symlink()])
            for path in paths:
                remove(path)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error), removed=[])
    module.exit_json(changed=bool(paths), removed=[str(path) for path in paths])


if __name__ == "__main__":
    main()
