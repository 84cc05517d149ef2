"""The stand-in of the installer: it takes what it knows of a seed, and refuses the rest."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appliance.adapters.local.content import STANDINS
from appliance.lab.machine.installer_medium import PACKAGES, PROGRAM, root_words
from appliance.model.node.imaging.autoinstall import DISK_TO_FIND
from tests.prerequisites import require
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
        "partitions": [
            {"size": "1M", "boots": True, "label": "", "mount": ""},
            {"size": "", "boots": False, "label": "app-installing", "mount": "/"},
        ],
        "port": {"mac": "00:00:5e:00:53:21", "address": "198.18.7.21/24", "routes": []},
        "name": "w1",
        "user": "ubuntu",
        "keys": [bench.KEY],
        "endpoint": f"http://198.18.7.2:8480/report/{bench.TOKEN}",
    }


@pytest.mark.parametrize(
    ("own", "disk", "said"),
    [
        ({}, DISK_TO_FIND, "no disk was chosen"),
        ({"firmware": "uefi"}, "/dev/vda", "firmware bios alone"),
        ({"storage": "lvm"}, "/dev/vda", "profiles root and root_and_var alone"),
        ({"vlan": 7}, "/dev/vda", "one port"),
        ({"bond": {"macs": ["00:00:5e:00:53:30", "00:00:5e:00:53:31"]}}, "/dev/vda", "one port"),
    ],
)
def test_it_refuses_what_it_does_not_know(
    own: dict[str, Any], disk: str, said: str, standin: ModuleType
) -> None:
    with pytest.raises(standin.Stop, match=said):
        standin.wanted(_document(own, disk))


@pytest.mark.parametrize(
    ("storage", "types", "mebibytes"),
    [
        ("root", ["boot", "linux"], [1, None]),
        ("root_and_var", ["boot", "linux", "linux"], [1, 100 * 1024, None]),
    ],
)
def test_the_disk_gets_a_partition_for_each_of_the_profile(
    storage: str, types: list[str], mebibytes: list[int | None], standin: ModuleType, tmp_path: Path
) -> None:
    require("sfdisk")
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(200 << 30)
    want = standin.wanted(_document({"storage": storage}))
    words = ["sfdisk", "--quiet", str(disk)]
    subprocess.run(words, input=standin.table(want["partitions"]), text=True, check=True)
    said = subprocess.run(["sfdisk", "--json", str(disk)], capture_output=True, check=True).stdout
    found = json.loads(said)["partitiontable"]
    assert found["label"] == "gpt"
    kinds = {standin.BIOS_BOOT: "boot", standin.LINUX: "linux"}
    assert [kinds[one["type"]] for one in found["partitions"]] == types
    sizes = [one["size"] * 512 >> 20 for one in found["partitions"]]
    assert [size for size, asked in zip(sizes, mebibytes, strict=True) if asked] == mebibytes[:-1]
    assert sum(sizes) > 199 * 1024


def test_the_seeds_are_where_the_kernel_is_told(standin: ModuleType) -> None:
    line = "BOOT_IMAGE=/standin/vmlinuz standin.seeds=medium console=ttyS0"
    assert standin.option(line, standin.SEEDED) == "medium"
    assert standin.option("quiet", standin.SEEDED) == ""


def test_its_placeholder_is_the_seeds(standin: ModuleType) -> None:
    assert standin.PLACEHOLDER == DISK_TO_FIND


def test_the_medium_is_a_debian_and_the_program(tmp_path: Path) -> None:
    words = root_words(tmp_path / "root", tmp_path / "sources.list", ['A::B "c";'])
    assert words[0] == "mmdebstrap"
    assert f"--include={','.join(PACKAGES)}" in words
    assert any("ssh_host_*" in word for word in words)
    assert '--aptopt=A::B "c"' in words
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == set(PROGRAM)
