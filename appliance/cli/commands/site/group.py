"""``appliance site``: write, check and show the directory that describes an appliance."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.site.adopt import adopt
from appliance.cli.commands.site.init import init
from appliance.cli.commands.site.inventory import inventory
from appliance.cli.commands.site.packages import packages
from appliance.cli.help.typos import Nouns
from appliance.cli.options import output_option, site_option
from appliance.cli.screen.render import print_json, print_table

if TYPE_CHECKING:
    from appliance.adapters.site.files import SiteCheck


@click.group(cls=Nouns)
def site() -> None:
    """Write, check and show a site.

    \b
    A site is a directory: hosts.yml, group_vars/all/site.yml, vault.yml, host_vars/<node>.yml.
    Only adopt and packages connect to nodes; they change nothing there.
    """


@site.command()
@site_option
@output_option
def check(site: Path, output: str) -> None:
    """Check a site's files; report every fault with its file and line.

    \b
    - connects to no node; opens the vault but does not show it
    - warns if the vault's password is not available
    - writes nothing; a note says if the schema for editors is missing or old
    - exits with 3 if there is a fault

    Example: appliance site check --site inventories/rack7
    """
    from appliance.adapters.site.files import check_site, refusal
    from appliance.adapters.site.folder import old_schemas
    from appliance.adapters.site.vault_check import with_vault

    result = with_vault(check_site(site))
    if output == "json":
        print_json(_check_as_json(result))
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if result.site is None:
        raise refusal(site, result)
    for name, command in old_schemas(site):
        path = site / name
        click.echo(
            f"note: the schema for editors, {path}, is missing or of another version; renew it: "
            f"{command} > {shlex.quote(str(path))}",
            err=True,
        )
    if output != "json":
        nodes = _counted(len(result.site.nodes), "node")
        warnings = _counted(len(result.warnings), "warning")
        click.echo(f"{result.site.name}: {nodes}, no fault, {warnings}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_as_json(result: SiteCheck) -> dict[str, Any]:
    def plain(faults: Any) -> list[dict[str, Any]]:
        return [
            {"file": f.file, "line": f.line, "problem": f.problem, "remedy": f.remedy}
            for f in faults
        ]

    return {
        "ok": result.site is not None,
        "faults": plain(result.faults),
        "warnings": plain(result.warnings),
    }


@site.command()
@site_option
@output_option
def show(site: Path, output: str) -> None:
    """Show the effective site: every value, and the line or default it comes from.

    \b
    - checks the site first; exits with 3 if there is a fault
    - shows no secrets and does not open the vault

    Example: appliance site show --output json
    """
    from appliance.adapters.site.files import SETTINGS, check_site, refusal
    from appliance.model.site.files.view import site_as_json, site_rows
    from appliance.model.site.groups import GROUPS

    result = check_site(site)
    if result.site is None:
        raise refusal(site, result)
    document = next(one for one in result.documents if one.file == SETTINGS)
    if output == "json":
        print_json(site_as_json(result.site, document))
        return
    rows = [(key, _shown(value), source) for key, value, source in site_rows(result.site, document)]
    print_table(["setting", "value", "from"], rows)
    click.echo()
    print_table(
        ["node", "address", "groups", "hardware", "BMC"],
        [
            [
                node.name,
                node.address,
                ", ".join(group for group in GROUPS if group in node.groups),
                node.hardware,
                node.bmc_address,
            ]
            for node in result.site.nodes
        ],
    )


def _shown(value: Any) -> str:
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(map(str, value))
    if value in (None, {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@site.command()
@click.option("--node", is_flag=True, help="Print the schema of host_vars/<node>.yml instead.")
@click.option("--hosts", is_flag=True, help="Print the schema of hosts.yml instead.")
def schema(node: bool, hosts: bool) -> None:
    """Print the JSON Schema of site.yml; editors complete and check the file with it.

    \b
    - it lists the releases, operating systems and hardware models of this installation
    - a new site has the three schemas, and its files name them in their first lines

    Example: appliance site schema > .site.schema.json
    """
    from appliance.adapters.site.content import known_content
    from appliance.model.site.files.schema import hosts_schema, node_schema, site_schema

    if node and hosts:
        raise click.UsageError("--node and --hosts exclude each other: give one of them")
    if hosts:
        print_json(hosts_schema())
    else:
        print_json((node_schema if node else site_schema)(known_content()))


site.add_command(init)
site.add_command(adopt)
site.add_command(inventory)
site.add_command(packages)
