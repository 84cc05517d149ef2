"""Walks the Redfish tree of a BMC, within limits of resources, bytes and time. Reads only."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.hardware.redfish import BMC_SECONDS, MOST_BYTES
from appliance.adapters.hardware.redfish_session import HTTPS, BmcFailed, RedfishSessions
from appliance.adapters.local.clock import SystemClock, WaitClock
from appliance.errors import NodeUnreachable, Refused
from appliance.model.node.bmc.report import NEXT_NAME, PASSWORD_NAME, USER_NAME

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

ROOT: Final = "/redfish/v1"
MOST_RESOURCES: Final = 800
MOST_TREE_BYTES: Final = 16 * 1024 * 1024
MOST_SECONDS: Final = 900.0
# After so many failures in a row the BMC is not asked any more.
MOST_FAILURES: Final = 10
# Logs, people, and what describes Redfish itself: large, private, and of no use to a driver.
LEFT_OUT: Final = frozenset(
    {
        *("AccountService", "CertificateService", "Certificates", "EventService", "JobService"),
        *("JsonSchemas", "KeyService", "LicenseService", "LogServices", "Registries", "Sessions"),
        *("TaskService", "TelemetryService", "ComponentIntegrity", "Schemas"),
    }
)


@dataclass
class RecordedTree:
    """What was read of a BMC.

    Attributes:
        resources: path -> resource, as it is.
        missing: path -> why it was not read: an HTTP status, or words.
        cut: why the walk ended early; empty where it did not.
    """

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    cut: str = ""


class RedfishRecorder:
    """Records the BMCs of one site."""

    def __init__(
        self,
        secrets: Callable[[], Mapping[str, str]],
        port: int = HTTPS,
        clock: WaitClock | None = None,
    ) -> None:
        self._secrets = secrets
        self._sessions = RedfishSessions(secrets, port)
        self._clock = clock or SystemClock()

    def logins(self) -> tuple[str, ...]:
        """Users and passwords of BMCs: no recording may hold them.

        Raises:
            ConfigError: the vault does not open.
        """
        return tuple(
            value
            for name, value in self._secrets().items()
            if name.startswith((USER_NAME, PASSWORD_NAME, NEXT_NAME))
        )

    def record(self, node: Node, told: Callable[[str], None] = lambda _: None) -> RecordedTree:
        """Every resource that links lead to, the service root first.

        Args:
            node: whose BMC.
            told: is called with each path before it is read.

        Raises:
            Refused: the inventory has no BMC for the node.
            NodeUnreachable: the BMC was not reached, or did not let us in.
        """
        if node.bmc_address is None:
            raise Refused(
                f"{node.name}: the inventory has no BMC for it",
                hint=f"write bmc_address into host_vars/{node.name}.yml",
            )
        try:
            with self._sessions.open(node, BMC_SECONDS, MOST_BYTES) as bmc:
                return self._walk(bmc, told)
        except BmcFailed as failed:
            raise NodeUnreachable(
                f"{node.name}: {failed.reason}", hint="check the BMC's address, network and login"
            ) from failed

    def _walk(self, bmc: Any, told: Callable[[str], None]) -> RecordedTree:
        tree, waiting, seen = RecordedTree(), deque([ROOT]), {ROOT}
        ends, size, failures = self._clock.monotonic() + MOST_SECONDS, 0, 0
        while waiting and not tree.cut:
            path = waiting.popleft()
            told(path)
            bmc.limits.renew()
            try:
                resource = bmc.get(path)
            except BmcFailed as failed:
                tree.missing[path] = str(failed.status or "no answer that is Redfish")
                failures += 1
            else:
                tree.resources[path], failures = resource, 0
                size += bmc.limits.received
                for link in links(resource):
                    if link not in seen:
                        seen.add(link)
                        waiting.append(link)
            tree.cut = self._cut(tree, size, failures, ends)
        return tree

    def _cut(self, tree: RecordedTree, size: int, failures: int, ends: float) -> str:
        if len(tree.resources) >= MOST_RESOURCES:
            return f"{MOST_RESOURCES} resources were read"
        if size >= MOST_TREE_BYTES:
            return f"{MOST_TREE_BYTES // 1024**2} MiB were read"
        if failures >= MOST_FAILURES:
            return f"{failures} resources in a row did not answer"
        return f"{MOST_SECONDS:g} s are over" if self._clock.monotonic() >= ends else ""


def links(value: object, depth: int = 0) -> Iterator[str]:
    """Paths of the same service that a resource links to, without those that are left out."""
    if depth > 20:
        return
    if isinstance(value, dict):
        link = value.get("@odata.id")
        if isinstance(link, str) and (path := _own(link)):
            yield path
        for part in value.values():
            yield from links(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from links(part, depth + 1)


def _own(link: str) -> str:
    """The path of a link within the service; empty where it leads elsewhere."""
    path = link.partition("#")[0].rstrip("/")
    parts = path.split("/")
    if not path.startswith(f"{ROOT}/") or len(path) > 300 or "?" in path or not path.isascii():
        return ""
    return "" if LEFT_OUT & set(parts) or ".." in parts else path
