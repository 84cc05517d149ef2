"""Start a burn-in as a unit of systemd, look at it, and end it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from ..inspection.trials import require_no_pods
from ..source import ENVIRONMENT, Source
from .order import (
    FOLDER,
    KIND,
    MOST_STATE_BYTES,
    ORDER,
    PROGRAM,
    SAMPLES,
    SCHEMA,
    STATE,
    UNIT,
    Order,
    bounded,
    order_of,
    write,
)
from .run import BurnIn, boot_id

SECONDS = 20.0
# How long its first state may take.
START_SECONDS = 15.0
# After its own end the unit is killed.
GRACE_SECONDS = 600
Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[bytes]"]


def perform(source: Source, text: str) -> Optional[Dict[str, Any]]:
    """Do what the command says; the report, except of the work itself, which has none."""
    told = json.loads(text)
    folder = Path(told.get("folder") or FOLDER)
    if told["do"] == "work":
        BurnIn(folder).run()
        return None
    control = Control(folder, source)
    refused = None
    try:
        if told["do"] == "start":
            control.start(order_of(told["order"]))
        elif told["do"] == "end":
            control.end()
    except (OSError, ValueError) as error:
        refused = str(error)
    return control.look(refused)


def _run(argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=SECONDS,
        env=ENVIRONMENT,
        check=False,
    )


class Control:
    """The burn-in of this node.

    Args:
        folder: its files.
        source: the machine.
        run: a command.
        archive: the bytes of this program; the unit starts them from a file.
    """

    def __init__(
        self,
        folder: Path,
        source: Source,
        run: Run = _run,
        archive: Optional[Callable[[], bytes]] = None,
    ) -> None:
        self._folder, self._source, self._run = folder, source, run
        self._archive = archive or own_archive

    def start(self, order: Order) -> None:
        """Start it, unless one runs.

        Raises:
            OSError: one runs, the node carries pods, or systemd refused; says which.
        """
        if os.geteuid() != 0 and self._source.live:
            raise PermissionError("a burn-in needs root: the login user has no sudo")
        if not order.maintained:
            require_no_pods(self._source)
        os.makedirs(str(self._folder), mode=0o700, exist_ok=True)  # noqa: PTH103
        os.chmod(str(self._folder), 0o700)  # noqa: PTH101
        with (self._folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OSError("another command starts a burn-in right now") from None
            running = self.is_running()
            if running is None:
                raise OSError("systemd does not tell whether a burn-in runs already")
            if running:
                raise OSError("a burn-in runs on this node already")
            self._prepare(order)
            self._launch(order)

    def _prepare(self, order: Order) -> None:
        for name in (STATE, SAMPLES):
            path = self._folder / name
            if path.is_symlink() or path.exists():
                path.unlink()
        write(self._folder / ORDER, {"schema": SCHEMA, **order._asdict()})
        os.chmod(str(self._folder / ORDER), 0o600)  # noqa: PTH101
        (self._folder / PROGRAM).write_bytes(self._archive())

    def _launch(self, order: Order) -> None:
        work = json.dumps({"do": "work", "folder": str(self._folder)}, separators=(",", ":"))
        done = self._run(
            [
                "systemd-run",
                "--quiet",
                "--collect",
                "--unit=" + UNIT,
                "--description=appliance: burn-in of this machine",
                "--property=RuntimeMaxSec=%d" % (order.seconds + GRACE_SECONDS),
                "--property=TimeoutStopSec=60",
                "--property=CPUWeight=20",
                "--property=IOWeight=20",
                # Whatever else needs memory gets it: the loads are killed first.
                "--property=OOMScoreAdjust=1000",
                "--property=UMask=0077",
                sys.executable or "python3",
                "-I",
                "-S",
                str(self._folder / PROGRAM),
                "--burn-in",
                work,
            ]
        )
        if done.returncode:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            raise OSError("systemd-run: %s" % (said[-1] if said else done.returncode))
        ends = time.monotonic() + START_SECONDS
        while self._document(STATE) is None and time.monotonic() < ends:
            time.sleep(0.2)

    def end(self) -> None:
        """Stop the unit, and wait until it has ended.

        Raises:
            OSError: systemd did not do it.
        """
        done = self._run(["systemctl", "stop", UNIT])
        # 5: there is no such unit, so nothing is to be stopped.
        if done.returncode not in (0, 5):
            raise OSError("systemctl stop %s: exit %d" % (UNIT, done.returncode))

    def is_running(self) -> Optional[bool]:
        """Whether the unit runs; None where systemd does not tell."""
        try:
            done = self._run(["systemctl", "show", "--property=ActiveState", UNIT])
        except (OSError, subprocess.TimeoutExpired):
            return None
        state = done.stdout.decode("utf-8", "replace").strip().partition("=")[2]
        if done.returncode or not state:
            return None
        return state in ("active", "activating", "deactivating", "reloading")

    def look(self, refused: Optional[str] = None) -> Dict[str, Any]:
        """What is there: the state, as it was written, and whether it still runs."""
        running = self.is_running()
        return {
            "schema": SCHEMA,
            "kind": KIND + "-look",
            "running": running,
            "boot_id": boot_id(),
            # After the question, so that a state of an ended unit is its last.
            "state": self._document(STATE),
            "refused": refused,
        }

    def _document(self, name: str) -> Optional[Dict[str, Any]]:
        try:
            found = json.loads(bounded(self._folder / name, MOST_STATE_BYTES) or "null")
        except (ValueError, RecursionError):
            return None
        return found if isinstance(found, dict) else None


def own_archive() -> bytes:
    """The archive that this program was started from.

    Raises:
        OSError: it was started from a folder.
    """
    return Path(sys.path[0] or ".").read_bytes()
