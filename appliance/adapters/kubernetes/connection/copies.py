"""Tests the copies of the administrator's kubeconfig: one request with each file's credentials.

A copy is read, never written. Of a file that the tool did not write nothing leaves its node.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from appliance.adapters.kubernetes.connection.client import (
    MOST_BYTES,
    ApiRefused,
    ApiSilent,
    Credentials,
    NotReadable,
    call,
    credentials_of,
)
from appliance.adapters.kubernetes.connection.connection import ApiConnection
from appliance.adapters.ssh.call import last_line
from appliance.adapters.ssh.tunnel import NotTaken
from appliance.errors import NodeUnreachable
from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
from appliance.model.site.settings import Node, Site

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes

SECONDS: Final = 20
STAMPS: Final = "/var/lib/appliance/kubeconfigs"
# The digest that role kubeadm_control_plane writes down (module operator_kubeconfig) tells whether
# the file is the tool's. Empty: another's, or none.
_SCRIPT: Final = """path={home}/.kube/config
stamp={stamps}/{user}.sha256
[ -f "$path" ] && [ -f "$stamp" ] || exit 0
[ "$(sha256sum <"$path" | cut -d' ' -f1)" = "$(cat "$stamp")" ] || exit 0
head -c {most} "$path"
"""


def script_of(user: str, stamps: str = STAMPS, home: str = "") -> str:
    """The script, for root's shell, that prints the user's copy if the tool wrote it.

    Args:
        user: the login user; the shell knows the home folder of each name.
        stamps: the folder of the digests.
        home: the home folder, where it is not that one.
    """
    quoted = shlex.quote(user)
    where = shlex.quote(home) if home else f"~{quoted}"
    return _SCRIPT.format(home=where, user=quoted, stamps=stamps, most=MOST_BYTES + 1)


class KubeconfigCopies(ApiConnection):
    """The copies of one site: of the login user on each node, and of this machine."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        super().__init__(site, nodes)

    def test(self, asked: Sequence[Node]) -> tuple[KubeconfigCopy, ...]:
        """One answer for each copy; a node that cannot be reached is a problem of its copy.

        Args:
            asked: control-plane nodes with a copy; this machine's is tested by the first that
                accepts it.
        """
        return (*(self._of_login_user(node) for node in asked), self._of_this_machine(asked))

    def _of_login_user(self, node: Node) -> KubeconfigCopy:
        place = f"{node.name}:~{self.site.settings.ssh.user}/.kube/config"
        try:
            answer = self.nodes.run_as_root(
                node, script_of(self.site.settings.ssh.user), timeout=SECONDS
            )
            if answer.code != 0:
                return KubeconfigCopy(place, last_line(answer.errors) or f"exit {answer.code}")
            if not answer.output:
                return KubeconfigCopy(place, is_ours=False)
            self._ask(node, credentials_of(answer.output))
        except NodeUnreachable as error:
            return KubeconfigCopy(place, error.message, may_pass=True)
        except NotReadable as error:
            return KubeconfigCopy(place, str(error), may_pass=_may_pass(error))
        return KubeconfigCopy(place)

    def _of_this_machine(self, asked: Sequence[Node]) -> KubeconfigCopy:
        path = self.site.state_directory / "kubeconfig"
        problem, passing = "no control-plane node was asked", False
        try:
            credentials = credentials_of(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not a text"
            return KubeconfigCopy(str(path), f"it cannot be read: {reason}")
        except NotReadable as error:
            return KubeconfigCopy(str(path), str(error))
        for node in asked:
            try:
                self._ask(node, credentials)
            except NodeUnreachable as error:
                problem, passing = error.message, True
            except NotReadable as error:
                problem, passing = f"{node.name}: {error}", passing or _may_pass(error)
            else:
                return KubeconfigCopy(str(path))
        return KubeconfigCopy(str(path), problem, may_pass=passing)

    def _ask(self, node: Node, credentials: Credentials) -> None:
        """Ask for what only an administrator is told.

        Raises:
            NotReadable: the API does not accept them, or does not answer.
        """
        from kubernetes.client import CoreV1Api

        with self.client_of(node, credentials) as client:
            call(CoreV1Api(client).list_node, limit=1)


def _may_pass(error: NotReadable) -> bool:
    """Whether a server that starts would be no better: it is no fault of the file."""
    if isinstance(error, ApiRefused):
        return not error.is_final
    return isinstance(error, ApiSilent) or isinstance(error.__cause__, NotTaken)
