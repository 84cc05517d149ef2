#!/usr/bin/env python3
"""STANDIN of ``runai-adm``: writes a values file, with the flags that its version documents.

Node roles and logs are not its part in a lab.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

OUTPUT = "runai-backend-values.yaml"
# The builder puts the version here.
VERSION = "0.0.0"
BOTH = {"--domain", "--tls-cert", "--tls-key", "--nfs-server", "--nfs-path"}
USAGE = "usage: runai-adm version | generate-values FLAGS   (STANDIN)"


def line() -> tuple[int, int]:
    """The version's first two figures."""
    major, minor = VERSION.split(".")[:2]
    return int(major), int(minor)


def flags_of(known: tuple[int, int]) -> tuple[set[str], set[str]]:
    """(flags with a value, flags without) of a version."""
    valued, bare = set(BOTH), set()
    if known <= (2, 8):
        valued.add("--external-ips")
    if known >= (2, 8):
        valued.add("--registry")
    else:
        bare.add("--airgapped")
    return valued, bare


def parsed(arguments: list[str]) -> dict[str, str]:
    """The flags given; an unknown one ends the program, as it would the real one."""
    valued, bare = flags_of(line())
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name in bare:
            found[name] = "true"
        elif name in valued:
            found[name] = value or (rest.pop(0) if rest else "")
        else:
            fail(f"unknown flag: {name}")
    return found


def fail(text: str) -> None:
    """Say what is wrong and end."""
    sys.stderr.write(f"STANDIN: Error: {text}\n")
    raise SystemExit(1)


def read(path: str) -> str:
    """A file that a flag names."""
    try:
        return Path(path).read_text()
    except OSError as error:
        fail(f"{path}: {error.strerror}")
        raise


def packed(text: str) -> str:
    """As the vendor's published values say it: the output of ``base64 -w0``."""
    return base64.b64encode(text.encode()).decode()


def persistence(found: dict[str, str]) -> dict[str, object]:
    """Where volumes come from: NFS, else the default StorageClass."""
    server, path = found.get("--nfs-server"), found.get("--nfs-path")
    if not (server and path):
        return {}
    return {"nfs": {"enabled": True, "server": server, "path": path}}


def values(found: dict[str, str]) -> dict[str, object]:
    """The values file: keys that the vendor's published file or its pages have."""
    for flag in ("--domain", "--tls-cert", "--tls-key"):
        if not found.get(flag):
            fail(f"required flag {flag} not set")
    registry = found.get("--registry", "")
    if "--airgapped" in found:
        registry = os.environ.get("REGISTRY_URL", "")
    document: dict[str, object] = {
        "deployment": {"domain": found["--domain"]},
        "backend": {
            "https": {
                "enabled": True,
                "crt": packed(read(found["--tls-cert"])),
                "key": packed(read(found["--tls-key"])),
            },
            "isAirgapped": True,
            "privateRegistryAddress": registry,
        },
        "postgresql": {"persistence": persistence(found)},
        "thanos": {"receive": {"persistence": persistence(found)}},
    }
    if line() <= (2, 8):
        if not found.get("--external-ips"):
            fail("required flag --external-ips not set")
        document["nginx-ingress"] = {
            "controller": {"service": {"externalIPs": found["--external-ips"].split(",")}}
        }
    return document


def main(arguments: list[str]) -> None:
    """Run a verb."""
    if arguments[:1] == ["version"]:
        sys.stdout.write(f"Version: {VERSION} STANDIN\n")
    elif arguments[:1] == ["generate-values"]:
        document = values(parsed(arguments[1:]))
        # JSON is YAML; a header says what it is.
        handle = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as stream:
            stream.write(f"# STANDIN: values of runai-backend {VERSION}\n")
            stream.write(json.dumps(document, indent=2) + "\n")
        sys.stdout.write(f"STANDIN: {OUTPUT} generated\n")
    else:
        fail(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
