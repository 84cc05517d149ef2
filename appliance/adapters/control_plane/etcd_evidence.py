"""What etcd says of itself before an upgrade or a backup, and a snapshot that was restored once.

Both go through etcd's gateway on each control-plane node, by the node's own Python. What must not
be here: whether that is good enough (:mod:`appliance.model.upgrade.gates`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.local.content import find_content_root
from appliance.adapters.ssh.node_modules import started
from appliance.errors import ApplianceError, ClusterError
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.site.recovery.etcd_restore import EtcdRestore
from appliance.model.upgrade.evidence import EtcdStatus, Silence, SnapshotProof

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

# As playbooks/module_utils/appliance_etcd_folder has it.
SNAPSHOTS: Final = "/var/lib/appliance/etcd-snapshots"
STATUS_SECONDS: Final = 30
# The snapshot itself, and reading its file, come before the restore.
SNAPSHOT_SECONDS: Final = 300
MOST_BYTES: Final = 1 << 20
_WORD: Final = re.compile(r"[\x21-\x7e]{1,300}")
_REASON: Final = re.compile(r"[a-z][a-z-]{0,30}")
_FILE: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,100}\.db")
# In the order in which they need one another.
MODULES: Final = (
    "appliance_files",
    "appliance_programs",
    "appliance_etcd_file",
    "appliance_etcd_folder",
    "appliance_etcd_snapshot",
    "appliance_listeners",
    "appliance_etcd_trial",
    "appliance_etcd_proof",
)
STATUS: Final = """
import http.client, json, ssl, sys
PKI = "/etc/kubernetes/pki/"

def ask(path, body=None):
    context = ssl.create_default_context(cafile=PKI + "etcd/ca.crt")
    context.load_cert_chain(PKI + "apiserver-etcd-client.crt", PKI + "apiserver-etcd-client.key")
    line = http.client.HTTPSConnection("127.0.0.1", 2379, context=context, timeout=8)
    try:
        line.request("POST" if body else "GET", path, body=body)
        answer = line.getresponse()
        return json.loads(answer.read(1 << 18) or b"{}")
    finally:
        line.close()

try:
    found = {"status": ask("/v3/maintenance/status", "{}"), "health": ask("/health")}
    found["alarms"] = ask("/v3/maintenance/alarm", '{"action": "GET"}')
    json.dump(found, sys.stdout)
except (OSError, ValueError, http.client.HTTPException) as error:
    sys.exit("etcd does not answer: %s" % error)
"""


class EtcdEvidence:
    """Asks the etcd of one site.

    Args:
        nodes: SSH to the control plane.
        python: the interpreter on the nodes.
        restore: what a restore of a snapshot may take.
    """

    def __init__(self, nodes: SshNodes, python: str, restore: EtcdRestore | None = None) -> None:
        self._nodes = nodes
        self._python = python
        self._restore = restore or EtcdRestore()

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        """What each member says, all asked at once; a member without an answer is left out."""
        with ThreadPoolExecutor(9) as pool:
            answers = list(pool.map(self._status, asked))
        found = tuple(one for one in answers if isinstance(one, EtcdStatus))
        silent = [str(one) for one in answers if not isinstance(one, EtcdStatus)]
        return found if found or not silent else Silence("; ".join(silent))

    def _status(self, node: Node) -> EtcdStatus | str:
        command = shlex.join((self._python, "-"))
        try:
            answer = self._nodes.run_as_root(
                node, command, stdin=STATUS.encode(), timeout=STATUS_SECONDS
            )
            if answer.code != 0:
                return f"{node.name}: {answer.errors.strip() or 'etcd could not be asked'}"
            return _status_of(node.name, answer.output)
        except ApplianceError as error:
            return error.message
        except (Unreadable, ValueError, LookupError, TypeError) as error:
            return f"{node.name}: etcd's answer is not readable: {error}"

    def keeps(self, node: Node, path: str) -> bool | Silence:
        """Whether a snapshot is on a node still, and not empty.

        Args:
            node: a control-plane node.
            path: of the file; it comes from an annotation, so one elsewhere is no snapshot.
        """
        folder, _, name = path.rpartition("/")
        if folder != SNAPSHOTS or not _FILE.fullmatch(name):
            return False
        command = shlex.join(("test", "-s", path))
        try:
            answer = self._nodes.run_as_root(node, command, timeout=STATUS_SECONDS)
        except ApplianceError as error:
            return Silence(error.message)
        if answer.code in (0, 1):
            return answer.code == 0
        return Silence(f"{node.name}: {answer.errors.strip()[-300:] or 'no answer'}")

    def prove(self, node: Node, reason: str, keep: Sequence[str] = ()) -> SnapshotProof:
        """Save a snapshot on a node, and restore it once there.

        Args:
            node: a control-plane node with a healthy etcd.
            reason: a word for the name of the file.
            keep: names of older snapshots that make no room for it; another form is left out, as
                the names come from an annotation.

        Raises:
            ClusterError: there is none, or it was not shown to be restorable.
            ValueError: the reason is no word.
        """
        if not _REASON.fullmatch(reason):
            raise ValueError(f"no word for a snapshot: {reason!r}")
        kept = [name for name in keep if _FILE.fullmatch(name)]
        folder = find_content_root() / "playbooks/module_utils"
        sources = [(name, (folder / f"{name}.py").read_text()) for name in MODULES]
        limits = self._restore
        bounds = (str(limits.seconds), str(limits.memory_mb))
        words = (self._python, "-", reason, *bounds, *kept)
        answer = self._nodes.run_as_root(
            node,
            shlex.join(words),
            stdin=started(sources),
            timeout=SNAPSHOT_SECONDS + 2 * limits.seconds,
        )
        try:
            found = read_json(answer.output, most_bytes=MOST_BYTES)
            if answer.code == 0 and isinstance(found, dict):
                return _proof_of(node.name, found)
            why = str(found["error"]) if isinstance(found, dict) else ""
        except (Unreadable, ValueError, LookupError, TypeError):
            why = (answer.errors or answer.output).strip()[-300:]
        raise ClusterError(
            f"{node.name}: no snapshot of etcd was proved: {why or 'no answer'}",
            hint="see what is wrong: appliance status; where its restore needs more than "
            f"{limits.seconds} s or {limits.memory_mb} MiB: etcd_restore in site.yml (seconds, "
            "memory_mb); then run the same command again",
        )


def _status_of(node: str, output: str) -> EtcdStatus:
    document = read_json(output, most_bytes=MOST_BYTES)
    if not isinstance(document, dict):
        raise TypeError("no object")
    status, header = _mapping(document["status"]), _mapping(_mapping(document["status"])["header"])
    version = str(status["version"])
    if not _WORD.fullmatch(version):
        raise ValueError("no version")
    own = int(header["member_id"])
    leader = int(status.get("leader", 0))
    return EtcdStatus(
        node=node,
        healthy=str(_mapping(document["health"]).get("health")) == "true",
        member=f"{own:x}",
        leader=f"{leader:x}" if leader else "",
        revision=int(header["revision"]),
        version=version,
        size_bytes=int(status.get("dbSize", 0)),
        alarms=_alarms(_mapping(document["alarms"]), own),
        learner=status.get("isLearner") is True,
    )


def _alarms(answer: Mapping[str, Any], own: int) -> tuple[str, ...]:
    """The alarms that this member raised: every member lists those of all."""
    listed = [_mapping(one) for one in answer.get("alarms", [])]
    return tuple(str(one.get("alarm")) for one in listed if int(one.get("memberID", 0)) == own)


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a part of it is no object")
    return value


def _proof_of(node: str, found: Mapping[str, Any]) -> SnapshotProof:
    texts = [str(found[key]) for key in ("path", "sha256", "digest")]
    if not all(_WORD.fullmatch(text) for text in texts):
        raise ValueError("a text is not readable")
    path, sha256, digest = texts
    return SnapshotProof(
        node=node,
        path=path,
        sha256=sha256,
        size_bytes=int(found["size_bytes"]),
        revision=int(found["revision"]),
        keys=int(found["keys"]),
        digest=digest,
        etcd_version=str(found.get("etcd_version", "")),
        restore_seconds=float(found.get("restore_seconds", 0)),
    )
