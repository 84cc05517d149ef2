#!/usr/bin/python
"""Ansible module: take from this node what the product put there, and nothing else."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_firewall import without_rules
from ansible.module_utils.appliance_mounts import below, mounts_of, require_local
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.bare_files import block_of, is_there, names_in, small_text
from ansible.module_utils.bare_places import FOLDERS, UNITS
from ansible.module_utils.bare_survey import (
    CA,
    ETC,
    EXPORT_MARKER,
    HOME,
    SWAP,
    Survey,
)
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: node_bare
short_description: Take from a node what this product put there
description:
  - Purges the packages that the product brought by its own record, and removes its files, its lines
    in files of others, its units, and the links and firewall rules of the Docker that it brought.
  - Refuses another machine, a machine with another site's CA, and one that is still a member.
  - A container, volume or package of others that needs a package of ours keeps it; it is named.
  - Data stay, unless O(lose_data) is set. Documents and lock of the site stay, unless O(forget) is.
  - Run it once kubeadm undid its work (role node_reset).
  - Nothing is deleted on network storage, or on a file system mounted below a folder.
options:
  machine_id: {description: Machine-id of the probed machine, type: str, required: true}
  ca_certificate: {description: The site's CA as PEM, type: str, required: true}
  export: {description: The folder of shared storage that this node serves, type: str, default: ""}
  lose_data: {description: Whether data go too, type: bool, default: false}
  forget: {description: Whether documents and lock of the site go too, type: bool, default: false}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Take the appliance away
  node_bare:
    machine_id: 0123456789abcdef0123456789abcdef
    ca_certificate: "{{ ca }}"
"""

RETURN = r"""
removed: {description: What was removed, type: list, elements: str, returned: always}
"""

# Purging stops services, and a registry has millions of small files.
PROGRAM_SECONDS = 1800
LOCK_SECONDS = 120
MEMBER = ("etc/kubernetes", "var/lib/etcd", "var/lib/kubelet")
DOCKER_UNITS = ("docker.socket", "docker.service")
DOCKER_LINK = "docker0"
SLICE = "kubepods.slice"
DOCKER_RUN = "/run/docker"
# Debian's purge of docker.io runs it. It unmounts whatever begins with /var/lib/docker, also
# /var/lib/docker-registry: it goes before the purge, and its folder is emptied here.
UNMOUNTS = "var/lib/docker/nuke-graph-directory.sh"
OWN_CHAIN = re.compile(r"-A DOCKER")
OURS = re.compile(
    r"^(?::DOCKER|-A DOCKER)|-[jg] DOCKER| -[io] docker0\b|POSTROUTING .*! -o docker0"
)
FIREWALLS = (
    ("iptables-nft-save", "iptables-nft-restore", None),
    ("iptables-legacy-save", "iptables-legacy-restore", "proc/net/ip_tables_names"),
)


class BareError(Exception):
    """Nothing more was removed; the text says why, and what to do."""


class Bare:
    """What is taken from this node, in its order; the evidence goes last.

    Args:
        root: the folder used as /.
        run: callable(argv, data=None) -> (rc, stdout, stderr).
        which: finds a program.
        want: the options of the module.
    """

    def __init__(self, root, run, which, want):
        self.root, self._run, self._which, self._want = Path(root), run, which, want
        self.removed = []

    def survey(self):
        """Look again: each act is planned from what is there."""
        return Survey(self.root, self._run, self._which, self._want["export"])

    def refusal(self):
        """Return why nothing may be removed here; empty where all of it may."""
        machine = (small_text(self.root / "etc/machine-id") or "").strip()
        if not machine or machine != self._want["machine_id"]:
            return "this machine has the machine-id %s, expected %s, that of the probed machine" % (
                machine or "none",
                self._want["machine_id"] or "none",
            )
        theirs = small_text(self.root / CA)
        if theirs is not None and "".join(theirs.split()) != "".join(
            self._want["ca_certificate"].split()
        ):
            return "/%s is the CA of another site: this machine is not this site's" % CA
        left = [name for name in MEMBER if self._is_member(name)]
        if left:
            return "this machine is still a member of a cluster: /%s is not empty" % left[0]
        return ""

    def _is_member(self, name):
        files = [n for n in names_in(self.root / name) if n != "config.json"]
        return bool(files)

    def carry_out(self):
        """Take everything away.

        Raises:
            BareError: something stopped it; the same command continues.
            OSError: likewise.
        """
        if self._want["forget"]:
            # The lock was given back before: whoever took it since is at work here.
            self.require_free()
        first = self.survey()
        # Without the site's CA nothing proves whose packages and folders these are.
        proved = bool(first.ca_sha256())
        if first.fault and proved:
            raise BareError("%s: repair or remove it" % first.fault)
        if proved:
            # The record and the CA go last, so that the next run can prove the same.
            self.units()
            self.packages(first)
            self.of_packages()
        self.lines()
        self.files()
        if self._want["lose_data"] and proved:
            self.data()
        self.own()
        if self._want["forget"]:
            self.forget()
        self.empty_folders()

    def units(self):
        """Stop our units before their files go."""
        for name in UNITS:
            _, active, _ = self._run(["systemctl", "is-active", name])
            _, enabled, _ = self._run(["systemctl", "is-enabled", name])
            if active.strip() in ("active", "activating") or enabled.strip() == "enabled":
                self._call("systemctl", "disable", "--now", name)
                self.removed.append("unit %s" % name)

        # The kubelet's groups of pods, which are empty by now; their parent ends all of them.
        if self._run(["systemctl", "is-active", SLICE])[1].strip() == "active":
            self._call("systemctl", "stop", SLICE)
            self.removed.append("unit %s" % SLICE)

    def packages(self, survey):
        """Purge what we brought, unless something of others needs it."""
        held = survey.held()
        if held:
            self._call("apt-mark", "unhold", *held)
            self.removed.append("hold of %s" % ", ".join(held))
        names = self._free(survey.packages())
        if not names:
            return
        if {"docker.io", "docker-ce"} & set(names):
            self.end_docker()
        if "docker.io" in names:
            self._call(*self._apt("remove", "docker.io"))
            self._remove(UNMOUNTS)
        self._call(*self._apt("purge", *names))
        self.removed.append("packages %s" % ", ".join(names))
        left = sorted(set(names) & set(self.survey().installed))
        if left:
            raise BareError("apt purged them, but dpkg still has %s" % ", ".join(left))

    def _apt(self, *words):
        options = ("DPkg::Lock::Timeout=%d" % LOCK_SECONDS, "APT::Get::AutomaticRemove=false")
        return (
            ["apt-get", "-q", "-y", "--allow-change-held-packages"]
            + [part for option in options for part in ("-o", option)]
            + list(words)
        )

    def _free(self, names):
        """Return those whose removal takes no package of others with it."""
        if not names or not self._with(names) - set(names):
            return names
        wanted, free = set(names), []
        for name in names:
            # Together: something of others may need either of two.
            if not self._with([*free, name]) - wanted:
                free.append(name)
        return free

    def _with(self, names):
        out = self._call(*self._apt("-s", "purge", *names))
        # What apt would install instead is none of ours either.
        return set(re.findall(r"^(?:Purg|Remv|Inst) ([^ :]+)", out, re.MULTILINE))

    def of_packages(self):
        """Remove what packages left behind that are purged."""
        for name in self.survey().of_packages():
            self._remove(name)

    def end_docker(self):
        """Stop the Docker that we brought; what it made goes while iptables is there, too."""
        for unit in DOCKER_UNITS:
            self._run(["systemctl", "stop", unit])
        if is_there(self.root / "sys/class/net" / DOCKER_LINK):
            self._call("ip", "link", "delete", DOCKER_LINK)
            self.removed.append("link %s" % DOCKER_LINK)
        for path in sorted(one for one, _ in mounts_of(self.root) if below(one, DOCKER_RUN)):
            self._call("umount", "--no-canonicalize", path)
            self.removed.append("mount %s" % path)
        for save, restore, tables in FIREWALLS:
            if not self._which(save) or not self._in_use(tables):
                continue
            told, dropped = without_rules(self._call(save), OURS, OWN_CHAIN)
            if dropped:
                self._call(restore, "--noflush", "--wait=5", data=told)
                self.removed.append("%d rules of Docker" % dropped)

    def _in_use(self, tables):
        return tables is None or bool((small_text(self.root / tables) or "").strip())

    def lines(self):
        """Take our lines out of files of others."""
        found = self.survey().lines()
        if "etc/hosts" in found:
            path = self.root / "etc/hosts"
            lines = path.read_text(errors="surrogateescape").splitlines(keepends=True)
            begin, end = block_of("".join(lines).splitlines())
            # In a container it is a bind mount, which no rename takes.
            self._put("".join(lines[:begin] + lines[end + 1 :]), path)
        if "etc/fstab" in found:
            path = self.root / "etc/fstab"
            lines = path.read_text(errors="surrogateescape").splitlines(keepends=True)
            kept = [line[len(SWAP) :] if line.startswith(SWAP) else line for line in lines]
            self._put("".join(kept), path)

    def _put(self, text, path):
        if os.path.ismount(str(path)):
            with path.open("w", errors="surrogateescape") as stream:
                stream.write(text)
        else:
            write(path, text)
        self.removed.append("lines of ours in /%s" % path.relative_to(self.root))

    def files(self):
        """Remove our files and programs."""
        found = self.survey().files()
        for name in found:
            self._remove(name)
        if any(name.startswith("etc/systemd/") for name in found):
            self._call("systemctl", "daemon-reload")

    def data(self):
        """Remove data that no install makes again; of an export, its content."""
        for name, _ in self.survey().data():
            self._remove(name, keep=name == self._want["export"].lstrip("/"))

    def own(self):
        """Empty our two folders; the evidence goes last."""
        survey = self.survey()
        for name in (*survey.own(), *survey.evidence()):
            self._remove(name)

    def require_free(self):
        """Require that no command holds the site.

        Raises:
            BareError: one does.
        """
        if (small_text(self.root / HOME / "lock/holder") or "").strip():
            raise BareError("a command holds this site (/%s/lock/holder)" % HOME)

    def forget(self):
        """Remove the site's documents and lock, unless a command holds the site.

        Raises:
            BareError: one does.
        """
        lock = self.root / HOME / "lock"
        if lock.is_dir():
            with (lock / "guard").open("a") as guard:
                fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.require_free()
                self._remove(HOME + "/archive")
                self._remove(HOME + "/lock")
        self._remove(HOME + "/archive")

    def empty_folders(self):
        """Remove folders of ours that are empty now."""
        for name in (*FOLDERS, ETC + "/registry", ETC + "/tls", ETC, HOME):
            path = self.root / name
            plain = path.is_dir() and not path.is_symlink() and not names_in(path)
            if plain and not os.path.ismount(str(path)):
                path.rmdir()

    def _remove(self, name, keep=False):
        """Remove a file, or a folder with its content on its own file system."""
        path = self.root / name
        if not is_there(path):
            return
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            self.removed.append("/" + name)
            return
        real = str(path.resolve())
        if real != str(self.root.resolve() / name):
            raise BareError("/%s lies behind a link: empty it by hand" % name)
        own = [one for one, _ in mounts_of(self.root) if below(one, real)]
        if own:
            raise BareError("%s is mounted below /%s: unmount it first" % (own[0], name))
        require_local(self.root, [path])
        keep = keep or os.path.ismount(str(path))
        # In an export the marker goes last: it is the evidence for what is beside it.
        inside = sorted(names_in(path), key=lambda one: one == EXPORT_MARKER)
        paths = [str(path / one) for one in inside] if keep else [str(path)]
        for one in paths:
            self._call("rm", "--recursive", "--force", "--one-file-system", "--", one)
        if paths:
            self.removed.append("/" + name)

    def _call(self, *command, **more):
        rc, out, err = self._run(list(command), **more)
        if rc != 0:
            raise BareError("%s: %s" % (" ".join(command)[:300], (err or out).strip()[-500:]))
        return out


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "machine_id": {"type": "str", "required": True},
            "ca_certificate": {"type": "str", "required": True},
            "export": {"type": "str", "default": ""},
            "lose_data": {"type": "bool", "default": False},
            "forget": {"type": "bool", "default": False},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    want = module.params
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    bare = Bare(want["root"], runner(module, PROGRAM_SECONDS), shutil.which, want)
    why = bare.refusal()
    if why:
        module.fail_json(msg="%s. Nothing was removed" % why, removed=[])
    if module.check_mode:
        try:
            document = bare.survey().document()
        except OSError as error:
            module.fail_json(msg="%s. Nothing was removed" % error, removed=[])
        names = [*document["packages"], *document["files"], *document["own"]]
        module.exit_json(changed=bool(names), removed=names)
    try:
        bare.carry_out()
    except (BareError, OSError) as error:
        module.fail_json(
            msg="%s. Removed before: %s. Run the same command again"
            % (error, ", ".join(bare.removed)[:2000] or "nothing"),
            removed=bare.removed,
        )
    module.exit_json(changed=bool(bare.removed), removed=bare.removed)


if __name__ == "__main__":
    main()
