"""The first login to an installed server: only with the host key that its installer reported."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from appliance.adapters.ssh.trust import known_hosts
from appliance.adapters.ssh.trust.host_keys import host_keys
from appliance.errors import Refused

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site


class HostKeyContact:
    """Compares host keys, and writes the one that is right into the site's ``known_hosts``.

    Args:
        site: whose file, port and jump host are used.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        # Many servers come up at once, and there is one file.
        self._lock = threading.Lock()

    def meet(self, node: Node, host_key: str) -> str:
        """Whether the server shows this key; empty when it does, else why it was not asked.

        Raises:
            Refused: it shows another ed25519 key.
        """
        import paramiko

        found = host_keys(self._site, [node.name])[node.name]
        if isinstance(found, str):
            return found
        kind, _, blob = host_key.partition(" ")
        if found.get_name() != kind:
            return f"it offers a {found.get_name()} key first, expected {kind}"
        if found.get_base64() != blob:
            expected = paramiko.PKey.from_type_string(kind, _bytes(blob))
            raise Refused(
                f"{node.name}: shows the host key {known_hosts.fingerprint(found)}, its installer "
                f"reported {known_hosts.fingerprint(expected)}",
                hint="another machine may have its address, or somebody answers in its place: "
                "compare on its console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub",
            )
        port = self._site.settings.ssh.port
        with self._lock:
            known_hosts.forget(self._site.known_hosts, node.ip, port)
            known_hosts.append(self._site.known_hosts, {(node.ip, port): found})
        return ""


def _bytes(blob: str) -> bytes:
    import base64

    return base64.b64decode(blob)
