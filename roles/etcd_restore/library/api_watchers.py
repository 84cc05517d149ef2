#!/usr/bin/python
"""Ansible module: nothing on this node watches the API by a revision of before a restore."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: api_watchers
short_description: Restart what watches the API, once for each restore
description:
  - A restored etcd counts its revisions from the snapshot on. A client that watches from a later
    revision is told of no change until the count has passed it, and says nothing of that.
  - Restarts the kubelet, and ends the programs in pods that hold a connection to the API and were
    started before. The kubelet starts them again; pods that are not restarted always stay.
options:
  restore: {description: The word for this restore, type: str, required: true}
  servers: {description: ADDRESS:PORT at which the API answers, type: list, elements: str,
    required: true}
  pods: {description: uids of the pods whose containers may be restarted, type: list, elements: str,
    required: true}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Let every program watch from now on
  api_watchers:
    restore: 2b7f-20260101T000000Z
    servers: [198.51.100.11:6443]
    pods: [0a2f3c1e-5d0b-4b44-9a5e-0c2f5f0d4a11]
"""

RETURN = r"""
ended: {description: The programs that were ended, type: list, elements: str, returned: always}
"""

RESTORES = "var/lib/appliance/restore"
KEY = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,150}\Z")
POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
ESTABLISHED = "01"
GRACE_SECONDS = 10


class Watchers:
    """The programs of this node's pods that talk to the API."""

    def __init__(self, servers, pods, proc="/proc"):
        self._servers = set(servers)
        self._pods = set(pods)
        self._proc = Path(proc)
        self._networks = {}

    def found(self):
        """Return {pid of a container's first program: its name}."""
        talking = {}
        for entry in sorted(self._proc.glob("[0-9]*"), key=lambda path: int(path.name)):
            with contextlib.suppress(OSError, ValueError, IndexError):
                uid = self._pod(entry)
                if uid in self._pods and self._talks(entry):
                    pid = self._first_of_container(int(entry.name))
                    talking[pid] = self._name(pid)
        return talking

    def _pod(self, entry):
        match = POD.search((entry / "cgroup").read_text())
        return match.group(1).replace("_", "-") if match else ""

    def _name(self, pid):
        return (self._proc / str(pid) / "comm").read_text().strip()

    def _namespace(self, pid, kind):
        return os.readlink(str(self._proc / str(pid) / "ns" / kind))  # noqa: PTH115  (Python 3.8)

    def _first_of_container(self, pid):
        """Return the ancestor that is the first of the same container."""
        own = self._namespace(pid, "pid")
        while True:
            words = (self._proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
            parent = int(words[1])
            if parent <= 1 or self._namespace(parent, "pid") != own:
                return pid
            pid = parent

    def _talks(self, entry):
        sockets = self._sockets(entry)
        for handle in (entry / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.readlink(str(handle)) in sockets:  # noqa: PTH115  (Python 3.8)
                    return True
        return False

    def _sockets(self, entry):
        """Return the sockets to the API in the process's network, read once for each network."""
        network = self._namespace(entry.name, "net")
        if network not in self._networks:
            found = set()
            for name in ("tcp", "tcp6"):
                with contextlib.suppress(OSError):
                    for line in (entry / "net" / name).read_text().splitlines()[1:]:
                        words = line.split()
                        if words[3] == ESTABLISHED and address(words[2]) in self._servers:
                            found.add("socket:[%s]" % words[9])
            self._networks[network] = found
        return self._networks[network]


def address(word):
    """Return ADDRESS:PORT of IPv4, as /proc/net/tcp and tcp6 write it."""
    host, _, port = word.partition(":")
    # IPv4 in IPv6 has its four bytes at the end; each group of four is in the machine's order.
    last = bytes.fromhex(host[-8:])[::-1]
    return "%d.%d.%d.%d:%d" % (*last, int(port, 16))


def end(pids, kill=os.kill, sleep=time.sleep, alive=lambda pid: Path("/proc/%d" % pid).exists()):
    """Ask programs to end, and kill those that do not within their grace."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGTERM)
    for _ in range(GRACE_SECONDS * 5):
        if not any(alive(pid) for pid in pids):
            return
        sleep(0.2)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "restore": {"type": "str", "required": True},
            "servers": {"type": "list", "elements": "str", "required": True},
            "pods": {"type": "list", "elements": "str", "required": True},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params = module.params
    if not KEY.match(params["restore"]):
        module.fail_json(msg="no word for a restore: %r" % params["restore"])
    folder = Path(params["root"]) / RESTORES / params["restore"]
    mark = folder / "watchers.json"
    try:
        if mark.exists():
            module.exit_json(changed=False, ended=[])
        found = Watchers(params["servers"], params["pods"]).found()
        if not module.check_mode:
            rc, out, err = run(["systemctl", "restart", "kubelet"])
            if rc != 0:
                module.fail_json(msg="the kubelet did not restart: %s" % (err or out).strip())
            end(sorted(found))
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(mark, json.dumps({"ended": sorted(found.values())}), 0o600)
    except (OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, ended=sorted(found.values()))


if __name__ == "__main__":
    main()
