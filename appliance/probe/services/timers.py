"""Timers of ours on this node: what they are told, whether they wait, how their runs ended."""

from __future__ import annotations

from typing import Any, Dict, List

from ..source import Source

NAMES = ("backup", "certificates")
SETTINGS = "/etc/appliance/timers"
RECORDS = "/var/lib/appliance/timers"
AGE = "/var/lib/appliance/timer-programs/age"
UNIT = "appliance-timed-"
LIMIT = 1 << 16
RUN = ("began", "ended", "outcome", "why", "id", "size", "sha256", "lacking", "first_lack")
RUN_MORE = ("renewed", "restarted", "kept", "copies_end")


def timers(source: Source, units: List[Dict[str, str]]) -> Dict[str, Any]:
    """Timer -> what is known of it; a node without timers of ours has none."""
    known = {unit["Id"]: unit for unit in units}
    found = {}
    for name in NAMES:
        settings = source.others_document("%s/%s.json" % (SETTINGS, name), LIMIT)
        timer = known.get("%s%s.timer" % (UNIT, name), {})
        if settings is None and timer.get("LoadState") != "loaded":
            continue
        record = source.others_document("%s/%s.json" % (RECORDS, name), LIMIT) or {}
        service = known.get("%s%s.service" % (UNIT, name), {})
        failures = record.get("failures")
        found[name] = {
            "settings": settings or {},
            "active": timer.get("ActiveState") or "inactive",
            "enabled": timer.get("UnitFileState") == "enabled",
            "running": service.get("ActiveState") in ("activating", "active", "deactivating"),
            # Of a run that could not even write down that it began.
            "failed": service.get("ActiveState") == "failed",
            "last": _run(record.get("last")),
            "success": _run(record.get("success")),
            "failures": failures if isinstance(failures, int) else 0,
        }
    if "backup" in found:
        found["backup"]["age"] = source.exists(AGE)
    return found


def _run(told: Any) -> Dict[str, Any]:
    if not isinstance(told, dict):
        return {}
    kept = {}
    for key in (*RUN, *RUN_MORE):
        value = told.get(key)
        if isinstance(value, list):
            value = ", ".join(str(one)[:100] for one in value[:20])
        if isinstance(value, (str, int, float)):
            kept[key] = value[:500] if isinstance(value, str) else value
    return kept
