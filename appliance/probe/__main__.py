"""Print the facts of this node: ``python3 probe.pyz --root /``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional

from .collect import collect
from .source import Machine, Request, Source

OPTIONS = {
    "--root": "root folder to read",
    "--outputs": "recorded command outputs, a file each",
    "--facts": "fact files laid over sections of their name",
    "--peers": "addresses of the nodes",
    "--virtual": "addresses that keepalived carries",
    "--resolve": "names that should resolve",
    "--registry": "NAME:PORT of the image registry",
    "--registry-ca": "PEM of the CA of the organisation's registry; it is not ours",
    "--registry-address": "its address, where its name may not resolve",
    "--registry-prefix": "its NAME:PORT with what precedes image names there",
    "--artifacts": "NAME:PORT of the artifact server",
    "--nfs": "SERVER:PATH of the shared storage",
    "--nfs-folders": "folders in it",
    "--nfs-ports": "TCP ports of its server",
    "--issuer": "address of the OIDC issuer, for control-plane nodes",
    "--issuer-ca": "PEM of the CA that vouches for it; the site's if not",
    "--programs": "programs to look for",
    "--hardware": "only the hardware, closely; with trials of these: none,fsync,memory,pods",
    "--stream": "only one side of a TCP stream between two nodes: its order as JSON",
    "--burn-in": "only start, show or end an hours-long load of this machine: what to do as JSON",
}


def _names(text: str) -> List[str]:
    return [name for name in text.split(",") if name]


def _options(words: List[str]) -> Dict[str, str]:
    """``--name VALUE`` pairs; argparse takes longer to import than these take to read."""
    pairs = list(zip(words[::2], words[1::2]))  # noqa: B905  (3.8)
    if len(words) % 2 or any(name not in OPTIONS for name, _ in pairs):
        known = "\n".join("  %-14s %s" % pair for pair in OPTIONS.items())
        raise SystemExit("Look at this node; change nothing. Options, each with a value:\n" + known)
    return dict(pairs)


def main(arguments: Optional[List[str]] = None) -> None:
    """Read the options, look, print, and leave without waiting for what still hangs."""
    given = _options(sys.argv[1:] if arguments is None else arguments)
    outputs, facts = given.get("--outputs"), given.get("--facts")
    request = Request(
        peers=_names(given.get("--peers", "")),
        virtual=_names(given.get("--virtual", "")),
        resolve=_names(given.get("--resolve", "")),
        registry=given.get("--registry"),
        registry_ca=given.get("--registry-ca"),
        registry_address=given.get("--registry-address"),
        registry_prefix=given.get("--registry-prefix"),
        artifacts=given.get("--artifacts"),
        nfs=given.get("--nfs"),
        nfs_folders=_names(given.get("--nfs-folders", "")),
        nfs_ports=[int(port) for port in _names(given.get("--nfs-ports", "2049"))],
        issuer=given.get("--issuer"),
        issuer_ca=given.get("--issuer-ca"),
        programs=_names(given.get("--programs", "")),
    )
    root = Path(given.get("--root", "/"))
    source = Source(Machine(root, Path(outputs) if outputs else None, request), "probe")
    document: Optional[Dict[str, Any]]
    if "--stream" in given:
        from .inspection.stream import run

        document = run(source.of("stream"), given["--stream"])
    elif "--burn-in" in given:
        from .burn_in.control import perform

        document = perform(source.of("burn-in"), given["--burn-in"])
    elif "--hardware" in given:
        from .inspection.report import inspect

        document = inspect(source, [name for name in _names(given["--hardware"]) if name != "none"])
    else:
        document = collect(source, facts=Path(facts) if facts else None)
    json.dump(document, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    # A thread that waits for a dead file system must not keep this process.
    os._exit(0)
