"""A release: a tested set of versions, and where each of its artifacts can come from.

What does not fit together is refused here, with the reason: an operating system that the release
does not know, or a version that it was not tested with.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from appliance.errors import ConfigError
from appliance.model.bundle.archives.archive import AptArchive, Frozen
from appliance.model.bundle.release.installer import InstallerMedium
from appliance.model.bundle.release.sources import (
    ControllerSource,
    Source,
    inputs_of,
    wants_genuine,
)

ArtifactKind = Literal["binary", "cni", "image", "chart", "controller", "part"]
PACKAGE_GROUPS = (
    "host",
    "time",
    "artifacts",
    "registry",
    "runtime",
    "kubernetes",
    "balancer",
    "storage",
    "dns",
    "storage_server",
    "kernel",
    "driver",
    "fabric_manager",
    "container_toolkit",
    # No step installs these: they have to be there before a bundle can be delivered.
    "by_hand",
)
_FOLDERS: Mapping[ArtifactKind, str] = {
    "binary": "bin/",
    "cni": "cni/",
    "image": "images/",
    "chart": "charts/",
    "controller": "controller/",
    "part": "parts/",
}
_ENDINGS: Mapping[ArtifactKind, str] = {"chart": ".tgz", "controller": ".tar"}


def kernel_packages(kernels: Sequence[str]) -> tuple[str, ...]:
    """The packages of some kernels, never the metapackages, which follow the newest kernel.

    ``linux-modules-extra`` holds drivers of servers' network cards and disks.
    """
    parts = ("image", "modules", "modules-extra", "headers")
    return tuple(f"linux-{part}-{kernel}" for kernel in dict.fromkeys(kernels) for part in parts)


class Versions(Frozen):
    """Versions of the parts, without a leading v.

    Attributes:
        nvidia_driver: the driver's branch; the first build records the version of its packages.
    """

    kubernetes: str
    etcd: str
    coredns: str
    pause: str
    flannel: str
    cni_plugins: str
    docker: str | None = None
    containerd: str | None = None
    cri_tools: str | None = None
    helm: str
    crane: str
    registry: str
    busybox: str
    gpu_operator: str | None = None
    nvidia_driver: str | None = None


class Runtime(Frozen):
    """What runs the containers of a node.

    Attributes:
        name: the part of the versions that it is.
        socket: where kubelet and kubeadm reach it, as kubeadm writes it.
    """

    name: Literal["docker", "containerd"]
    socket: Annotated[str, StringConstraints(pattern=r"^(unix://)?/[\w./-]+\.sock$")]

    @property
    def title(self) -> str:
        """Its name in sentences."""
        return {"docker": "Docker", "containerd": "containerd"}[self.name]

    def listing(self, name: str) -> str:
        """The command on a node that lists containers of one name, those that ended too."""
        programs = {"docker": "docker ps -a --filter", "containerd": "crictl ps -a --name"}
        return f"sudo {programs[self.name]} {'name=' * (self.name == 'docker')}{name}"

    @property
    def store(self) -> str:
        """The folder of its images and containers."""
        return f"/var/lib/{self.name}"


class Artifact(Frozen):
    """One thing of the bundle, or a part that only another is made from.

    Attributes:
        kind: ``part`` is built for others and not shipped by itself; ``chart`` is a Helm chart;
            ``controller`` is an image to load where commands are typed.
        image: ``name:tag`` without a registry, for an image only.
        operating_systems: where it belongs; empty means everywhere.
        standin: plays the part of something that cannot be had in a lab.
    """

    name: str
    kind: ArtifactKind
    version: str
    image: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+:[\w.-]+$")] | None = None
    operating_systems: tuple[str, ...] = ()
    sources: tuple[Source, ...] = Field(min_length=1)
    standin: bool = False

    @property
    def path(self) -> str:
        """Where its file is in the bundle (an image has its own blobs, a part is not there)."""
        return f"{_FOLDERS[self.kind]}{self.name}{_ENDINGS.get(self.kind, '')}"

    @property
    def executable(self) -> bool:
        """Whether its file is a program."""
        return self.kind not in _ENDINGS

    @model_validator(mode="after")
    def _image_has_a_name(self) -> Artifact:
        if (self.kind == "image") != (self.image is not None):
            raise ValueError(f"{self.name}: an image, and nothing else, has 'image: name:tag'")
        return self


class OperatingSystem(Frozen):
    """What a release knows of one operating system.

    Attributes:
        versions: of what comes from the operating system's own packages.
        archives: where its packages are; empty means the builder's own apt sources, which then
            has to run this operating system.
        package_roots: group -> packages, ``name`` or ``name=version``.
        installer: the medium that installs it on bare servers; None: none was tried.
    """

    title: str
    versions: Mapping[str, str]
    archives: tuple[AptArchive, ...] = ()
    package_roots: Mapping[str, tuple[str, ...]]
    installer: InstallerMedium | None = None

    @model_validator(mode="after")
    def _groups_are_known(self) -> OperatingSystem:
        unknown = sorted(set(self.package_roots) - set(PACKAGE_GROUPS))
        if unknown:
            raise ValueError(f"unknown package groups: {', '.join(unknown)}")
        strange = sorted(set(self.versions) - set(Versions.model_fields))
        if strange:
            raise ValueError(f"versions of unknown parts: {', '.join(strange)}")
        return self

    @property
    def roots(self) -> tuple[str, ...]:
        """Every package that is asked for, once."""
        return tuple(dict.fromkeys(name for names in self.package_roots.values() for name in names))

    def root_names(self) -> dict[str, tuple[str, ...]]:
        """Group -> package names without versions."""
        return {
            group: tuple(name.partition("=")[0] for name in names)
            for group, names in self.package_roots.items()
        }


class Release(Frozen):
    """A tested set of versions.

    Attributes:
        based_on: the releases that this one's file is written on, the nearest first.
        reached_from: the releases that a site is upgraded to this one from.
        versions: the release's own; an operating system may say its own for its packages.
        needs: part -> the line of versions that Kubernetes needs of it, such as ``3.5``.
        support_ends: part -> the last day on which its makers mend it.
        measured: part of an upgrade to it -> seconds, in a lab on two busy cores.
        artifacts: everything but packages and wheels.
    """

    name: str
    description: str
    based_on: tuple[str, ...] = ()
    reached_from: tuple[str, ...] = ()
    architecture: Literal["amd64"]
    runtime: Runtime
    versions: Versions
    needs: Mapping[str, Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)*$")]]
    support_ends: Mapping[str, date]
    measured: Mapping[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    operating_systems: Mapping[str, OperatingSystem]
    artifacts: tuple[Artifact, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Release:
        faults = [*self._twins(), *self._dangling(), *self._misfits()]
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def operating_system(self, name: str) -> OperatingSystem:
        """What the release knows of an operating system.

        Raises:
            ConfigError: it does not know it.
        """
        found = self.operating_systems.get(name)
        if found is None:
            near = difflib.get_close_matches(name, sorted(self.operating_systems), n=1)
            raise ConfigError(
                f"release {self.name} does not know the operating system {name}: the release "
                f"was tested with {', '.join(sorted(self.operating_systems))}",
                hint=f"did you mean {near[0]!r}?" if near else "choose one of these",
            )
        return found

    def versions_on(self, os_name: str) -> Versions:
        """The versions as they are on one operating system."""
        own = self.operating_system(os_name).versions
        return self.versions.model_copy(update=dict(own))

    def controllers_on(self, os_name: str) -> tuple[ControllerSource, ...]:
        """The recipes of images that run this tool."""
        sources = (source for item in self.artifacts_on(os_name) for source in item.sources)
        return tuple(source for source in sources if isinstance(source, ControllerSource))

    def require(self, os_name: str, **wanted: str) -> None:
        """Refuse versions that this release was not tested with.

        Raises:
            ConfigError: every version that differs, with the one that it should be.
        """
        ours = self.versions_on(os_name).model_dump(exclude_none=True)
        faults = [
            f"{part} {version}: this release has {ours.get(part, 'no such part')}"
            for part, version in wanted.items()
            if ours.get(part) != version.removeprefix("v")
        ]
        if faults:
            raise ConfigError(
                f"release {self.name} was not tested with this combination on {os_name}",
                details=faults,
                hint="keep the release's versions, or choose the release that has yours",
            )

    def artifacts_on(self, os_name: str) -> tuple[Artifact, ...]:
        """The artifacts of one operating system, parts included."""
        self.operating_system(os_name)
        return tuple(
            item
            for item in self.artifacts
            if not item.operating_systems or os_name in item.operating_systems
        )

    def with_standins(self, standins: Sequence[Artifact], *, genuine: bool = False) -> Release:
        """This release with stand-ins; one of the same kind and name takes an artifact's place.

        Args:
            standins: they, with their sources.
            genuine: try the vendor's own programs first, where a stand-in has such a source.

        Raises:
            ValidationError: the stand-ins do not fit the release or one another.
        """
        kept = [left for item in self.artifacts if (left := self._without(item, standins))]
        marked = [
            item.model_copy(
                update={
                    "standin": True,
                    "sources": tuple(s for s in item.sources if genuine or not wants_genuine(s)),
                }
            )
            for item in standins
        ]
        return Release.model_validate({**dict(self), "artifacts": (*kept, *marked)})

    def with_kernels(self, os_name: str, kernels: Sequence[str]) -> Release:
        """This release with packages of exactly these kernels, instead of the newest ones.

        Raises:
            ConfigError: it has no packages of kernels for that operating system.
        """
        if not kernels:
            return self
        system = self.operating_system(os_name)
        if "kernel" not in system.package_roots:
            raise ConfigError(
                f"release {self.name} has no packages of kernels for {os_name}",
                hint="build without --kernel, or for ubuntu-20.04",
            )
        roots = {**system.package_roots, "kernel": kernel_packages(kernels)}
        changed = system.model_copy(update={"package_roots": roots})
        systems = {**self.operating_systems, os_name: changed}
        return self.model_copy(update={"operating_systems": systems})

    def _without(self, artifact: Artifact, standins: Sequence[Artifact]) -> Artifact | None:
        """An artifact where no stand-in takes its place; None where one always does."""
        own = artifact.operating_systems or tuple(self.operating_systems)
        taken = {
            os_name
            for item in standins
            if (item.kind, item.name) == (artifact.kind, artifact.name)
            for os_name in item.operating_systems or tuple(self.operating_systems)
        }
        left = tuple(os_name for os_name in own if os_name not in taken)
        if left == own:
            return artifact
        return artifact.model_copy(update={"operating_systems": left}) if left else None

    def _twins(self) -> list[str]:
        faults = []
        for os_name in self.operating_systems:
            names = [(a.kind, a.name) for a in self.artifacts_on(os_name)]
            faults += [f"{os_name}: {n} is there twice" for n in set(names) if names.count(n) > 1]
        strange = {o for a in self.artifacts for o in a.operating_systems}
        return faults + [
            f"unknown operating system {name}"
            for name in sorted(strange - set(self.operating_systems))
        ]

    def _dangling(self) -> list[str]:
        return [
            f"{os_name}: {item.kind} {item.name} is made from {name}, which is no artifact"
            for os_name in self.operating_systems
            for item in self.artifacts_on(os_name)
            for source in item.sources
            for name in inputs_of(source)
            if name not in {a.name for a in self.artifacts_on(os_name) if a.kind != "image"}
        ]

    def _misfits(self) -> list[str]:
        strange = sorted({*self.needs, *self.support_ends} - set(Versions.model_fields))
        faults = (
            [f"needs or support_ends of unknown parts: {', '.join(strange)}"] if strange else []
        )
        faults += [f"{self.name} is reached from itself"] if self.name in self.reached_from else []
        kubernetes = ".".join(self.versions.kubernetes.split(".")[:2])
        for name in self.operating_systems:
            found = self.versions_on(name).model_dump(exclude_none=True)
            if self.runtime.name not in found:
                faults.append(f"{name}: no version of its runtime {self.runtime.name}")
            faults += [
                f"{name}: Kubernetes {kubernetes} needs {part} {line}, not {found[part]}"
                for part, line in self.needs.items()
                if part in found and not is_of_line(found[part], line)
            ]
        return faults


def is_of_line(version: str, line: str) -> bool:
    """Whether a version belongs to a line: 3.5.6 is of 3.5 and of 3.5.6, 3.51 is not of 3.5."""
    return version == line or version.startswith(f"{line}.")
