"""``appliance site inventory``: the nodes for plain Ansible."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path

import click

from appliance.cli.help.typos import Words
from appliance.cli.options import site_option
from appliance.cli.screen.render import print_json
from appliance.errors import Refused


@click.command(short_help="Print an inventory with which plain Ansible reaches the nodes.")
@site_option
@click.option(
    "-o",
    "--output",
    type=Words(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print it; Ansible reads both.",
)
def inventory(site: Path, output: str) -> None:
    """Print an inventory with which plain Ansible reaches the nodes.

    \b
    - address, user, port, key, jump host, known_hosts, and the groups of each node
    - contains no secret; connects to no node and does not open the vault
    - write it outside the site's directory: site check refuses other files there

    Example: appliance site inventory --site inventories/rack7 > rack7.yml

    Then: ansible -i rack7.yml all -m ping
    """
    import yaml

    from appliance.adapters.site.files import load_site
    from appliance.adapters.site.vault import find_password_file
    from appliance.model.site.files.inventory import site_inventory

    found = load_site(site)
    printed = site_inventory(found)
    if output == "json":
        print_json(printed)
    else:
        click.echo("---")
        click.echo(yaml.safe_dump(printed, sort_keys=False, width=1000), nl=False)
    password = None
    # The inventory is printed, and needs no password: what is wrong with its file, site check says.
    with suppress(Refused):
        password = find_password_file(site)
    words = ["--vault-password-file", str(password)] if password else ["--ask-vault-pass"]
    click.echo(
        "next: ansible -i FILE all -m ping; with the variables of the site: "
        f"ansible -i {shlex.quote(str(found.directory))} -i FILE {shlex.join(words)} all -m ping",
        err=True,
    )
