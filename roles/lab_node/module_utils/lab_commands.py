"""Run podman and the image builder for the modules of role lab_node."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import subprocess
import time
from pathlib import Path

LABEL = "appliance-lab"
STATE_DIR = Path("/run/appliance-lab")
REMOVALS = 4
# A host name's label. Labs that people name are shorter (lab/layout.py); tests make longer ones.
NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


class CommandFailed(Exception):
    """A command ended with another code than 0."""

    def __init__(self, argv, code, output):
        super().__init__(
            "{0} ended with {1}: {2}".format(" ".join(argv[:4]), code, output.strip()[-1500:])
        )
        self.output = output


def run(argv, data=None, timeout=300):
    """Run a command and return its standard output."""
    if shutil.which(argv[0]) is None:
        raise CommandFailed(argv, 127, "{0}: not found".format(argv[0]))
    done = subprocess.run(
        argv,
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=timeout,
        check=False,
        universal_newlines=True,
    )
    if done.returncode != 0:
        raise CommandFailed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout


def podman(*argv, **options):
    """Run one podman command."""
    return run(["podman", *argv], **options)


def succeeds(*argv):
    """Say whether a podman query ends with 0."""
    try:
        podman(*argv)
    except CommandFailed:
        return False
    return True


def lines(*argv):
    """Return the non-empty lines that a podman query prints."""
    return [line.strip() for line in podman(*argv).splitlines() if line.strip()]


def is_name(lab):
    """Say whether a lab can have this name; podman takes an empty one for every lab."""
    return NAME.fullmatch(lab) is not None


def labelled(lab, *query):
    """Return [label, ...] of each thing that a podman query lists, where the label is this lab.

    A filter by label alone is not trusted with what is removed: an empty value means any.
    """
    if not is_name(lab):
        raise ValueError("no lab can have the name {0!r}".format(lab))
    found = [line.split() for line in lines(*query)]
    return [words[1:] for words in found if words[0] == lab]


def containers_of(lab):
    """Return [id, name] of each container of a lab."""
    template = '{{index .Labels "' + LABEL + '"}} {{.ID}} {{.Names}}'
    chosen = "label={0}={1}".format(LABEL, lab)
    return labelled(lab, "ps", "--all", "--no-trunc", "--filter", chosen, "--format", template)


def remove_container(identity, wait=time.sleep):
    """Remove one container at once, whatever state it was left in.

    After a machine lost its processes podman still waits for the exit of a container that nothing
    watches any more; it then notes it as stopped, so that the next attempt removes it.
    """
    for attempt in range(1, REMOVALS + 1):
        if not succeeds("container", "exists", identity):
            return
        try:
            podman("rm", "--force", "--time", "0", "--volumes", identity)
        except CommandFailed:
            if attempt == REMOVALS:
                raise
            wait(attempt)


@contextlib.contextmanager
def locked(path):
    """Hold an exclusive lock for as long as the block lasts; it ends with the process, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
