"""Findings of preflight: what is wrong or worth knowing, what is expected, the next command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# "unseen": an error based on a fact that is unknown.
Severity = Literal["error", "unseen", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (error, warning) or worth knowing (info).

    Attributes:
        node: the node's name.
        check: the check's name.
        severity: an error refuses the install before anything is changed.
        seen: the value found.
        expected: the value expected.
        hint: the next command.
        step: an error refuses only this step, and is a warning where the step is not planned;
            empty: it refuses the whole install.
        of_site: it is about the site or a bundle, so it does not depend on the state of the node
            that it is reported on.
    """

    node: str
    check: str
    severity: Severity
    seen: str
    expected: str
    hint: str
    step: str = ""
    of_site: bool = False

    def sentence(self) -> str:
        """Return the finding in one line."""
        return f"{self.node}: {self.check}: found {self.seen}, expected {self.expected}"
