#!/usr/bin/python
"""Ansible module: copy files from the control host to a node with rsync, as root there."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from ansible.module_utils.appliance_programs import KILL_SECONDS, Output
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: rsync_push
short_description: Copy files to a node with rsync, as root there
description:
  - Runs on the control host, and starts rsync over ssh. On the node, rsync is started as root, by
    sudo where the login user is another one.
  - A password for sudo goes to the node as the first line of ssh's input. It is in no argument,
    environment or file. It is sent again where sudo asks for it, and not where sudo does not.
options:
  source: {description: Path on the control host, type: str, required: true}
  target: {description: Path on the node, type: str, required: true}
  login: {description: "[USER@]ADDRESS of the node", type: str, required: true}
  ssh: {description: The ssh command line, type: str, required: true}
  options: {description: Options of rsync, type: list, elements: str, default: []}
  files:
    description:
      - Only these files, relative to C(source). One that is not there ends it before anything is
        sent. Empty for what the options select.
    type: list
    elements: str
    default: []
  lacking_hint: {description: What to do where a file is not there, type: str, default: ""}
  before:
    description: Shell commands that run on the node as root before rsync; one that fails ends it.
    type: str
    default: ":"
  become: {description: Whether sudo is used on the node, type: bool, default: false}
  become_password: {description: What sudo asks for; empty for none, type: str, default: ""}
  seconds: {description: How long it may take, type: int, required: true}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Copy the bundle
  rsync_push:
    source: /media/bundle/
    target: /var/lib/appliance/bundle/
    login: ubuntu@198.51.100.11
    ssh: ssh -o BatchMode=yes
    options: [--recursive]
    become: true
    seconds: 3600
  delegate_to: localhost
  become: false
"""

RETURN = r"""
stdout_lines: {description: What rsync itemized, type: list, elements: str, returned: success}
"""

# On the node, where the login user is another one and sudo does not ask.
SUDO = ("sudo", "-n")
# The password comes first, then what rsync says. Not by "cat | ssh": rsync waits for ssh with its
# own side still open, so a shell that also waits for cat would never end. The pipe's name is gone
# once both have opened it. No single quotes: rsync splits the words of --rsh by them.
FEED = (
    'd=$(mktemp -d) && mkfifo "$d/p" || exit 1; exec 3<&0; '
    '{ rm -r "$d"; %s; exec cat; } <&3 >"$d/p" 2>/dev/null & '
    '%s <"$d/p" 3<&-; code=$?; kill $! 2>/dev/null; exit $code'
)
# FEED opens 3, and shells keep 10 and above for themselves: a password on such a descriptor would
# be gone before it is read.
LOWEST_DESCRIPTOR = 20
SHOWN = 5
ASK = (
    """
IFS= read -r p
if [ "$(id -u)" = 0 ]; then exec "$@"; fi
if sudo -n sh -c : 2>/dev/null; then exec sudo -n "$@"; fi
printf "%s\\n" "$p" | sudo -k -S -p "" true || exit 1
"""
    + FEED % ('printf "%s\\n" "$p"', 'sudo -k -S -p "" "$@"')
)


def on_node(want):
    """Return the command that the node's shell runs; rsync appends its arguments."""
    words = ["sh", "-c", want["before"] + ' && exec rsync "$@"', "rsync"]
    if asks(want):
        words = ["sh", "-c", ASK, "sh", *words]
    elif want["become"]:
        words = [*SUDO, *words]
    return shlex.join(words)


def rsh(want, descriptor):
    """Return the command that connects rsync with the node, as rsync splits it into words.

    rsync knows quotes, and no backslashes.
    """
    if descriptor is None:
        return want["ssh"]
    feed = FEED % ("cat /dev/fd/%d" % descriptor, '"$@"')
    return "sh -c '%s' sh %s" % (feed, want["ssh"])


def command(want, descriptor):
    """Return the words of rsync's command; the password is read from the descriptor."""
    return [
        *("rsync", *want["options"], "--rsync-path=" + on_node(want)),
        *("--rsh=" + rsh(want, descriptor), want["source"], want["login"] + ":" + want["target"]),
    ]


def asks(want):
    """Return whether sudo may ask for a password."""
    return bool(want["become"] and want["become_password"])


def password_pipe(want):
    """Return a descriptor from which the password's line can be read once; None without one."""
    if not asks(want):
        return None
    low, writer = os.pipe()
    # A line is far smaller than a pipe.
    os.write(writer, ("%s\n" % want["become_password"]).encode())
    os.close(writer)
    reader = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR)
    os.close(low)
    return reader


def carry_out(words, descriptors, seconds):
    """Run rsync; return (rc, stdout, stderr), each output up to a limit.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was ended with its connection.
        OSError: it cannot be started.
    """
    # In this process group: what ends the command that was typed ends rsync as well.
    process = subprocess.Popen(  # noqa: S603  (no shell here; the words are the roles' own)
        words,
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env=dict(os.environ, LC_ALL="C.UTF-8"),
    )
    outputs = [Output(process.stdout), Output(process.stderr)]
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        # At SIGTERM rsync ends what it started; at SIGKILL it could not.
        process.terminate()
        try:
            process.wait(KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        raise
    said, complained = (each.content().decode("utf-8", "replace") for each in outputs)
    return process.returncode, said, complained


def lacking(source, files):
    """Return those of the files that the source does not have as regular files."""
    paths = [(name, Path(source) / name) for name in files]
    return [name for name, path in paths if path.is_symlink() or not path.is_file()]


def refusal(want):
    """Return why nothing is sent; None where every listed file is there."""
    missing = lacking(want["source"], want["files"])
    if not missing:
        return None
    more = " and %d more" % (len(missing) - SHOWN) if len(missing) > SHOWN else ""
    shown = ", ".join(missing[:SHOWN]) + more
    return "%d of %d files are not in %s: %s; %s" % (
        len(missing),
        len(want["files"]),
        want["source"],
        shown,
        want["lacking_hint"],
    )


def push(module, want, stream):
    """Send the files, and end the module; ``stream`` is a file for the list of files."""
    if want["files"]:
        stream.write(b"".join(os.fsencode(name) + b"\0" for name in want["files"]))
        stream.flush()
        more = ["--from0", "--files-from=" + stream.name]
        want = dict(want, options=[*want["options"], *more])
    reader = password_pipe(want)
    words = command(want, reader)
    try:
        code, output, errors = carry_out(words, [] if reader is None else [reader], want["seconds"])
    except subprocess.TimeoutExpired:
        module.fail_json(msg="rsync did not end within %d s and was ended" % want["seconds"])
    except OSError as error:
        module.fail_json(msg="rsync cannot be started: %s" % error)
    if code:
        module.fail_json(
            msg="non-zero return code", rc=code, cmd=words, stdout=output, stderr=errors
        )
    module.exit_json(changed=bool(output), stdout=output, stderr=errors, rc=0)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "str", "required": True},
            "target": {"type": "str", "required": True},
            "login": {"type": "str", "required": True},
            "ssh": {"type": "str", "required": True},
            "options": {"type": "list", "elements": "str", "default": []},
            "files": {"type": "list", "elements": "str", "default": []},
            "lacking_hint": {"type": "str", "default": ""},
            "before": {"type": "str", "default": ":"},
            "become": {"type": "bool", "default": False},
            "become_password": {"type": "str", "default": "", "no_log": True},
            "seconds": {"type": "int", "required": True},
        },
        supports_check_mode=True,
    )
    if module.check_mode:
        module.exit_json(changed=True, skipped=True, msg="files are not compared in check mode")
    reason = refusal(module.params)
    if reason:
        module.fail_json(msg=reason)
    with tempfile.NamedTemporaryFile(prefix="appliance-rsync-") as stream:
        push(module, module.params, stream)


if __name__ == "__main__":
    main()
