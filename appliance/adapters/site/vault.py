"""The site's vault: one encrypted file, read and written through the ansible-vault command.

The password comes from a file (an option, an environment variable, or the site's state), else from
a prompt. Neither password nor plain text is ever an argument of a program, and plain text is never
written to a disk.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.ansible.environment import LOCALE, without_settings
from appliance.adapters.local.content import find_content_root
from appliance.adapters.local.processes import run
from appliance.adapters.local.state_files import make_folder, replace_file
from appliance.adapters.site.state import require_state
from appliance.adapters.site.vault_files import keep_copy
from appliance.adapters.site.vault_text import read_secrets, require_plain, with_secrets
from appliance.errors import CommandFailed, ConfigError, Refused

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

ENVIRONMENT: Final = "ANSIBLE_VAULT_PASSWORD_FILE"
SECONDS: Final = 60.0
KEPT: Final = Path(".appliance", "vault-password")
HINT: Final = (
    f"set {ENVIRONMENT} to the password file, or write the password to {KEPT} of the site (0600)"
)
# Ansible's message if no password fits; any other message is another fault.
_NOT_THE_VAULTS: Final = "Decryption failed"
_HINT_OF_ANOTHER: Final = f"it is not this vault's password; {HINT}"
_HINT_OF_INIT: Final = f"give --vault-password-file FILE or --new-vault-password, or {HINT}"


def password_file(site: Site, given: Path | None = None) -> Path | None:
    """Find the file with the vault's password; None if there is none."""
    return find_password_file(site.directory, given)


def find_password_file(directory: Path, given: Path | None = None) -> Path | None:
    """Find the password file of a site by its directory.

    Raises:
        Refused: the named file does not exist, the file may not be read, or the site's own file is
            a program.
    """
    named = given or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if named is not None:
        named = named.expanduser()
        if not _is_readable(named):
            raise Refused(
                f"{_origin(named)} names the vault password file {named}, which does not exist",
                hint=f"correct {_origin(named)}, or leave it out: then {KEPT} of the site is used",
            )
        # A program prints the password and holds none, so others may read it.
        if not named.stat().st_mode & 0o111:
            _require_private(named)
        return named.resolve()
    require_state(directory)
    kept = kept_password(directory)
    if not _is_readable(kept):
        return None
    if kept.stat().st_mode & 0o111:
        # Ansible would run such a file to get the password, and it may have come with the site.
        raise Refused(
            f"the vault password file {kept} is executable: Ansible would run it, not read it",
            hint=f"check its content, then: chmod 600 {shlex.quote(str(kept))}",
        )
    _require_private(kept)
    return kept.resolve()


def _origin(named: Path) -> str:
    """The variable that names the file, else the option."""
    for variable in ("APPLIANCE_VAULT_PASSWORD_FILE", ENVIRONMENT):
        text = os.environ.get(variable)
        if text and Path(text).expanduser() == named:
            return variable
    return "--vault-password-file"


def _require_private(path: Path) -> None:
    """Refuse a password that the group or others may read, as ssh does with a private key.

    Raises:
        Refused: they may; the hint is the command that ends it.
    """
    mode = path.stat().st_mode & 0o777
    if mode & 0o044:
        raise Refused(
            f"other users of this machine may read the vault password file {path} ({mode:04o})",
            hint=f"chmod 600 {shlex.quote(str(path))}",
        )


def _is_readable(path: Path) -> bool:
    """Whether the file exists.

    Raises:
        Refused: it exists, but this user may not read it.
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
            hint=f'change its owner: sudo chown "$USER" {quoted} && chmod 600 {quoted}; '
            f"or set {ENVIRONMENT} to a copy that you may read",
        )
    return True


@contextlib.contextmanager
def password_source(
    directory: Path, given: Path | None = None, ask: Callable[[], str] | None = None
) -> Iterator[Path]:
    """Yield a file with the password: the existing one, else a temporary one.

    Args:
        directory: the site's directory.
        given: the file the operator named.
        ask: prompts for the password if there is no file; None without a terminal.

    Raises:
        Refused: there is no password.
    """
    existing = find_password_file(directory, given)
    if existing is not None:
        yield existing
        return
    if ask is None:
        raise Refused("the vault's password is not known", hint=_HINT_OF_INIT)
    with tempfile.TemporaryDirectory(prefix="appliance-") as private:
        path = Path(private) / "vault-password"
        _write_private(path, ask())
        yield path


def kept_password(directory: Path) -> Path:
    """The path of the vault's password in a site's state, whether or not it exists."""
    return directory / KEPT


def new_password(directory: Path) -> Path:
    """Write a random password to the site's state, unless there is one; return its path.

    Raises:
        Refused: the directory cannot be written.
    """
    path = kept_password(directory)
    try:
        if not path.exists():
            make_folder(path.parent)
            _write_private(path, secrets.token_urlsafe(32))
    except OSError as error:
        raise Refused(
            f"{error.filename or directory} cannot be written: {error.strerror}; nothing was "
            "changed",
            hint="choose a directory that you may write to, with enough space; then run the same "
            "command again",
        ) from error
    return path.resolve()


class AnsibleVault:
    """Encrypts and opens vault files with one password.

    Args:
        password: the password file, or a function that finds or creates it when needed.
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
        """Generate a random secret of letters and digits."""
        return secrets.token_hex(32)

    def read(self, file: Path) -> Mapping[str, str]:
        """Open a vault file; values that are not text are returned as JSON.

        Raises:
            ConfigError: the password is wrong, or the file has no mapping.
        """
        return read_secrets(file, self.text(file))

    def text(self, file: Path) -> str:
        """The plain text of a vault file.

        Raises:
            ConfigError: the password is wrong.
        """
        try:
            return self._run("view", str(file))
        except CommandFailed as error:
            raise _closed(file, self._password, error) from error

    def _run(self, verb: str, *arguments: str, stdin: str | None = None) -> str:
        # With further passwords of the operator, ansible-vault would ask which to encrypt with.
        own = {ENVIRONMENT: "", "ANSIBLE_VAULT_IDENTITY_LIST": ""}
        words = [verb, "--vault-password-file", str(self._password), *arguments]
        return _ansible_vault(words, stdin=stdin, env=own)


def read_as_a_play(file: Path, password: Path | None) -> Mapping[str, str]:
    """Open a vault file as a playbook would: with ``password`` and those of Ansible's variables.

    Raises:
        ConfigError: no password fits, the file has no mapping, or Ansible would evaluate a secret.
    """
    given = ["--vault-password-file", str(password)] if password else []
    try:
        # In another folder, like a playbook: a relative path in a variable must fail here, too.
        text = _ansible_vault(["view", *given, str(file.resolve())], cwd=Path("/"))
    except CommandFailed as error:
        raise _closed(file, password, error) from error
    held = read_secrets(file, text)
    require_plain(file, text)
    return held


def ansible_vault_program() -> str:
    """The ansible-vault of this installation; one in PATH may have another version."""
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
    environment = {**without_settings(), **LOCALE, "ANSIBLE_CONFIG": config, **(env or {})}
    argv = [program, *words]
    done = run(argv, stdin=stdin, env=environment, cwd=cwd, timeout=SECONDS, secret=True)
    return done.stdout


def _closed(file: Path, password: Path | None, error: CommandFailed) -> ConfigError:
    lines = error.details[1:]
    if any(_NOT_THE_VAULTS in line for line in lines):
        source = password or "the files of Ansible's settings"
        message = f"{file} cannot be decrypted with the password in {source}"
        return ConfigError(message, hint=_HINT_OF_ANOTHER)
    *before, last = lines or (error.message,)
    words = ["ansible-vault", "view"]
    words += ["--vault-password-file", str(password)] if password else []
    return ConfigError(
        f"{file} cannot be opened: {last.removeprefix('[ERROR]: ').removeprefix('ERROR: ')}",
        hint=f"see Ansible's error: {shlex.join([*words, str(file)])}",
        details=before,
    )


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text + "\n")


def vault_of(site: Site) -> Callable[[], Mapping[str, str]]:
    """A function that reads a site's secrets; empty without a vault or its password.

    The vault is opened once, whoever asks how often, and in how many threads: each opening is a
    program that takes a second. A failure is not kept.
    """
    known: list[Mapping[str, str]] = []
    one_opens = threading.Lock()

    def read() -> Mapping[str, str]:
        password = password_file(site)
        if password is None or not site.vault_file.is_file():
            return {}
        with one_opens:
            if not known:
                known.append(AnsibleVault(password).read(site.vault_file))
            return known[0]

    return read


class SiteVault:
    """The vault of one site, to be changed; by one command at a time, which holds its lock.

    Args:
        site: the site.
    """

    def __init__(self, site: Site) -> None:
        self._file, self._site = site.vault_file, site
        self._known: Mapping[str, str] | None = None
        self._lock = threading.Lock()

    def read(self) -> Mapping[str, str]:
        """The secrets, read once and after each change of ours; by several threads at once.

        Raises:
            ConfigError: there is no vault, or its password is wrong.
            Refused: its password is not known.
        """
        with self._lock:
            if self._known is None:
                self._known = self._vault().read(self._file)
            return self._known

    def read_anew(self) -> Mapping[str, str]:
        """The secrets as the file has them now, whoever wrote it.

        Raises:
            ConfigError, Refused: as :meth:`read` does.
        """
        with self._lock:
            self._known = None
        return self.read()

    def change(self, changes: Mapping[str, str | None]) -> None:
        """Set secrets, or take them out where the value is None; on the disk when this returns.

        Raises:
            ConfigError: the vault cannot be opened, changed, or written; it is as it was.
            Refused: its password is not known.
        """
        vault = self._vault()
        # What another program wrote meanwhile is kept: the file itself is changed.
        before = vault.text(self._file)
        text = with_secrets(self._file, before, changes)
        encrypted = vault.encrypt(text)
        try:
            # First: what lets in must not be in the one file alone that others write, too.
            keep_copy(self._site.directory, encrypted)
            mode = self._file.stat().st_mode & 0o777
            # Where a link leads: a copy in its place would be the only one with a new secret.
            replace_file(self._file.resolve(), encrypted, mode=mode)
        except OSError as error:
            raise ConfigError(
                f"{self._file} cannot be written: {error.strerror}; it is as it was",
                hint="make room, or give yourself the right to write it; then run the same command",
            ) from error
        if vault.text(self._file) != text:
            raise ConfigError(
                f"{self._file} does not hold what was written into it",
                hint="look for another program that writes it; restore it from version control",
            )
        with self._lock:
            self._known = read_secrets(self._file, text)

    def _vault(self) -> AnsibleVault:
        if not self._file.is_file():
            raise ConfigError(
                f"{self._file} does not exist",
                hint="restore it, or write one: ansible-vault create",
            )
        password = password_file(self._site)
        if password is None:
            raise Refused("the vault's password is not known", hint=HINT)
        return AnsibleVault(password)
