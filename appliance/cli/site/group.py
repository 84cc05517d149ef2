"""``appliance site``: write, check and show the directory that describes an appliance."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.typos import Nouns
from appliance.cli.options import Place, dry_run_option, output_option, site_option
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.site.adopt import adopt
from appliance.cli.site.inventory import inventory
from appliance.cli.site.options import new_site_options, site_ports, vault_password_option
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.adapters.site.files import SiteCheck


@click.group(cls=Nouns)
def site() -> None:
    """Write, check and show a site.

    \b
    A site is a directory: hosts.yml, group_vars/all/site.yml, vault.yml, host_vars/<node>.yml.
    Only adopt connects to nodes; it changes nothing there.
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


@site.command()
@click.argument("directory", type=Place(file_okay=False))
@new_site_options
@vault_password_option
@click.option(
    "--new-vault-password",
    is_flag=True,
    help="Make a random vault password and keep it in DIRECTORY/.appliance/vault-password (0600).",
)
@dry_run_option
def init(
    directory: Path,
    vault_password_file: Path | None,
    new_vault_password: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Write a new site into DIRECTORY: complete, commented and valid.

    \b
    - writes hosts.yml, group_vars, host_vars, known_hosts and .gitignore
    - creates the site's CA and writes it, encrypted, to group_vars/all/vault.yml
    - never overwrites a file: exits with 3 if one exists; connects to no node

    Example: appliance site init inventories/rack7 --domain rack7.example
    --control-plane master1=198.51.100.11/24 --worker gpu1=198.51.100.21/24
    --hardware master1=quanta/s5sp --hardware gpu1=quanta/d43n-3u --new-vault-password
    """
    from appliance.adapters.local.content import list_releases
    from appliance.adapters.site.vault import kept_password
    from appliance.model.site.files.new import NewSite
    from appliance.workflows.site.init import SiteInitRequest, site_init

    if new_vault_password and vault_password_file:
        raise click.UsageError(
            "--new-vault-password and --vault-password-file exclude each other: give one of them"
        )
    options["release"] = options["release"] or list_releases()[-1]
    options["domain"] = options["domain"] or f"{directory.resolve().name}.internal"
    new = NewSite(**options)
    request = SiteInitRequest(
        directory, new.settings(), new.groups(), new.host_vars(), dry_run=dry_run
    )
    with site_ports(directory, vault_password_file, new_vault_password, _prompt()) as ports:
        written = site_init(request, *ports)
    for path in written:
        click.echo(f"{'would write' if dry_run else 'wrote'} {path}")
    if not dry_run:
        if new_vault_password:
            click.echo(
                f"keep a copy of {kept_password(directory)} elsewhere: git ignores this file, and "
                "without it the vault and the site's CA cannot be opened",
                err=True,
            )
        click.echo(
            "next: review the files, then: appliance site check --site "
            f"{shlex.quote(str(directory))}",
            err=True,
        )


def _prompt() -> Callable[[], str] | None:
    if not sys.stdin.isatty():
        return None

    def ask() -> str:
        answer: str = click.prompt(
            "Password for the new vault", hide_input=True, confirmation_prompt=True, err=True
        )
        if not answer.strip():
            raise ConfigError("the vault password is empty", hint="--new-vault-password")
        return answer

    return ask


site.add_command(adopt)
site.add_command(inventory)
