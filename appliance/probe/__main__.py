"""Print one photograph of this node: ``python3 probe.pyz --root /``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import List, Optional

from .collect import collect
from .source import Machine, Request, Source


def _names(text: str) -> List[str]:
    return [name for name in text.split(",") if name]


def main(arguments: Optional[List[str]] = None) -> None:
    """Read the options, look, print, and leave without waiting for what still hangs."""
    parser = argparse.ArgumentParser(prog="probe", description="Look at this node; change nothing.")
    parser.add_argument("--root", type=Path, default=Path("/"), help="root folder to read")
    parser.add_argument("--outputs", type=Path, help="recorded command outputs, a file each")
    parser.add_argument("--facts", type=Path, help="fact files laid over sections of their name")
    parser.add_argument("--peers", type=_names, default=[], help="addresses of the nodes")
    parser.add_argument("--virtual", help="address that the control-plane nodes share")
    parser.add_argument("--resolve", type=_names, default=[], help="names that should resolve")
    parser.add_argument("--registry", help="NAME:PORT of the image registry")
    parser.add_argument("--artifacts", help="NAME:PORT of the artifact server")
    parser.add_argument("--nfs", help="SERVER:PATH of the shared storage")
    parser.add_argument("--nfs-folders", type=_names, default=[], help="folders in it")
    parser.add_argument("--issuer", help="address of the OIDC issuer, for control-plane nodes")
    parser.add_argument("--issuer-ca", help="PEM of the CA that vouches for it; the site's if not")
    parser.add_argument("--programs", type=_names, default=[], help="programs to look for")
    options = parser.parse_args(arguments)
    request = Request(
        peers=options.peers,
        virtual=options.virtual,
        resolve=options.resolve,
        registry=options.registry,
        artifacts=options.artifacts,
        nfs=options.nfs,
        nfs_folders=options.nfs_folders,
        issuer=options.issuer,
        issuer_ca=options.issuer_ca,
        programs=options.programs,
    )
    source = Source(Machine(options.root, options.outputs, request), "probe")
    document = collect(source, facts=options.facts)
    json.dump(document, sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    # A thread that waits for a dead file system must not keep this process.
    os._exit(0)
