"""The one error tree.

Every error that a person can meet is an :class:`ApplianceError`. Adapters translate foreign errors
at the border and chain them; nobody returns a "result: false". What must not be here: printing,
exiting, or anything that imports another module of the package.

Exit codes are a contract with operators and CI (design: commands):
0 done or nothing to do, 1 started and failed (hosts may have changed), 2 typed wrong (Click's own),
3 refused (nothing was changed), 4 unreachable before anything was changed, 5 looked and it is not
healthy, differs or is corrupt, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar


class ApplianceError(Exception):
    """An error with everything an operator needs at 3 a.m.

    Attributes:
        message: one sentence that names the host and the expectation.
        hint: the next command to run, or None.
        task: "role | task (file:line)" when a playbook failed, or None.
        details: further lines (one fault each), shown below the sentence.
        log_path: where the whole story is, or None.
    """

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        task: str | None = None,
        details: Sequence[str] = (),
        log_path: Path | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.task = task
        self.details = tuple(details)
        self.log_path = log_path


class PlaybookFailed(ApplianceError):
    """A play was started and a host failed: hosts may have changed."""


class ClusterError(ApplianceError):
    """The Kubernetes API answered with an error after we had begun to change something."""


class StepNotProven(ApplianceError):
    """A step ran without error, and its post-condition is still not observed."""


class CommandFailed(ApplianceError):
    """A program we started on this machine is missing, failed, or ran past its time limit."""


class BuildFailed(ApplianceError):
    """A bundle build could not take an artifact from any of its sources."""


class SourceUnavailable(ApplianceError):
    """A source of an artifact is out of reach, lacks it, or gave something else; try the next."""


class LabError(ApplianceError):
    """The lab could not be made, reached or taken down."""


class Refused(ApplianceError):
    """Nothing was changed: a safety rule, a missing confirmation or an impossible request."""

    exit_code = 3


class ConfigError(Refused):
    """The site, the release or another input is wrong; ``details`` holds one line per fault."""


class PreflightFailed(Refused):
    """Nodes were looked at and are not fit for what was asked; nothing was changed."""


class BundleRefused(Refused):
    """The bundle is incomplete, corrupt, or made for another release or OS; nothing was changed."""


class LeftOut(ApplianceError):
    """All was done but for nodes that did not answer, and that nothing else depends on."""


class LeaseLost(ApplianceError):
    """The site is no longer this command's: another may change it, so we go no further."""


class NodeUnreachable(ApplianceError):
    """A node or BMC could not be reached before anything was changed.

    Attributes:
        answers: something is alive at its address, although nothing can be done there.
        logged_in: it let us in, and gave no whole answer.
        deceives: what it said is no answer that any honest machine gives.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        answers: bool = False,
        logged_in: bool = False,
        deceives: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(message, **more)
        self.answers = answers or logged_in
        self.logged_in = logged_in
        self.deceives = deceives


class NotHealthy(ApplianceError):
    """We looked, and it is not healthy, differs from what was asked, or is corrupt."""

    exit_code = 5


class Interrupted(ApplianceError):
    """The operator pressed Ctrl-C; what was started goes on to a safe point on the nodes."""

    exit_code = 130
