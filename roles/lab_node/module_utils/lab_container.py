"""One lab node: a container that boots systemd, and the identity it is given."""

from __future__ import annotations

import json
import socket
import time

from ansible.module_utils.lab_commands import (
    LABEL,
    CommandFailed,
    labelled,
    lines,
    podman,
    remove_container,
    succeeds,
)

# Runs inside the node with its identity on standard input; prints what it changed.
GIVE_IDENTITY = r"""
import json, os, pathlib, pwd, sys
identity = json.load(sys.stdin)
changed = []
def put(path, text, mode, owner=None):
    path = pathlib.Path(path)
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text)
    partial.chmod(mode)
    if owner:
        for each in (path.parent, partial):
            os.chown(each, owner.pw_uid, owner.pw_gid)
    partial.replace(path)
    changed.append(str(path))
owner = pwd.getpwnam(identity["user"])
home = pathlib.Path(owner.pw_dir)
(home / ".ssh").mkdir(mode=0o700, exist_ok=True)
put(home / ".ssh/authorized_keys", identity["public_key"].strip() + "\n", 0o600, owner)
for section, facts in identity["facts"].items():
    path = pathlib.Path("/etc/appliance-lab/facts", section + ".json")
    if not path.exists():
        put(path, json.dumps(facts, indent=1) + "\n", 0o644)
hosts = pathlib.Path("/etc/hosts")
if "127.0.1.1" not in hosts.read_text():
    with hosts.open("a") as handle:
        handle.write("127.0.1.1 %s\n" % identity["name"])
    changed.append("/etc/hosts")
print("\n".join(changed))
"""


def network_name(lab):
    """Name the podman network of a lab."""
    return "appliance-" + lab


def node_volumes(lab, chosen=()):
    """List the volumes of a lab, or of some of its nodes."""
    template = '{{index .Labels "' + LABEL + '"}} {{.Name}} {{index .Labels "' + LABEL + '-node"}}'
    mine = "label={0}={1}".format(LABEL, lab)
    found = labelled(lab, "volume", "ls", "--filter", mine, "--format", template)
    return [pair[0] for pair in found if not chosen or pair[-1] in chosen]


def networks_of(lab):
    """List the network of a lab, if there is one and it is marked as this lab's."""
    name = network_name(lab)
    template = '{{index .Labels "' + LABEL + '"}} {{.Name}}'
    if not succeeds("network", "exists", name):
        return []
    return [words[0] for words in labelled(lab, "network", "inspect", name, "--format", template)]


class LabNode:
    """One node as asked for, and what podman knows of it."""

    def __init__(self, node, params):
        self.name = node["name"]
        self.address = node["address"]
        self.facts = node.get("facts") or {}
        self.volumes = [{"path": path} for path in params["volumes"]]
        own = {volume["path"]: volume for volume in node.get("volumes") or []}
        self.volumes = [own.pop(volume["path"], volume) for volume in self.volumes]
        self.volumes += list(own.values())
        self.params = params
        self.host_key = None

    def state(self):
        """Ask podman: absent, running, or any of its words for something in between."""
        if not succeeds("container", "exists", self.name):
            return "absent"
        template = '{{.State.Status}} {{index .Config.Labels "' + LABEL + '"}}'
        status, lab = (
            lines("container", "inspect", self.name, "--format", template)[0] + " "
        ).split(" ")[:2]
        if lab != self.params["lab"]:
            raise CommandFailed(
                ["podman", "container", "inspect", self.name],
                1,
                "a container of this name is there and is not of lab {0}".format(
                    self.params["lab"]
                ),
            )
        return status

    def planned(self):
        """Say in check mode what would happen."""
        return "container {0} would be created or started".format(self.name)

    def ensure_running(self):
        """Create or start the container; recreate an incomplete one."""
        state = self.state()
        if state == "running":
            return []
        if state == "exited":
            podman("start", self.name)
            return ["container {0} started".format(self.name)]
        if state != "absent":
            remove_container(self.name)
        for volume in self.volumes:
            self.ensure_volume(volume)
        podman(*self.run_command())
        return ["container {0} created".format(self.name)]

    def volume_name(self, volume):
        """Name a volume after its node and path."""
        return self.name + volume["path"].replace("/", "-")

    def ensure_volume(self, volume):
        """Have one volume."""
        name = self.volume_name(volume)
        if not volume.get("size") and not succeeds("volume", "exists", name):
            labels = [LABEL + "=" + self.params["lab"], LABEL + "-node=" + self.name]
            podman("volume", "create", *["--label=" + label for label in labels], name)

    def mount_option(self, volume):
        """Mount a volume; one with a size is memory of that size, and empty after a restart."""
        if volume.get("size"):
            template = "--mount=type=tmpfs,destination={0},tmpfs-size={1},tmpfs-mode=0755"
            return template.format(volume["path"], volume["size"])
        return "--volume={0}:{1}".format(self.volume_name(volume), volume["path"])

    def run_command(self):
        """Compose the podman call that creates and starts the node."""
        gateway = self.params["subnet"].rsplit(".", 1)[0] + ".1"
        command = [
            "--runtime=runc",
            "run",
            "--detach",
            "--name",
            self.name,
            "--hostname",
            self.name,
        ]
        command += ["--label", LABEL + "=" + self.params["lab"], *self.params["run_options"]]
        # The gateway has no DNS server: lookups are refused at once and do not hang.
        command += ["--network", network_name(self.params["lab"]), "--ip", self.address]
        command += ["--dns", gateway]
        command += [self.mount_option(volume) for volume in self.volumes]
        return [*command, self.params["image"], "/sbin/init"]

    def settle(self, deadline):
        """Wait until systemd says running, give the node its identity, and wait for sshd."""
        self.wait_for_systemd(deadline)
        identity = {
            "name": self.name,
            "user": self.params["user"],
            "public_key": self.params["public_key"],
            "facts": self.facts,
        }
        changed = podman(
            "exec",
            "--interactive",
            self.name,
            "python3",
            "-c",
            GIVE_IDENTITY,
            data=json.dumps(identity),
        )
        self.host_key = self.wait_for_ssh(deadline)
        return ["{0}: {1} written".format(self.name, path) for path in changed.split()]

    def wait_for_systemd(self, deadline):
        """Poll the boot; a unit that failed is named."""
        command = "systemctl is-system-running || true"
        while True:
            state = podman("exec", self.name, "sh", "-c", command + " 2>&1").strip().splitlines()
            if state and state[-1] == "running":
                return
            if (state and state[-1] == "degraded") or time.monotonic() > deadline:
                failed = podman(
                    "exec", self.name, "systemctl", "--failed", "--plain", "--no-legend"
                )
                raise CommandFailed(
                    ["systemctl", "is-system-running", "on", self.name],
                    1,
                    " ".join(state) + "\n" + failed,
                )
            time.sleep(0.3)

    def wait_for_ssh(self, deadline):
        """Wait for sshd's banner as seen from this machine, then read the node's host key."""
        while True:
            try:
                with socket.create_connection((self.address, 22), timeout=2) as connection:
                    if connection.recv(4) == b"SSH-":
                        break
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise CommandFailed(
                    ["ssh", self.address], 1, "sshd of {0} does not answer".format(self.name)
                )
            time.sleep(0.2)
        key = podman("exec", self.name, "cat", "/etc/ssh/ssh_host_ed25519_key.pub")
        return " ".join(key.split()[:2])
