"""A rack whose nodes are patched: what a play does to their packages, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from appliance.errors import ApplianceError, PlaybookFailed
from appliance.model.bundle.manifest import BundledArtifact, BundleManifest, SourceUsed, Updates
from appliance.model.patch.kernels import kernel_of
from appliance.model.patch.plan import PatchOptions
from appliance.model.patch.state import NodeState, NoState
from appliance.model.plan.play import Play
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.workflows.node.patch import node_patch
from appliance.workflows.node.patch_look import PatchRequest, PatchResult
from tests import samples
from tests.fakes import FakeArchive, FakeBundle, FakeClock, FakeJournal, FakeObserver, run
from tests.sessions import fake_session
from tests.unit.upgrade.rack import FakeEvidence, RackDrain, UpgradeRack

OLD_KERNEL, KERNEL = "5.4.0-150-generic", "5.4.0-216-generic"
GIB = 1 << 30
SOURCE = SourceUsed("apt", "test", "apt")
INDEX = "1d" * 32
# What a node has: a library, a service, libc, a package on hold, and its kernel.
PACKAGES = {
    "libssl1.1": "1.1.1f-1ubuntu2.16",
    "libtiff5": "4.1.0-1",
    "openssh-server": "1:8.2p1-4ubuntu0.5",
    "docker.io": "20.10.24",
    "chrony": "3.5-6ubuntu6.2",
    f"linux-image-{OLD_KERNEL}": "5.4.0-150.167",
}
UPDATES = {
    "libtiff5": "4.1.0-1ubuntu0.1",
    "openssh-server": "1:8.2p1-4ubuntu0.13",
}


def manifest(
    updates: Mapping[str, str] | None = None, older: Mapping[str, str] | None = None
) -> BundleManifest:
    """A bundle with updates."""
    base = samples.manifest()
    wanted = UPDATES if updates is None else updates
    files = [*base.files, replace(base.files[0], path="updates/Packages", sha256=INDEX)]
    artifacts = tuple(
        BundledArtifact(
            name, version, "update", f"updates/pool/{name}.deb", "ab" * 32, 1_000_000, SOURCE
        )
        for name, version in wanted.items()
    )
    return replace(
        base,
        artifacts=(*base.artifacts, *artifacts),
        files=tuple(files),
        updates=Updates("2026-10-01", ("w1",), wanted, older or {}),
    )


def state(node: str = "w1", **changes: Any) -> NodeState:
    """A node that lacks the updates."""
    values: dict[str, Any] = {
        "kernel": OLD_KERNEL,
        "boot": f"boot-1-{node}",
        "packages": PACKAGES,
        "held": frozenset({"docker.io", "chrony", f"linux-image-{OLD_KERNEL}"}),
        "free_bytes": {"/": 50 * GIB},
        **changes,
    }
    return NodeState(node, **values)


class PatchRack(UpgradeRack):
    """Nodes with packages; a play of the patch installs, and boots where something needs it."""

    def __init__(self, desired: Desired) -> None:
        super().__init__(desired)
        self.states: dict[str, NodeState | NoState] = {
            node.name: state(node.name) for node in desired.site.nodes
        }
        # Nodes that do not come back after their boot.
        self.dead: set[str] = set()
        # Node -> what happens to it once it is patched.
        self.after_patch: dict[str, Callable[[str], None]] = {}
        self.hosts: dict[str, dict[str, Any]] = {}
        self.batches: list[Sequence[str]] = []

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.playbook != "node_patch":
            super().play(play, on_task)
            return
        self.batches.append(play.limit)
        failed: ApplianceError | None = None
        for name in play.limit:
            self.done.append(f"patch {name}")
            self.hosts[name] = play.inventory["all"]["hosts"][name]
            if name in self.fail_on:
                failed = self.fail_on.pop(name)
            elif name in self.dead:
                self.states[name] = NoState(name, f"{name}: no answer", f"ping {name}")
                failed = PlaybookFailed(f"{name}: it did not boot in 1800 s")
            else:
                self._patch(name)
                if name in self.after_patch:
                    self.after_patch[name](name)
        if failed:
            raise failed

    def _patch(self, name: str) -> None:
        before, host = self.states[name], self.hosts[name]
        assert isinstance(before, NodeState)
        if name in self.api.nodes:
            assert self.api.nodes[name].unschedulable, "packages change on an emptied node only"
        wanted = host["node_patch_packages"]
        kernel = next((kernel_of(one) for one in wanted if kernel_of(one)), before.kernel)
        boots = (
            kernel != before.kernel
            or before.reboot_asked
            or "libc6" in wanted
            or host["node_patch_boot_from"] == before.boot
        )
        self.states[name] = replace(
            before,
            packages={**before.packages, **wanted},
            interrupted=False,
            half=(),
            reboot_asked=False,
            stale=(),
            unbooted=(),
            kernel=kernel,
            boot=f"boot-2-{name}" if boots else before.boot,
        )


class FakePackages:
    """What the nodes of a rack say of their packages."""

    def __init__(self, rack: PatchRack) -> None:
        self.rack = rack
        self.asked = 0

    def read(self, nodes: Sequence[Node]) -> Mapping[str, NodeState | NoState]:
        self.asked += 1
        return {node.name: self.rack.states[node.name] for node in nodes}


class Bench:
    """A rack, and the command that patches it."""

    def __init__(
        self, masters: int = 1, workers: int = 2, bundle: BundleManifest | None = None, **site: Any
    ) -> None:
        self.manifest = bundle or manifest()
        wanted = samples.site(masters, workers, **site)
        self.desired = replace(samples.desired(wanted), manifest=self.manifest)
        self.rack = PatchRack(self.desired)
        self.packages = FakePackages(self.rack)
        self.drain = RackDrain(self.rack)
        self.journal = FakeJournal()
        self.archive = FakeArchive()
        self.observer = FakeObserver()
        self.clock = FakeClock()
        self.evidence: FakeEvidence | None = FakeEvidence(self.rack)
        self.asked: list[PatchResult] = []
        self.answer = True

    def patch(self, **more: Any) -> PatchResult:
        asked_of = more.pop("confirm", lambda _found: self.answer)

        def confirm(found: PatchResult) -> bool:
            self.asked.append(found)
            return bool(asked_of(found))

        changes = {
            key: more.pop(key)
            for key in ("dry_run", "allow_outage", "pausing", "without_backup")
            if key in more
        }
        request = PatchRequest(self.desired, PatchOptions(**more), run("node patch"), **changes)
        session = fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            archive=self.archive,
            observer=self.observer,
            clock=self.clock,
            bundle=FakeBundle(self.manifest),
            packages=self.packages,
            upgrade_evidence=self.evidence,
        )
        return node_patch(request, session, confirm)

    @property
    def cordoned(self) -> list[str]:
        return [name for name, node in self.rack.api.nodes.items() if node.unschedulable]

    @property
    def patched(self) -> list[str]:
        return [what.partition(" ")[2] for what in self.rack.done if what.startswith("patch ")]
