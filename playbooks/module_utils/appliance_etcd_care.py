"""Ask the etcd of this node for its space, and compact, defragment or disarm it.

It uses etcd's own gateway with the API server's certificate, so it needs neither a program nor the
container runtime. Each call is one verb for one member. Python 3.8, standard library,
self-contained: only this file runs. What must not be here: which member is due, and in which order
(the control host decides that).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import ssl
import sys
from pathlib import Path

PKI = Path("/etc/kubernetes/pki")
DATABASE = Path("/var/lib/etcd/member/snap/db")
PORT = 2379
# etcd answers nothing else on this member while it defragments: minutes on a slow disk.
LONG_SECONDS = 540
SHORT_SECONDS = 8
# Its metrics are some hundred kilobytes.
MOST_BYTES = 8 << 20
QUOTA = re.compile(r"^etcd_server_quota_backend_bytes ([0-9.e+]{1,30})$", re.MULTILINE)
MB = 1000 * 1000


class CareError(Exception):
    """It was not done; the text has the reason."""


def ask(path, body=None, seconds=SHORT_SECONDS):
    """Return (status, text) of an answer; a POST where it has a body.

    Raises:
        CareError: nothing answers, or the answer is longer than our limit.
    """
    try:
        context = ssl.create_default_context(cafile=str(PKI / "etcd/ca.crt"))
        client = str(PKI / "apiserver-etcd-client")
        context.load_cert_chain(client + ".crt", client + ".key")
        line = http.client.HTTPSConnection("127.0.0.1", PORT, context=context, timeout=seconds)
        with contextlib.closing(line):
            text = None if body is None else json.dumps(body)
            line.request("GET" if body is None else "POST", path, body=text)
            answer = line.getresponse()
            said = answer.read(MOST_BYTES + 1)
    except (OSError, http.client.HTTPException) as error:
        raise CareError("etcd does not answer: %s" % error) from error
    if len(said) > MOST_BYTES:
        raise CareError("etcd answers %s with more than %d bytes" % (path, MOST_BYTES))
    return answer.status, said.decode("utf-8", "replace")


def told(path, body=None, seconds=SHORT_SECONDS):
    """Return the document of an answer.

    Raises:
        CareError: it is an error, or no object of JSON.
    """
    status, text = ask(path, body, seconds)
    try:
        document = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise CareError("etcd answers %s with no JSON" % path) from error
    if not isinstance(document, dict):
        raise CareError("etcd answers %s with no object" % path)
    if status != 200:
        raise CareError("etcd answers %d: %s" % (status, document.get("message") or text[:200]))
    return document


def space():
    """Return what this member says of itself, its alarms and its quota."""
    return {
        "status": told("/v3/maintenance/status", {}),
        "alarms": told("/v3/maintenance/alarm", {"action": "GET"}),
        "members": len(told("/v3/cluster/member/list", {}).get("members", [])),
        "healthy": _is_healthy(),
        "quota": _quota(),
        "free": _free(),
    }


def _is_healthy():
    """Return whether the member is well apart from an alarm for space, which this heals."""
    status, text = ask("/health?exclude=NOSPACE")
    try:
        return status == 200 and str(json.loads(text).get("health")) == "true"
    except (ValueError, AttributeError):
        return False


def _quota():
    status, text = ask("/metrics")
    found = QUOTA.search(text) if status == 200 else None
    return int(float(found.group(1))) if found else None


def _free():
    """Return the free bytes beside the database; None where it is elsewhere."""
    try:
        disk = os.statvfs(str(DATABASE.parent))
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def compact(revision):
    """Drop every revision before one, and wait until its pages are free.

    Raises:
        CareError: etcd refused; one that was compacted already is no error.
    """
    status, text = ask(
        "/v3/kv/compaction", {"revision": str(int(revision)), "physical": True}, LONG_SECONDS
    )
    if status != 200 and "has been compacted" not in text:
        raise CareError("etcd answers the compaction with %d: %s" % (status, text[:200]))
    return {}


def defragment():
    """Write the database of this member anew, without its free pages.

    Raises:
        CareError: the disk lacks the space for the copy, or etcd refused.
    """
    used = int(told("/v3/maintenance/status", {}).get("dbSizeInUse", 0))
    free = _free()
    if free is not None and free < used * 11 // 10:
        raise CareError(
            "no space to defragment: %s has %d MB free, and the copy needs %d MB"
            % (DATABASE.parent, free // MB, -(-used * 11 // 10 // MB))
        )
    told("/v3/maintenance/defragment", {}, LONG_SECONDS)
    return {}


def disarm(member):
    """End a member's alarm for space.

    Raises:
        CareError: etcd refused.
    """
    body = {"action": "DEACTIVATE", "memberID": str(int(member, 16)), "alarm": "NOSPACE"}
    told("/v3/maintenance/alarm", body)
    return {}


VERBS = {"space": space, "compact": compact, "defragment": defragment, "disarm": disarm}


def main(words):
    """Run one verb; print one JSON object, or why it was not done."""
    try:
        json.dump(VERBS[words[0]](*words[1:]), sys.stdout)
    except (CareError, OSError, ValueError, TypeError, AttributeError, LookupError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
