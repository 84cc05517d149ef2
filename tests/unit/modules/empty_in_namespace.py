"""Runs in a private mount namespace: a node whose pods have network storage mounted is emptied.

Prints, as JSON, what the module said and which files are left on the share.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.unit.modules.loading import load


def _run(argv: list[str], data: str | None = None) -> tuple[int, str, str]:
    done = subprocess.run(argv, input=data, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def _cannot_unmount(argv: list[str], data: str | None = None) -> tuple[int, str, str]:
    """A umount that says it went well, and did nothing."""
    return (0, "", "") if argv[0] == "umount" else _run(argv, data)


def main(root: Path, folder: str, point: str, case: str) -> None:
    """Make the node, bind the share below its folder, and empty it."""
    share = root / "share"
    share.mkdir()
    (share / "postgres.db").write_text("theirs")
    if case == "linked":
        (root / "data/lib").mkdir(parents=True)
        (root / "var").mkdir()
        (root / "var/lib").symlink_to("../data/lib")
    mounted = root / folder / point
    mounted.mkdir(parents=True)
    (root / folder / "own").write_text("ours")
    (root / "proc").symlink_to("/proc")
    subprocess.run(["mount", "--bind", share, mounted], check=True)
    module = load("member_traces", role="node_reset")
    run = _cannot_unmount if case == "stuck" else _run
    traces = module.Traces(root, run, _run)
    said = ""
    try:
        traces.mounts(True)
        traces.folders(True)
    except OSError as error:
        said = str(error)
    left = sorted(path.name for path in share.iterdir())
    own = (root / folder / "own").exists()
    sys.stdout.write(json.dumps({"said": said, "share": left, "own": own}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
