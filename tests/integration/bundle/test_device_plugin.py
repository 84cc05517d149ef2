"""NVIDIA's own device plug-in, built unpatched, on the stand-in of the library of its driver."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.local.cache import Cache
from appliance.adapters.local.content import STANDINS
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.go import c_library
from appliance.builder.sources.go import programs as go
from appliance.builder.sources.go.c_library import CLibrary, stubs_for
from appliance.builder.sources.go.programs import Go, go_environment
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context
from appliance.errors import SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import CLibrarySource, GoSource
from tests.integration.bundle.conftest import _no_target
from tests.integration.bundle.device_plugin import Stack
from tests.nvml_answers import NOT_SUPPORTED, Library, codes, values
from tests.prerequisites import require

MODULE = "nvidia/go/k8s-device-plugin"
LIBRARY = CLibrarySource(
    kind="c-library", path="gpu_driver_standin/nvml.c", module="nvidia/go/gpu-feature-discovery",
    package="github.com/NVIDIA/go-nvml/pkg/nvml", header="nvml.h", soname="libnvidia-ml.so.1",
)  # fmt: skip
PLUGIN = GoSource(
    kind="go", module=MODULE, at="v0.13.0",
    package="github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin",
    minimum_go="1.18", loads=True,
)  # fmt: skip
DATA = Path(__file__).parents[2] / "data"
KUBELET = Path(__file__).parents[2] / "standins/kubelet_standin/main.go"
CARD = {"vendor_id": "0x10de", "driver": None}
FACTS = [
    {**CARD, "uuid": "GPU-STANDIN-w1-0"},
    {"vendor_id": "0x1a03", "uuid": None},
    {**CARD, "uuid": "GPU-STANDIN-w1-1"},
    {**CARD, "uuid": "GPU-STANDIN-w1-2"},
]
NAMES = [f"GPU-STANDIN-w1-{index}" for index in range(3)]


def test_every_function_that_the_header_declares_is_there(tmp_path: Path) -> None:
    header = "nvmlReturn_t DECLDIR nvmlInit_v2(void);\nnvmlReturn_t DECLDIR nvmlOther(int a);\n"
    ours = tmp_path / "ours.c"
    ours.write_text("nvmlReturn_t nvmlInit_v2(void) { return 0; }\n")
    assert stubs_for(header, [ours]) == "int nvmlOther(void);\nint nvmlOther(void) { return 3; }\n"


def test_a_library_newer_than_that_of_the_images_is_no_source(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        name, version = "libc6", "2.31-13+deb11u11"

    monkeypatch.setattr(TargetPackages, "closure", lambda *_a, **_k: (Old(),))
    monkeypatch.setattr(os, "confstr", lambda _name: "glibc 2.36")
    with pytest.raises(SourceUnavailable, match=r"need glibc 2.36, and the images have libc6 2.31"):
        go.require_libc(context)
    monkeypatch.setattr(os, "confstr", lambda _name: "glibc 2.31")
    go.require_libc(context)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """The plug-in, the library and the kubelet; the Go client keeps what it compiled."""
    require("go", "gcc", "unshare")
    folder = tmp_path_factory.mktemp("stack")
    cache = Cache(folder / "cache")
    context = Context(cache, folder, "amd64", TargetPackages(cache, _no_target), Reach())
    context = replace(context, standins=STANDINS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(go, "require_libc", lambda _context: None)
        patch.setattr(c_library, "require_libc", lambda _context: None)
        library = Artifact(name="library", kind="part", version="1", sources=(LIBRARY,))
        plugin = Artifact(name="plugin", kind="part", version="1", sources=(PLUGIN,))
        for name, fetched in (
            ("libnvidia-ml.so.1", CLibrary().fetch(library, LIBRARY, context)),
            ("nvidia-device-plugin", Go().fetch(plugin, PLUGIN, context)),
        ):
            cache.place(fetched.file.sha256, folder / name, executable=True)
    work = folder / "module"
    shutil.copytree(STANDINS / MODULE, work)
    (work / "kubelet").mkdir()
    shutil.copy(KUBELET, work / "kubelet")
    subprocess.run(
        ["go", "build", "-o", folder / "kubelet", "./kubelet"],
        cwd=work, env={**os.environ, **go_environment(context, cgo=False)},
        check=True,
    )  # fmt: skip
    return Stack(folder / "nvidia-device-plugin", folder / "libnvidia-ml.so.1", folder / "kubelet")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "gpus.json").write_text(json.dumps(FACTS))
    return tmp_path


class Nvml:
    """The library, as a program that loads it sees it."""

    def __init__(self, library: Path) -> None:
        self._calls = ctypes.CDLL(str(library))

    def call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._calls, name)(*arguments))

    def number(self, name: str, *arguments: Any) -> int:
        found = ctypes.c_uint()
        assert self.call(name, *arguments, ctypes.byref(found)) == 0, name
        return found.value

    def handle(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        assert self.call(name, *arguments, ctypes.byref(found)) == 0, name
        return found

    def words(self, name: str, handle: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(96)
        assert self.call(name, handle, text, 96) == 0, name
        return text.value.decode()


class Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@pytest.fixture
def nvml(built: Stack, state: Path, monkeypatch: pytest.MonkeyPatch) -> Nvml:
    monkeypatch.setenv("STANDIN_GPU_STATE", str(state))
    monkeypatch.setenv("STANDIN_GPU_FACTS", str(state / "gpus.json"))
    # A copy of its own: a library that is loaded twice is one, with one memory.
    return Nvml(Path(shutil.copy(built.library, state / "libnvidia-ml.so.1")))


@pytest.mark.bundle
def test_the_library_lists_the_gpus_of_the_fact_file_and_says_standin(nvml: Nvml) -> None:
    assert nvml.call("nvmlDeviceGetCount_v2", ctypes.byref(ctypes.c_uint())) == 1
    assert nvml.call("nvmlInit_v2") == 0
    assert nvml.number("nvmlDeviceGetCount_v2") == 3
    handles = [nvml.handle("nvmlDeviceGetHandleByIndex_v2", index) for index in range(3)]
    assert [nvml.words("nvmlDeviceGetUUID", handle) for handle in handles] == NAMES
    assert nvml.words("nvmlDeviceGetName", handles[0]) == "STANDIN GPU"
    assert nvml.words("nvmlDeviceGetSerial", handles[2]) == "STANDIN-2"
    found = nvml.handle("nvmlDeviceGetHandleByUUID", NAMES[1].encode())
    assert nvml.number("nvmlDeviceGetMinorNumber", found) == 1
    assert nvml.call("nvmlDeviceGetPowerUsage", handles[0], None) == 3
    assert nvml.call("nvmlDeviceGetUUID", ctypes.c_void_p(8), None, 0) == 2


@pytest.mark.bundle
def test_without_a_fact_file_no_driver_is_loaded(nvml: Nvml, state: Path) -> None:
    (state / "gpus.json").unlink()
    assert nvml.call("nvmlInit_v2") == 9
    assert nvml.call("nvmlShutdown") == 1


@pytest.mark.bundle
def test_mig_is_off_then_on_and_its_devices_have_a_parent(nvml: Nvml, state: Path) -> None:
    assert nvml.call("nvmlInit_v2") == 0
    gpu = nvml.handle("nvmlDeviceGetHandleByIndex_v2", 0)
    pending = ctypes.byref(ctypes.c_uint())

    def mode() -> int:
        now = ctypes.c_uint()
        assert nvml.call("nvmlDeviceGetMigMode", gpu, ctypes.byref(now), pending) == 0
        return now.value

    assert mode() == 0
    (state / "mig").write_text("0 1 3 20\n0 2 1 5\n")
    assert mode() == 1
    part = nvml.handle("nvmlDeviceGetMigDeviceHandleByIndex", gpu, 1)
    assert nvml.words("nvmlDeviceGetUUID", part) == "MIG-STANDIN-0-2"
    assert nvml.number("nvmlDeviceIsMigDeviceHandle", part) == 1
    assert nvml.number("nvmlDeviceGetGpuInstanceId", part) == 2
    parent = nvml.handle("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part)
    assert parent.value == gpu.value
    (state / "mig").unlink()
    assert mode() == 0


@pytest.mark.bundle
def test_each_waiter_hears_once_of_a_gpu_that_fell_ill(nvml: Nvml, state: Path) -> None:
    assert nvml.call("nvmlInit_v2") == 0
    gpu = nvml.handle("nvmlDeviceGetHandleByIndex_v2", 1)
    waiters = [nvml.handle("nvmlEventSetCreate") for _ in range(2)]
    for waiter in waiters:
        assert nvml.call("nvmlDeviceRegisterEvents", gpu, ctypes.c_ulonglong(8), waiter) == 0
    event = Event()
    assert nvml.call("nvmlEventSetWait_v2", waiters[0], ctypes.byref(event), 0) == 10
    (state / "unhealthy").write_text("0\n1\n")
    for waiter in waiters:
        assert nvml.call("nvmlEventSetWait_v2", waiter, ctypes.byref(event), 0) == 0
        assert (event.device, event.data) == (gpu.value, 79)
        assert nvml.call("nvmlEventSetWait_v2", waiter, ctypes.byref(event), 0) == 10


@pytest.mark.bundle
@pytest.mark.usefixtures("nvml")
def test_the_library_is_never_kinder_than_the_driver_of_a_real_gpu(state: Path) -> None:
    # Recorded by `python -m tests.nvml_answers` on a machine with that GPU.
    recorded = json.loads((DATA / "nvml/nvidia-h200-580.159.04.json").read_text())
    library = Library(state / "libnvidia-ml.so.1")
    told = codes(library)
    assert told.keys() == recorded["codes"].keys()
    other = {what: code for what, code in told.items() if code != recorded["codes"][what]}
    assert set(other.values()) <= {NOT_SUPPORTED}, other
    assert values(library) == recorded["values"]


@pytest.mark.bundle
def test_the_real_plugin_registers_whole_gpus_and_gives_as_many_as_are_asked_for(
    built: Stack, state: Path
) -> None:
    with built.run(state) as pair:
        assert pair.hears(lambda line: "registered" in line)["registered"] == "nvidia.com/gpu"
        offered = pair.hears(lambda line: "resource" in line)
        assert (sorted(offered["healthy"]), offered["ill"]) == (NAMES, [])
        given = pair.asks("nvidia.com/gpu", 2)
        assert len(set(given["devices"])) == 2, given
        assert sorted(given["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == sorted(
            given["devices"]
        )
        (state / "unhealthy").write_text("1\n")
        assert pair.hears(lambda line: line.get("ill"))["ill"] == [NAMES[1]]


def configuration(folder: Path, **sharing: Any) -> Path:
    path = folder / "config.yaml"
    resources = [{"name": "nvidia.com/gpu", "replicas": 4}]
    slicing = {"timeSlicing": {**sharing, "resources": resources}}
    path.write_text(json.dumps({"version": "v1", "sharing": slicing}))
    return path


@pytest.mark.bundle
@pytest.mark.parametrize(
    ("renamed", "resource"), [(True, "nvidia.com/gpu.shared"), (False, "nvidia.com/gpu")]
)
def test_the_real_plugin_offers_slices_under_one_name_and_no_whole_gpu_beside_them(
    built: Stack, state: Path, renamed: bool, resource: str
) -> None:
    with built.run(state, configuration(state, renameByDefault=renamed)) as pair:
        offered = pair.hears(lambda line: "resource" in line)
        assert (offered["resource"], len(offered["healthy"])) == (resource, 12)
        # It spreads slices over GPUs: two slices of one pod are on two of them.
        given = pair.asks(resource, 2)
        assert len(given["envs"]["NVIDIA_VISIBLE_DEVICES"].split(",")) == 2, given
    assert {line["registered"] for line in pair.told if "registered" in line} == {resource}
