"""Run:ai's databases, restored by the Python of the node with kubectl and helm, over SSH.

A dump goes through this machine's memory in pieces; plain text never reaches its disk. What must
not be here: whether a database may be restored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

from appliance.adapters.backup.sources import MODULES as GATHERING
from appliance.adapters.backup.sources import (
    NODE_SECONDS,
    SILENCE_SECONDS,
    first_line,
    object_in,
    unreadable,
)
from appliance.adapters.ssh.node_modules import module_program
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.backup.names import plain_words
from appliance.model.backup.restoring.database_view import Connection, DatabaseView, Kept, read_view
from appliance.model.documents.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.backup.restoring.database_view import Dump
    from appliance.model.site.settings import Site

T = TypeVar("T")
MODULES: Final = (
    *GATHERING,
    "appliance_pods",
    "runai_upgrade/runai_rollouts",
    "runai_cluster/runai_backend_api",
    "appliance_backup_trial",
    "appliance_dump_text",
    "appliance_backup_database",
    "appliance_restore_database",
    "appliance_restore_writers",
    "appliance_restore_course",
)
# The agent of the cluster tries again after minutes when it was refused for a while.
CONNECTION_SECONDS: Final = 300
AGAIN: Final = "correct the cause, then run the same command again: it goes on"
_OF: Final = "Run:ai's databases"
_CHUNK: Final = 1 << 18


class NodeDatabases:
    """The databases of one site's Run:ai.

    Args:
        site: the site.
        nodes: SSH to its nodes.
        password: of the backend's user; empty: it is not known, and nobody logs in.
    """

    def __init__(self, site: Site, nodes: SshNodes, password: str) -> None:
        self._site, self._nodes = site, nodes
        self._node = site.vendor_node
        self._password = password

    def look(self, key: str, sums: Mapping[str, str]) -> DatabaseView:
        """What a restore is planned by; nothing changes.

        Raises:
            NodeUnreachable: the node does not answer, or not as it should.
        """
        answer = self._ask({"act": "look", "key": key, "names": list(sums), "sha256": dict(sums)})
        try:
            return read_view(answer)
        except Unreadable as error:
            raise self._deceives(error) from error

    def save(self, key: str, names: Sequence[str], backup: tuple[str, str]) -> Sequence[str]:
        """Dump the present state on the node; the paths."""
        name, sha256 = backup
        more = {"names": list(names), "backup": name, "file_sha256": sha256}
        want = {"act": "save", "key": key, **more}
        return self._act(
            want, lambda found: tuple(plain_words(str(one["path"])) for one in found["dumps"])
        )

    def load(self, key: str, dump: Dump, content: IO[bytes]) -> int:
        """Restore a dump beside its database, and compare it; how many rows it has."""
        counts = json.dumps(dict(dump.rows)).encode()
        told = {"size": dump.part.size, "sha256": dump.part.sha256, "rows_bytes": len(counts)}
        more = {"names": [dump.name], "same_form": dump.same_form}
        given = chain([counts], iter(lambda: content.read(_CHUNK), b""))
        want = {"act": "load", "key": key, **more, **told}
        return self._act(want, lambda found: int(found["rows"]), given)

    def swap(self, key: str, names: Sequence[str]) -> float:
        """Stop what writes, exchange the databases, start it again; seconds without Run:ai."""
        # The planner sees an open point until somebody logged in.
        confirms = not self._unchecked()
        want = {"act": "swap", "key": key, "names": list(names), "confirms": confirms}
        return self._act(want, lambda found: float(found["seconds"]))

    def check(self, key: str) -> Connection:
        """Log in, and wait until the backend sees the cluster."""
        runai = self._site.settings.runai
        why = self._unchecked()
        if why or runai is None:
            return Connection(why=why)
        login = {
            "domain": self._site.runai_domain,
            "username": runai.admin_user,
            "cluster": runai.cluster_name,
            "seconds": CONNECTION_SECONDS,
        }
        want = {"act": "check", "key": key, "login": login}
        return self._act(want, _connection, [self._password.encode()])

    def _unchecked(self) -> str:
        """Why nobody can log in; empty where somebody can."""
        runai = self._site.settings.runai
        if runai is not None and runai.cluster_values_file:
            return "a person connected the cluster: runai.cluster_values_file"
        return "" if self._password else "the vault has no vault_runai_admin_password"

    def end(self, key: str) -> Kept:
        """Let go of what earlier restores kept."""
        return self._act({"act": "end", "key": key}, _kept)

    def _act(
        self,
        want: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
        given: Iterable[bytes] = (),
    ) -> T:
        """Something that changes the node or the cluster; what its answer says.

        Raises:
            ClusterError: it failed, or the connection broke.
        """
        try:
            return read(self._ask(want, given))
        except NodeUnreachable as error:
            raise ClusterError(error.message, hint=AGAIN, details=error.details) from error
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(self._deceives(error).message, hint=AGAIN) from error

    def _ask(self, want: Mapping[str, Any], given: Iterable[bytes] = ()) -> dict[str, Any]:
        python = self._site.settings.ssh.python
        script, program = module_program(python, MODULES, [json.dumps(dict(want))])
        pieces = chain([program], given)
        how = {"silence": SILENCE_SECONDS, "seconds": NODE_SECONDS}
        with self._nodes.stream_as_root(self._node, script, pieces, **how) as answer:
            line, _ = first_line(self._node, answer)
        return object_in(self._node, line, _OF)

    def _deceives(self, why: object) -> NodeUnreachable:
        return unreadable(self._node, _OF, why)


def _connection(found: Mapping[str, Any]) -> Connection:
    said = plain_words(str(found["said"]), 100)
    return Connection(
        checked=True, said=said, shown=found["shown"] is True, projects=int(found["projects"])
    )


def _kept(found: Mapping[str, Any]) -> Kept:
    old = {plain_words(n, 100): plain_words(str(k), 100) for n, k in found["kept"].items()}
    return Kept(old, tuple(plain_words(str(one), 100) for one in found["removed"]))
