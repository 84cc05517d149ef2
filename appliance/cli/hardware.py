"""``appliance hardware``: the machines that an appliance is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import output_option
from appliance.cli.render import print_json, print_table
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.model.hardware import HardwareModel


@click.group()
def hardware() -> None:
    """Show the hardware models that this installation knows."""


@hardware.command("list")
@output_option
def list_models(output: str) -> None:
    """List the models and what each is for. Changes nothing.

    Example: appliance hardware list
    """
    from appliance.adapters.hardware_files import load_hardware

    models = load_hardware()
    if output == "json":
        print_json({name: model.model_dump(mode="json") for name, model in models.items()})
        return
    print_table(
        ["model", "product", "also called", "purpose", "DMI recorded"],
        [
            [
                name,
                f"{model.vendor} {model.product}",
                ", ".join(model.also_called),
                model.purpose,
                "yes" if model.dmi.product else "stand-in" if model.standin else "no",
            ]
            for name, model in models.items()
        ],
    )


@hardware.command()
@click.argument("model")
@output_option
def show(model: str, output: str) -> None:
    """Show one MODEL (vendor/model): its facts, and where each was read. Changes nothing.

    Example: appliance hardware show quanta/d43n-3u
    """
    from appliance.adapters.hardware_files import load_hardware
    from appliance.model.site_faults import did_you_mean

    models = load_hardware()
    if model not in models:
        raise ConfigError(
            f"the hardware model {model!r} is unknown; {did_you_mean(model, models)}",
            hint="see them all: appliance hardware list",
        )
    found = models[model]
    if output == "json":
        print_json({"name": model, **found.model_dump(mode="json")})
        return
    sources = {source.fact: source.where for source in found.sources}
    print_table(
        ["fact", "value", "source"],
        [[fact, value, sources.get(fact, "")] for fact, value in _facts(found)],
    )


def _facts(model: HardwareModel) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = []
    for key, value in model.model_dump(mode="json", exclude={"sources"}).items():
        if isinstance(value, dict):
            facts.extend((f"{key}.{inner}", _shown(of)) for inner, of in value.items())
        else:
            facts.append((key, _shown(value)))
    return facts


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_shown(item) for item in value)
    if isinstance(value, dict):
        return " ".join(str(item) for item in value.values() if item is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
