"""A rack of machines that are all new, and the commands that make a cluster of a backup of them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from appliance.errors import ApplianceError, PreflightFailed
from appliance.model.backup.new_machines import AUTHORITIES, Machine, claim_of
from appliance.model.backup.not_carried import VolumeData
from appliance.model.backup.record import EtcdMember, Manifest, Part
from appliance.model.backup.restore import RestoreOptions, RestorePlan
from appliance.model.backup.restoring.images import ImagesPlan
from appliance.model.site.settings import Node
from appliance.model.state.journal import Record, Run
from appliance.model.state.plan import Choice, Plan, Refusal
from appliance.workflows.cluster.restore import RestoreRequest, RestoreResult
from appliance.workflows.cluster.restoring.images import ImagesResult
from appliance.workflows.cluster.restoring.new_machines import (
    NewMachinesResult,
    NewMachinesSources,
    restore_new_machines,
)
from appliance.workflows.session.session import Session
from tests import samples
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.restore.rack import BACKUP, MANIFEST, RELEASES

KEY = claim_of(BACKUP)
DIGEST = json.dumps(
    {
        "kinds": {
            "configmaps": {"count": 3, "sha256": "a" * 64},
            "secrets": {"count": 2, "sha256": "b" * 64},
        },
        "not_carried": ["events", "nodes"],
        "unread": {},
    }
).encode()


def sum_of(name: str) -> str:
    """The sha256 that the backup has of an authority."""
    return f"{AUTHORITIES.index(name):064x}"


def backed_up(masters: int = 1, **changes: Any) -> Manifest:
    """A backup with authorities of every control-plane node."""
    names = [f"cp{number}" for number in range(1, masters + 1)]
    pki = [
        Part(f"control_plane/{node}/pki/{name}", sum_of(name), 9, node)
        for node in names
        for name in AUTHORITIES
    ]
    assert MANIFEST.etcd is not None
    members = tuple(
        EtcdMember(name, f"198.18.7.{10 + number}:2380", f"{number}")
        for number, name in enumerate(names, 1)
    )
    etcd = replace(MANIFEST.etcd, members=members)
    digest = Part("objects/digest.json", "d" * 64, len(DIGEST))
    parts = (*MANIFEST.parts, *pki, digest)
    return replace(MANIFEST, **{"parts": parts, "etcd": etcd, **changes})


class FakeFile:
    """A backup in memory."""

    sha256 = "c0" * 32

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def read(self, name: str, take: Callable[[IO[bytes]], None]) -> None:
        content = DIGEST if name == "objects/digest.json" else name.encode()
        take(io.BytesIO(content))


class OnceJournal(FakeJournal):
    """A journal that takes each record of a run once, as the real one."""

    def append(self, record: Record) -> None:
        if record.file_name in {one.file_name for one in self.records}:
            raise FileExistsError(record.file_name)
        super().append(record)


class Killed(BaseException):
    """The process ended there."""


@dataclass
class NewRack:
    """Machines and commands in one; ``kill_at`` ends the process before that many acts."""

    masters: int = 1
    kill_at: int = -1
    done: list[str] = field(default_factory=list)
    acts: dict[str, set[str]] = field(default_factory=dict)
    traces: dict[str, tuple[str, ...]] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    authorities: dict[str, str] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    journal: FakeJournal = field(default_factory=OnceJournal)
    now: bytes = DIGEST
    restored: int = 0
    runs: int = 0
    kept: bool = False
    made_with: dict[str, str] = field(default_factory=dict)
    images_fault: ApplianceError | None = None

    def __post_init__(self) -> None:
        self.rack = FakeRack(samples.desired(samples.site(self.masters, 1)))
        self.site = self.rack.desired.site
        self.annotated: dict[str, dict[str, str | None]] = {}
        self.rack.annotate = self._annotate  # type: ignore[method-assign]

    def happens(self, what: str) -> None:
        if self.kill_at == 0:
            raise Killed(what)
        self.kill_at -= 1
        self.done.append(what)

    # -- machines ---------------------------------------------------------------------------

    def look(self, asked: Sequence[Node], key: str) -> Mapping[str, Machine | str]:
        assert key == KEY
        return {node.name: self._machine(node.name) for node in asked}

    def _machine(self, name: str) -> Machine | str:
        if name in self.silent:
            return f"{name}: no answer"
        authorities = self.authorities if name == "cp1" else {}
        acts = tuple(sorted(self.acts.get(name, ())))
        return Machine(acts, self.traces.get(name, ()), authorities)

    def act(self, nodes: Sequence[Node], key: str, act: str) -> None:
        assert key == KEY
        for node in nodes:
            if act not in self.acts.get(node.name, ()):
                self.happens(f"{act} {node.name}")
                self.acts.setdefault(node.name, set()).add(act)

    def give_authorities(self, node: Node, key: str, contents: Mapping[str, bytes]) -> None:
        assert (key, set(contents)) == (KEY, set(AUTHORITIES))
        assert contents["sa.key"] == f"control_plane/{node.name}/pki/sa.key".encode()
        assert "claim" in self.acts[node.name]
        if "pki" not in self.acts[node.name]:
            self.happens(f"authorities {node.name}")
            self.acts[node.name].add("pki")
            self.authorities = {name: sum_of(name) for name in AUTHORITIES}

    # -- commands ---------------------------------------------------------------------------

    def begin(self) -> tuple[Run, Session]:
        self.runs += 1
        made = run("cluster restore")
        made = replace(made, id=f"{made.id[:-3]}{self.runs:03}")
        return made, fake_session(self.rack, self.journal)

    def forecast(self) -> Plan:
        return Plan(steps=(), satisfied=(), refusals=self.refusals, choice=Choice("cp1", {}, ()))

    def install(self, until: str) -> None:
        if self.refusals:
            raise PreflightFailed("refused")
        if until == "registry":
            self.happens("install until registry")
            return
        if not self.made_with:
            assert self.authorities, "kubeadm makes CAs of its own where it finds none"
            self.happens("install until workers")
            self.made_with = dict(self.authorities)
        self.rack.cluster = samples.cluster(self.rack.desired)

    def images(self) -> ImagesResult:
        assert not self.made_with, "pods ask for images once the cluster is made"
        self.happens("images")
        if self.images_fault is not None:
            raise self.images_fault
        plan = ImagesPlan("cp1", BACKUP, "then", others=("team/train:1",))
        return ImagesResult(plan, ("pause:3.6", "own:1"), done=True)

    def restore(self, claim: str, *, only_resumed: bool) -> RestoreResult | None:
        assert claim == KEY
        if only_resumed:
            return None
        names = [node.name for node in self.site.control_plane]
        assert all({"claim", "made"} <= self.acts[name] for name in names)
        self.happens("restore")
        self.restored += 1
        for name in names:
            self.happens(f"end {name}")
            self.acts[name].add("end")
        return RestoreResult(RestorePlan("key", content={"keys": 340}), compared=True, done=True)

    def keep_own(self) -> None:
        assert self.made_with, "the lab has no cluster yet"
        assert not self.restored, "what came from the site would be kept as the lab's own"
        self.happens("keep own")
        self.kept = True

    def renew_own(self) -> None:
        assert self.kept, "nothing was kept"
        self.happens("renew own")

    def volumes(self) -> Sequence[VolumeData]:
        return (VolumeData("research/data", "198.18.7.11:/srv/nfs/data"),)

    def digest(self) -> bytes:
        return self.now

    def _annotate(self, names: Sequence[str], key: str, value: str | None) -> None:
        for name in names:
            self.annotated.setdefault(name, {})[key] = value


def bring_back(
    rack: NewRack,
    manifest: Manifest | None = None,
    *,
    answer: bool = True,
    dry_run: bool = False,
    rehearses: str = "",
) -> NewMachinesResult:
    """Type the command once."""
    options = RestoreOptions(rehearses=rehearses)
    request = RestoreRequest(rack.site, run("cluster restore"), options, dry_run=dry_run)
    file = FakeFile(manifest or backed_up(rack.masters))
    keys = ("host key of cp1: ssh-ed25519 SHA256:a",)
    ports = NewMachinesSources(rack, file, rack, keys, lambda: RELEASES)
    return restore_new_machines(request, ports, lambda _plan: answer)
