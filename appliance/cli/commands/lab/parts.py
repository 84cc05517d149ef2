"""Builds the adapters of the lab's workflows, and connects them to site, bundle and install."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.adapters.local.shipped import default_release
from appliance.lab.down import LabDownPorts, lab_down
from appliance.lab.layout import SYSTEMS, RunningNode
from appliance.lab.machine.bmcs import BmcProcesses
from appliance.lab.machine.host import LabMachine
from appliance.lab.machine.plays import LocalPlays
from appliance.lab.machine.podman import Podman
from appliance.lab.rehearsal.opened import OpenedLabs
from appliance.lab.site.site import NOTHING_ELSE, LabExtras, LabSite
from appliance.lab.site.sites import LabSiteFiles
from appliance.lab.up import LabUpPlan, LabUpPorts, LabUpRequest, LabUpResult, lab_up

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.upgrade.rehearsal.likeness import Likeness


def take_down(
    name: str, confirm: Callable[[tuple[RunningNode, ...]], bool], *, dry_run: bool
) -> tuple[RunningNode, ...]:
    """Run the workflow with this machine's adapters."""
    destroy, stop = OpenedLabs().destroy, BmcProcesses().stop
    ports = LabDownPorts(LabMachine(), Podman(), LocalPlays(), confirm, _note, destroy, stop)
    return lab_down(name, ports, dry_run=dry_run)


class LabParts:
    """Everything one ``lab up`` needs, with the defaults filled in."""

    def __init__(
        self,
        app: Application,
        name: str,
        site: Path | None,
        bundle: Path | None,
        release: str | None,
        extras: LabExtras = NOTHING_ELSE,
        *,
        operating_system: str = SYSTEMS[0],
        genuine: bool = False,
        like: Likeness | None = None,
    ) -> None:
        self._app = app
        self.name = name
        self.release = release or default_release()
        self.site = site or default_site(name)
        self.extras = extras
        self.operating_system = operating_system
        self._genuine = genuine
        self.like = like
        self._given = bundle is not None
        self.bundle = bundle or default_bundle(
            self.release, operating_system, standins=self.standins, genuine=genuine
        )
        self._began = time.monotonic()

    @property
    def standins(self) -> bool:
        """Whether the bundle must hold stand-ins for what a lab cannot have."""
        return self.extras.gpus > 0

    @property
    def kubeconfig(self) -> Path:
        """Where install writes the operator's kubeconfig."""
        return self.site / ".appliance" / "kubeconfig"

    def up(
        self,
        control_planes: int,
        workers: int,
        confirm: Callable[[LabUpPlan], bool],
        *,
        bare: bool,
        dry_run: bool,
    ) -> LabUpResult:
        """Run the workflow."""
        request = LabUpRequest(
            name=self.name,
            control_planes=control_planes,
            workers=workers,
            site_directory=self.site,
            release=self.release,
            operating_system=self.operating_system,
            bundle=self.bundle,
            # A bundle in the cache is built again, in seconds: the release may have changed.
            bundle_is_there=self.like is not None
            or (self._given and (self.bundle / "manifest.json").is_file()),
            install=not bare,
            dry_run=dry_run,
            extras=self.extras,
            like=self.like,
        )
        ports = LabUpPorts(
            host=LabMachine(),
            containers=Podman(),
            plays=LocalPlays(),
            sites=LabSiteFiles(self._write_site),
            bmcs=BmcProcesses(),
            build_bundle=self._build_bundle,
            build_vendor_bundle=self._build_vendor_bundle,
            install=self._install,
            confirm=confirm,
            note=self._note,
            monotonic=time.monotonic,
            make_alike=self._make_alike,
        )
        return lab_up(request, ports)

    def show_nodes(self) -> None:
        """The table of nodes, as ``status`` shows it."""
        from appliance.cli.commands.status.view import show_status

        connected = self._app.connect(self.site)
        observed, _look, _plan = connected.look()
        show_status(connected.site, observed)

    def _note(self, text: str) -> None:
        click.echo(f"[{time.monotonic() - self._began:6.1f} s] {text}", err=True)

    def _write_site(self, directory: Path, site: LabSite) -> None:
        from appliance.cli.commands.site.options import site_ports
        from appliance.workflows.site.init import SiteInitRequest, site_init

        request = SiteInitRequest(
            directory, site.settings, site.groups, site.host_vars, secrets=site.secrets
        )
        with site_ports(directory, None, True, None) as ports:
            site_init(request, *ports)

    def _build_bundle(self) -> None:
        from appliance.cli.commands.bundle.parts import build

        built = build(
            self.release, self.operating_system, self.bundle,
            standins=self.standins, genuine=self._genuine,
        )  # fmt: skip
        for line in played_all_the_same(built.manifest) if self._genuine else ():
            self._note(line)

    def _build_vendor_bundle(self, version: str, path: Path) -> None:
        from appliance.lab.vendor.bundle import build_vendor_bundle

        if path.is_file():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        built = build_vendor_bundle(
            version, path.parent, release=self.release, os_name=self.operating_system
        )
        if built != path:
            built.replace(path)

    def _install(self) -> None:
        from appliance.cli.screen.progress import progress
        from appliance.model.plan.planner import Scope
        from appliance.workflows.session.survey import require_none_left_out

        connected = self._app.connect(self.site, self.bundle, reads_vendor_bundle=True)
        with progress() as display:
            done = connected.install(
                Scope(only=None, until=None, nodes=frozenset()), display, lambda _plan: True
            )
        require_none_left_out(done.plan)

    def _make_alike(self, like: Likeness) -> None:
        from appliance.lab.alike import Alike

        connected = self._app.connect(self.site)
        adapters = (connected.site, connected.nodes, connected.cluster, connected.session())
        Alike(*adapters, self._note).make(like)


def played_all_the_same(manifest: BundleManifest) -> list[str]:
    """The stand-ins that are there although the vendor's own program was asked for, and why."""
    return [
        f"{item.kind} {item.name} is the stand-in: {'; '.join(why for *_, why in skipped)}"
        for item in manifest.artifacts
        if item.kind == "image" and item.standin and (skipped := item.source.skipped)
    ]


def default_site(name: str) -> Path:
    """inventories/lab/NAME in a checkout, else ./NAME."""
    from appliance.adapters.local.content import find_content_root

    root = find_content_root()
    if (root / "pyproject.toml").is_file():
        return root / "inventories" / "lab" / name
    return Path(name)


def default_bundle(
    release: str,
    operating_system: str = SYSTEMS[0],
    *,
    standins: bool = False,
    genuine: bool = False,
) -> Path:
    """One bundle per release and operating system in the cache, and two with stand-ins.

    With ``genuine`` the vendors' own programs are among the stand-ins: two labs may differ in it.
    """
    cache = os.environ.get("APPLIANCE_CACHE") or Path.home() / ".cache" / "appliance"
    name = f"{release}-{operating_system}"
    kind = "-operands" if genuine else "-standins"
    return Path(cache) / "bundles" / (f"{name}{kind}" if standins else name)


def _note(text: str) -> None:
    click.echo(text, err=True)
