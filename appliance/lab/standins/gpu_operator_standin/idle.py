#!/usr/bin/python3
"""STANDIN: an operand that has nothing to do in a lab: driver, toolkit, exporter, managers.

With the argument ``once``, or ONESHOT, it ends at once, as an init container.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def main() -> None:
    """Say what this is, and wait to be ended."""
    print(f"STANDIN: nothing real runs here: {' '.join(sys.argv)}", flush=True)  # noqa: T201 - a pod's log
    if "once" in sys.argv[1:] or os.environ.get("ONESHOT") == "true":
        return
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()


if __name__ == "__main__":
    main()
