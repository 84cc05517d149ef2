"""How a shell script becomes root on a node: by itself, by sudo, or by sudo with a password.

The password is the first line of the standard input: it is in no argument, environment or file.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from appliance.errors import ConfigError
from appliance.model.site.settings import Site
from appliance.model.site.vault_ref import BECOME_PASSWORD

IS_ROOT: Final = '[ "$(id -u)" = 0 ]'
# sudo reads its answer from the input byte by byte and leaves the rest to the command. With a wrong
# password it would read on, so that is tried before the input follows. sudo -k asks although it
# asked a moment ago: whether it asks must not depend on that.
_TELLING: Final = """
if printf '%s\\n' "$p" | sudo -k -S -p '' true; then
  { printf '%s\\n' "$p"; cat; } | sudo -k -S -p '' sh -c "$0"; exit $?
fi
"""


def root_command(script: str, *, asks: bool, enough: str = IS_ROOT, or_self: bool = False) -> str:
    """A command line that runs the script as root.

    Args:
        script: for ``sh -c``.
        asks: the first line of the standard input is the password that sudo may ask for.
        enough: a shell condition under which the login user's own rights are enough.
        or_self: if sudo refuses, the script runs with the login user's own rights.
    """
    last = 'exec sh -c "$0"' if or_self else 'exec sudo -n sh -c "$0"'
    tries = _TELLING if asks else ""
    if or_self or asks:
        tries = 'if sudo -n sh -c : 2>/dev/null; then exec sudo -n sh -c "$0"; fi\n' + tries
    if asks:
        last = last if or_self else "exit 1"
    first = "IFS= read -r p\n" if asks else ""
    become = f'{first}if {enough}; then exec sh -c "$0"; fi\n{tries}{last}'
    return f"sh -c {shlex.quote(become)} {shlex.quote(script)}"


class Become:
    """The way of one site.

    Args:
        site: its ``ssh`` block says whether sudo asks for a password.
        secret: reads a secret of the vault by its name; None if the vault has none.
    """

    def __init__(self, site: Site, secret: Callable[[str], str | None]) -> None:
        settings = site.settings.ssh
        self._needed = settings.become and settings.become_password and settings.user != "root"
        self._file = site.vault_file
        self._secret = secret

    def command(self, script: str, *, enough: str = IS_ROOT, or_self: bool = False) -> str:
        """A command line that runs the script as root.

        Args:
            script: for ``sh -c``; its standard input follows the password's line.
            enough: a shell condition under which the login user's own rights are enough.
            or_self: if sudo refuses, the script runs with the login user's own rights.
        """
        return root_command(script, asks=self._needed, enough=enough, or_self=or_self)

    def stdin(self, content: bytes) -> bytes:
        """The standard input of such a command.

        Raises:
            ConfigError: the vault has no such password, or it has several lines.
            ApplianceError: the vault cannot be read.
        """
        if not self._needed:
            return content
        password = (self._secret(BECOME_PASSWORD.name) or "").rstrip("\n")
        if not password or len(password.splitlines()) != 1:
            raise ConfigError(
                f"ssh.become_password is true, but {self._file} has no {BECOME_PASSWORD.name} of "
                "one line",
                hint=f"ansible-vault edit {shlex.quote(str(self._file))}",
            )
        return f"{password}\n".encode() + content
