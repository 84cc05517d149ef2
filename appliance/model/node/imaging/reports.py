"""What installers report while they work: read strictly, for anyone on the LAN can send one.

Two kinds: ours (:mod:`appliance.installer.report`), and the events of the installer's own webhook
(curtin's reporter: name, event_type, description, result). What must not be here: receiving them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from appliance.model.documents.strict_json import Unreadable, read_json

MOST_BYTES: Final = 16 << 10
_DEEPEST: Final = 6
_MOST_VALUES: Final = 400
_MOST_SHOWN: Final = 200
_HOST_KEY: Final = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}(=|==)?")

# Names of events: Subiquity's install step, and curtin's commands, which it starts.
_WRITING: Final = ("subiquity/Install/", "cmd-install", "standin/write")

Kind = Literal["progress", "installed", "failed"]


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        kind: what it says.
        text: one line without control characters: what is being done, or why it failed.
        host_key: of the installed system, type and base64; only with ``installed``.
        writes: it comes from the part that writes the disk, which begins only once the early
            command took the disk.
    """

    kind: Kind
    text: str = ""
    host_key: str = ""
    writes: bool = False


@dataclass(frozen=True)
class Heard:
    """All reports of one server in one.

    Attributes:
        last: of its reports, the latest one's text; empty before the first.
        host_key: once it is installed.
        failure: why it failed; empty while it did not.
        writes: its disk is being written, or was.
        rival: another host key was reported too, so somebody else has its token.
    """

    last: str = ""
    host_key: str = ""
    failure: str = ""
    writes: bool = False
    rival: bool = False

    def and_then(self, report: Report) -> Heard:
        """With one more. The first host key stays, and another one is told."""
        rival = self.host_key and report.host_key and self.host_key != report.host_key
        return Heard(
            report.text or self.last,
            self.host_key or report.host_key,
            self.failure or (report.text or "no reason" if report.kind == "failed" else ""),
            self.writes or report.writes,
            self.rival or bool(rival),
        )


def read_report(content: bytes) -> Report:
    """One report.

    Raises:
        Unreadable: it is not one; says why, without repeating it.
    """
    document = read_json(content, most_bytes=MOST_BYTES, deepest=_DEEPEST, most_values=_MOST_VALUES)
    if not isinstance(document, Mapping):
        raise Unreadable("it is no mapping")
    if "appliance" in document:
        return _ours(document)
    if not isinstance(document.get("name"), str) or not isinstance(document.get("event_type"), str):
        raise Unreadable("it is neither ours nor an event of the installer")
    said = document.get("description")
    text = _line(said if isinstance(said, str) and said else document["name"])
    failed = document["event_type"] == "finish" and document.get("result") == "FAIL"
    # A part may fail and be tried again: the installer's last word is the error command's.
    writes = document["name"].startswith(_WRITING)
    return Report("progress", f"failed: {text}" if failed else text, writes=writes)


def _ours(document: Mapping[str, Any]) -> Report:
    event, text = document["appliance"], document.get("text")
    if set(document) != {"appliance", "text"} or not isinstance(text, str):
        raise Unreadable("it has other keys than appliance and text")
    if event == "failed":
        lines = [line for line in text.splitlines() if line.strip()]
        return Report("failed", _line(lines[-1]) if lines else "")
    if event != "installed":
        raise Unreadable("its event is neither installed nor failed")
    key = " ".join(text.split()[:2])
    if not _HOST_KEY.fullmatch(key):
        raise Unreadable("it has no ed25519 host key")
    return Report("installed", "installed", key)


def _line(text: str) -> str:
    """One short line that a terminal can show."""
    return "".join(one if one.isprintable() else " " for one in text).strip()[:_MOST_SHOWN]
