"""What a patch changes on one node: cases as data, and what must hold for each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.patch.drivers import GpuNode
from appliance.model.patch.installing import installing_faults
from appliance.model.patch.kernels import follows, is_of_a_kernel, kernel_of, kernels_in
from appliance.model.patch.node import NodePatch, plan_node
from appliance.model.patch.proof import newly_kept, open_points
from appliance.model.patch.space import space_faults
from appliance.model.patch.state import NodeState, NoState
from tests.unit.patch.bench import GIB, KERNEL, OLD_KERNEL, UPDATES, manifest, state

DATA = yaml.safe_load(
    (Path(__file__).parents[2] / "data/patch/nodes.yml").read_text(encoding="utf-8")
)
CASES = {case["name"]: case for case in DATA["cases"]}


def planned(case: dict[str, Any]) -> NodePatch:
    node = {**DATA["node"], **case}
    found = NodeState(
        "w1",
        node["kernel"],
        "boot",
        node["packages"],
        frozenset(node["held"]),
        interrupted=node.get("interrupted", False),
        reboot_asked="reboot_for" in node,
        reboot_for=tuple(node.get("reboot_for", ())),
        stale=tuple(node.get("stale", ())),
        unbooted=tuple(node.get("unbooted", ())),
        dkms={name: frozenset(found) for name, found in node.get("dkms", {}).items()},
        nvidia_kernels=frozenset(node.get("nvidia_kernels", ())),
        boots_by_choice=node.get("boots_by_choice", False),
    )
    bundle = manifest(case["updates"], case.get("older"))
    bundle = replace(bundle, packages={**bundle.packages, **case.get("release_packages", {})})
    gpu = case.get("gpu")
    return plan_node(
        found,
        bundle,
        gpu=GpuNode(gpu["driver"], tuple(gpu["kernels"])) if gpu else None,
        always=case.get("always", False),
    )


def shown(patch: NodePatch) -> dict[str, Any]:
    found: dict[str, Any] = {
        "changes": [change.sentence() for change in patch.changes],
        "kept": [kept.sentence() for kept in patch.kept],
        "older": [change.sentence() for change in patch.older],
        "reboot": list(patch.reboot),
        "services": list(patch.services),
        "owed": list(patch.owed),
        "libraries": list(patch.libraries),
        "kernel": patch.kernel,
        "driver_kernel": patch.driver_kernel,
        "no_driver": patch.no_driver,
        "no_boot": list(patch.no_boot),
        "driver_packages": dict(patch.driver_packages),
        "repair": patch.repair,
    }
    return {key: value for key, value in found.items() if value}


@pytest.mark.parametrize("name", CASES)
def test_a_node_gets_what_its_case_says(name: str) -> None:
    assert shown(planned(CASES[name])) == CASES[name]["expected"]


@pytest.mark.parametrize("name", [name for name in CASES if "owe" in name])
def test_what_a_node_owes_is_a_reason_of_its_own_and_no_patch_is_done_before(name: str) -> None:
    patch = planned(CASES[name])
    assert patch.is_due == bool(CASES[name]["expected"])
    if patch.is_due:
        assert patch.why()


def test_a_service_with_a_replaced_file_is_not_patched_yet() -> None:
    bundle = manifest()
    patch = plan_node(state(), bundle)
    now = state(packages={**state().packages, **patch.packages}, stale=("ssh.service",))
    assert open_points(patch, state(), now, bundle, None) == (
        "w1: ssh.service still uses a replaced file",
    )


@pytest.mark.parametrize("name", CASES)
def test_nothing_on_hold_changes_in_any_case(name: str) -> None:
    held = set({**DATA["node"], **CASES[name]}["held"])
    patch = planned(CASES[name])
    assert not held & patch.packages.keys()
    assert not held & patch.driver_packages.keys()


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("linux-image-5.4.0-216-generic", "5.4.0-216-generic"),
        ("linux-image-unsigned-5.4.0-216-generic", "5.4.0-216-generic"),
        ("linux-modules-extra-5.15.0-139-generic", "5.15.0-139-generic"),
        ("linux-headers-5.4.0-216", ""),
        ("linux-image-generic", ""),
        ("linux-image-6.1.0-28-amd64", "6.1.0-28-amd64"),
    ],
)
def test_a_package_tells_its_kernel(name: str, kernel: str) -> None:
    assert kernel_of(name) == kernel
    assert is_of_a_kernel(name)


@pytest.mark.parametrize("name", ["linux-firmware", "linux-libc-dev", "linux-base", "openssl"])
def test_other_packages_are_of_no_kernel(name: str) -> None:
    assert not is_of_a_kernel(name)


def test_kernels_are_sorted_by_their_numbers() -> None:
    names = [f"linux-image-5.4.0-{number}-generic" for number in (99, 216, 150)]
    assert kernels_in(names) == ("5.4.0-99-generic", OLD_KERNEL, KERNEL)
    assert follows(KERNEL, OLD_KERNEL)
    assert not follows("5.15.0-139-generic", OLD_KERNEL)


def changed(**changes: Any) -> NodeState:
    return state(**{"packages": {**state().packages, **UPDATES}, **changes})


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (changed(), ()),
        (state(), ("w1: libtiff5 is 4.1.0-1, not 4.1.0-1ubuntu0.1",
                   "w1: openssh-server is 1:8.2p1-4ubuntu0.5, not 1:8.2p1-4ubuntu0.13")),
        (changed(interrupted=True, half=("dbus",)), ("w1: dpkg left half installed: dbus",)),
        (changed(packages={**state().packages, **UPDATES, "docker.io": "21"}),
         ("w1: docker.io was on hold, and changed to 21",)),
        (NoState("w1", "w1: no answer", "ping"), ("w1: no answer",)),
        (None, ("w1: no answer",)),
    ],
)  # fmt: skip
def test_a_patch_is_proved_by_what_the_node_says(
    now: NodeState | NoState | None, told: tuple[str, ...]
) -> None:
    bundle = manifest()
    patch = plan_node(state(), bundle)
    assert open_points(patch, state(), now, bundle, None) == told


def test_a_boot_is_proved_by_its_id_and_the_kernel() -> None:
    bundle = manifest({f"linux-image-{KERNEL}": "5.4.0-216.236"})
    patch = plan_node(state(), bundle)
    packages = {**state().packages, **patch.packages}
    same = state(packages=packages)
    assert open_points(patch, state(), same, bundle, None) == (
        f"w1: kernel {KERNEL} is installed, and {OLD_KERNEL} runs",
        "w1: it did not boot",
        f"w1: kernel {OLD_KERNEL} runs, not {KERNEL}",
    )
    booted = state(packages=packages, boot="another", kernel=KERNEL)
    assert open_points(patch, state(), booted, bundle, None) == ()


def test_only_files_that_came_with_this_patch_are_told() -> None:
    before = state(kept_files={"/etc/a.conf.dpkg-dist": "1", "/etc/b.conf.dpkg-dist": "1"})
    now = state(kept_files={**before.kept_files, "/etc/b.conf.dpkg-dist": "2"})
    assert newly_kept(before, now) == (
        "w1: kept /etc/b.conf; the package's own is /etc/b.conf.dpkg-dist",
    )


@pytest.mark.parametrize(
    ("free", "updates", "told"),
    [
        ({"/": 50 * GIB}, UPDATES, []),
        ({"/": 400_000_000}, UPDATES,
         ["w1: disk: found 400 MB free on /, expected 512 MB for packages on /"]),
        ({"/": 50 * GIB, "/boot": 300_000_000}, {f"linux-image-{KERNEL}": "1"},
         ["w1: disk: found 300 MB free on /boot, expected 350 MB for packages on /boot"]),
        ({"/": 50 * GIB, "/boot": 300_000_000}, UPDATES, []),
        # An image of the running kernel is made again, beside the old one.
        ({"/": 50 * GIB, "/boot": 90_000_000}, {"intel-microcode": "2"},
         ["w1: disk: found 90 MB free on /boot, expected 120 MB for packages on /boot"]),
        ({"/": 50 * GIB, "/boot": 90_000_000}, UPDATES, []),
        ({"/var": 1}, UPDATES,
         ["w1: disk: found 0 MB free on /var, expected 502 MB for packages on /var",
          "w1: disk: found its free space was not read, expected 510 MB for packages on /"]),
        ({}, {}, []),
    ],
)  # fmt: skip
def test_a_file_system_that_is_too_small_is_refused(
    free: dict[str, int], updates: dict[str, str], told: list[str]
) -> None:
    bundle = manifest(updates)
    found = state(free_bytes=free, packages={**state().packages, "intel-microcode": "1"})
    patch = plan_node(found, bundle)
    assert [one.sentence() for one in space_faults(found, patch, bundle)] == told


@pytest.mark.parametrize(
    ("found", "updates", "told"),
    [
        ({"foreign": frozenset({"libtiff5"})}, UPDATES,
         ["w1: packages: found libtiff5 of two architectures, expected packages of the machine's "
          "own architecture only: the bundle has no others, and both must have one version"]),
        ({"foreign": frozenset({"libc6"})}, UPDATES, []),
        ({"lost_disks": {"pc": ("/dev/disk/by-id/ata-OLD",)}}, {"grub-pc": "2"},
         ["w1: packages: found grub-pc is to be installed on /dev/disk/by-id/ata-OLD, which is "
          "absent, expected the disk that the machine boots from"]),
        ({"lost_disks": {"efi": ("/dev/sda15",)}}, {"shim-signed": "2"},
         ["w1: packages: found shim-signed is to be installed on /dev/sda15, which is absent, "
          "expected the disk that the machine boots from"]),
        ({"lost_disks": {"pc": ("/dev/sdz",)}}, UPDATES, []),
        ({"lost_disks": {"efi": ("/dev/sdz",)}}, {"grub-pc": "2"}, []),
    ],
)  # fmt: skip
def test_what_would_fail_in_the_middle_of_the_installation_is_refused(
    found: dict[str, Any], updates: dict[str, str], told: list[str]
) -> None:
    packages = {**state().packages, "grub-pc": "1", "shim-signed": "1"}
    node, bundle = state(packages=packages, **found), manifest(updates)
    assert [one.sentence() for one in installing_faults(node, plan_node(node, bundle))] == told
