"""``appliance site init``: write a new site from options."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.site.discovered import left_to_write, public_key, with_found
from appliance.cli.commands.site.discovery import (
    DiscoveryOptions,
    discovered,
    discovery_options,
    forget_pins,
)
from appliance.cli.commands.site.options import new_site_options, site_ports, vault_password_option
from appliance.cli.options import Place, dry_run_option
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.model.site.files.new import NewSite


@click.command()
@click.argument("directory", type=Place(file_okay=False))
@new_site_options
@discovery_options
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
    - creates the site's CA and writes it, encrypted, beside the vault of the other secrets
    - with --worker, asks whether pods get the GPUs: --gpu or --no-gpu answers
    - never overwrites a file: exits with 3 if one exists; connects to no node
    - but with --discover: asks the machines there what they are, after you confirmed their keys;
      adds the site's key to authorized_keys of each, after a question that lists them

    Example: appliance site init inventories/rack7 --domain rack7.example
    --control-plane master1=198.51.100.11/24 --worker gpu1=198.51.100.21/24
    --hardware master1=quanta/s5sp --hardware gpu1=quanta/d43n-3u --gpu --new-vault-password
    """
    from appliance.adapters.local.content import default_release
    from appliance.model.site.files.new import NewSite
    from appliance.workflows.site.init import SiteInitRequest, require_new, site_init

    if new_vault_password and vault_password_file:
        raise click.UsageError(
            "--new-vault-password and --vault-password-file exclude each other: give one of them"
        )
    discovery = DiscoveryOptions.taken_from(options)
    options["release"] = options["release"] or default_release()
    options["domain"] = options["domain"] or f"{directory.resolve().name}.internal"
    new = NewSite(**options)
    with site_ports(directory, vault_password_file, new_vault_password, _prompt()) as ports:
        found = None
        if discovery is not None:
            require_new(directory, ports[0])
            new, found = discovered(directory, new, discovery, dry_run=dry_run)
        asked = new if new.gpu is not None else replace(new, gpu=_asks_for_gpus(new))
        request = SiteInitRequest.of(directory, asked, dry_run=dry_run)
        if discovery is not None and found is not None:
            key = public_key(new.private_key)
            request = with_found(request, found, discovery.bmc_user, new.port, key)
        written = site_init(request, *ports)
    if found is not None and not dry_run:
        forget_pins(directory)
    for path in written:
        click.echo(f"{'would write' if dry_run else 'wrote'} {path}")
    if asked.gpu is None and asked.gpu_workers:
        click.echo(
            f"warning: site.yml says gpu: null: pods get no GPUs of {', '.join(asked.gpu_workers)}"
            "; to change that, write gpu: {driver: host} there before the install",
            err=True,
        )
    if not dry_run:
        more = left_to_write(request, found) if found is not None else []
        _tell_what_is_next(directory, asked, more, password_is_new=new_vault_password)


def _tell_what_is_next(
    directory: Path, new: NewSite, more: Sequence[tuple[str, str]], *, password_is_new: bool
) -> None:
    from appliance.adapters.site.vault import kept_password

    if password_is_new:
        click.echo(
            f"keep a copy of {kept_password(directory)} elsewhere: git ignores this file, and "
            "without it the vault and the site's CA cannot be opened",
            err=True,
        )
    nodes = list(new.host_vars())
    without_model = [name for name in nodes if name not in new.hardware]
    rows = [
        ("group_vars/all/site.yml", "nfs (shared storage), runai, ssh (port, jump_host)"),
        ("host_vars/NODE.yml", "bmc_address, mac"),
    ]
    if new.gpu:
        rows.insert(1, ("group_vars/all/site.yml", "gpu.kernels (uname -r of the GPU workers)"))
    if without_model:
        rows.append(("host_vars/NODE.yml", f"hardware of {', '.join(without_model)}"))
    if not new.system_nodes:
        rows.append(("hosts.yml", "system_nodes, which Run:ai needs"))
    click.echo("edit what the site needs:", err=True)
    for file, keys in (*rows, *more):
        click.echo(f"  {directory / file}: {keys}", err=True)
    click.echo(f"next: appliance site check --site {shlex.quote(str(directory))}", err=True)


def _asks_for_gpus(new: NewSite) -> bool | None:
    """The answer of a person; None without workers that have GPUs, or without a terminal."""
    if not new.gpu_workers or not sys.stdin.isatty():
        return None
    question = f"{', '.join(new.gpu_workers)}: install the GPU driver and the GPU Operator?"
    return click.confirm(question, default=True, err=True)


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
