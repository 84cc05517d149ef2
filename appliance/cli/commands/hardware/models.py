"""``appliance hardware list`` and ``show``: the supported server models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.complete import models
from appliance.cli.options import output_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.render import print_json, print_table
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.model.state.facts.hardware_models import HardwareModel


@click.command("list")
@output_option
def list_models(output: str) -> None:
    """List the models and the purpose of each. Changes nothing.

    Example: appliance hardware list
    """
    from appliance.adapters.local.hardware_models import load_configurations, load_hardware

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
    print_table(
        ["configuration", "purpose", "servers"],
        [
            [
                name,
                one.purpose,
                ", ".join(f"{each.count} x {each.hardware} ({each.role})" for each in one.servers),
            ]
            for name, one in load_configurations().items()
        ],
    )


@click.command()
@click.argument("model", shell_complete=models)
@output_option
def show(model: str, output: str) -> None:
    """Show the facts of one MODEL (vendor/model) and the source of each. Changes nothing.

    Example: appliance hardware show quanta/d43n-3u
    """
    from appliance.adapters.local.hardware_models import load_hardware
    from appliance.model.site.files.diagnostics import did_you_mean

    models = load_hardware()
    if model not in models:
        raise ConfigError(
            f"the hardware model {model!r} is unknown; {did_you_mean(model, models)}",
            hint="list all models: appliance hardware list",
        )
    hardware_model = models[model]
    if output == "json":
        print_json({"name": model, **hardware_model.model_dump(mode="json")})
        return
    sources = {source.fact: source.where for source in hardware_model.sources}
    print_table(
        ["fact", "value", "source"],
        [[fact, value, sources.get(fact, "")] for fact, value in _facts(hardware_model)],
    )
    if hardware_model.dmi.product is None and not hardware_model.standin:
        say("model not verified: no machine of it was read; to read one:")
        say("appliance hardware inspect NODE --write FOLDER")


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
        return " ".join(_shown(item) for item in value.values() if item is not None)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
