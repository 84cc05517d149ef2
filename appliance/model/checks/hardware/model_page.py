"""The page of a hardware model, made from its file: what is checked, what is set, what is by hand.

Nothing is added to the file: a fact has its source, and what nobody read from a machine says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from appliance.model.documents.pages import OPERATIONS
from appliance.model.state.facts.hardware_models import HardwareModel
from appliance.model.state.facts.hardware_shown import BiosSetting

UNVERIFIED: Final = "not verified on a machine"
MADE: Final = (
    "<!-- made by python -m tests.contract.hardware_pages: change the model's file instead -->"
)
# Key of a model's file -> what `hardware qualify` or preflight compares with it.
_CHECKS: Final = {
    "dmi.vendor": "`model`",
    "dmi.product": "`model`",
    "platform.cpu_vendor": "`cpu:…`",
    "platform.cpu_family": "not compared",
    "platform.cpu_sockets": "`cpus`",
    "platform.cpu_cores": "not compared",
    "platform.cpu_max_tdp_watts": "not compared",
    "platform.rack_units": "not compared",
    "platform.dimm_slots": "`memory:slots`",
    "platform.gpus": "`gpus`",
    "platform.drives": "not compared",
    "reference.cpu_model": "`cpu:…`",
    "reference.cpus": "`cpus`",
    "reference.dimms": "`memory:modules`",
    "reference.dimm_gib": "`dimm:…`",
    "reference.dimm_speed_mts": "`dimm:…:speed`",
    "reference.nics": "`nic:…`",
    "reference.gpu_models": "`gpu:…`",
    "reference.gpus": "`gpus`",
}


def model_page(name: str, model: HardwareModel, settings: Mapping[str, BiosSetting]) -> str:
    """The whole page.

    Args:
        name: vendor/model.
        model: its file.
        settings: of hardware/bios.yml, by their names.
    """
    called = f" ({', '.join(model.also_called)})" if model.also_called else ""
    parts = [
        f"# {model.vendor} {model.product}{called}",
        MADE,
        f"{_sentence(model.purpose)} Its file is `hardware/{name}.yml`.\n{_verified(model)}",
        "## What the tool checks",
        "`appliance hardware qualify` compares a machine with this, and preflight totals. Where "
        "the file has no rule,\nthe found value is a note.",
        _table(("key", "expected", "compared as", "source"), _facts(model)),
        "## What the tool can set",
        "\n".join(_settable(name, model)),
        "## By hand in the BIOS",
        f"Where each setting is in the menu was {UNVERIFIED}: no path is given. A BMC that has an "
        "attribute\nregistry tells it, with the name of the attribute:",
        "```\nappliance hardware bios show NODE --search iommu --site SITE\n```",
        _table(("setting", "needed", "checked as", "why", "source"), _by_hand(model, settings)),
    ]
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _verified(model: HardwareModel) -> str:
    read = model.shows.read_from
    if read is None:
        return f"No machine of it was read: its DMI strings, slots and PCI ids are {UNVERIFIED}."
    return f"A machine of it was read on {read.day}, by {read.by}."


def _facts(model: HardwareModel) -> Iterator[tuple[str, ...]]:
    where = {source.fact: source.where for source in model.sources}
    for key, check in _CHECKS.items():
        part, field = key.split(".")
        value = getattr(getattr(model, part), field)
        if value not in (None, ()):
            yield f"`{key}`", _value(value), check, where.get(key, UNVERIFIED)
    wanted = model.wanted.model_dump(exclude={"bios", "why"}, exclude_none=True)
    for field, value in wanted.items():
        if value not in ((), None):
            key = f"wanted.{field}"
            yield f"`{key}`", _value(value), f"`{field}`", where.get(key, UNVERIFIED)


def _settable(name: str, model: HardwareModel) -> Iterator[str]:
    passwords = _runbook("change-bmc-passwords", "change passwords of BMCs")
    power = _runbook("power-of-nodes", "power of nodes")
    yield f"- The password of its BMC: {passwords}."
    yield f"- Power, virtual media and the next boot: {power}."
    if not model.wanted.bios:
        yield (
            "- BIOS settings: none yet. No BIOS of this model was read, so no name of an attribute "
            "is known. Write those\n"
            f"  that a machine shows into `wanted.bios` of `hardware/{name}.yml`: "
            f"{_runbook('set-the-bios', 'set the BIOS')}."
        )
        return
    where = {source.fact: source.where for source in model.sources}
    for attribute, value in model.wanted.bios.items():
        why = model.wanted.why.get(attribute)
        end = f": {why}" if why else ""
        source = where.get(f"wanted.bios.{attribute}", UNVERIFIED)
        yield f"- BIOS: `{attribute}` = `{value}`{end} ({source})"


def _runbook(name: str, text: str) -> str:
    return f"[{text}](../{OPERATIONS.name}/{name}.md)"


def _by_hand(
    model: HardwareModel, settings: Mapping[str, BiosSetting]
) -> Iterator[tuple[str, ...]]:
    for name, one in settings.items():
        if one.gpus_only and not model.platform.gpus:
            continue
        needed = one.needed or "no rule"
        yield name, needed, f"`{one.fact}`", one.why, one.source or "none was read"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list):
        return "; ".join(_value(one) for one in value)
    dumped = value.model_dump(exclude_none=True) if hasattr(value, "model_dump") else value
    if isinstance(dumped, dict):
        return ", ".join(f"{key} {_value(one)}" for key, one in dumped.items() if one)
    return str(value)


def _table(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows),
    ]
    return "\n".join(lines)
