"""The options of ``site init``, and its adapters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from appliance.cli.help.complete import models, releases, systems
from appliance.cli.options import Place

if TYPE_CHECKING:
    from appliance.workflows.session.local_ports import Authorities, SiteFolder, Vault

Command = TypeVar("Command", bound=Callable[..., Any])


def _pairs(
    _context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name or not rest:
            raise click.BadParameter(f"{value!r} is not {parameter.metavar}")
        if name in pairs:
            raise click.BadParameter(f"{name!r} is given twice")
        pairs[name] = rest
    return pairs


def _pair_option(flag: str, metavar: str, text: str) -> Callable[[Command], Command]:
    name = {"--worker": "gpu_workers", "--cpu-worker": "cpu_workers"}.get(flag)
    name = name or {"--system-node": "system_nodes"}.get(flag) or flag[2:].replace("-", "_")
    offer = models if flag == "--hardware" else None
    return click.option(
        flag,
        name,
        multiple=True,
        metavar=metavar,
        callback=_pairs,
        shell_complete=offer,
        help=text,
    )


_ADDRESS = "NAME=ADDRESS/PREFIX"


def new_site_options(command: Command) -> Command:
    """Add the options that describe a new site."""
    for option in reversed(
        (
            click.option("--name", help="Name of the appliance. Default: the directory's name."),
            click.option(
                "--release",
                shell_complete=releases,
                help="The release to install. Default: the proven one.",
            ),
            click.option(
                "--os",
                "operating_system",
                default="ubuntu-20.04",
                show_default=True,
                shell_complete=systems,
                help="The nodes' operating system.",
            ),
            click.option("--domain", help="DNS zone of the site. Default: DIRECTORY.internal."),
            _pair_option("--control-plane", _ADDRESS, "A control-plane node; 1 or 3 of them."),
            _pair_option("--worker", _ADDRESS, "A worker with GPUs; repeatable."),
            _pair_option("--cpu-worker", _ADDRESS, "A worker without GPUs; repeatable."),
            _pair_option("--system-node", _ADDRESS, "A worker for Run:ai's own software."),
            _pair_option(
                "--services",
                _ADDRESS,
                "The services host: bundle and registry. Default: the first control-plane node.",
            ),
            _pair_option("--hardware", "NAME=VENDOR/MODEL", "A node's model; repeatable."),
            click.option(
                "--virtual-address",
                help="A free address for keepalived; needs 3 control-plane nodes.",
            ),
            click.option(
                "--gpu/--no-gpu",
                default=None,
                help="Whether pods get the workers' GPUs. Default: asked on a terminal, else no.",
            ),
            click.option("--user", help="SSH user on the nodes. Default: ubuntu."),
            click.option("--private-key", help="Path of the SSH key. Default: the agent's keys."),
            click.option(
                "--ssh-port",
                "port",
                type=click.IntRange(1, 65535),
                help="The port of the nodes' SSH servers. Default: 22.",
            ),
            click.option(
                "--jump-host", metavar="USER@HOST", help="The host on the way to the nodes."
            ),
            click.option("--dns", "dns_servers", multiple=True, help="A DNS server; up to 3."),
            click.option("--ntp", "ntp_servers", multiple=True, help="An NTP server; repeatable."),
        )
    ):
        command = option(command)
    return command


def vault_password_option(command: Command) -> Command:
    """Add ``--vault-password-file FILE``."""
    return click.option(
        "--vault-password-file",
        type=Place(dir_okay=False),
        envvar=["APPLIANCE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_PASSWORD_FILE"],
        help="The file that holds the vault's password.",
    )(command)


@contextlib.contextmanager
def site_ports(
    directory: Path, given: Path | None, new: bool, ask: Callable[[], str] | None
) -> Iterator[tuple[SiteFolder, Authorities, Vault]]:
    """The ports of ``site init``; the password is read, asked for or generated when needed."""
    from appliance.adapters.site.authorities import SiteAuthorities
    from appliance.adapters.site.folder import SiteDirectory
    from appliance.adapters.site.vault import AnsibleVault, new_password, password_source

    with contextlib.ExitStack() as stack:

        def password() -> Path:
            if new:
                return new_password(directory)
            return stack.enter_context(password_source(directory, given, ask))

        yield SiteDirectory(directory), SiteAuthorities(), AnsibleVault(password)
