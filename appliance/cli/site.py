"""``appliance site``: write, check and show the directory that says what an appliance is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import dry_run_option, output_option, site_option
from appliance.cli.render import print_json, print_table
from appliance.cli.site_adopt import adopt
from appliance.cli.site_options import new_site_options, site_ports, vault_password_option
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.adapters.site_files import SiteCheck


@click.group()
def site() -> None:
    """Write, check and show a site.

    \b
    A site is a directory: hosts.yml, group_vars/all/site.yml, vault.yml, host_vars/<node>.yml.
    Only adopt reaches nodes, and it changes none.
    """


@site.command()
@site_option
@output_option
def check(site: Path, output: str) -> None:
    """Check a site's files; every fault at once, with file and line.

    \b
    - no node is reached; the vault is opened, and not shown
    - a warning when the vault's password is not at hand
    - nothing is written; a schema for editors that is absent or old is told
    - exit 3 when there is a fault

    Example: appliance site check --site inventories/rack7
    """
    from appliance.adapters.site_files import check_site, refusal
    from appliance.adapters.site_folder import is_schema_current
    from appliance.adapters.site_vault import with_vault
    from appliance.model.site_text import SCHEMA

    found = with_vault(check_site(site))
    if output == "json":
        print_json(_check_as_json(found))
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if found.site is None:
        raise refusal(site, found)
    if not is_schema_current(site):
        path = site / SCHEMA
        click.echo(
            f"note: {path}, which helps editors, is absent or of another version; renew it with: "
            f"appliance site schema > {shlex.quote(str(path))}",
            err=True,
        )
    if output != "json":
        nodes = _counted(len(found.site.nodes), "node")
        warnings = _counted(len(found.warnings), "warning")
        click.echo(f"{found.site.name}: {nodes}, no fault, {warnings}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_as_json(found: SiteCheck) -> dict[str, Any]:
    def plain(faults: Any) -> list[dict[str, Any]]:
        return [
            {"file": f.file, "line": f.line, "problem": f.problem, "remedy": f.remedy}
            for f in faults
        ]

    return {
        "ok": found.site is not None,
        "faults": plain(found.faults),
        "warnings": plain(found.warnings),
    }


@site.command()
@site_option
@output_option
def show(site: Path, output: str) -> None:
    """Show the effective site: every value, and the line or default it comes from.

    \b
    - the site is checked first; exit 3 when there is a fault
    - secrets are not shown; the vault is not opened

    Example: appliance site show --output json
    """
    from appliance.adapters.site_files import SETTINGS, check_site, refusal
    from appliance.model.groups import GROUPS
    from appliance.model.site_view import site_as_json, site_rows

    found = check_site(site)
    if found.site is None:
        raise refusal(site, found)
    document = next(one for one in found.documents if one.file == SETTINGS)
    if output == "json":
        print_json(site_as_json(found.site, document))
        return
    rows = [(key, _shown(value), source) for key, value, source in site_rows(found.site, document)]
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
            for node in found.site.nodes
        ],
    )


def _shown(value: Any) -> str:
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        return ", ".join(map(str, value))
    if value in (None, {}):
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@site.command()
@click.option("--node", is_flag=True, help="The schema of host_vars/<node>.yml instead.")
def schema(node: bool) -> None:
    """Print the JSON Schema of site.yml, so that an editor completes and checks it.

    \b
    - a new site has it in .site.schema.json, and its site.yml names it

    Example: appliance site schema > .site.schema.json
    """
    from appliance.model.site_schema import node_schema, site_schema

    print_json(node_schema() if node else site_schema())


@site.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
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
    **said: Any,
) -> None:
    """Write a new site into DIRECTORY: complete, commented, and without fault.

    \b
    - writes hosts.yml, group_vars, host_vars, known_hosts and .gitignore; no node is reached
    - makes the site's own CA and puts it, encrypted, into group_vars/all/vault.yml
    - writes over nothing: exit 3 when one of the files exists

    Example: appliance site init inventories/rack7 --domain rack7.example
    --control-plane master1=198.51.100.11/24 --worker gpu1=198.51.100.21/24
    --hardware master1=quanta/s5sp --hardware gpu1=quanta/d43n-3u --new-vault-password
    """
    from appliance.adapters.content import list_releases
    from appliance.adapters.vault import kept_password
    from appliance.model.site_new import NewSite
    from appliance.workflows.site_init import SiteInitRequest, site_init

    if new_vault_password and vault_password_file:
        raise click.UsageError(
            "--new-vault-password and --vault-password-file exclude each other: give one of them"
        )
    said["release"] = said["release"] or list_releases()[-1]
    said["domain"] = said["domain"] or f"{directory.resolve().name}.internal"
    new = NewSite(**said)
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
                f"keep a copy of {kept_password(directory)} elsewhere: git ignores it, and without "
                "it the vault, and with it the site's CA, does not open",
                err=True,
            )
        click.echo(
            "next: look it through, then: appliance site check --site "
            f"{shlex.quote(str(directory))}",
            err=True,
        )


def _prompt() -> Callable[[], str] | None:
    if not sys.stdin.isatty():
        return None

    def ask() -> str:
        answer: str = click.prompt(
            "A password for the new vault", hide_input=True, confirmation_prompt=True, err=True
        )
        if not answer.strip():
            raise ConfigError("an empty password protects nothing", hint="--new-vault-password")
        return answer

    return ask


site.add_command(adopt)
