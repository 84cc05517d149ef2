"""``appliance site init --discover``: its options, its questions, and the draft it makes."""

from __future__ import annotations

import base64
import hashlib
import shlex
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from appliance.cli.screen.confirm import confirmed
from appliance.cli.screen.render import print_table
from appliance.cli.screen.terminal import one_line
from appliance.errors import ConfigError, Refused

if TYPE_CHECKING:
    from appliance.model.checks.discovery.draft import Drafted, DraftNode, Profiles, Wishes
    from appliance.model.checks.discovery.pins import Pins
    from appliance.model.checks.discovery.targets import Kind, Target
    from appliance.model.site.files.new import NewSite
    from appliance.workflows.site.discover import Contacts, Discovery

Command = TypeVar("Command", bound=Callable[..., Any])
_ROLES: Final[Mapping[str, str]] = {
    "control-plane": "control_plane",
    "worker": "gpu_workers",
    "cpu-worker": "cpu_workers",
    "system-node": "system_nodes",
}
_USER: Final = "ubuntu"
_MOST_BYTES: Final = 1 << 20
_MOST_LETTERS: Final = 1024
_STDIN: Final = "-"
_NODE_OPTIONS: Final = (*_ROLES.values(), "services", "hardware")


@dataclass(frozen=True)
class DiscoveryOptions:
    """What was typed beside ``--discover``; every default is None or empty."""

    discover: tuple[str, ...]
    role: tuple[str, ...]
    names: str | None
    addresses: str | None
    control_plane_count: int | None
    system_node_count: int | None
    password_file: str | None
    bmc_user: str | None
    bmc_password_file: str | None
    yes: bool

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> DiscoveryOptions | None:
        """Take them out of all options; None without ``--discover``.

        Raises:
            click.UsageError: they do not go together.
        """
        mine = cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})
        if not mine.discover:
            alone = [name for name in cls.__dataclass_fields__ if getattr(mine, name)]
            if alone:
                raise click.UsageError(f"--{alone[0].replace('_', '-')} needs --discover")
            return None
        if any(options[name] for name in _NODE_OPTIONS):
            raise click.UsageError(
                "--discover names the nodes itself; to give one a role: --role ADDRESS=ROLE"
            )
        if mine.password_file == mine.bmc_password_file == _STDIN:
            raise click.UsageError("only one password can come from standard input")
        return mine

    def wishes(self) -> Wishes:
        """What they say of the draft.

        Raises:
            click.UsageError: a value has no such form.
        """
        from appliance.model.checks.discovery.draft import PATTERN, Wishes

        roles: dict[IPv4Address, str] = {}
        for text in self.role:
            address, _, role = text.partition("=")
            try:
                roles[IPv4Address(address)] = _ROLES[role]
            except (ValueError, KeyError) as error:
                raise click.UsageError(
                    f"--role {text!r} is not ADDRESS=ROLE; the roles: {', '.join(_ROLES)}"
                ) from error
        try:
            plan = IPv4Interface(self.addresses) if self.addresses else None
        except ValueError as error:
            raise click.UsageError(
                f"--addresses {self.addresses!r} is not ADDRESS/PREFIX"
            ) from error
        if plan is not None and not 8 <= plan.network.prefixlen <= 30:
            raise click.UsageError(f"--addresses {self.addresses!r}: the prefix is 8 to 30")
        counts = (self.control_plane_count, self.system_node_count)
        masters, system = (1 if count is None else count for count in counts)
        if masters == 2:
            raise click.UsageError("--control-plane-count is 1 or 3: two cannot lose one")
        return Wishes(masters, system, self.names or PATTERN, plan, roles)

    def targets(self) -> tuple[Target, ...]:
        """The addresses of the ranges and files.

        Raises:
            ConfigError: a file cannot be read, or a word is no range.
        """
        from appliance.adapters.local.plain_files import read_plain
        from appliance.model.checks.discovery.targets import targets, words_of_file

        words: list[str] = []
        for given in self.discover:
            path = Path(given).expanduser()
            if not path.exists():
                words.append(given)
                continue
            try:
                text = read_plain(path, most_bytes=_MOST_BYTES, follow=True).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"--discover {path} cannot be read: {error}") from error
            words += words_of_file(text)
        found = targets(words)
        if not found:
            raise ConfigError("--discover names no address", hint="write one range a line")
        return found


def discovery_options(command: Command) -> Command:
    """Add ``--discover`` and the options beside it."""
    for option in reversed(
        (
            click.option(
                "--discover",
                multiple=True,
                metavar="RANGE|FILE",
                help="Find the nodes at these addresses; bmc:RANGE for BMCs. Repeatable.",
            ),
            click.option(
                "--role",
                multiple=True,
                metavar="ADDRESS=ROLE",
                help=f"A found machine's role: {', '.join(_ROLES)}. Repeatable.",
            ),
            click.option(
                "--names",
                metavar="PATTERN",
                help="Names of found nodes. Default: {role}{number}; {number:02} has two digits.",
            ),
            click.option(
                "--addresses",
                metavar="FIRST/PREFIX",
                help="The plan for machines that only a BMC shows; also the LAN's prefix.",
            ),
            click.option(
                "--control-plane-count",
                type=click.IntRange(1, 3),
                help="How many found machines become control-plane nodes. Default: 1.",
            ),
            click.option(
                "--system-node-count",
                type=click.IntRange(0, 64),
                help="How many become system nodes, as far as they fit. Default: 1.",
            ),
            click.option(
                "--password-file",
                metavar="FILE|-",
                help="The login user's password (0600), or - for standard input. Default: asked.",
            ),
            click.option("--bmc-user", help="Who logs in to the BMCs. Default: admin."),
            click.option(
                "--bmc-password-file", metavar="FILE|-", help="The BMCs' password, likewise."
            ),
            click.option("--yes", is_flag=True, help="Answer the questions of --discover."),
        )
    ):
        command = option(command)
    return command


def discovered(
    directory: Path, new: NewSite, options: DiscoveryOptions, *, dry_run: bool
) -> tuple[NewSite, Discovery]:
    """Meet the machines; the site with the nodes that were drafted of them.

    Raises:
        ApplianceError: see :func:`appliance.workflows.site.discover.discover`.
    """
    from appliance.model.checks.discovery.draft import require_pattern
    from appliance.workflows.site.discover import discover

    targets, wishes = options.targets(), options.wishes()
    require_pattern(wishes.pattern)
    if wishes.control_planes == 3 and new.virtual_address is None:
        raise click.UsageError("--control-plane-count 3 needs --virtual-address")
    if new.private_key is None and any(one.kind == "ssh" for one in targets):
        raise click.UsageError("--discover needs --private-key: the key that the servers get")
    if new.private_key and not new.private_key.startswith(("/", "~/")):
        raise click.UsageError(
            "--private-key of a discovery begins with / or ~/: site.yml keeps it as it is typed"
        )
    if new.jump_host is not None:
        raise click.UsageError(
            "--discover goes through no --jump-host: run it on that host, and write ssh.jump_host "
            "into its site.yml afterwards; or name the nodes: --control-plane, --worker"
        )
    contacts = contacts_of(directory, new, options, dry_run=dry_run)
    found = discover(targets, profiles(), wishes, contacts, dry_run=dry_run)
    groups: dict[str, Any] = {}
    for node in found.drafted.nodes:
        groups.setdefault(node.group, {})[node.name] = str(node.address)
    models = {node.name: node.model for node in found.drafted.nodes if node.model}
    new = replace(new, become_password=found.sudo_password is not None)
    return replace(new, hardware=models, **groups), found


def forget_pins(directory: Path) -> None:
    """Remove the pins: the site has the keys now."""
    from appliance.adapters.local.discovery_pins import SitePins

    SitePins(directory).forget()


def profiles() -> Profiles:
    """What is known of hardware."""
    from appliance.adapters.local.hardware_models import (
        load_configurations,
        load_hardware,
        load_role_minima,
    )
    from appliance.model.checks.discovery.draft import Profiles

    return Profiles(load_hardware(), load_role_minima(), load_configurations())


def contacts_of(
    directory: Path, new: NewSite, options: DiscoveryOptions, *, dry_run: bool
) -> Contacts:
    """The ports of a discovery."""
    from appliance.adapters.hardware.prospects import RedfishProspects
    from appliance.adapters.local.discovery_pins import SitePins
    from appliance.adapters.ssh.prospects import SshServers
    from appliance.workflows.site.discover import Contacts

    return Contacts(
        SshServers(new.user or _USER, new.private_key or "", new.port or 22),
        RedfishProspects(options.bmc_user or "admin"),
        SitePins(directory),
        Operator(directory, options, dry_run=dry_run),
    )


class Operator:
    """Asks whoever typed the command.

    Args:
        directory: of the new site.
        options: with ``--yes`` and the files of passwords.
        dry_run: nothing is changed, so nothing is asked before it.
    """

    def __init__(self, directory: Path, options: DiscoveryOptions, *, dry_run: bool) -> None:
        self._directory, self._options, self._dry_run = directory, options, dry_run

    def note(self, sentence: str) -> None:
        """Say what was left out."""
        click.echo(f"note: {one_line(sentence)}", err=True)

    def confirm_keys(self, keys: Pins) -> None:
        """Ask whether these keys are right.

        Raises:
            Refused: they are not, or nobody can be asked.
        """
        lines = [f"new site:  {self._directory.resolve()}"]
        lines += [one_line(f"{one}: {_fingerprint(one, key)}") for one, key in keys.items()]
        question = "Do the consoles and the BMCs' own pages show these keys?"
        if not confirmed(self._options.yes, lines, lambda: None, question):
            raise Refused("the keys were not confirmed: no password was sent")

    def confirm_change(self, drafted: Drafted, to_let_in: Sequence[DraftNode]) -> None:
        """Show the draft, and ask whether these servers get the site's key.

        Raises:
            Refused: they do not, or nobody can be asked.
        """
        added = {one.name for one in to_let_in}
        print_table(
            ("node", "role", "address", "model", "product", "serial", "BMC", "site's key"),
            [
                (
                    node.name,
                    node.group,
                    str(node.address),
                    node.model or "not known",
                    node.machine.product or "not told",
                    node.machine.serial or "not told",
                    str(node.bmc.address) if node.bmc else "-",
                    "is added" if node.name in added else "is there" if node.ssh else "no system",
                )
                for node in drafted.nodes
            ],
        )
        if not to_let_in or self._dry_run:
            return
        lines = [f"new site:  {self._directory.resolve()}"]
        lines += [f"{one.name}, {one.address.ip}" for one in to_let_in]
        question = "Add one line, the site's key, to ~/.ssh/authorized_keys of each of these?"
        if not confirmed(self._options.yes, lines, lambda: None, question):
            raise Refused("no: nothing was changed on these machines")

    def password(self, kind: Kind) -> str:
        """The password of the servers' login user, or of the BMCs'.

        Raises:
            Refused: nobody can be asked, or others may read its file.
            ConfigError: it is no password of one line.
        """
        options = self._options
        of_bmc = kind == "bmc"
        given = options.bmc_password_file if of_bmc else options.password_file
        flag = "--bmc-password-file" if of_bmc else "--password-file"
        if given == _STDIN:
            text = sys.stdin.readline(_MOST_LETTERS + 2)
        elif given:
            text = _content(Path(given).expanduser(), flag)
        elif sys.stdin.isatty():
            who = "BMC password" if of_bmc else "Password of the login user"
            text = click.prompt(who, hide_input=True, err=True)
        else:
            raise Refused(
                "a password is needed, and stdin is not a terminal: nothing was changed",
                hint=f"give it in a file of mode 0600: {flag} FILE",
            )
        password = text.removesuffix("\n").removesuffix("\r")
        if not password or len(password) > _MOST_LETTERS or not password.isprintable():
            raise ConfigError(
                f"what {flag} gave is no password: one line of printable characters",
                hint="correct it, then run the same command again",
            )
        return password


def _content(path: Path, flag: str) -> str:
    from appliance.adapters.local.plain_files import read_plain

    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise Refused(
                f"other users of this machine may read {path} ({mode:04o})",
                hint=f"chmod 600 {shlex.quote(str(path))}",
            )
        return read_plain(path, most_bytes=4 * _MOST_LETTERS, follow=True).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{flag} {path} cannot be read: {error}", hint="correct the path"
        ) from error


def _fingerprint(target: Target, key: str) -> str:
    if target.kind == "bmc":
        return f"certificate SHA-256 {key}"
    kind, blob = key.split()
    digest = base64.b64encode(hashlib.sha256(base64.b64decode(blob)).digest()).decode()
    return f"{kind} SHA256:{digest.rstrip('=')}"
