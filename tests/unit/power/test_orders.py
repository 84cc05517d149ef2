"""Which order is sent to a BMC, and what counts as its effect: cases as data."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.node.bmc.orders import (
    BmcMachine,
    BootOverride,
    Medium,
    boot_override,
    boot_target,
    disc_of,
    reset_of,
)

CD = Medium("CD1", ("CD", "DVD"))
FULL = Medium("CD1", ("CD",), "http://a/1.iso", inserted=True)
STICK = Medium("USB1", ("USBStick",))
BARE = Medium("Slot1")


@pytest.mark.parametrize(
    ("order", "resets", "expected"),
    [
        ("on", ("On", "ForceOff"), "On"),
        ("on", ("ForceOn", "PushPowerButton"), "ForceOn"),
        ("on", ("PushPowerButton",), None),
        ("on", (), "On"),
        ("off", ("On", "ForceOff"), None),
        ("off", ("On", "GracefulShutdown"), "GracefulShutdown"),
        ("cut", ("On", "ForceOff", "GracefulShutdown"), "ForceOff"),
        ("cut", ("On", "ForceRestart", "PowerCycle"), None),
    ],
)
def test_a_reset_is_one_that_the_bmc_accepts(
    order: Any, resets: tuple[str, ...], expected: str | None
) -> None:
    assert reset_of(order, resets) == expected


@pytest.mark.parametrize(
    ("order", "power", "after"),
    [
        *(("on", power, power == "On") for power in ("On", "Off", "PoweringOn", "Paused", None)),
        *(("off", power, power == "Off") for power in ("On", "Off", "PoweringOff", None)),
        *(("cut", power, power == "Off") for power in ("On", "Off", "PoweringOff", "off")),
    ],
)
def test_only_the_state_itself_counts_as_reached(order: Any, power: Any, after: bool) -> None:
    assert BmcMachine(power=power).is_after(order) is after


@pytest.mark.parametrize(
    ("source", "targets", "expected"),
    [
        ("cd", ("Pxe", "Cd", "UsbCd"), "Cd"),
        ("cd", ("Pxe", "UsbCd"), "UsbCd"),
        ("cd", ("Pxe", "Hdd"), None),
        ("cd", (), "Cd"),
        ("pxe", ("Pxe", "Hdd"), "Pxe"),
        ("disk", ("Pxe",), None),
    ],
)
def test_a_boot_source_is_one_that_the_bmc_has(
    source: Any, targets: tuple[str, ...], expected: str | None
) -> None:
    assert boot_target(source, targets) == expected


@pytest.mark.parametrize(
    ("boot", "enabled", "expected"),
    [
        ("Cd", "Once", BootOverride("Cd", stays=False)),
        ("Cd", "Continuous", BootOverride("Cd", stays=True)),
        ("Cd", "Disabled", None),
        ("Pxe", "Once", None),
        (None, None, None),
    ],
)
def test_an_override_is_the_one_that_was_ordered(
    boot: Any, enabled: Any, expected: BootOverride | None
) -> None:
    assert boot_override(BmcMachine(boot=boot, boot_enabled=enabled), "Cd") == expected


@pytest.mark.parametrize(
    ("media", "expected"),
    [
        ((STICK, CD), CD),
        ((FULL, CD), CD),
        ((FULL,), FULL),
        ((STICK,), None),
        ((STICK, BARE), BARE),
        ((), None),
    ],
)
def test_an_iso_goes_into_a_disc_and_an_empty_one_first(
    media: tuple[Medium, ...], expected: Medium | None
) -> None:
    assert disc_of(media) == expected


@pytest.mark.parametrize(
    ("image", "inserted", "holds"),
    [
        ("http://a/1.iso", True, True),
        ("http://a/1.iso", None, True),
        ("http://a/1.iso", False, False),
        ("http://a/2.iso", True, False),
        (None, True, True),
        (None, None, False),
        (None, False, False),
    ],
)
def test_a_medium_holds_an_image_as_far_as_the_bmc_tells(
    image: Any, inserted: Any, holds: bool
) -> None:
    medium = Medium("CD1", ("CD",), image, inserted)
    assert medium.holds("http://a/1.iso") is holds
