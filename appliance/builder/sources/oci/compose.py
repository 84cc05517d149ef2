"""Images built here: layers from packages and from binaries of other sources.

The digests of the inputs verify the image: the same inputs give the same image on any machine.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from appliance.adapters.bundle.oci import Blob
from appliance.adapters.local import processes
from appliance.adapters.local.cache import recipe_key
from appliance.builder.sources.apt.package_root import file_of, merged, root_entries
from appliance.builder.sources.oci.layout import (
    MANIFEST_TYPE,
    Entry,
    ImageSettings,
    image_config,
    image_manifest,
    write_layer,
)
from appliance.builder.sources.source import Context
from appliance.errors import CommandFailed, SourceUnavailable
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import AptSource, ComposeSource, ControllerSource

_RECIPE = 1


class Compose:
    """Builds images from layers, and the release's small C programs."""

    def fetch(self, artifact: Artifact, spec: ComposeSource, context: Context) -> FetchedArtifact:
        """Build an image or a program, or recall it from the cache."""
        if spec.c_program:
            return _compiled(artifact, spec, spec.c_program, context)
        layers = [package_layer(spec, context)] if spec.packages else []
        if spec.files or spec.directories:
            layers.append(_file_layer(spec, context))
        settings = ImageSettings(
            spec.entrypoint, spec.command, spec.environment, context.architecture
        )
        config = Blob(*context.cache.add_bytes(image_config(layers, settings)))
        manifest = Blob(*context.cache.add_bytes(image_manifest(config, layers)))
        files = tuple(
            FetchedFile(f"images/blobs/sha256/{blob.sha256}", blob.sha256, blob.size)
            for blob in (*layers, config, manifest)
        )
        return FetchedArtifact(
            "compose", spec.ref, "inputs", files, image=manifest.sha256, media_type=MANIFEST_TYPE
        )


class AptFile:
    """Extracts one file from a package of the target operating system."""

    def fetch(self, artifact: Artifact, spec: AptSource, context: Context) -> FetchedArtifact:
        """Fetch the package and extract the file, or recall it from the cache."""
        closure = context.packages.closure([spec.package], essential=False)
        package = next(item for item in closure if item.name == spec.package.partition("=")[0])
        key = recipe_key({"kind": "apt", "package": package.sha256, "member": spec.member})

        def extracted() -> Path:
            (path,) = context.packages.fetch([package]).values()
            landing = context.cache.work("members") / key
            file_of(path, spec.member, landing)
            return landing

        digest, size = context.cache.made(key, extracted)
        file = FetchedFile(artifact.path, digest, size, executable=True)
        ref = f"{package.name}={package.version}:/{spec.member.lstrip('/')}"
        return FetchedArtifact("apt", ref, "apt", (file,))


def package_layer(spec: ComposeSource | ControllerSource, context: Context) -> Blob:
    """A layer of packages with their dependencies, and of the links that replace their scripts."""
    closure = context.packages.closure(spec.packages, essential=False)
    key = recipe_key(
        {
            "kind": "root",
            "recipe": _RECIPE,
            "packages": sorted(item.sha256 for item in closure),
            "links": spec.links,
        }
    )

    def layer() -> Path:
        packages = context.packages.fetch(closure)
        work = context.cache.work(f"root-{key[:16]}")
        entries = root_entries(packages, work / "content")
        entries += [
            Entry(f"/{merged(path)}", "symlink", 0o777, target=target)
            for path, target in spec.links.items()
        ]
        write_layer(work / "layer.tar", entries)
        shutil.rmtree(work / "content")
        return work / "layer.tar"

    return Blob(*context.cache.made(key, layer))


def _file_layer(spec: ComposeSource, context: Context) -> Blob:
    inputs = {path: context.inputs[name].file for path, name in spec.files.items()}
    if spec.packages:
        inputs = {f"/{merged(path)}": file for path, file in inputs.items()}
    key = recipe_key(
        {
            "kind": "files",
            "recipe": _RECIPE,
            "files": {path: file.sha256 for path, file in inputs.items()},
            "directories": spec.directories,
            "applets": spec.applets,
        }
    )

    def layer() -> Path:
        work = context.cache.work(f"files-{key[:16]}")
        entries = [
            Entry(path, "directory", 0o1777 if path == "/tmp" else 0o755)  # noqa: S108 - in an image
            for path in spec.directories
        ]
        for path, file in inputs.items():
            entries.append(Entry(path, "file", source=context.cache.path(file.sha256)))
        for program, folder in spec.applets.items():
            entries += _applets(
                program,
                context.cache.path(inputs[program].sha256),
                folder,
                work / Path(program).name,
            )
        write_layer(work / "layer.tar", entries)
        return work / "layer.tar"

    return Blob(*context.cache.made(key, layer))


def _applets(program: str, content: Path, folder: str, copy: Path) -> list[Entry]:
    # Under its own name: the program chooses the applet by its name.
    shutil.copyfile(content, copy)
    copy.chmod(0o755)
    listed = processes.run([copy, "--list"]).stdout.split()
    copy.unlink()
    return [
        Entry(f"{folder}/{name}", "symlink", 0o777, target=program)
        for name in listed
        if f"{folder}/{name}" != program
    ]


def _compiled(
    artifact: Artifact, spec: ComposeSource, program: str, context: Context
) -> FetchedArtifact:
    if processes.find_program("gcc") is None:
        raise SourceUnavailable("this machine has no C compiler (gcc)")
    source = context.of_release(program)
    flags = ["-Os", "-static", "-s", "-Wall", "-Wextra", "-Wl,--build-id=none",
             f'-DVERSION="{artifact.version}"']  # fmt: skip
    compiler = processes.run(["gcc", "--version"]).stdout.splitlines()[0]
    key = recipe_key({"kind": "c", "cc": compiler, "flags": flags, "source": source.read_text()})

    def compiled() -> Path:
        landing = context.cache.work("members") / key
        try:
            processes.run(["gcc", *flags, "-o", landing, source])
        except CommandFailed as error:
            raise SourceUnavailable(
                f"{program} could not be compiled: {error.message}", details=error.details
            ) from error
        return landing

    digest, size = context.cache.made(key, compiled)
    file = FetchedFile(artifact.path, digest, size, executable=True)
    return FetchedArtifact("compose", spec.ref, "inputs", (file,))
