#!/usr/bin/python
"""Ansible module: a Docker that runs nothing any more is removed, with its data."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

from ansible.module_utils.appliance_mounts import require_local
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_removed
short_description: Remove an unused Docker and its data
description:
  - Removes the packages, and empties C(/var/lib/docker) and C(/var/lib/dockershim).
  - Refuses, before any change, a node whose kubelet is not on containerd, a Docker that runs or
    starts at boot, one with containers, volumes, plugins, keys or a swarm, one whose data is
    elsewhere, files in its folders that are not Docker's, and folders that are links or have
    something mounted below them.
  - Refuses images that neither containerd nor the registry of the site has, unless C(given_up)
    names them.
  - containerd, its data, and the configuration in C(/etc/docker) stay.
options:
  socket: {description: "containerd's socket, as unix://PATH", type: str, required: true}
  registry: {description: "The site's registry, as images name it", type: str, required: true}
  given_up: {description: Names of images that may be lost, type: list, elements: str, default: []}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove Docker
  docker_removed:
    socket: unix:///run/containerd/containerd.sock
    registry: registry.rack.example:5000
"""

RETURN = r"""
removed: {description: What was removed, type: list, elements: str, returned: always}
"""

# Deleting millions of small files.
PROGRAM_SECONDS = 1800
FLAGS = "var/lib/kubelet/kubeadm-flags.env"
DATA = "var/lib/docker"
FOLDERS = (DATA, "var/lib/dockershim")
UNITS = ("docker.service", "docker.socket")
TASKS = (
    "run/containerd/io.containerd.runtime.v2.task/moby",
    "run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
)
# What dockerd makes in its folder, of every version; anything else somebody has put there.
OWN = {
    DATA: frozenset(
        (
            *("aufs", "btrfs", "builder", "buildkit", "containerd", "containers", "devicemapper"),
            *("engine-id", "fuse-overlayfs", "image", "network", "overlay", "overlay2", "plugins"),
            *("rootless", "runtimes", "swarm", "tmp", "trust", "unused-mounts", "vfs", "volumes"),
            "zfs",
        )
    ),
    "var/lib/dockershim": frozenset(("sandbox",)),
}
# What tells dockerd where its data is, beside daemon.json.
ELSEWHERE = re.compile(
    r"(?<![\w-])(?:--data-root|--graph|--config-file|-g)(?:[= ]|$)", re.MULTILINE
)
UNTAGGED = "untagged"
# Folders of plugins that Docker makes where there is none.
STORES = ("storage", "tmp")
# Whoever uses Docker: each before what it needs.
PACKAGES = (
    *("docker-ce-rootless-extras", "docker-compose-plugin", "docker-buildx-plugin"),
    *("docker-ce", "docker-ce-cli", "docker.io"),
)


class RemoveError(Exception):
    """Something may use it still; the text says what, and what to do."""


class Leftovers:
    """What an unused Docker left on this node.

    Args:
        root: the folder used as /.
        run: callable(argv) -> (rc, stdout, stderr).
    """

    def __init__(self, root, run):
        self._root, self._run = Path(root), run
        self.removed = []

    def refusal(self, socket, registry="", given_up=()):
        """Return why nothing may be removed; empty where nothing uses it."""
        flags = self._root / FLAGS
        text = flags.read_text() if flags.is_file() else ""
        if "--container-runtime-endpoint=%s" % socket not in text.replace('"', " ").split():
            return "the kubelet of this node does not run on containerd (%s)" % flags
        for unit in UNITS:
            active = self._run(["systemctl", "is-active", unit])[1].strip()
            enabled = self._run(["systemctl", "is-enabled", unit])[1].strip()
            if active not in ("inactive", "failed", "unknown", "") or enabled == "enabled":
                return "%s runs or starts at boot: sudo systemctl disable --now %s" % (unit, unit)
        filled = [name for name in TASKS if self._inside(name)]
        if filled:
            return "containers of Docker run (/%s)" % filled[0]
        return self._held() or self._only_here(socket, registry, given_up)

    def _only_here(self, socket, registry, given_up):
        """Return which images would be lost; or empty."""
        try:
            names = self.images_only_here(socket, registry)
        except (ValueError, AttributeError, TypeError) as error:
            return "Docker's images cannot be compared with containerd's: %s" % error
        lost = [name for name in names if name not in given_up]
        if not lost:
            return ""
        return (
            "%d images are in Docker only (%s): move them (start Docker, push or save them), or "
            "give them up by name" % (len(lost), ", ".join(lost[:5]))
        )

    def images_only_here(self, socket, registry):
        """Return the names of images that neither containerd nor the site's registry has.

        Raises:
            ValueError: the images of one of the two cannot be read.
        """
        names = self._names()
        if not names:
            return []
        argv = ["crictl", "--runtime-endpoint", socket, "--image-endpoint", socket]
        there = {
            one["id"]
            for one in json.loads(self._call(*argv, "images", "--output", "json"))["images"]
        }
        left = set()
        for identity, known in names.items():
            ours = any(n.startswith(registry + "/") and "@sha256:" in n for n in known)
            if identity not in there and not (registry and ours):
                left.update([n for n in known if "@" not in n] or known or {UNTAGGED})
        return sorted(left)

    def _names(self):
        """Return identity -> tags and digests of each image in Docker's store."""
        found = {}
        for folder in self._inside(DATA + "/image"):
            for path in self._inside("%s/image/%s/imagedb/content/sha256" % (DATA, folder.name)):
                found.setdefault("sha256:" + path.name, set())
            listed = folder / "repositories.json"
            if listed.is_file():
                for references in json.loads(listed.read_text())["Repositories"].values():
                    for name, identity in references.items():
                        found.setdefault(identity, set()).add(name)
        return found

    def _held(self):
        """Return what of others is in Docker's data; or empty."""
        where = self._elsewhere()
        if where:
            return "Docker's data is not in /%s (%s): remove it by hand" % (DATA, where)
        containers = self._inside(DATA + "/containers")
        if containers:
            return "%d containers are in /%s/containers: remove them first" % (
                len(containers),
                DATA,
            )
        volumes = [path.name for path in self._inside(DATA + "/volumes") if path.is_dir()]
        if volumes:
            return "volumes are in /%s/volumes, first %s: move their data away first" % (
                DATA,
                volumes[0],
            )
        strange = [
            "/%s/%s" % (folder, path.name)
            for folder, own in OWN.items()
            for path in self._inside(folder)
            if path.name not in own
        ]
        if strange:
            return "%s is not of Docker: move it away first" % strange[0]
        plugins = [path for path in self._inside(DATA + "/plugins") if path.name not in STORES]
        if plugins or self._inside(DATA + "/swarm") or self._inside(DATA + "/trust"):
            what = "keys, or the state of Docker's swarm or plugins,"
            return "%s are in /%s: remove it by hand" % (what, DATA)
        return ""

    def _elsewhere(self):
        """Return what says that Docker's data is in another folder; or empty."""
        path = self._root / "etc/docker/daemon.json"
        text = path.read_text() if path.is_file() else ""
        try:
            document = json.loads(text or "{}")
            roots = [document[key] for key in ("data-root", "graph") if key in document]
        except (ValueError, TypeError):
            return "/etc/docker/daemon.json cannot be read"
        if any(str(root).rstrip("/") != "/" + DATA for root in roots):
            return "/etc/docker/daemon.json"
        options = self._root / "etc/default/docker"
        texts = {
            "systemctl cat docker.service": self._run(["systemctl", "cat", "docker.service"])[1],
            "/etc/default/docker": options.read_text() if options.is_file() else "",
        }
        for name, lines in texts.items():
            said = "\n".join(x for x in lines.splitlines() if not x.lstrip().startswith("#"))
            if ELSEWHERE.search(said):
                return name
        return ""

    def _inside(self, name):
        folder = self._root / name
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def packages(self, act):
        """Remove the packages that are installed; what depends on them stops it."""
        argv = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\\n"]
        _, out, _ = self._run([*argv, *PACKAGES])
        rows = (line.split() for line in out.splitlines())
        there = {row[0] for row in rows if row[-1] == "installed"}
        names = [name for name in PACKAGES if name in there]
        self.removed += ["package %s" % name for name in names]
        if names and act:
            self._call("apt-mark", "unhold", *names)
            self._call("dpkg", "--remove", *names)

    def folders(self):
        """Return the folders to empty; refuse those that lead elsewhere."""
        folders = [self._root / name for name in FOLDERS]
        linked = [path for path in folders if path.is_symlink()]
        if linked:
            raise RemoveError("%s is a link: empty what it names by hand" % linked[0])
        there = [path for path in folders if path.is_dir()]
        require_local(self._root, [path.resolve() for path in there])
        return there

    def data(self, act):
        """Empty the folders, each on its own file system."""
        for folder in self.folders():
            device = folder.stat().st_dev
            for path in sorted(folder.iterdir()):
                state = path.lstat()
                if stat.S_ISDIR(state.st_mode) and state.st_dev != device:
                    raise RemoveError("%s is on another file system than %s" % (path, folder))
                self.removed.append(str(path))
                if act:
                    self._call("rm", "--recursive", "--force", "--one-file-system", "--", str(path))

    def _call(self, *argv):
        rc, out, err = self._run(list(argv))
        if rc != 0:
            raise RemoveError("%s: %s" % (" ".join(argv[:3]), (err or out).strip()))
        return out


def remove(leftovers, want, act):
    """Remove everything, the data last: until it is gone, a second run goes on.

    Raises:
        RemoveError: nothing may be removed, or a part could not be.
    """
    why = leftovers.refusal(want["socket"], want["registry"], want["given_up"])
    if why:
        raise RemoveError("%s. Nothing was removed" % why)
    leftovers.folders()
    leftovers.packages(act)
    leftovers.data(act)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "str", "required": True},
            "registry": {"type": "str", "required": True},
            "given_up": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    leftovers = Leftovers(module.params["root"], runner(module, PROGRAM_SECONDS))
    try:
        remove(leftovers, module.params, not module.check_mode)
    except (RemoveError, OSError) as error:
        module.fail_json(
            msg="%s. Removed before: %s" % (error, ", ".join(leftovers.removed) or "nothing"),
            removed=leftovers.removed,
        )
    module.exit_json(changed=bool(leftovers.removed), removed=leftovers.removed)


if __name__ == "__main__":
    main()
