"""``appliance lab up``: create a site of containers and install a cluster on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path

from appliance.errors import ApplianceError, Refused
from appliance.lab.bmcs import plan_bmcs
from appliance.lab.gpus import gpu_facts
from appliance.lab.layout import Lab, RunningNode, choose_subnet, plan_lab, role_variables
from appliance.lab.like import like_lab, like_site
from appliance.lab.ports import LabBmcs, LabContainers, LabHost, LabPlays, LabSites
from appliance.lab.site.site import (
    KEY,
    NOTHING_ELSE,
    STATE,
    LabExtras,
    LabSite,
    lab_site,
    vendor_bundle,
)
from appliance.model.programs import Program, Use, missing_programs, packages_for, used_by
from appliance.model.upgrade.rehearsal.likeness import Likeness

BUNDLE, VENDORS = "bundle", "vendor bundle"


@dataclass(frozen=True)
class LabUpRequest:
    """The requested lab.

    Attributes:
        name: the lab's name; its nodes' names begin with it.
        control_planes: 1 or 3.
        workers: the number of workers.
        site_directory: the directory of the site.
        release: the release to install.
        operating_system: the nodes' operating system.
        bundle: the bundle to install from.
        bundle_is_there: whether the bundle exists and need not be built.
        install: False stops at bare nodes.
        dry_run: plan, and change nothing.
        extras: what it has besides a cluster, all of it stand-ins.
        like: the site that it is like; None: a lab of its own.
    """

    name: str
    control_planes: int
    workers: int
    site_directory: Path
    release: str
    operating_system: str
    bundle: Path
    bundle_is_there: bool
    install: bool = True
    dry_run: bool = False
    extras: LabExtras = NOTHING_ELSE
    like: Likeness | None = None

    @property
    def builds(self) -> tuple[str, ...]:
        """What to build first; the vendor's bundle is part of the site even with bare nodes."""
        bundle = (BUNDLE,) if self.install and not self.bundle_is_there else ()
        return (*bundle, VENDORS) if self.extras.runai else bundle

    @property
    def uses(self) -> frozenset[Use]:
        """The kinds of work on this machine that need programs."""
        return frozenset(
            use
            for use, needed in {
                Use.LAB: True,
                Use.BUILD: bool(self.builds),
                Use.COMPILE: bool(self.builds),
                Use.PLAYS: self.install,
                Use.BRING: self.install,
            }.items()
            if needed
        )


@dataclass(frozen=True)
class LabUpPlan:
    """The planned changes to this machine.

    Attributes:
        lab: its network and nodes.
        missing: programs to install.
        builds: what to build first.
        new_nodes: the nodes to create.
    """

    lab: Lab
    missing: tuple[Program, ...]
    builds: tuple[str, ...]
    new_nodes: tuple[str, ...]


@dataclass(frozen=True)
class LabUpPorts:
    """The adapters of ``lab up``.

    Attributes:
        host: this machine.
        containers: podman.
        plays: local playbooks.
        sites: site directories.
        bmcs: the programs that are BMCs.
        build_bundle: builds the bundle at the request's path.
        build_vendor_bundle: builds Run:ai's stand-in of a version at this path.
        install: installs the appliance on the site's nodes.
        make_alike: makes hand-made settings of the other site on the nodes.
        confirm: asks before this machine is changed.
        note: prints one line for the operator.
        monotonic: a clock in seconds.
    """

    host: LabHost
    containers: LabContainers
    plays: LabPlays
    sites: LabSites
    bmcs: LabBmcs
    build_bundle: Callable[[], None]
    build_vendor_bundle: Callable[[str, Path], None]
    install: Callable[[], None]
    confirm: Callable[[LabUpPlan], bool]
    note: Callable[[str], None]
    monotonic: Callable[[], float]
    make_alike: Callable[[Likeness], None] = lambda _like: None


@dataclass
class LabUpResult:
    """The running lab, and the time each part took."""

    plan: LabUpPlan
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def lab(self) -> Lab:
        """The lab of the plan."""
        return self.plan.lab


def lab_up(request: LabUpRequest, ports: LabUpPorts) -> LabUpResult:
    """Start a lab; after an interruption, running it again resumes.

    Raises:
        Refused: not root, not confirmed, or the directory has a site of another lab.
        LabError: a node could not be created.
    """
    plan = plan_lab_up(request, ports)
    result = LabUpResult(plan)
    if request.dry_run:
        return result
    if not ports.host.is_root():
        raise Refused(
            "the lab needs root on this machine: it starts privileged containers",
            hint=f"sudo appliance lab up --name {request.name}",
        )
    _require_archives(request, ports)
    if not ports.confirm(plan):
        raise Refused(
            f"lab {request.name} was not confirmed; nothing was changed",
            hint="pass --yes, or answer y",
        )
    with _timed(result, "prerequisites", ports):
        _prerequisites(request, plan, ports)
    with _timed(result, "site", ports):
        _site(request, ports, result.lab)
    with ThreadPoolExecutor(max_workers=1) as pool:
        nodes = pool.submit(_nodes, request, ports, result)
        _bundles(request, ports, result)
        nodes.result()
    if request.extras.bmcs:
        with _timed(result, "BMCs", ports):
            _bmcs(request, ports, result.lab)
    for change in ports.host.changed_sysctls():
        ports.note(f"this machine's sysctl {change} (restored after the last lab)")
    if request.install:
        with _timed(result, "install", ports):
            ports.install()
        if request.like is not None:
            with _timed(result, "likeness", ports):
                ports.make_alike(request.like)
    return result


def plan_lab_up(request: LabUpRequest, ports: LabUpPorts) -> LabUpPlan:
    """Plan the changes to this machine; changes nothing.

    Raises:
        ConfigError: the options of the lab are invalid.
    """
    # Only root sees root's containers.
    podman = ports.host.is_root() and bool(ports.host.programs(("podman",)))
    subnets = ports.containers.subnets() if podman else {}
    # The BMCs of this lab may have outlived its network, and their addresses are of it.
    left = ports.bmcs.running(request.name) if podman else ()
    own = {IPv4Network(address) for one in left for address in one.addresses.values()}
    used = (ports.host.networks() - own) | frozenset(subnets.values())
    subnet = subnets.get(request.name) or choose_subnet(request.name, used)
    lab = (
        like_lab(request.name, subnet, request.like)
        if request.like is not None
        else plan_lab(
            request.name,
            subnet,
            control_planes=request.control_planes,
            workers=request.workers,
        )
    )
    present = {node.name for node in ports.containers.nodes(request.name)} if podman else set()
    return LabUpPlan(
        lab=lab,
        missing=_missing(request, ports),
        builds=request.builds,
        new_nodes=tuple(node.name for node in lab.nodes if node.name not in present),
    )


def _require_archives(request: LabUpRequest, ports: LabUpPorts) -> None:
    wanted = request.operating_system
    if not ports.host.serves(wanted):
        raise Refused(
            f"this machine runs {ports.host.operating_system()}: its apt sources have no packages "
            f"for {wanted} nodes",
            hint=f"run the lab on a {wanted} machine or virtual machine",
        )
    podman = bool(ports.host.programs(("podman",)))
    running = ports.containers.nodes(request.name) if podman else ()
    others = sorted(node.name for node in running if node.operating_system not in ("", wanted))
    if request.like is not None:
        _require_own_names(request.like, request.name, ports.containers.nodes() if podman else ())
    if others:
        raise Refused(
            f"lab {request.name} has nodes that do not run {wanted}: {', '.join(others)}",
            hint=f"appliance lab down --name {request.name}, or give another --name",
        )


def _require_own_names(like: Likeness, lab: str, running: Sequence[RunningNode]) -> None:
    """A lab that is like a site has the names of its nodes: no other lab may have them."""
    names = {node.name for node in like.nodes}
    taken = [node for node in running if node.name in names and node.lab != lab]
    if taken:
        raise Refused(
            f"lab {taken[0].lab} has a node {taken[0].name}, as the site {like.site} has",
            hint=f"appliance lab down --name {taken[0].lab}",
        )


def _missing(request: LabUpRequest, ports: LabUpPorts) -> tuple[Program, ...]:
    present = ports.host.programs([row.name for row in used_by(request.uses)])
    return missing_programs(present, request.uses)


def _prerequisites(request: LabUpRequest, plan: LabUpPlan, ports: LabUpPorts) -> None:
    if not plan.missing:
        return
    packages = packages_for(plan.missing)
    for row in plan.missing:
        ports.note(f"missing: {row.name} ({row.purpose})")
    ports.note(f"installing: apt-get install {' '.join(packages)}")
    ports.host.install(packages)
    still = _missing(request, ports)
    if still:
        raise Refused(
            f"{still[0].name} is still missing after installing {', '.join(packages)}",
            hint="put it on the PATH of root, then run the same command again",
        )


def _site(request: LabUpRequest, ports: LabUpPorts, lab: Lab) -> None:
    directory = request.site_directory.resolve()
    site = _lab_site(request, lab)
    if not ports.sites.exists(directory):
        ports.sites.write(directory, site)
    else:
        differences = ports.sites.matches(directory, site)
        if differences:
            raise Refused(
                f"{directory} is a site, but does not match the requested lab",
                hint="give another --site or --name, or move that directory away",
                details=differences,
            )
    ports.sites.make_key(directory)
    if request.like is not None:
        ports.sites.keep_likeness(directory, request.like)


def _lab_site(request: LabUpRequest, lab: Lab) -> LabSite:
    if request.like is not None:
        return like_site(
            lab,
            request.like,
            operating_system=request.operating_system,
            private_key=request.site_directory.resolve() / KEY,
            extras=request.extras,
        )
    return lab_site(
        lab,
        release=request.release,
        operating_system=request.operating_system,
        private_key=request.site_directory.resolve() / KEY,
        extras=request.extras,
    )


def _bundles(request: LabUpRequest, ports: LabUpPorts, result: LabUpResult) -> None:
    if BUNDLE in request.builds:
        with _timed(result, BUNDLE, ports):
            ports.build_bundle()
    if VENDORS in request.builds:
        with _timed(result, VENDORS, ports):
            path = request.site_directory.resolve() / STATE / vendor_bundle(request.extras.runai)
            ports.build_vendor_bundle(request.extras.runai, path)


def _nodes(request: LabUpRequest, ports: LabUpPorts, result: LabUpResult) -> None:
    directory = request.site_directory.resolve()
    variables = role_variables(
        result.lab,
        public_key=f"{directory / KEY}.pub",
        known_hosts=str(directory / "known_hosts"),
        facts=gpu_facts(
            result.lab, request.extras.gpus, request.like.gpus if request.like else None
        ),
        operating_system=request.operating_system,
    )
    with _timed(result, "nodes", ports):
        if result.lab.name not in ports.containers.subnets():
            # podman makes no network in which this machine has an address already.
            ports.bmcs.stop(result.lab.name)
        ports.plays.run("lab_up", variables)


def _bmcs(request: LabUpRequest, ports: LabUpPorts, lab: Lab) -> None:
    """Each node gets a BMC in the site, and the program that serves it runs; what died starts."""
    directory, bmcs = request.site_directory.resolve(), plan_bmcs(lab)
    fingerprints = ports.bmcs.certificates(directory, bmcs)
    logins = ports.sites.give_bmcs(directory, bmcs, fingerprints)
    if ports.bmcs.start(lab.name, lab.subnet, directory, bmcs, logins):
        ports.note(f"BMCs: started for {', '.join(bmc.node for bmc in bmcs)} (stand-ins)")
    else:
        ports.note("BMCs: they run")


@contextmanager
def _timed(result: LabUpResult, part: str, ports: LabUpPorts) -> Iterator[None]:
    began = ports.monotonic()
    ports.note(f"{part}: started")
    try:
        yield
    except ApplianceError as error:
        # Report at once: a part that runs in parallel may take long to end.
        ports.note(f"{part}: FAILED after {ports.monotonic() - began:.1f} s: {error.message}")
        raise
    result.seconds[part] = ports.monotonic() - began
    ports.note(f"{part}: done after {result.seconds[part]:.1f} s")
