"""NVIDIA's own GPU feature discovery, built unpatched, on the stand-in of NVIDIA's library.

It writes a feature file, which node-feature-discovery turns into labels of a node.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.cache import Cache
from appliance.adapters.local.content import STANDINS
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.go import c_library
from appliance.builder.sources.go import programs as go
from appliance.builder.sources.go.c_library import CLibrary
from appliance.builder.sources.go.programs import Go
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import CLibrarySource, GoSource
from appliance.model.state.cluster.gpu_labels import GpuLabels, read_gpu_labels
from tests.integration.bundle.conftest import _no_target
from tests.integration.bundle.test_device_plugin import FACTS
from tests.prerequisites import require

pytestmark = pytest.mark.bundle

MODULE = "nvidia/go/gpu-feature-discovery"
DISCOVERY = GoSource(
    kind="go", module=MODULE, at="v0.18.2",
    package="github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery",
    minimum_go="1.25", loads=True,
)  # fmt: skip
# The modules whose headers the list of stand-ins names, the newest first.
HEADERS = (MODULE, "nvidia/go/k8s-device-plugin")


def library(module: str) -> CLibrarySource:
    return CLibrarySource(
        kind="c-library", path="gpu_driver_standin/nvml.c", module=module,
        package="github.com/NVIDIA/go-nvml/pkg/nvml", header="nvml.h", soname="libnvidia-ml.so.1",
    )  # fmt: skip


@dataclass(frozen=True)
class Discovery:
    """The program, and the folder of the library that it loads."""

    program: Path
    libraries: Path

    def labels(self, state: Path, *words: str) -> dict[str, str]:
        """Run it once; return what is in its feature file."""
        file = state / "features"
        subprocess.run(
            [self.program, "--oneshot", "--no-timestamp", "--output-file", file, *words],
            env={**os.environ, "LD_LIBRARY_PATH": str(self.libraries),
                 "STANDIN_GPU_STATE": str(state), "STANDIN_GPU_FACTS": str(state / "gpus.json")},
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        lines = file.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="module", params=HEADERS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Discovery:
    """The program and the library, by each header; the Go client keeps what it compiled."""
    require("go", "gcc")
    folder = tmp_path_factory.mktemp("discovery")
    cache = Cache(folder / "cache")
    context = Context(cache, folder, "amd64", TargetPackages(cache, _no_target), Reach())
    context = replace(context, standins=STANDINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go, "require_libc", lambda _context: None)
        patch.setattr(c_library, "require_libc", lambda _context: None)
        source = library(request.param)
        one = Artifact(name="library", kind="part", version="1", sources=(source,))
        two = Artifact(name="discovery", kind="part", version="1", sources=(DISCOVERY,))
        nvml = CLibrary().fetch(one, source, context)
        program = Go().fetch(two, DISCOVERY, context)
    cache.place(nvml.file.sha256, folder / "libnvidia-ml.so.1", executable=True)
    cache.place(program.file.sha256, folder / "gpu-feature-discovery", executable=True)
    return Discovery(folder / "gpu-feature-discovery", folder)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "gpus.json").write_text(json.dumps(FACTS))
    return tmp_path


def shared(folder: Path, **sharing: Any) -> str:
    path = folder / "config.yaml"
    resources = [{"name": "nvidia.com/gpu", "replicas": 4}]
    slicing = {"timeSlicing": {**sharing, "resources": resources}}
    path.write_text(json.dumps({"version": "v1", "sharing": slicing}))
    return str(path)


def read(labels: dict[str, str]) -> GpuLabels:
    found = read_gpu_labels(labels)
    assert found.faults == ()
    return found


def test_whole_gpus_are_labelled_as_we_read_them(built: Discovery, state: Path) -> None:
    said = built.labels(state, "--mig-strategy", "single")
    found = read(said)
    assert (found.gpus.count, found.gpus.times) == (3, 1)
    assert (found.gpus.product, found.strategy, found.capable) == ("STANDIN-GPU", "single", True)
    assert said["nvidia.com/gpu.memory"] == "40960"
    assert said["nvidia.com/cuda.driver-version.full"] == "525.60.13"


@pytest.mark.parametrize(
    ("renamed", "product"), [(True, "STANDIN-GPU"), (False, "STANDIN-GPU-SHARED")]
)
def test_slices_are_labelled_as_we_read_them(
    built: Discovery, state: Path, renamed: bool, product: str
) -> None:
    said = built.labels(state, "--config-file", shared(state, renameByDefault=renamed))
    found = read(said)
    assert (found.gpus.count, found.gpus.times, found.gpus.product) == (3, 4, product)
    assert found.gpus.renamed is renamed
    assert said["nvidia.com/gpu.sharing-strategy"] == "time-slicing"


def test_without_a_gpu_nothing_is_said_of_any(built: Discovery, state: Path) -> None:
    (state / "gpus.json").write_text("[]")
    assert read(built.labels(state)).gpus.count is None
