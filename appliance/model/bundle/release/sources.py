"""The sources of a release's artifacts: one frozen record for each kind.

Sources are listed in order of preference; the builder uses the first that works. A digest is
present only if it was read in a citable place; it is never invented.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from appliance.model.bundle.archives.archive import AptArchive, Frozen

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
LocalPath = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(/[\w-][\w.-]*)+$")]


class UrlSource(Frozen):
    """A file that its vendor publishes.

    Attributes:
        member: the file to extract from the archive at ``url``; None for the whole file.
        version: the version, if it differs from the artifact's.
    """

    kind: Literal["url"]
    url: str
    sha256: Sha256 | None = None
    member: str | None = None
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.url}#{self.member}" if self.member else self.url


class OciSource(Frozen):
    """An image in a public registry: ``HOST/REPOSITORY:TAG``."""

    kind: Literal["oci"]
    reference: Annotated[str, StringConstraints(pattern=r"^[^/]+\.[^/]+/.+:[^/:]+$")]
    digest: Digest | None = None
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.reference}@{self.digest}" if self.digest else self.reference


class GoSource(Frozen):
    """A program that the ordinary Go client builds from a wrapper module.

    Attributes:
        module: the wrapper's folder below ``<release>/go``, which holds go.mod and go.sum.
        package: the command's package path.
        at: version of the package's module, for people.
        minimum_go: the oldest Go that can build it, such as ``1.17``.
        cgo: link with the C compiler, statically.
        loads: link dynamically instead: the program loads a C library while it runs.
        generate: a step to run before the build.
        standin: it is a program of ours that plays the artifact's part in a lab.
    """

    kind: Literal["go"]
    module: str
    package: str
    at: str
    ldflags: tuple[str, ...] = ()
    minimum_go: str = "1.17"
    cgo: bool = False
    loads: bool = False
    generate: Literal["kubernetes-openapi"] | None = None
    standin: bool = False
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.package}@{self.at}"


class CLibrarySource(Frozen):
    """A C library of the stand-ins that plays one of a vendor, by the vendor's public header.

    Every function that the header declares and the file lacks returns "not supported".

    Attributes:
        path: the C file, in the folder of the stand-ins.
        module: the wrapper module whose go.sum verifies the module with the header.
        package: the Go package that has the header beside its sources.
        header: the header's name.
        soname: the name under which programs load the library.
    """

    kind: Literal["c-library"]
    path: LocalPath
    module: str
    package: str
    header: str
    soname: str
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"standins/{self.path}"


class GoFileSource(Frozen):
    """A file as a Go module brings it, checked by go.sum; it is never kept in this repository.

    Attributes:
        module: the wrapper module whose go.sum verifies the module with the file.
        of: the path of the module that has the file.
        at: the version of that module, for people.
        path: the file in it.
    """

    kind: Literal["go-file"]
    module: str
    of: str
    at: str
    path: str
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.of}@{self.at}/{self.path}"


class AptSource(Frozen):
    """One file out of a package of the target operating system."""

    kind: Literal["apt"]
    package: str
    member: str
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.package}:/{self.member.lstrip('/')}"


class ComposeSource(Frozen):
    """An image built here from binaries and packages, or a C program of the release.

    Attributes:
        packages: packages of the target operating system, installed with their dependencies.
        files: path in the image -> name of the artifact at this path.
        links: path in the image -> target of the symbolic link at this path.
        applets: path of a multi-call program -> the folder that gets a link for each applet.
        genuine: the vendor's own program runs in it, so that the image is no stand-in. Among the
            stand-ins such a source counts only where the real programs are asked for.
        c_program: a C file below the release's folder, compiled to one static binary; excludes
            packages, files and entrypoint.
    """

    kind: Literal["compose"]
    packages: tuple[str, ...] = ()
    files: Mapping[str, str] = Field(default_factory=dict)
    links: Mapping[str, str] = Field(default_factory=dict)
    directories: tuple[str, ...] = ()
    applets: Mapping[str, str] = Field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = Field(default_factory=dict)
    genuine: bool = False
    c_program: str | None = None
    version: str | None = None

    @model_validator(mode="after")
    def _either_an_image_or_a_program(self) -> ComposeSource:
        if self.c_program and (self.packages or self.files or self.entrypoint):
            raise ValueError("c_program excludes packages, files and entrypoint: remove them")
        if not (self.c_program or self.files or self.packages):
            raise ValueError("an image needs content: give files, packages or c_program")
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """The artifacts that the image contains."""
        return tuple(dict.fromkeys(self.files.values()))

    @property
    def ref(self) -> str:
        """The source in messages."""
        if self.c_program:
            return self.c_program
        return " + ".join((*(f"apt:{name}" for name in self.packages), *self.inputs))


class ControllerSource(Frozen):
    """An image for docker and podman that runs this tool, composed from packages and wheels.

    Attributes:
        system: the operating system of its packages; a builder that runs it uses its own archives.
        archives: where its packages are for every other builder.
        python: the Python of that system, which the wheels are taken for.
        packages: what the tool needs there, installed with all dependencies.
        links: path in the image -> target of the symbolic link at this path.
    """

    kind: Literal["controller"]
    system: str
    archives: tuple[AptArchive, ...] = Field(min_length=1)
    python: Annotated[str, StringConstraints(pattern=r"^3\.\d+$")]
    packages: tuple[str, ...] = Field(min_length=1)
    links: Mapping[str, str] = Field(default_factory=dict)
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"{self.system}: {' + '.join(self.packages)}"


class FileSource(Frozen):
    """A file that the operator supplies in the folder of ``--files``, with its ``.sha256``."""

    kind: Literal["file"]
    name: str
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return self.name


class LocalSource(Frozen):
    """A file of this installation's stand-ins; only the list of stand-ins may name it."""

    kind: Literal["local"]
    path: LocalPath
    version: str | None = None

    @property
    def ref(self) -> str:
        """The source in messages."""
        return f"standins/{self.path}"


class LocalChartSource(Frozen):
    """A Helm chart packed here from a folder of the stand-ins.

    Attributes:
        files: path in the chart -> name of the artifact at this path.
        needs: artifacts that the chart deploys: without them this is no source.
        genuine: the chart deploys the vendors' own programs. The chart itself stays a stand-in.
            Such a source counts only where the real programs are asked for.
    """

    kind: Literal["local-chart"]
    path: LocalPath
    files: Mapping[str, str] = Field(default_factory=dict)
    needs: tuple[str, ...] = ()
    genuine: bool = False
    version: str | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        """The artifacts without which the chart cannot be packed."""
        return tuple(dict.fromkeys((*self.files.values(), *self.needs)))

    @property
    def ref(self) -> str:
        """The source in messages."""
        return " + ".join((f"standins/{self.path}/", *self.files.values()))


Source = Annotated[
    UrlSource
    | OciSource
    | GoSource
    | CLibrarySource
    | GoFileSource
    | AptSource
    | ComposeSource
    | ControllerSource
    | FileSource
    | LocalSource
    | LocalChartSource,
    Field(discriminator="kind"),
]


def inputs_of(source: Source) -> tuple[str, ...]:
    """The artifacts that a source is made from; none for a source that is not composed."""
    return source.inputs if isinstance(source, (ComposeSource, LocalChartSource)) else ()


def is_genuine(source: Source) -> bool:
    """Whether the vendor's own program comes from this source of a stand-in."""
    return isinstance(source, ComposeSource) and source.genuine


def is_standin(source: Source) -> bool:
    """Whether what comes from this source of a release plays the part of the vendor's program."""
    return isinstance(source, GoSource) and source.standin


def wants_genuine(source: Source) -> bool:
    """Whether a source of a stand-in counts only where the vendors' own programs are asked for."""
    return isinstance(source, (ComposeSource, LocalChartSource)) and source.genuine
