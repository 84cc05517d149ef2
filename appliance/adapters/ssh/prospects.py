"""Servers of no site yet, by SSH: their host keys, a look, and the site's key for their user.

A login happens only with the pinned host key. The password goes nowhere but into the login, and
to sudo's standard input. Every answer is limited in time and size.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from appliance.adapters.ssh.become import IS_ROOT, root_command
from appliance.adapters.ssh.call import BeginLimits, CallFailed, call, ended_after, last_line
from appliance.adapters.ssh.probing.archive import probe_archive, probe_script
from appliance.adapters.ssh.trust.host_keys import shown_key
from appliance.adapters.ssh.trust.keys import check_private_key
from appliance.adapters.ssh.trust.known_hosts import put
from appliance.errors import ConfigError
from appliance.model.checks.discovery.found import Failed, Found, found_by_ssh
from appliance.model.checks.discovery.pins import is_pin
from appliance.model.site.ssh import CONNECT_SECONDS, FIRST_OUTPUT_SECONDS
from appliance.model.state.facts.reader import NotFacts, read_facts

if TYPE_CHECKING:
    import paramiko

    from appliance.model.checks.discovery.pins import Pins
    from appliance.model.checks.discovery.targets import Target

_T = TypeVar("_T")

LOGIN_SECONDS: Final = 24.0
PROBE_SECONDS: Final = 60.0
APPEND_SECONDS: Final = 20.0
MOST_AT_ONCE: Final = 64
COMMENT: Final = "appliance"
_LIMITS: Final = BeginLimits(CONNECT_SECONDS, FIRST_OUTPUT_SECONDS)
_WITHOUT_PASSWORD: Final = f"sh -c {shlex.quote(f'{IS_ROOT} || sudo -n true')}"
# Adds the line on its standard input, unless it is there. A last line without an end gets one.
_APPEND: Final = """
umask 077
f="$HOME/.ssh/authorized_keys"
IFS= read -r line || exit 1
mkdir -p "$HOME/.ssh" || exit 1
if [ -e "$f" ] && grep -qxF -- "$line" "$f"; then exit 0; fi
if [ -s "$f" ] && [ -n "$(tail -c 1 "$f")" ]; then echo >> "$f" || exit 1; fi
printf '%s\\n' "$line" >> "$f"
"""


class SshServers:
    """The servers at first contact.

    Args:
        user: who logs in.
        private_key: path of the site's key.
        port: of their SSH servers.
    """

    def __init__(self, user: str, private_key: str, port: int = 22) -> None:
        self._user, self._port = user, port
        self._path = Path(private_key).expanduser()
        self._key: paramiko.PKey | None = None
        self._at_once = MOST_AT_ONCE

    def keys(self, targets: Sequence[Target]) -> Mapping[Target, str | Failed]:
        """The host key of each target; no login."""

        def show(target: Target) -> str | Failed:
            key = shown_key(str(target.address), self._port)
            if isinstance(key, str):
                return Failed(key)
            line = f"{key.get_name()} {key.get_base64()}"
            return line if is_pin(target, line) else Failed("its host key is of an unknown kind")

        return _each(targets, show, MOST_AT_ONCE)

    def read(
        self, targets: Sequence[Target], pins: Pins, password: str | None
    ) -> Mapping[Target, Found | Failed]:
        """Log in with the site's key, or with the password, and look; changes nothing.

        Raises:
            ConfigError: the site's key cannot be used.
        """
        self._site_key()

        def look(target: Target) -> Found | Failed:
            with self._logged_in(target, pins[target], password) as transport:
                return _look(target, transport, password)

        return _each(targets, _told(look), self._at_once)

    def read_as_root(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Found | Failed]:
        """Log in with the site's key, and look as root: the password goes to sudo alone.

        Raises:
            ConfigError: the site's key cannot be used.
        """
        self._site_key()

        def look(target: Target) -> Found | Failed:
            with self._logged_in(target, pins[target], None) as transport:
                found = _look(target, transport, password)
            return replace(found, has_key=True) if isinstance(found, Found) else found

        return _each(targets, _told(look), self._at_once)

    def let_in(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Failed | None]:
        """Add the site's key to the login user's authorized_keys, and log in with it.

        Raises:
            ConfigError: the site's key cannot be used.
        """
        import paramiko

        key = self._site_key()
        line = f"{key.get_name()} {key.get_base64()} {COMMENT}\n".encode()

        def add(target: Target) -> Failed | None:
            with self._logged_in(target, pins[target], password) as transport:
                answer = call(
                    transport, _append_command(), line, seconds=APPEND_SECONDS, limits=_LIMITS
                )
            if answer.code:
                said = last_line(answer.errors) or f"exit {answer.code}"
                return Failed(f"the key was not added to ~/.ssh/authorized_keys: {said}")
            try:
                with self._logged_in(target, pins[target], None):
                    return None
            except paramiko.AuthenticationException:
                return Failed("the key is in ~/.ssh/authorized_keys, and still refused")

        return _each(targets, _told(add), self._at_once)

    def _site_key(self) -> paramiko.PKey:
        if self._key is None:
            check_private_key(str(self._path))
            self._key, self._at_once = _opened(self._path)
        return self._key

    @contextmanager
    def _logged_in(
        self, target: Target, pin: str, password: str | None
    ) -> Iterator[paramiko.Transport]:
        """A connection, for the length of a block.

        Raises:
            OSError: see :func:`_told` for these.
            EOFError: likewise.
            paramiko.SSHException: likewise.
        """
        import paramiko

        address = str(target.address)
        kind, blob = pin.split()
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        put(
            client.get_host_keys(),
            address,
            self._port,
            paramiko.PKey.from_type_string(kind, base64.b64decode(blob)),
        )
        try:
            with ended_after(LOGIN_SECONDS, client.close) as expired:
                client.connect(
                    address,
                    port=self._port,
                    username=self._user,
                    pkey=self._key if password is None else None,
                    password=password,
                    allow_agent=False,
                    look_for_keys=False,
                    timeout=CONNECT_SECONDS,
                    banner_timeout=CONNECT_SECONDS,
                    auth_timeout=CONNECT_SECONDS,
                )
            transport = client.get_transport()
            if expired.is_set() or transport is None:
                raise TimeoutError
            yield transport
        finally:
            client.close()


def _append_command() -> str:
    return f"sh -c {shlex.quote(_APPEND)}"


def _look(target: Target, transport: paramiko.Transport, password: str | None) -> Found | Failed:
    asks = password is not None
    sudo_asks = call(
        transport, _WITHOUT_PASSWORD, b"", seconds=APPEND_SECONDS, limits=_LIMITS
    ).code not in (0, None)
    if sudo_asks and asks:
        proof, line = root_command("exit 0", asks=True), f"{password}\n".encode()
        if call(transport, proof, line, seconds=APPEND_SECONDS, limits=_LIMITS).code:
            return Failed(
                "sudo does not make the login user root with this password: give it the rights, or "
                "name another --user"
            )
    command = root_command(probe_script("python3", ()), asks=asks, or_self=True)
    content = (f"{password}\n".encode() if asks else b"") + probe_archive()
    answer = call(transport, command, content, seconds=PROBE_SECONDS, limits=_LIMITS)
    if answer.code or not answer.output.strip():
        said = last_line(answer.errors or answer.output) or "no output"
        # What is no shell may take its input for commands, and repeat it.
        said = said.replace(password, "(password)") if password else said
        return Failed(f"the probe exited with {answer.code}: {said}")
    try:
        facts = read_facts(answer.output)
    except NotFacts as error:
        return Failed(f"the output of its probe is not valid: {error}")
    return replace(found_by_ssh(target, facts, has_key=not asks), sudo_asks=sudo_asks)


def _told(act: Callable[[Target], _T]) -> Callable[[Target], _T | Failed]:
    """The same, with what goes wrong as the target's failure."""
    import paramiko

    def safe(target: Target) -> _T | Failed:
        try:
            return act(target)
        except paramiko.BadHostKeyException:
            return Failed("it shows another host key than a moment ago")
        except paramiko.AuthenticationException:
            return Failed("the login was refused", refuses_key=True)
        except CallFailed as error:
            return Failed(f"the login worked, but {error}")
        except TimeoutError:
            return Failed("the login timed out")
        except (OSError, EOFError, paramiko.SSHException) as error:
            return Failed(f"the connection broke: {str(error)[:200] or type(error).__name__}")

    return safe


def _each(targets: Sequence[Target], act: Callable[[Target], _T], at_once: int) -> dict[Target, _T]:
    if not targets:
        return {}
    # Imported before the threads start: parallel imports can meet an incomplete module.
    import paramiko  # noqa: F401

    pool = ThreadPoolExecutor(min(len(targets), at_once))
    try:
        return dict(zip(targets, pool.map(act, targets), strict=True))
    finally:
        # After Ctrl-C nobody waits for answers; connections end by their time limit.
        pool.shutdown(wait=False, cancel_futures=True)


def _opened(path: Path) -> tuple[paramiko.PKey, int]:
    """The key, and how many logins may use it at once: an agent answers one after the other.

    Raises:
        ConfigError: it needs a passphrase, and the agent does not hold it.
    """
    import paramiko

    for kind in (paramiko.RSAKey, paramiko.ECDSAKey, paramiko.Ed25519Key):
        try:
            return kind.from_private_key_file(str(path)), MOST_AT_ONCE
        except paramiko.SSHException:
            continue
    with suppress(OSError, UnicodeDecodeError):
        public = path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").split()[:2]
        for key in paramiko.Agent().get_keys():
            if [key.get_name(), key.get_base64()] == public:
                return key, 1
    raise ConfigError(
        f"the SSH key {path} cannot be opened, and the SSH agent does not hold it",
        hint=f"ssh-add {shlex.quote(str(path))}; its public key must lie beside it, as .pub",
    )
