#!/usr/bin/python3
"""A worker that lies: what sshd runs there in the place of every command (``ForceCommand``).

``/etc/liar`` says how it lies. Whatever it is sent is kept in ``/var/log/liar``, for the test to
look for secrets. Python 3.8, standard library: it runs on the node.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAYLOAD = "{{ lookup('ansible.builtin.pipe', 'touch /tmp/liar-was-here') }}"
ESCAPE = "\x1b]0;owned\x07\x1b[2K\x1b[1Acp1 is Ready"


def lied(value: Any, text: Any) -> Any:
    """The same document with a lie at every leaf."""
    if isinstance(value, dict):
        return {key: lied(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [lied(inner, text) for inner in value]
    return text


def honest_answer(sent: bytes) -> str:
    """What the node would have said."""
    words = ["sh", "-c", os.environ.get("SSH_ORIGINAL_COMMAND", "true")]
    done = subprocess.run(words, input=sent, stdout=subprocess.PIPE, check=False)
    return done.stdout.decode("utf-8", "replace")


def with_lies(answer: str, text: Any) -> Iterator[str]:
    """Lines that are JSON objects lie; others are left, so that the call itself is understood."""
    for line in answer.splitlines(keepends=True):
        try:
            document = json.loads(line)
        except ValueError:
            yield line
            continue
        kept = {"schema": document["schema"]} if "schema" in document else {}
        yield json.dumps({**lied(document, text), **kept}) + "\n"


def main() -> None:
    """Lie in the way that the test chose."""
    kind = Path("/etc/liar").read_text().strip()
    log = Path("/var/log/liar")
    sent = b"" if kind in ("endless", "drip", "silent") else sys.stdin.buffer.read()
    asked = os.environ.get("SSH_ORIGINAL_COMMAND", "").encode()
    (log / str(time.time_ns())).write_bytes(asked + b"\n" + sent)
    if kind == "silent":
        time.sleep(3600)
    while kind == "endless":
        sys.stdout.write("x" * 65536)
    while kind == "drip":
        sys.stdout.write("x")
        sys.stdout.flush()
        time.sleep(1)
    lies = {"templates": PAYLOAD, "escapes": ESCAPE, "numbers": -1, "nothing": None}
    sys.stdout.write("".join(with_lies(honest_answer(sent), lies[kind])))


if __name__ == "__main__":
    main()
