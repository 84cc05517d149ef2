"""A command that is killed at random moments of its run, and then ends by being typed again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

# No test kills for longer, however slow the machine is.
_ALL_SECONDS: Final = 1200.0
_TAIL: Final = 2000


def seed() -> int:
    """Of the moments: by ``APPLIANCE_TEST_SEED``, else another one in each run."""
    return int(os.environ.get("APPLIANCE_TEST_SEED") or time.time_ns() % 1_000_000)


@dataclass
class Kills:
    """What became of the runs.

    Attributes:
        seed: of the moments.
        at: after so many seconds a running process was killed.
        ended: one run ended by itself, with exit code 0.
    """

    seed: int
    at: list[float] = field(default_factory=list)
    ended: bool = False

    def told(self) -> str:
        """One line for the log of the test."""
        moments = ", ".join(f"{moment:.1f}" for moment in self.at)
        ending = "; then it ended by itself" if self.ended else ""
        return f"seed {self.seed}: killed after {moments or 'nothing'} s{ending}"


def killed_at_random(
    words: Sequence[str],
    *,
    most: int,
    longest: float,
    before_each: Callable[[], object] = int,
    goes_on: bool = True,
) -> Kills:
    """Run ``appliance WORDS`` up to ``most`` times, and kill each run at a random moment.

    The first moments are the early ones: what was killed goes on, so later runs are shorter.

    Args:
        words: of the command, with ``--yes``.
        most: how many runs.
        longest: the latest moment, in seconds.
        before_each: makes the work that a run is to do.
        goes_on: a run that ended by itself is the last one: nothing is left to do.

    Raises:
        AssertionError: a run failed by itself; the text has the seed and its last words.
    """
    found = Kills(seed())
    dice = random.Random(found.seed)  # noqa: S311 - moments, no secret
    until = time.monotonic() + _ALL_SECONDS
    for chosen in sorted(dice.uniform(0.5, longest) for _ in range(most)):
        if time.monotonic() > until:
            break
        before_each()
        moment = chosen if chosen < longest else dice.uniform(0.5, longest)
        began = time.monotonic()
        # No pipe: what a killed command leaves behind, as a shared SSH connection, keeps its end.
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "appliance", *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
            output.seek(0)
            text = output.read()
        if process.returncode == -signal.SIGKILL:
            found.at.append(moment)
            continue
        assert process.returncode == 0, f"{found.told()}; then: {text[-_TAIL:]}"
        found.ended = True
        if goes_on:
            break
        # It is shorter than was thought: the next moment is one of its own.
        longest = min(longest, max(1.0, time.monotonic() - began))
    return found
