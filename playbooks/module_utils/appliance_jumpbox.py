"""What Run:ai's CLI finds on a jumpbox: the program, its completion, researchers' kubeconfigs.

The control host sends this one file to a node to look before anything is changed, with a call of
:func:`look` below it. The modules of role ``runai_cli`` import it: so both judge alike, and no
kubeconfig leaves the node.

Python 3.8, the standard library, no import of the package. What must not be here: writing.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple, Union

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USER = "runai-authenticated-user"
# Keys of a kubeconfig that somebody else's credential needs; a login of ours needs none of them.
FOREIGN = (
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "exec",
    "password",
    "token",
    "tokenFile",
    "username",
)
LARGEST = 1 << 20
LARGEST_COMPLETION = 4 << 20
# No file that it writes may be larger, its output included; in blocks of 512 bytes.
LIMITED = 'ulimit -f 8192; exec "$1" completion bash'
PROGRAM_SECONDS = 30
# Codes of coreutils' timeout: the program was late and ended; or it cannot be started.
LATE = (124, 137)
NOT_RUN = (*LATE, 126, 127)


class Unusable(Exception):
    """The program does not do what is asked of it, or a place cannot be written."""


def digest(path: Union[str, Path]) -> Optional[str]:
    """Return the sha256 of a file in hex, or None when there is none."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                found.update(block)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return found.hexdigest()


def completion(program: Union[str, Path]) -> str:
    """Return what the program says for bash; it gets a home of its own, which is thrown away."""
    argv = ["timeout", "--kill-after=5", str(PROGRAM_SECONDS)]
    argv += ["/bin/sh", "-c", LIMITED, "completion", str(program)]
    with tempfile.TemporaryDirectory() as home:
        try:
            # Into a file: a child that the program leaves behind may hold a pipe open for ever.
            with tempfile.TemporaryFile(dir=home) as out, tempfile.TemporaryFile(dir=home) as err:
                code = subprocess.run(  # noqa: S603
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=home,
                    env={"HOME": home, "PATH": PATH, "LC_ALL": "C.UTF-8"},
                    start_new_session=True,
                    timeout=PROGRAM_SECONDS + 10,
                    check=False,
                ).returncode
                out.seek(0)
                err.seek(0)
                text, told = (
                    part.read(LARGEST_COMPLETION).decode(errors="replace") for part in (out, err)
                )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unusable("%s does not run here: %s" % (program, error)) from error
    lines = told.strip().splitlines()
    if code in NOT_RUN:
        why = "not within %d s" % PROGRAM_SECONDS if code in LATE else " ".join(lines[-1:])
        raise Unusable("%s does not run here: %s" % (program, why))
    if code != 0 or not 0 < len(text.strip()) < LARGEST_COMPLETION:
        raise Unusable(
            "%s completion bash ended with code %d and said: %s"
            % (program, code, lines[-1] if lines else "nothing")
        )
    return text


def read_text(path: Union[str, Path]) -> Optional[str]:
    """Return a file's text, or None when there is none."""
    try:
        return Path(path).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def as_user(entry: pwd.struct_passwd) -> Iterator[None]:
    """Do what follows with the rights of a user: a link in their folder leads nowhere of ours."""
    if os.geteuid() != 0 or entry.pw_uid == 0:
        yield
        return
    groups = os.getgroups()
    gid = os.getegid()
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setegid(entry.pw_gid)
    os.seteuid(entry.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def config_path(entry: pwd.struct_passwd) -> Path:
    """Return where a user's kubeconfig is."""
    return Path(entry.pw_dir) / ".kube" / "config"


def foreign(text: str) -> Optional[str]:
    """Return why a kubeconfig is not one that we wrote, or None when it is."""
    lines = [line.strip().lstrip("- ").strip() for line in text.splitlines()]
    keys = {line.partition(":")[0].strip("'\"") for line in lines if ":" in line}
    held = [key for key in FOREIGN if key in keys]
    if held:
        return "it holds a credential (%s)" % held[0]
    if not any(line.partition(":")[2].strip().strip("'\"") == USER for line in lines):
        return "it has no user %s" % USER
    if sum(line.startswith("server:") for line in lines) != 1:
        return "it has more clusters than one, or none"
    return None


def lacks(text: str, expected: Mapping[str, str]) -> Optional[str]:
    """Return the first key that a kubeconfig of ours has otherwise than expected, or None.

    Tokens that a login left, another namespace and another order count as nothing.
    """
    found = set()
    for line in text.splitlines():
        key, colon, value = line.strip().lstrip("- ").partition(":")
        if colon:
            found.add((key.strip(), value.strip().strip("'\"")))
    for key in sorted(expected):
        if (key, expected[key]) not in found:
            return key
    return None


def researcher(name: str, expected: Mapping[str, str]) -> Tuple[str, str]:
    """Return (state, text) of a user and their kubeconfig.

    States: ``no user``, ``no home``, ``absent``, ``current``, ``loose`` (mode), ``outdated``,
    ``foreign``.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return "no user", "there is no user %s" % name
    if not Path(entry.pw_dir).is_dir():
        return "no home", "the home of %s, %s, is not there" % (name, entry.pw_dir)
    path = config_path(entry)
    try:
        with as_user(entry):
            return judge(path, entry.pw_uid, expected)
    except OSError as error:
        return "foreign", "%s cannot be read by %s: %s" % (path, name, error.strerror)


def judge(path: Path, uid: int, expected: Mapping[str, str]) -> Tuple[str, str]:
    """Return (state, text) of one file."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return "absent", "%s is not there" % path
    if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
        return "foreign", "%s is no plain file" % path
    if found.st_uid != uid:
        return "foreign", "%s belongs to another user (uid %d)" % (path, found.st_uid)
    return judge_text(path, path.read_text(errors="replace"), found.st_mode, expected)


def judge_text(path: Path, text: str, mode: int, expected: Mapping[str, str]) -> Tuple[str, str]:
    """Return (state, text) of a plain file of the user's own."""
    reason = foreign(text)
    if reason:
        return "foreign", "%s is not from this tool: %s" % (path, reason)
    key = lacks(text, expected)
    if key:
        return "outdated", "%s has another %s" % (path, key)
    if stat.S_IMODE(mode) != 0o600:
        return "loose", "%s has mode %04o" % (path, stat.S_IMODE(mode))
    return "current", ""


def look(want: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what is on this node; changes nothing.

    Args:
        want: ``program``, ``completion`` (paths), ``name`` (of the API, to resolve) and
            ``users``: name -> the keys that its kubeconfig must have.
    """
    found: Dict[str, Any] = {
        "program_sha256": digest(want["program"]),
        "completion_current": False,
        "program_fault": "",
        "kubectl": shutil.which("kubectl", path=PATH),
        "resolves": True,
        "users": {},
    }
    if found["program_sha256"]:
        try:
            found["completion_current"] = read_text(want["completion"]) == completion(
                want["program"]
            )
        except Unusable as error:
            found["program_fault"] = str(error)
    try:
        socket.getaddrinfo(want["name"], None)
    except OSError:
        found["resolves"] = False
    for name, expected in want["users"].items():
        state, text = researcher(name, expected)
        found["users"][name] = {"state": state, "text": text}
    return found
