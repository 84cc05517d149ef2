"""The post-condition of step timers: what the site asks for is there, and nothing else of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from appliance.model.components.timers.wanted import BACKUP, lacks_age, settings_on
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed


def timers(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Each timer has the settings of the site, is enabled and waits; others are gone."""
    facts = observed.node_facts[node.name]
    for name, wanted in settings_on(node, desired).items():
        seen = facts.at(f"timers.{name}") or {}
        if wanted is None:
            if seen:
                yield f"the timer {name} is on it, and belongs on no node or on another one"
        # Without age there can be no backup: a warning says so, and nothing waits for it.
        elif not (name == BACKUP and lacks_age(desired)):
            yield from _differences(name, wanted, seen)


def _differences(name: str, wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[str]:
    if not seen:
        yield f"it has no timer {name}"
    elif seen.get("settings") != wanted:
        yield f"its timer {name} has other settings than the site"
    elif not seen.get("enabled") or seen.get("active") != "active":
        yield f"its timer {name} is {seen.get('active') or 'absent'}, or does not start at boot"
    elif name == BACKUP and not seen.get("age"):
        yield "it has no program age, which encrypts its backups"
