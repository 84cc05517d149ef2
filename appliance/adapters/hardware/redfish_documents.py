"""Redfish documents as our values, whatever else they say. A wrong type counts as missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from appliance.model.node.bmc.orders import BmcMachine, Medium
from appliance.model.state.facts.placeholders import told_serial, told_uuid

_SHORT: Final = re.compile(r"[\x20-\x7e]{1,64}")


def one_line(value: object) -> str | None:
    """A short text without control characters, or None."""
    text = value.strip() if isinstance(value, str) else ""
    return text if _SHORT.fullmatch(text) else None


def read_machine(document: Mapping[str, Any]) -> BmcMachine:
    """The machine in a ComputerSystem, whatever else the document says."""
    boot, actions = _part(document, "Boot"), _part(document, "Actions")
    return BmcMachine(
        serial=told_serial(one_line(document.get("SerialNumber"))),
        uuid=told_uuid(one_line(document.get("UUID"))),
        manufacturer=one_line(document.get("Manufacturer")),
        model=one_line(document.get("Model")),
        power=one_line(document.get("PowerState")),
        resets=_words(_part(actions, "#ComputerSystem.Reset"), "ResetType"),
        boot=one_line(boot.get("BootSourceOverrideTarget")),
        boot_enabled=one_line(boot.get("BootSourceOverrideEnabled")),
        boot_sources=_words(boot, "BootSourceOverrideTarget"),
    )


def read_medium(document: Mapping[str, Any]) -> Medium:
    """The medium in a VirtualMedia, whatever else the document says."""
    types, image = document.get("MediaTypes"), document.get("Image")
    listed = [one_line(one) for one in types] if isinstance(types, list) else []
    inserted = document.get("Inserted")
    return Medium(
        name=one_line(document.get("Id")) or "",
        types=tuple(one for one in listed if one),
        image=image if isinstance(image, str) and image else None,
        inserted=inserted if isinstance(inserted, bool) else None,
    )


def _part(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _words(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = document.get(f"{key}@Redfish.AllowableValues")
    words = [one_line(one) for one in found] if isinstance(found, list) else []
    return tuple(one for one in words if one)
