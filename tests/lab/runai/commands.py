"""Runs the command line as a user would, and keeps every word that it says."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

from tests.commands import appliance


@dataclass(frozen=True)
class Said:
    """What one command said on both its streams."""

    command: str
    code: int
    output: str
    errors: str


@dataclass
class Commands:
    """The commands of these tests, in their order."""

    said: list[Said] = field(default_factory=list)

    def run(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run one to its end, whatever that is."""
        done = appliance(*words, timeout=timeout)
        self.said.append(Said(" ".join(words), done.returncode, done.stdout, done.stderr))
        return done

    def succeed(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Run one that must end with 0."""
        done = self.run(*words, timeout=timeout)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}\n{done.stderr}"
        return done
