"""All servers of one command, a bounded number at a time, each in a thread of its own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, Interrupted, StepNotVerified
from appliance.model.node.imaging.batch import accepted_at
from appliance.model.node.imaging.seed import OnDisk, finished_label, render
from appliance.model.state.journal import Record
from appliance.workflows.node.imaging.course import CourseContext, NodeCourse, Target
from appliance.workflows.node.imaging.request import ImageRequest, ImageResult

if TYPE_CHECKING:
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.node.imaging.seed import Seed
    from appliance.workflows.node.imaging.ports import ServedBatch
    from appliance.workflows.session.session import Session

STEP: Final = "image"
MOST_AT_ONCE: Final = 16
_POLL_SECONDS: Final = 0.5
# After a server's own time is over: a call that hangs past its own limit is left behind.
_LEFT_BEHIND_SECONDS: Final = 300.0
_STOP_SECONDS: Final = 30.0


@dataclass(frozen=True)
class _End:
    """One server's end, after so many seconds; without an error it is installed."""

    name: str
    seconds: float
    error: ApplianceError | None


class Batch:
    """All servers of one command, from the first thread to the last answer."""

    def __init__(
        self,
        request: ImageRequest,
        session: Session,
        images: Mapping[str, NodeImage],
        found: ImageResult,
    ) -> None:
        self._request, self._session = request, session
        self._images, self._found = images, found
        self._stop = threading.Event()
        self._begun: dict[str, float] = {}
        self._ended: queue.SimpleQueue[_End] = queue.SimpleQueue()
        self._seconds: dict[str, float] = {}
        self._failures = dict(found.failures)
        self._threads: list[threading.Thread] = []
        self._running: set[str] = set()
        self._labels: dict[str, str] = {}
        self._sequence = 0

    def carry_out(self) -> ImageResult:
        """Serve, follow every server to its end, and record each.

        Raises:
            ConfigError, CommandFailed: the medium cannot be made or served.
            Interrupted: the operator asked for it.
        """
        tokens = {self._request.token(): name for name in self._found.waiting}
        self._labels = {name: finished_label(token) for token, name in tokens.items()}
        observer = self._session.observer
        observer.step_started(STEP, self._found.waiting)
        error: ApplianceError | None = None
        began = self._session.clock.monotonic()
        try:
            with self._session.serving.open(tokens, lambda _name, _report: None) as served:
                url = served.offer(self._seeds(served, tokens))
                self._run_all(served, url)
            left = [name for name in self._found.waiting if name in self._failures]
            if left:
                error = StepNotVerified(f"not installed: {', '.join(left)}")
        except KeyboardInterrupt:
            error = self._interrupted()
            raise error from None
        except ApplianceError as caught:
            error = caught
            raise
        finally:
            self._stop.set()
            observer.step_ended(STEP, self._session.clock.monotonic() - began, error)
        return ImageResult(self._found.courses, self._found.machines, self._seconds, self._failures)

    def _interrupted(self) -> Interrupted:
        """Let each server stop, record it, and say how to go on."""
        self._stop.set()
        # Each stops at its next wait and ejects its medium; what hangs is left to the end of the
        # process. Of this machine, not of the session's clock: a join waits by it.
        end = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        for ended in self._over(self._running):
            self._running.discard(ended.name)
            self._record(ended)
        now = self._session.clock.monotonic()
        for name in sorted(self._running):
            left = StepNotVerified(f"{name}: interrupted, and its BMC hangs")
            self._record(_End(name, now - self._begun[name], left))
        left_over = [
            name
            for name in self._found.waiting
            if name not in self._seconds or name in self._failures
        ]
        again = f"run the same command again, for {' '.join(left_over)} alone: what --wipe names "
        hints = [f"{again}is erased each time"] if left_over else []
        if here := [name for name in self._found.waiting if name not in left_over]:
            hints.append(f"for what is installed: appliance hardware qualify {' '.join(here)}")
        return Interrupted(
            "interrupted: servers that install themselves lose their medium",
            hint="; ".join(hints),
        )

    def _seeds(self, served: ServedBatch, tokens: Mapping[str, str]) -> list[Seed]:
        """Seeds of those that are installed; who only boots needs none."""
        return [
            render(
                self._images[name],
                self._request.programs,
                served.server,
                token,
                OnDisk(self._found.courses[name].wipe, self._found.courses[name].labels),
            )
            for token, name in tokens.items()
            if self._found.courses[name].kind == "install"
        ]

    def _run_all(self, served: ServedBatch, url: str) -> None:
        waiting = list(self._found.waiting)
        running = self._running
        while waiting or running:
            while waiting and len(running) < min(self._request.at_once, MOST_AT_ONCE):
                name = waiting.pop(0)
                running.add(name)
                self._begin(name, served, url)
            for end in self._over(running):
                running.discard(end.name)
                self._record(end)

    def _begin(self, name: str, served: ServedBatch, url: str) -> None:
        session, site = self._session, self._request.site
        self._begun[name] = session.clock.monotonic()
        context = CourseContext(
            self._session.driver,
            served,
            self._session.contact,
            self._session.notes,
            session.nodes,
            session.clock,
            lambda node, what: session.observer.task(STEP, node, what, changed=None),
            self._stop,
        )

        target = Target(
            site.node(name),
            self._images[name],
            self._found.courses[name],
            self._found.machines[name],
            site.settings.operating_system,
            url,
            self._minutes * 60.0,
            accepted_at(self._request.passports, name),
            self._found.media.get(name, ()),
            name in self._found.answering,
            name in self._found.off,
            self._labels[name] if self._found.courses[name].kind == "install" else "",
        )

        def work() -> None:
            error: ApplianceError | None = None
            began = session.clock.monotonic()
            try:
                NodeCourse(target, context).run()
            except ApplianceError as caught:
                error = caught
            except Exception as caught:
                # One server's fault is no other's.
                error = ApplianceError(f"{name}: {type(caught).__name__}: {caught}")
            self._ended.put(_End(name, session.clock.monotonic() - began, error))

        thread = threading.Thread(target=work, daemon=True, name=f"image {name}")
        self._threads.append(thread)
        thread.start()

    @property
    def _minutes(self) -> int:
        imaging = self._request.site.settings.imaging
        if imaging is None:
            raise AssertionError("planned without settings")
        return imaging.minutes

    def _over(self, running: set[str]) -> list[_End]:
        """Those that are at their end, or far behind it; waits a moment where there are none."""
        found = []
        while not self._ended.empty():
            end = self._ended.get()
            # What was left behind may end after all: it was told already.
            if end.name in running:
                found.append(end)
        limit = self._minutes * 60.0 + _LEFT_BEHIND_SECONDS
        now = self._session.clock.monotonic()
        for name in running - {end.name for end in found}:
            if (took := now - self._begun[name]) > limit:
                text = f"{name}: a call to its BMC hangs; the command went on without this server"
                found.append(_End(name, took, StepNotVerified(text, hint="restart its BMC")))
        if not found:
            self._session.clock.sleep(_POLL_SECONDS)
        return found

    def _record(self, end: _End) -> None:
        name, took, error = end.name, end.seconds, end.error
        self._seconds[name] = took
        if error is not None:
            self._failures[name] = error.message
        said, changed = ("installed", True) if error is None else (error.message, None)
        self._session.observer.task(STEP, name, said, changed=changed)
        self._sequence += 1
        run, ended = self._request.run, self._session.clock.now()
        self._session.journal.append(
            Record(
                run=run.id,
                sequence=self._sequence,
                command=run.command,
                step=STEP,
                nodes=(name,),
                why=(f"{name}: {self._found.courses[name].why}",),
                started=datetime.fromtimestamp(ended - took, UTC).isoformat(timespec="seconds"),
                took_seconds=round(took, 3),
                outcome="verified" if error is None else "failed",
                operator=run.operator,
                tool_version=run.tool_version,
                bundle_digest=run.bundle_digest,
                error=error.message if error else None,
                host=run.host,
                arguments=run.arguments,
            )
        )
