"""``appliance runai access`` and ``appliance runai csr``: logins of researchers, certificates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli.commands.install.plan_view import plan_as_json, show_plan
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    Place,
    changed_site_option,
    dry_run_option,
    output_option,
    site_option,
    yes_option,
)
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json
from appliance.model.site.settings import Site

if TYPE_CHECKING:
    from appliance.cli.app import Application


@click.group(cls=Nouns)
def access() -> None:
    """Let researchers use the cluster with their own logins."""


@access.command()
@changed_site_option
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def enable(app: Application, site: Path, output: str, *, dry_run: bool, yes: bool) -> None:
    """Make the API servers trust the backend's logins.

    What will happen to the control plane:

    \b
    - refused, before any change, unless every control-plane node reaches and trusts the issuer
    - a snapshot of etcd is saved on each node
    - the API servers restart with the OIDC flags, one after the other, a minute each
    - an API server that does not start with the new flags gets its former flags back
    - the flags are also written to ClusterConfiguration, so that an upgrade keeps them

    Example: appliance runai access enable --site inventories/rack7
    """
    connected = app.connect(site, changed=_enabled)
    with progress(plain=output == "json") as display:
        done = connected.enable_access(
            display,
            lambda plan: confirmed(
                yes, about_site(connected.site), lambda: show_plan(plan, err=True)
            ),
            dry_run=dry_run,
        )
    if not app.asks_for_access(site):
        click.echo(
            "note: site.yml does not enable access: set runai.access.enabled: true, or the next "
            "install removes it",
            err=True,
        )
    if output == "json":
        print_json({"plan": plan_as_json(done.plan), "ran": list(done.steps)})
    elif dry_run or not done.plan.steps:
        show_plan(done.plan)
    else:
        click.echo(f"verified: {', '.join(done.steps)}")


def _enabled(site: Site) -> Site:
    """The site with access enabled."""
    from appliance.model.components.access.oidc import with_access

    return with_access(site)


@access.command()
@click.argument("user")
@click.option(
    "--out",
    type=Place(dir_okay=False),
    help="File to write, mode 0600. Default: standard output.",
)
@click.option("--project", help="Default namespace: that of this project.")
@site_option
@click.pass_obj
def kubeconfig(
    app: Application, user: str, out: Path | None, project: str | None, site: Path
) -> None:
    """Print the kubeconfig of a researcher: CA, endpoint, and how to log in.

    No credential is in it: the login brings it. Changes nothing at the site.

    Example: appliance runai access kubeconfig ada --out ada.kubeconfig
    """
    from appliance.adapters.runai.files import write_new

    text = app.connect(site, changed=_enabled).researcher_kubeconfig(user, project)
    if out is None:
        click.echo(text, nl=False)
        return
    write_new(out, text)
    click.echo(f"{out}: give it to {user} as ~/.kube/config; then {user} runs: runai login")


@click.command()
@click.option(
    "--out",
    type=Place(file_okay=False),
    help="Folder for the files. Default: .appliance/certificates of the site, which git ignores.",
)
@click.option("--sign", "signed", is_flag=True, help="Sign the request with the site's own CA.")
@site_option
@output_option
@click.pass_obj
def csr(app: Application, out: Path | None, site: Path, output: str, *, signed: bool) -> None:
    """Create the backend's key and a certificate signing request (CSR).

    \b
    - NAME.key, mode 0600; an existing key is reused
    - NAME.csr, for your organisation's CA
    - NAME.crt with --sign: signed by the site's CA, which every node trusts

    Changes nothing on the nodes.

    Example: appliance runai csr --out /media/ca
    """
    made = app.connect(site).certificate_request(out, signed=signed)
    if output == "json":
        print_json({kind: str(path) for kind, path in made.items()})
        return
    for path in made.values():
        click.echo(str(path))
    click.echo(
        "next: copy the certificate next to hosts.yml as a .pem file, set runai.certificate in "
        "site.yml to its name, and add the key to vault.yml as vault_runai_tls_key",
        err=True,
    )
