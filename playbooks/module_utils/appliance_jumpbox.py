"""What Run:ai's CLI finds on a jumpbox: the program, its completion, researchers' kubeconfigs.

The control host runs this same file on a node to look before anything is changed (it is sent with
a call of :func:`look` below it), the modules of role ``runai_cli`` to change and to prove: so both
judge alike, and no kubeconfig with somebody's tokens leaves the node.

Python 3.8, standard library. What must not be here: writing outside a user's own folder.
"""

import hashlib
import os
import pwd
import shutil
import socket
import stat
import tempfile
from contextlib import contextmanager
from pathlib import Path

from ansible.module_utils import appliance_programs as programs

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
PROGRAM_SECONDS = 30


class Unusable(Exception):
    """The program does not do what is asked of it, or a place cannot be written."""


def digest(path):
    """Return the sha256 of a file in hex, or None when there is none."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                found.update(block)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return found.hexdigest()


def completion(program):
    """Return what the program says for bash; it gets a home of its own, which is thrown away."""
    with tempfile.TemporaryDirectory() as home:
        try:
            rc, out, err = programs.output(
                [program, "completion", "bash"],
                PROGRAM_SECONDS,
                directory=home,
                environment={"HOME": home, "PATH": PATH, "LC_ALL": "C.UTF-8"},
            )
        except programs.ProgramError as error:
            raise Unusable("%s does not run here: %s" % (program, error)) from error
    text = out.decode(errors="replace")
    if rc != 0 or not text.strip():
        said = err.decode(errors="replace").strip().splitlines()
        raise Unusable(
            "%s completion bash ended with code %d and said: %s"
            % (program, rc, said[-1] if said else "nothing")
        )
    return text


def read_text(path):
    """Return a file's text, or None when there is none."""
    try:
        return Path(path).read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def as_user(entry):
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


def config_path(entry):
    """Return where a user's kubeconfig is."""
    return Path(entry.pw_dir) / ".kube" / "config"


def foreign(text):
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


def lacks(text, expected):
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


def researcher(name, expected):
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


def judge(path, uid, expected):
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


def judge_text(path, text, mode, expected):
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


def put_aside(path):
    """Move a file away under a name that is free; return that name."""
    number = 1
    while True:
        kept = path.with_name("%s.before-appliance-%d" % (path.name, number))
        if not os.path.lexists(str(kept)):
            path.rename(kept)
            return kept
        number += 1


def write_config(path, content):
    """Write a kubeconfig atomically, mode 0600; the caller has the user's rights."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, new = tempfile.mkstemp(prefix=".config.", dir=str(path.parent))
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(new).chmod(0o600)
        Path(new).replace(path)
    finally:
        if Path(new).exists():
            Path(new).unlink()


def look(want):
    """Return what is on this node; changes nothing.

    Args:
        want: ``program``, ``completion`` (paths), ``name`` (of the API, to resolve) and
            ``users``: name -> the keys that its kubeconfig must have.
    """
    found = {
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
