"""A rack whose GPU stack is upgraded: what plays do to it, and the command that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from appliance.errors import ApplianceError
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.plan.play import Play
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import Cluster, GpuStack
from appliance.model.state.cluster.pods import TEMPLATE_LABEL, Pod
from appliance.model.state.desired import Desired
from appliance.workflows.gpu.look import GpuUpgradeRequest, GpuUpgradeResult
from appliance.workflows.gpu.upgrade import gpu_upgrade
from tests import samples
from tests.fakes import FakeArchive, FakeBundle, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.samples_gpu import CHART_SHA256, DRIVER, DRIVER_DEB, FABRIC
from tests.sessions import fake_session
from tests.unit.upgrade.rack import RackDrain

OLD_OPERATOR, OPERATOR = "22.9.0", "22.9.2"
OLD_DRIVER, OLD_CHART = "525.60.13", "01" * 32
IN_CONTAINER = "525.60.13"
TOOLKIT = "1.17.8-1"
GPU = {"vendor_id": "0x10de", "address": "0"}


def with_nvswitches(document: dict[str, Any], version: str) -> None:
    """A machine whose GPUs are joined by NVSwitches, with a fabric manager that runs."""
    branch = version.partition(".")[0]
    document["nvswitches"] = [{"address": "0000:40:00.0"}]
    installed = document["packages"]["installed"]
    for name in [name for name in installed if name.startswith("cuda-drivers-")]:
        del installed[name]
    installed[f"cuda-drivers-fabricmanager-{branch}"] = f"{version}-1"
    installed[f"nvidia-fabricmanager-{branch}"] = f"{version}-1"
    document["packages"]["holds"] = sorted(installed)
    document["services"]["nvidia-fabricmanager"] = {"active": "active", "enabled": "enabled"}


class GpuRack(FakeRack):
    """Nodes with an older driver and an older operator; plays of the upgrade renew them."""

    def __init__(self, desired: Desired, driver: str) -> None:
        super().__init__(desired)
        self.documents = {n.name: samples.converged(n, desired) for n in desired.site.nodes}
        self.done: list[str] = []
        self.fail_on: dict[str, BaseException] = {}
        for node in desired.site.workers:
            self._drive(node.name, driver, f"cuda-drivers-{driver.partition('.')[0]}")
        found = samples.cluster(desired)
        nodes = {
            name: replace(node, runtime="docker://20.10.24") for name, node in found.nodes.items()
        }
        self.cluster = replace(found, nodes=nodes)
        self._operate(OLD_OPERATOR, OLD_CHART, "0ld")
        self.operand = "driver" if self.mode == "container" else "container-toolkit"
        if self.mode != "host":
            self._pods("sha256:" + "0" * 64, "0ld")

    @property
    def mode(self) -> str:
        wanted = self.desired.site.settings.gpu
        return wanted.driver if wanted else ""

    @property
    def api(self) -> Cluster:
        assert isinstance(self.cluster, Cluster)
        return self.cluster

    @property
    def manifest(self) -> BundleManifest:
        assert self.desired.manifest is not None
        return self.desired.manifest

    def driver_of(self, name: str) -> str:
        return str(self.documents[name]["modules"].get("nvidia_version", ""))

    def _drive(self, name: str, version: str, package: str) -> None:
        document = self.documents[name]
        document["modules"]["nvidia_version"] = version
        if self.mode != "host":
            return
        toolkit = {"nvidia-container-toolkit": TOOLKIT}
        document["packages"]["installed"] = {package: f"{version}-1", **toolkit}
        document["packages"]["holds"] = [package]

    def _operate(self, version: str, chart: str, values: str) -> None:
        release = replace(self.api.releases[0], chart_sha256=chart, values_sha256=values)
        stack = replace(self.api.gpu_stack or GpuStack(), version=version)
        self.cluster = replace(self.api, releases=(release,), gpu_stack=stack)

    def _pods(self, digest: str, template: str, node: str = "") -> None:
        """Give the pods of an operand an image and a template, on one node or on all."""
        stack = self.api.gpu_stack
        assert stack is not None
        named = [n.name for n in self.desired.site.workers if node in ("", n.name)]
        others = [p for p in stack.pods if p.app != self.operand or p.node not in named]
        made = [
            Pod(
                "gpu-operator",
                f"{self.operand}-{name}",
                name,
                owner=("DaemonSet", self.operand),
                labels={TEMPLATE_LABEL: template},
                app=self.operand,
                images=(f"registry.rack.test:5000/{self.operand}@{digest}",),
            )
            for name in named
        ]
        self.cluster = replace(self.api, gpu_stack=replace(stack, pods=(*others, *made)))

    def play(self, play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        if play.playbook != "gpu_upgrade":
            self.done.append(play.playbook)
            super().play(play, on_task)
            return
        self.plays.append(play)
        everything = play.inventory["all"]
        groups, given = everything["children"], everything["vars"]
        if groups["appliance_gpu_upgrade_operator"]["hosts"]:
            self._fail("operator")
            self.done.append("operator")
            values = values_digest(given["gpu_operator_values"])
            self._operate(OPERATOR, given["gpu_operator_chart_sha256"], values)
            stack = self.api.gpu_stack or GpuStack()
            templates = {self.operand: "new"}
            self.cluster = replace(self.api, gpu_stack=replace(stack, templates=templates))
        for name in groups["appliance_gpu_upgrade_driver"]["hosts"]:
            self._driver(name, everything["hosts"][name])
        if groups["appliance_gpu_upgrade_operands"]["hosts"]:
            name = given["gpu_operator_renewed_node"]
            assert self.api.nodes[name].unschedulable, "operands restart on an emptied node only"
            self._fail(name)
            self.done.append(f"operands {name}")
            if self.mode == "container":
                self.documents[name]["modules"]["nvidia_version"] = IN_CONTAINER
            self._pods(given["gpu_operator_images"][self.operand], "new", name)

    def _driver(self, name: str, given: dict[str, Any]) -> None:
        assert self.api.nodes[name].unschedulable, "a driver is replaced on an emptied node only"
        self._fail(name)
        self.done.append(f"driver {name}")
        installed = self.documents[name]["packages"]["installed"]
        for gone in given["gpu_driver_replaces"]:
            del installed[gone]
        for package, version in given["gpu_driver_packages"].items():
            installed[package] = version
        if FABRIC in installed:
            installed["nvidia-fabricmanager-535"] = DRIVER_DEB
        self.documents[name]["packages"]["holds"] = sorted(installed)
        self.documents[name]["modules"]["nvidia_version"] = given["gpu_driver_version"]

    def _fail(self, what: str) -> None:
        if what in self.fail_on:
            raise self.fail_on.pop(what)


class Bench:
    """A rack, and the command that upgrades its GPU stack."""

    def __init__(self, workers: int = 2, loaded: str = OLD_DRIVER, **gpu: Any) -> None:
        self.desired = samples.desired(samples.site(1, workers, gpu=gpu))
        self.rack = GpuRack(self.desired, loaded)
        self.drain = RackDrain(self.rack)  # type: ignore[arg-type]
        self.journal = FakeJournal()
        self.archive = FakeArchive()
        self.observer = FakeObserver()
        self.clock = FakeClock()
        manifest = self.desired.manifest
        self.bundle: FakeBundle | None = FakeBundle(manifest) if manifest else None
        self.findings: list[Any] = []
        self.chosen: list[str] = []
        self.asked: list[GpuUpgradeResult] = []
        self.answer: Callable[[GpuUpgradeResult], bool] = lambda _found: True

    def upgrade(self, **more: Any) -> GpuUpgradeResult:
        def confirm(found: GpuUpgradeResult) -> bool:
            self.asked.append(found)
            return self.answer(found)

        session = fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            archive=self.archive,
            observer=self.observer,
            clock=self.clock,
            bundle=self.bundle,
            preflight=lambda *_: self.findings,
            choose_release=self.chosen.append,
        )
        return gpu_upgrade(
            GpuUpgradeRequest(self.desired, run("gpu upgrade"), **more), session, confirm
        )

    def fails(self, what: str, error: ApplianceError) -> None:
        self.rack.fail_on[what] = error

    @property
    def cordoned(self) -> list[str]:
        return [name for name, node in self.rack.api.nodes.items() if node.unschedulable]

    @property
    def steps(self) -> list[str]:
        return [record.step for record in self.journal.records]


__all__ = ["CHART_SHA256", "DRIVER", "Bench", "GpuRack", "with_nvswitches"]
