"""The input of one playbook run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Play:
    """One playbook run.

    Attributes:
        run: the run's id.
        playbook: the playbook's name without ``.yml``.
        limit: the hosts to converge.
        inventory: the run's inventory (connection, leader, role variables), as plain data.
    """

    run: str
    playbook: str
    limit: tuple[str, ...]
    inventory: Mapping[str, Any]
