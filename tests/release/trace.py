"""Which of the tree's files the Python processes of a row open: all of them load an audit hook.

This file is copied beside a ``.pth`` file into the environment's packages while a row runs, so that
commands, playbooks and their children load it too, whatever environment they are given. It must
import nothing but the standard library.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "appliance_release_trace"
COMPILED = re.compile(r"__pycache__/([^/]+?)\.[^/]+\.pyc(\.\d+)?$")
LEFT_OUT = ("/.git/", "/.venv/", "/.mypy_cache/", "/.ruff_cache/", "/.pytest_cache/")


def begin(root: str, folder: str) -> None:
    """Note each file under ``root`` that this process opens, once, in a file of its own.

    A program that is killed has noted what it opened until then.
    """
    seen: set[object] = set()

    def note(event: str, words: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(words[0], str) or words[0] in seen:
            return
        seen.add(words[0])
        # What is raised here ends the program's own call.
        try:
            path = os.path.normpath(Path.cwd() / words[0])
            if not path.startswith(root + "/") or any(one in path for one in LEFT_OUT):
                return
            path = COMPILED.sub(r"\1.py", path)
            # Opened again each time: a program may close all of its descriptors.
            with Path(folder, str(os.getpid())).open("a") as kept:
                kept.write(path[len(root) + 1 :] + "\n")
        except OSError:
            return

    sys.addaudithook(note)


@contextmanager
def tracing(root: Path, folder: Path) -> Iterator[None]:
    """Have every Python process of this environment trace, until this is left.

    Two at a time do not meet: each has files of its own.
    """
    packages, name = Path(sysconfig.get_paths()["purelib"]), f"{NAME}_{secrets.token_hex(4)}"
    module, line = packages / f"{name}.py", packages / f"{name}.pth"
    folder.mkdir(parents=True, exist_ok=True)
    module.write_text(f"{Path(__file__).read_text()}\nbegin({str(root)!r}, {str(folder)!r})\n")
    # A process that starts while this ends may read the line and miss the module.
    line.write_text(f'import sys; exec("try:\\n import {name}\\nexcept ImportError: pass")\n')
    try:
        yield
    finally:
        line.unlink(missing_ok=True)
        module.unlink(missing_ok=True)


def traced(folder: Path) -> frozenset[str]:
    """The paths below the root that were noted."""
    return frozenset(line for one in folder.iterdir() for line in one.read_text().splitlines())
