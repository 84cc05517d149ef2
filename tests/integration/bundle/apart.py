"""Types a command of the tool in a network of its own, where 127.0.0.1 is all of the internet.

Started by ``unshare --net`` as ``python -m tests.integration.bundle.apart WORLD RELEASES WORD...``:
serves the folder WORLD on port 80 and runs the command with the releases of the folder RELEASES.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from appliance.adapters.local import content
from appliance.cli.commands.bundle import parts
from appliance.cli.exits import run


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


def main(world: str, releases: str, *arguments: str) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 80), partial(Quiet, directory=world))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    # There are no options for these: an installation has its own releases.
    for module in (content, parts):
        vars(module)["RELEASES"] = Path(releases)
    return run(list(arguments))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
