"""Borders of nodes: probe documents, the archive, the lock, annotations, etcd, BMCs."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.adapters.ansible.playbooks import PlayEvents
from appliance.adapters.control_plane.archive import ControlPlaneArchive
from appliance.adapters.control_plane.etcd_members import EtcdMembers
from appliance.adapters.control_plane.journal import FileJournal
from appliance.adapters.control_plane.kept_documents import KeptDocuments
from appliance.adapters.hardware.redfish import judged
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.control.handover import handover
from appliance.model.control.lock import (
    Holder,
    LockVerdict,
    Origin,
    changed_meanwhile,
    judge,
    read_vote,
)
from appliance.model.node.baseline import Passport, differences
from appliance.model.node.membership import MemberRecord, Removal, kept_metadata, removed
from appliance.model.plan.planner import plan
from appliance.model.plan.play import Play
from appliance.model.state.facts.reader import NotFacts, check_facts, read_facts
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, away, maintenance_of
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.model.state.observed import Look, Observed
from appliance.workflows.node.baselines import read_passport
from appliance.workflows.session.member_records import read_records
from appliance.workflows.session.session import Session
from appliance.workflows.site.adopt import site_adopt
from tests import samples
from tests.fakes import RUN_A, RUN_B, FakeArchive, FakeJournal
from tests.fuzz.borders_files import RECORD
from tests.fuzz.campaign import SITE, Border
from tests.fuzz.mutation import Mutator
from tests.unit.facts.test_hostile_documents import CLUSTER, DESIRED, DOCUMENTS, GOOD, use

NAMES = tuple(DOCUMENTS)


def probe_document(mutator: Mutator, folder: Path) -> None:
    """One node's document, then everything that is done with facts."""
    del folder
    name = mutator.chance.choice(NAMES)
    if mutator.chance.random() < 0.1:
        facts = read_facts(mutator.text(DOCUMENTS[name]))
    else:
        facts = check_facts(mutator.data(DOCUMENTS[name]))
    use(name, facts)


SITE_OF_THREE = samples.site(masters=3)


class _Nodes(SshNodes):
    """Control-plane nodes that say one thing each."""

    def __init__(self, said: dict[str, str]) -> None:
        self.said = said

    def run_as_root(self, node: Any, *_words: Any, **_more: Any) -> Answer:
        return Answer(0, self.said[node.name], "")


class _Open(FakeJournal):
    def look(self) -> LockVerdict:
        return LockVerdict("open")


MEMBER = MemberRecord(
    "w1",
    Removal("ada@laptop", "2026-01-01T00:00:00+00:00", "broken", "SN-w1", "198.18.7.21"),
    NodeMetadata({"run.ai/type": "dgx"}, {"note": "x"}, ("a=b:NoSchedule",)),
)
PASSPORT = Passport("w1", {"machine": "SN-w1", "dimm:A1": "32 GiB"}, MEMBER.kept or NodeMetadata())
DOCUMENTS_KEPT = {
    "w1.json": json.loads(MEMBER.text()),
    "w2.json": json.loads(PASSPORT.text()),
    f"w1/{RUN_A}.json": {"document": {"schema": 1}, "received_at": 1.5},
    f"{RUN_A}-001.json": RECORD,
    f"{RUN_B}-001.json": {**RECORD, "run": RUN_B},
    "../../theirs": RECORD,
    "../../../evil-001.json": RECORD,
}


def archive(mutator: Mutator, folder: Path) -> None:
    """What a control-plane node says that it keeps: adopted, and read as members and passports."""
    chance = mutator.chance
    listing = b""
    for name in chance.sample(list(DOCUMENTS_KEPT), 3):
        text = mutator.text(DOCUMENTS_KEPT[name])
        listing += f"1700000000 {name}\n".encode() + base64.b64encode(text) + b"\n"
    said = {node.name: listing.decode() for node in SITE_OF_THREE.control_plane}
    liar = chance.choice(list(said))
    said[liar] = mutator.content(listing).decode("utf-8", "replace")
    kept = ControlPlaneArchive(SITE_OF_THREE, _Nodes(said))
    state = folder / SITE / ".appliance"
    session = Session(
        archive=kept,
        records=FileJournal(state / "journal"),
        documents=KeptDocuments(state),
        lock=_Open(),
    )
    adopted = site_adopt(session)
    json.dumps([*adopted.documents, *adopted.skipped]).encode()
    records = read_records(kept)
    removed(SITE_OF_THREE, records)
    kept_metadata(records)


def documents(mutator: Mutator, folder: Path) -> None:
    """One document of the archive: a member's record, a passport."""
    del folder
    record, passport = (
        mutator.text(DOCUMENTS_KEPT["w1.json"]),
        mutator.text(DOCUMENTS_KEPT["w2.json"]),
    )
    one = _One({"members/w1.json": record, "passports/w1.json": passport})
    records = read_records(one)
    removed(samples.site(), records)
    kept_metadata(records)
    found = read_passport(one, "w1")
    if found is not None:
        found.text().encode()
        differences(found, GOOD["w1"], CLUSTER.nodes["w1"])
    records.require()


class _One(FakeArchive):
    """An archive of some documents."""

    def __init__(self, documents: dict[str, bytes]) -> None:
        super().__init__()
        self.documents = {k: v.decode("utf-8", "replace") for k, v in documents.items()}


HOLDER = Holder(RUN_A, "install", "ada", "laptop", "a reason", "T", Origin())
LOCK = f"now boot 100.5\nholder {HOLDER.as_line()}beat boot 90.1\nlast {HOLDER.as_line()}left b 3\n"


def lock(mutator: Mutator, folder: Path) -> None:
    """What a control-plane node says of the site's lock."""
    del folder
    line = f"{RUN_B} ".encode() + mutator.text(json.loads(HOLDER.as_line().partition(" ")[2]))
    text = f"now boot 100.5\nholder {line.decode('utf-8', 'replace')}\nbeat boot 90.1\n"
    said = mutator.content((LOCK if mutator.chance.random() < 0.5 else text).encode())
    vote = read_vote(said.decode("utf-8", "replace"))
    votes = {"cp1": vote, "cp2": vote, "cp3": read_vote(LOCK)}
    verdict = judge(votes, RUN_B, lambda holder: holder.origin.pid > 0 and holder.host == "laptop")
    changed_meanwhile(votes, verdict.stale, HOLDER, 5.0)
    for holder in (verdict.rival, *verdict.stale.values()):
        if holder is not None:
            holder.sentence().encode()
    left = handover([], verdict)
    if left.unfinished is not None:
        " ".join(left.unfinished.words).encode()


MARK = Maintenance(
    run=RUN_A,
    by="ada",
    host="laptop",
    since="2026-01-01T00:00:00+00:00",
    mode="taint",
    phase="cordon",
    cordoned=True,
    tainted=True,
    reason="a DIMM",
    until="2026-01-02T00:00:00+00:00",
    photograph=f"maintenance/w1/{RUN_A}.json",
)


def annotation(mutator: Mutator, folder: Path) -> None:
    """The annotation of maintenance, which the node's own kubelet may write."""
    del folder
    text = mutator.text(json.loads(MARK.as_text())).decode("utf-8", "replace")
    mark = maintenance_of({ANNOTATION: text})
    if mark is not None:
        mark.sentence().encode()
        mark.overrun_seconds(1_800_000_000.0)
        json.loads(mark.as_text())
    if mutator.chance.random() < 0.05:
        nodes = dict(CLUSTER.nodes)
        nodes["w1"] = replace(nodes["w1"], annotations={ANNOTATION: text})
        observed = Observed(GOOD, replace(CLUSTER, nodes=nodes))
        away(observed.cluster)
        plan(DESIRED, observed, ())
        Look(observed.node_facts)


def etcd(mutator: Mutator, folder: Path) -> None:
    """The list of etcd's members, as a control-plane node hands it over."""
    del folder
    member = {"ID": "42", "name": "cp1", "peerURLs": ["https://a:2380"], "healthy": True}
    said = mutator.text({"header": {}, "members": [member, {**member, "isLearner": True}]})
    nodes = _Nodes({"cp1": said.decode("utf-8", "replace")})
    for found in EtcdMembers(nodes, "python3").members(SITE_OF_THREE.control_plane[0]):
        json.dumps(vars(found)).encode()


UUID = "4c4c4544-0042-3510-8051-b4c04f4d3732"


class _System:
    def __init__(self, serial: Any, uuid: Any, state: Any) -> None:
        self.serial_number, self.uuid, self.power_state = serial, uuid, state


def bmc(mutator: Mutator, folder: Path) -> None:
    """What a BMC says of its system."""
    del folder
    said = mutator.data({"serial": "SN-1", "uuid": UUID, "state": "Off"})
    fields = said if isinstance(said, dict) else {}
    system = _System(fields.get("serial"), fields.get("uuid"), fields.get("state"))
    report = judged(system, "Off")
    json.dumps(vars(report)).encode()
    report.machine.words().encode()


FAILED = {
    "failed": True,
    "rc": 2,
    "msg": "Error executing command.",
    "cmd": ["rsync", "it's"],
    "stderr": "bash: rsync: command not found",
    "results": [{"failed": True, "msg": "x", "cmd": "ls '"}, {"failed": False}],
    "_ansible_delegated_vars": {"ansible_connection": "local"},
}


def failed_task(mutator: Mutator, folder: Path) -> None:
    """The result of a module on a node, as Ansible hands it on, and the play's error of it."""
    events = PlayEvents(lambda *_: None)
    for host, kind in (("w1", "runner_on_ok"), ("w2", "runner_on_failed")):
        data = {"host": host, "task": "a task", "res": mutator.data(FAILED)}
        events({"event": kind, "event_data": data})
    error = events.failure(Play(RUN_A, "install", ("w2",), {}), folder / "log", "failed")
    for line in (error.message, error.hint or "", *error.details):
        line.encode("utf-8", "surrogatepass")
        assert len(line) < 2000


NODES: tuple[Border, ...] = (
    Border("probe document", probe_document, (NotFacts,)),
    Border("archive and adopt", archive),
    Border("kept documents", documents),
    Border("lock", lock, (ValueError,)),
    Border("maintenance", annotation),
    Border("etcd's members", etcd),
    Border("BMC", bmc),
    Border("failed task", failed_task),
)
