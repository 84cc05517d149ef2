"""A fake of the port that empties nodes."""

from __future__ import annotations

from appliance.errors import ApplianceError


class FakeEmptying:
    """Empties nodes, or fails as a disruption budget makes it."""

    def __init__(self) -> None:
        self.emptied: list[str] = []
        self.stuck: ApplianceError | None = None
        self.losses: tuple[str, ...] = ()

    def forecast(self, name: str) -> tuple[str, ...]:
        return (f"pod default/web moves from {name}", *self.losses)

    def empty(self, name: str) -> None:
        if self.stuck:
            raise self.stuck
        self.emptied.append(name)
