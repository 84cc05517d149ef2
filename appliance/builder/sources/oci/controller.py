"""The controller image: this tool with a Python of its own, for docker and podman.

Two layers, from packages of one operating system and from the bundle's own wheels, in one file that
``docker load`` and ``podman load`` read. What must not be here: what is in the wheels.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from appliance import __version__
from appliance.adapters.bundle.oci import Blob
from appliance.adapters.local.cache import recipe_key
from appliance.adapters.tool.environment import CONTROLLER_MARK
from appliance.builder.sources.apt.isolated import ResolvedPackage
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.oci.compose import package_layer
from appliance.builder.sources.oci.layout import Entry, ImageSettings, image_config, write_layer
from appliance.builder.sources.source import Context
from appliance.builder.wheel_files import wheel_entries
from appliance.builder.wheel_needs import pythons_of
from appliance.errors import BuildFailed
from appliance.model.bundle.builds.fetched import FetchedArtifact, FetchedFile
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import ControllerSource

_RECIPE = 2
_HOME = "/home/appliance"
_ENVIRONMENT = {
    # Any user may run it, also one without a home in the image.
    "HOME": _HOME,
    "LANG": "C.UTF-8",
    "EDITOR": "nano",
    "PYTHONPYCACHEPREFIX": f"{_HOME}/pycache",
}
_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "/etc/group": "root:x:0:\n",
    str(CONTROLLER_MARK): "made by appliance bundle build\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


class Controller:
    """Composes the image.

    Args:
        packages: the packages of each recipe's operating system, by ``ref``.
        wheels: the tool itself.
    """

    def __init__(
        self, packages: Mapping[str, TargetPackages], wheels: Callable[[], FetchedArtifact]
    ) -> None:
        self._packages, self._wheels = packages, wheels

    def fetch(
        self, artifact: Artifact, spec: ControllerSource, context: Context
    ) -> FetchedArtifact:
        """Compose the image, or recall it from the cache."""
        packages = self._packages[spec.ref]
        resolved(packages, spec)
        layers = [
            package_layer(spec, replace(context, packages=packages)),
            self._tool_layer(spec, context),
        ]
        settings = ImageSettings(
            ("/usr/local/bin/appliance",), ("--help",), _ENVIRONMENT, context.architecture
        )
        config = image_config(layers, settings)
        name = f"{artifact.name}:{__version__}"
        key = recipe_key({"kind": "saved", "config": config.decode(), "name": name})

        def saved() -> Path:
            work = context.cache.work(f"controller-{key[:16]}")
            write_layer(work / "image.tar", _saved(name, config, layers, context))
            return work / "image.tar"

        digest, size = context.cache.made(key, saved)
        file = FetchedFile(artifact.path, digest, size)
        return FetchedArtifact("controller", spec.ref, "inputs", (file,))

    def _tool_layer(self, spec: ControllerSource, context: Context) -> Blob:
        files = {
            Path(file.path).name: file.sha256
            for file in self._wheels().files
            if spec.python in pythons_of(Path(file.path).name, (spec.python,))
        }
        key = recipe_key(
            {
                "kind": "tool",
                "recipe": _RECIPE,
                "python": spec.python,
                "wheels": files,
                "files": _FILES,
            }
        )

        def layer() -> Path:
            work = context.cache.work(f"tool-{key[:16]}")
            shutil.rmtree(work / "content", ignore_errors=True)
            entries = [Entry(_HOME, "directory", 0o1777)]
            entries += [
                Entry(path, "file", 0o644, content=text.encode()) for path, text in _FILES.items()
            ]
            for wheel, digest in files.items():
                source = context.cache.path(digest)
                entries += wheel_entries(source, spec.python, work / "content" / wheel)
            write_layer(work / "layer.tar", entries)
            shutil.rmtree(work / "content")
            return work / "layer.tar"

        return Blob(*context.cache.made(key, layer))


def resolved(packages: TargetPackages, spec: ControllerSource) -> tuple[ResolvedPackage, ...]:
    """The packages of the image.

    Raises:
        BuildFailed: they cannot be resolved, or bring another Python.
    """
    closure = packages.closure(spec.packages, essential=False)
    if f"python{spec.python}" not in {item.name for item in closure}:
        raise BuildFailed(
            f"the packages of the controller image bring no Python {spec.python}",
            details=[f"{spec.system}: {' '.join(spec.packages)}"],
            hint="correct the recipe of the controller image in the release file",
        )
    return closure


def _saved(name: str, config: bytes, layers: Sequence[Blob], context: Context) -> Iterator[Entry]:
    """The files of ``docker save``, which older versions of docker and podman load, too."""
    config_name = f"{Blob(*context.cache.add_bytes(config)).sha256}.json"
    paths = [f"{layer.sha256}/layer.tar" for layer in layers]
    listed = [{"Config": config_name, "RepoTags": [name], "Layers": paths}]
    yield Entry("/manifest.json", "file", 0o644, content=json.dumps(listed).encode())
    yield Entry(f"/{config_name}", "file", 0o644, content=config)
    for path, layer in zip(paths, layers, strict=True):
        yield Entry(f"/{path}", "file", 0o644, source=context.cache.path(layer.sha256))
