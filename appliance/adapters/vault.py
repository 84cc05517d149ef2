"""The site's vault: one encrypted file, read and written through the ansible-vault command.

The password comes from a file (given, named by the environment, or kept in the site's state), else
from a prompt. Neither password nor plain text is ever an argument of a program, and plain text is
never written to a disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.ansible import LOCALE
from appliance.adapters.content import find_content_root
from appliance.adapters.processes import run
from appliance.adapters.site_state import require_state
from appliance.adapters.state_files import make_folder
from appliance.adapters.vault_text import read_secrets, require_plain
from appliance.errors import CommandFailed, ConfigError, Refused

if TYPE_CHECKING:
    from appliance.model.site import Site

ENVIRONMENT: Final = "ANSIBLE_VAULT_PASSWORD_FILE"
KEPT: Final = Path(".appliance", "vault-password")
HINT: Final = (
    f"set {ENVIRONMENT} to the file that holds it, or put it into {KEPT} of the site (0600)"
)
# Ansible's own words when no password at hand is the vault's; all else it says is another fault.
_NOT_THE_VAULTS: Final = "Decryption failed"
_HINT_OF_INIT: Final = f"give --vault-password-file FILE or --new-vault-password, or {HINT}"


def password_file(site: Site, given: Path | None = None) -> Path | None:
    """Find the file that holds the vault's password; None when there is none."""
    return find_password_file(site.directory, given)


def find_password_file(directory: Path, given: Path | None = None) -> Path | None:
    """Find the password file of a site by its directory.

    Raises:
        Refused: the file that was named does not exist, the one there is may not be read, or the
            site's own is a program.
    """
    named = given or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if named is not None:
        named = named.expanduser()
        if not _is_readable(named):
            raise Refused(f"there is no vault password file {named}", hint=HINT)
        return named.resolve()
    require_state(directory)
    kept = kept_password(directory)
    if not _is_readable(kept):
        return None
    if kept.stat().st_mode & 0o111:
        # Ansible runs such a file for the password; this one may have come with the site.
        raise Refused(
            f"the vault password file {kept} is executable: it would be run, not read",
            hint=f"look at what is in it, then: chmod 600 {shlex.quote(str(kept))}",
        )
    return kept.resolve()


def _is_readable(path: Path) -> bool:
    """Whether there is such a file.

    Raises:
        Refused: there is, and we may not read it.
    """
    try:
        if not path.is_file():
            return False
        allowed = os.access(path, os.R_OK)
    except PermissionError:
        allowed = False
    if not allowed:
        quoted = shlex.quote(str(path))
        raise Refused(
            f"you may not read the vault password file {path}",
            hint=f'make it yours: sudo chown "$USER" {quoted} && chmod 600 {quoted}; '
            f"or set {ENVIRONMENT} to a copy that you may read",
        )
    return True


@contextlib.contextmanager
def password_source(
    directory: Path, given: Path | None = None, ask: Callable[[], str] | None = None
) -> Iterator[Path]:
    """Yield a file with the password: the one there is, else one that lives as long as this.

    Args:
        directory: the site's.
        given: the file the operator named.
        ask: prompts for the password when there is no file; None where nobody can answer.

    Raises:
        Refused: there is no password to be had.
    """
    found = find_password_file(directory, given)
    if found is not None:
        yield found
        return
    if ask is None:
        raise Refused("the vault's password is not known", hint=_HINT_OF_INIT)
    with tempfile.TemporaryDirectory(prefix="appliance-") as private:
        path = Path(private) / "vault-password"
        _write_private(path, ask())
        yield path


def kept_password(directory: Path) -> Path:
    """Where a site's state keeps the vault's password, if it does."""
    return directory / KEPT


def new_password(directory: Path) -> Path:
    """Keep a new random password in the site's state; the one that is there, if there is one."""
    path = kept_password(directory)
    if not path.exists():
        make_folder(path.parent)
        _write_private(path, secrets.token_urlsafe(32))
    return path.resolve()


class AnsibleVault:
    """Encrypts and opens vault files with one password.

    Args:
        password: the file that holds it, or what finds or makes that file when it is needed.
    """

    def __init__(self, password: Path | Callable[[], Path]) -> None:
        self._source = password

    @functools.cached_property
    def _password(self) -> Path:
        return self._source if isinstance(self._source, Path) else self._source()

    def encrypt(self, text: str) -> str:
        """Return the text as the content of a vault file."""
        return self._run("encrypt", "--output", "-", "-", stdin=text)

    def new_secret(self) -> str:
        """Make a random secret, of letters, digits, '-' and '_'."""
        return secrets.token_hex(32)

    def read(self, file: Path) -> Mapping[str, str]:
        """Open a vault file; what is no text in it, as JSON.

        Raises:
            ConfigError: the password is not the vault's, or the file holds no mapping.
        """
        try:
            text = self._run("view", str(file))
        except CommandFailed as error:
            raise _closed(file, self._password, error) from error
        return read_secrets(file, text)

    def _run(self, verb: str, *arguments: str, stdin: str | None = None) -> str:
        # An operator's own settings would bring in further passwords and make it ask which.
        own = {
            ENVIRONMENT: "",
            "ANSIBLE_VAULT_IDENTITY_LIST": "",
            "ANSIBLE_VAULT_ENCRYPT_IDENTITY": "",
        }
        words = [verb, "--vault-password-file", str(self._password), *arguments]
        return _ansible_vault(words, stdin=stdin, env=own)


def read_as_a_play(file: Path, password: Path | None) -> Mapping[str, str]:
    """Open a vault file with all that a play has: ``password``, and what Ansible's variables name.

    Raises:
        ConfigError: none of them opens it, the file holds no mapping, or a secret that Ansible
            would evaluate.
    """
    given = ["--vault-password-file", str(password)] if password else []
    try:
        # Elsewhere, as a play is: a relative path in a variable must not work here alone.
        text = _ansible_vault(["view", *given, str(file.resolve())], cwd=Path("/"))
    except CommandFailed as error:
        raise _closed(file, password, error) from error
    found = read_secrets(file, text)
    require_plain(file, text)
    return found


def ansible_vault_program() -> str:
    """The one of this installation; another in PATH may be another version."""
    beside = Path(sys.executable).parent / "ansible-vault"
    return str(beside) if beside.exists() else "ansible-vault"


def _ansible_vault(
    words: list[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    program = ansible_vault_program()
    config = str(find_content_root() / "playbooks" / "ansible.cfg")
    environment = {**LOCALE, "ANSIBLE_CONFIG": config, **(env or {})}
    return run([program, *words], stdin=stdin, env=environment, cwd=cwd, timeout=60).stdout


def _closed(file: Path, password: Path | None, error: CommandFailed) -> ConfigError:
    said = error.details[1:]
    if any(_NOT_THE_VAULTS in line for line in said):
        by = f"with the password in {password}" if password else "with what Ansible's settings name"
        return ConfigError(f"{file} does not open {by}", hint=HINT, details=said)
    *before, last = said or (error.message,)
    words = ["ansible-vault", "view"]
    words += ["--vault-password-file", str(password)] if password else []
    return ConfigError(
        f"{file} cannot be opened: {last.removeprefix('[ERROR]: ').removeprefix('ERROR: ')}",
        hint=f"see what Ansible says of it: {shlex.join([*words, str(file)])}",
        details=before,
    )


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text + "\n")
