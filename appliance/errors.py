"""The error classes.

Every error that reaches a person is an :class:`ApplianceError`. Adapters translate foreign errors
and chain them; no function returns an error as a value. What must not be here: printing, exiting,
or imports of other modules of the package.

Exit codes are a contract with operators and CI (design: commands):
0 done or nothing to do, 1 started and failed (hosts may have changed), 2 usage error (Click's own),
3 refused (nothing was changed), 4 unreachable before anything was changed, 5 checked and not
healthy, different or corrupt, 130 interrupted, 143 ended by SIGTERM. The table that help prints
is in ``appliance/cli/exit_codes.py``.
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
        log_path: the full log, or None.
        warnings: what could not be read before the error, one sentence each.
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
        self.warnings: tuple[str, ...] = ()


class PlaybookFailed(ApplianceError):
    """A playbook was started and failed on a host: hosts may have changed."""


class ClusterError(ApplianceError):
    """The Kubernetes API answered with an error after the first change."""


class ClusterRefused(ClusterError):
    """The Kubernetes API refused for good: the same request gets the same answer."""


class ClusterSilent(ClusterError):
    """The Kubernetes API went away on the way, or starts, as while its only server restarts."""


class StepNotVerified(ApplianceError):
    """A step ran without error, but its post-condition was not observed."""


class BmcRefused(ApplianceError):
    """A BMC has no such order, or refused it."""


class CommandFailed(ApplianceError):
    """A program on this machine is missing, failed, or ran past its time limit."""


class BuildFailed(ApplianceError):
    """A bundle build could not fetch an artifact from any of its sources."""


class SourceUnavailable(ApplianceError):
    """A source is unreachable, lacks the artifact, or delivered another file; try the next one."""


class LabError(ApplianceError):
    """The lab could not be created, reached or taken down."""


class Refused(ApplianceError):
    """Nothing was changed: a safety rule, a missing confirmation or an impossible request."""

    exit_code = 3


class ConfigError(Refused):
    """The site, the release or another input is wrong; ``details`` holds one line per fault."""


class PreflightFailed(Refused):
    """Nodes failed the checks for the request; nothing was changed."""


class BundleRefused(Refused):
    """The bundle is incomplete, corrupt, or made for another release or OS; nothing was changed."""


class LeftOut(ApplianceError):
    """All work is done except on nodes that did not answer and that nothing depends on."""


class LeaseLost(ApplianceError):
    """This command lost the site lock: another command may hold it, and this one stops."""


class NodeUnreachable(ApplianceError):
    """A node or BMC could not be reached before anything was changed.

    Attributes:
        answers: a machine answers at its address, but refuses the work.
        logged_in: the login worked, but the answer was incomplete.
        deceives: no honest machine would give this answer.
        cause: the message without the node's name, the same words for each node that has it.
    """

    exit_code = 4

    def __init__(
        self,
        message: str,
        *,
        answers: bool = False,
        logged_in: bool = False,
        deceives: bool = False,
        cause: str = "",
        **more: Any,
    ) -> None:
        super().__init__(message, **more)
        self.answers = answers or logged_in
        self.logged_in = logged_in
        self.deceives = deceives
        self.cause = cause


class NotHealthy(ApplianceError):
    """A check found something unhealthy, different from the request, or corrupt."""

    exit_code = 5


class Interrupted(ApplianceError):
    """The operator pressed Ctrl-C; work on the nodes continues to a safe point."""

    exit_code = 130
