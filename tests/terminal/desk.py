"""Where the typing is done: README's folder, with its venv, at a path as long on every machine.

A screen breaks its lines where they are full, so nothing on it may be longer here than there.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import golden
from tests.terminal.tmux import in_rows

PREFIX = "appl-"
# What a checkout has and a newcomer needs: README's folder.
FOLDERS = ("appliance", "playbooks", "roles", "hardware", "inventories/example")
_PROGRAM = """\
#!{python}
import getpass, socket, sys
sys.path.insert(0, {folder!r})
sys.path.append({root!r})
getpass.getuser = lambda: "engineer"
socket.gethostname = lambda: "admin1"
sys.argv[1:1] = {words!r}
from {module} import main
main()
"""
# What differs from run to run, replaced by text of the same length.
_CHANGING = (
    (rf"/tmp/{PREFIX}\w{{8}}", f"/tmp/{PREFIX}README00"),  # noqa: S108
    (r"\b20\d\d-\d\d-\d\d(?=[T ])", "2026-01-01"),
    (r"(?<![\d:])[0-2]\d:[0-5]\d:[0-5]\d\b", "01:02:03"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b",
     "00000000-0000-7000-8000-000000000000"),
    (r"SHA256:[A-Za-z0-9+/]{43}", "SHA256:" + "x" * 43),
    # Said at Ctrl-C, if a connection is not closed by then.
    (r"(?m)^waiting for .* to finish opening, .*\n", ""),
    # The same, if a reading was under way.
    (r"(?m)^warning: cannot read which nodes were removed on purpose: .*\n(  .*\n)?(?=\^C)", ""),
    # The end of a run's id.
    (r"(?<=  )[0-9a-f]{8}(?=  )", "0" * 8),
    # How long something took, or has been going on.
    (r"\b\d+\.\d(?= s\b)", "0.0"),
    (r"(?<=  )\d+(?= s\b)", "0"),
    # The port of a server of these tests.
    (r"(?<=[ :])[3-6]\d{4}\b", "22222"),
)  # fmt: skip


@contextmanager
def desk() -> Iterator[Path]:
    """README's folder, and in it ``.venv/bin/appliance``."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    try:
        for name in FOLDERS:
            shutil.copytree(golden.ROOT / name, folder / name)
        shutil.copy2(golden.ROOT / "README.md", folder)
        put_program(folder, "appliance.cli.exits")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_program(folder: Path, module: str, *words: str, tree: Path | None = None) -> None:
    """Write the venv's program as pip does; the user and the machine have names of their own.

    Args:
        folder: where ``.venv`` is.
        module: whose ``main`` runs.
        words: what it gets before the words that were typed.
        tree: where the package is; None: in the folder.
    """
    program = folder / ".venv" / "bin" / "appliance"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        _PROGRAM.format(
            python=sys.executable, folder=str(tree or folder), root=str(golden.ROOT),
            module=module, words=list(words),
        )
    )  # fmt: skip
    program.chmod(0o755)


def environment(folder: Path) -> dict[str, str]:
    """What the shell of a newcomer has."""
    return {"HOME": str(folder), "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/bin"}


def steady(text: str) -> str:
    """The screen of a text, without what differs from run to run."""
    for pattern, same in _CHANGING:
        text = re.sub(pattern, same, text)
    return in_rows(text)
