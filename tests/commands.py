"""Run the command line as a user would."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def appliance(*words: str, timeout: float = 900, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would; output is captured."""
    return subprocess.run(
        [sys.executable, "-m", "appliance", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
        **more,
    )


def succeed(*words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run a command that must end with 0; its output is the assertion's message."""
    done = appliance(*words, timeout=timeout)
    assert done.returncode == 0, (
        f"{' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done
