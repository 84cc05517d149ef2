"""The mark of a reset that began: a document on the control-plane nodes, which goes last.

It tells the next run whose cluster it was, once no machine shows it any more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.state.nodes.maintenance import Moment

DOCUMENT: Final = "reset.json"


@dataclass(frozen=True)
class ResetMark:
    """The mark.

    Attributes:
        run: the run that began it.
        by: the user who ran it.
        host: the name of that user's machine.
        since: when it began, UTC, ISO 8601.
        ca: sha256 of the cluster's CA; empty where there was no cluster.
    """

    run: Line
    by: Line
    host: Line
    since: Moment
    ca: Line = ""

    def as_text(self) -> str:
        """The document."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def parse_reset(text: str | None) -> ResetMark | None:
    """Read a mark; None without one, or for one of another form."""
    try:
        return read_typed(text, ResetMark) if text else None
    except Unreadable:
        return None
