"""The stand-in of the installer: it takes what it knows of a seed, and refuses the rest."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.adapters.local.content import STANDINS
from appliance.lab.machine.installer_medium import PACKAGES, root_words
from appliance.model.node.imaging.autoinstall import DISK_TO_FIND
from tests.unit.imaging import bench

FOLDER = STANDINS / "installer_standin"


@pytest.fixture(scope="module")
def standin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("standin", FOLDER / "installer_standin.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _document(own: dict[str, Any] | None = None, disk: str = "/dev/vda") -> dict[str, Any]:
    seed = bench.seed(bench.image(None, {"firmware": "bios", **(own or {})}))
    for action in seed.document["storage"]["config"]:
        if action["type"] == "disk":
            action["path"] = disk
    return seed.document


def test_it_installs_what_the_seed_says(standin: ModuleType) -> None:
    want = standin.wanted(_document())
    assert want == {
        "disk": "/dev/vda",
        "label": "app-installing",
        "mac": "00:00:5e:00:53:21",
        "address": "198.18.7.21/24",
        "routes": [],
        "name": "w1",
        "user": "ubuntu",
        "keys": [bench.KEY],
        "endpoint": f"http://198.18.7.2:8480/report/{bench.TOKEN}",
    }


@pytest.mark.parametrize(
    ("own", "disk", "said"),
    [
        ({}, DISK_TO_FIND, "no disk was chosen"),
        ({"firmware": "uefi"}, "/dev/vda", "profile root with firmware bios"),
        ({"storage": "lvm"}, "/dev/vda", "profile root"),
        ({"storage": "root_and_var"}, "/dev/vda", "profile root"),
        ({"vlan": 7}, "/dev/vda", "one port"),
        ({"bond": {"macs": ["00:00:5e:00:53:30", "00:00:5e:00:53:31"]}}, "/dev/vda", "one port"),
    ],
)
def test_it_refuses_what_it_does_not_know(
    own: dict[str, Any], disk: str, said: str, standin: ModuleType
) -> None:
    with pytest.raises(standin.Stop, match=said):
        standin.wanted(_document(own, disk))


def test_the_seeds_are_where_the_kernel_is_told(standin: ModuleType) -> None:
    line = "BOOT_IMAGE=/standin/vmlinuz standin.seeds=medium console=ttyS0"
    assert standin.option(line, standin.SEEDED) == "medium"
    assert standin.option("quiet", standin.SEEDED) == ""


def test_its_placeholder_is_the_seeds(standin: ModuleType) -> None:
    assert standin.PLACEHOLDER == DISK_TO_FIND


def test_the_medium_has_the_program_and_no_host_keys(tmp_path: Path) -> None:
    words = root_words(tmp_path / "root", tmp_path / "sources.list", ['A::B "c";'])
    assert words[0] == "mmdebstrap"
    assert f"--include={','.join(PACKAGES)}" in words
    text = "\n".join(words)
    assert "installer_standin.py" in text
    assert "ssh_host_*" in text
    assert '--aptopt=A::B "c"' in words
    assert all((FOLDER / name).is_file() for name in ("init", "curtin", "installer_standin.py"))
