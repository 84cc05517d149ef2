"""The exit codes of every command: help and pages print this table."""

from __future__ import annotations

from typing import Final

# As a shell reports it of any program; a supervisor tells it from an operator's Ctrl-C.
TERMINATED: Final = 143
# What the process ends with. A contract with operators and CI.
EXIT_CODES: Final = {
    0: "done, or nothing to do",
    1: "started and failed: nodes or this machine may have changed",
    2: "usage error: the command line is wrong",
    3: "refused: nothing was changed; a path that is not there is one",
    4: "a node or BMC did not answer; nothing was changed",
    5: "checked: not healthy, different or corrupt",
    130: "interrupted by Ctrl-C or a closed terminal; the same command resumes",
    TERMINATED: "ended by SIGTERM; the same command resumes",
}
