#!/usr/bin/python
"""Ansible module: fetch many files from the site's artifact server, each verified by digest."""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: bundle_files
short_description: Fetch files of the bundle by digest
description:
  - A file that already has the digest and the mode is kept; any other is fetched under another
    name, verified, and renamed, so that no reader ever sees half of it.
  - Files are fetched in parallel, over TLS verified with the site's CA, never through a proxy.
  - Every file that failed is named, not only the first.
options:
  url: {description: Address of the artifact server, type: str, required: true}
  ca_path: {description: The CA that signed its certificate, type: path, required: true}
  files:
    description: What to fetch.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: Path below the address, type: str, required: true}
      dest: {description: Absolute path on this node, type: path, required: true}
      sha256: {description: Its digest, type: str, required: true}
      mode: {description: Its mode, type: str, default: "0755"}
  at_once: {description: How many are fetched at a time, type: int, default: 4}
  timeout_seconds: {description: How long to wait for an answer, type: int, default: 30}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Install the node's Kubernetes programs
  bundle_files:
    url: https://artifacts.rack.example:9443
    ca_path: /etc/appliance/ca.crt
    files:
      - {path: bin/kubelet, dest: /usr/local/bin/kubelet, sha256: "{{ digest }}"}
"""

RETURN = r"""
fetched: {description: The files that were fetched, type: list, elements: str, returned: always}
"""

BLOCK = 1 << 20


def digest(path):
    """Return the sha256 of a file, or None when it does not exist."""
    found = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(BLOCK), b""):
                found.update(block)
    except FileNotFoundError:
        return None
    return found.hexdigest()


def is_right(entry):
    """Return whether a file exists with its digest and mode."""
    path = Path(entry["dest"])
    if path.is_symlink() or digest(path) != entry["sha256"]:
        return False
    return path.stat().st_mode & 0o7777 == int(entry["mode"], 8)


class Server:
    """The site's artifact server."""

    def __init__(self, url, ca_path, timeout_seconds):
        self._url = url.rstrip("/")
        self._timeout = timeout_seconds
        context = ssl.create_default_context(cafile=ca_path)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def fetch(self, entry):
        """Fetch one file; return what went wrong, or None."""
        dest = Path(entry["dest"])
        dest.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        handle, new = tempfile.mkstemp(prefix=".%s." % dest.name, dir=str(dest.parent))
        try:
            with os.fdopen(handle, "wb") as stream:
                found = self._copy(entry["path"], stream)
            if found != entry["sha256"]:
                return "%s: the server's file has sha256 %s, the bundle's manifest has %s" % (
                    entry["path"],
                    found,
                    entry["sha256"],
                )
            Path(new).chmod(int(entry["mode"], 8))
            Path(new).replace(dest)
        except (OSError, urllib.error.URLError) as error:
            return "%s from %s: %s" % (entry["path"], self._url, error)
        finally:
            if Path(new).exists():
                Path(new).unlink()
        return None

    def _copy(self, path, stream):
        found = hashlib.sha256()
        address = "%s/%s" % (self._url, path)
        with self._opener.open(address, timeout=self._timeout) as answer:
            for block in iter(lambda: answer.read(BLOCK), b""):
                found.update(block)
                stream.write(block)
        stream.flush()
        os.fsync(stream.fileno())
        return found.hexdigest()


def main():
    """Run the module."""
    entry = {
        "path": {"type": "str", "required": True},
        "dest": {"type": "path", "required": True},
        "sha256": {"type": "str", "required": True},
        "mode": {"type": "str", "default": "0755"},
    }
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "ca_path": {"type": "path", "required": True},
            "files": {"type": "list", "elements": "dict", "required": True, "options": entry},
            "at_once": {"type": "int", "default": 4},
            "timeout_seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    want = module.params
    with ThreadPoolExecutor(max_workers=want["at_once"]) as pool:
        checked = pool.map(lambda entry: None if is_right(entry) else entry, want["files"])
        wrong = [entry for entry in checked if entry]
        names = [entry["dest"] for entry in wrong]
        if module.check_mode or not wrong:
            module.exit_json(changed=bool(wrong), fetched=names)
        try:
            server = Server(want["url"], want["ca_path"], want["timeout_seconds"])
        except (OSError, ssl.SSLError) as error:
            module.fail_json(msg="%s is not a usable CA: %s" % (want["ca_path"], error))
        faults = [fault for fault in pool.map(server.fetch, wrong) if fault]
    if faults:
        module.fail_json(msg="; ".join(faults), fetched=[])
    module.exit_json(changed=True, fetched=names)


if __name__ == "__main__":
    main()
