"""What a site keeps secret, as data, and the forms in which it could be told.

A secret's own place is data, too: the files that hold it by design, which others than their owner
cannot read.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from appliance.model.site.vault_ref import CA_FILE
from tests.lab.conftest import LabSite
from tests.lab.runai.watch import Seen

# No line of a key is shorter; a shorter secret would be found in what has nothing to do with it.
SHORTEST = 8
_PEM = re.compile(r"-----BEGIN [A-Z ]+-----\s+(.*?)\s*-----END", re.DOTALL)


@dataclass(frozen=True)
class Secret:
    """One value that must be told nowhere.

    Attributes:
        name: what it is.
        value: itself.
        kept: where it is kept on the control host, below the site's state directory.
    """

    name: str
    value: str
    kept: frozenset[str] = frozenset()


def forms(value: str) -> frozenset[str]:
    """The secret as it is, in JSON, in a form, and in base64 at every offset; of a key one line."""
    text = _distinct(value)
    if len(text) < SHORTEST:
        raise ValueError(f"a secret of {len(text)} characters cannot be searched for")
    plain = {text, json.dumps(text)[1:-1], urllib.parse.quote_plus(text)}
    return frozenset(plain | set(_coded(text.encode())))


def _distinct(value: str) -> str:
    """Of a PEM document the line in its middle: it stands in every way of writing the document."""
    found = _PEM.search(value)
    if found is None:
        return value.strip()
    lines = found.group(1).split()
    return lines[len(lines) // 2]


def _coded(data: bytes) -> Iterator[str]:
    """What base64 makes of it wherever it stands in a text, without its neighbours' share."""
    for before in range(3):
        whole = b64encode(bytes(before) + data)
        end = len(whole) if (before + len(data)) % 3 == 0 else -4
        yield whole[4 if before else 0 : end].decode()


def _vault(lab: LabSite, _: Seen) -> Iterator[Secret]:
    """Whatever is in the vault, by its name there; what is public in it is not searched for."""
    vault = AnsibleVault(lab.directory / KEPT)
    held = dict(vault.read(lab.directory / "group_vars/all/vault.yml"))
    for name, value in (held | dict(vault.read(lab.directory / CA_FILE))).items():
        if "BEGIN CERTIFICATE" not in value:
            yield from flat(name, value)


def flat(name: str, value: str) -> Iterator[Secret]:
    """A secret, or those of a mapping (as JSON), as far as they are long enough to search for."""
    if not value.startswith(("{", "[")):
        yield Secret(name, value)
        return
    parts = json.loads(value)
    for key, part in parts.items() if isinstance(parts, dict) else enumerate(parts):
        here = f"{name}.{key}"
        if isinstance(part, dict | list):
            yield from flat(here, json.dumps(part))
        elif len(str(part)) >= SHORTEST:
            yield Secret(here, str(part))


def _kept_here(lab: LabSite, _: Seen) -> Iterator[Secret]:
    state = lab.directory / ".appliance"
    for name, path in (("vault password", KEPT.name), ("SSH key", "ssh/id_ed25519")):
        yield Secret(name, (state / path).read_text(), frozenset({path}))
    (user,) = yaml.safe_load((state / "kubeconfig").read_text())["users"]
    key = b64decode(user["user"]["client-key-data"]).decode()
    yield Secret("admin's key", key, frozenset({"kubeconfig"}))


def _of_joins(_: LabSite, seen: Seen) -> Iterator[Secret]:
    """Of a token its second half: the first is its name."""
    for number, value in enumerate(sorted(seen.tokens), 1):
        yield Secret(f"token {number} of a join", value.partition(".")[2])
    for number, value in enumerate(sorted(seen.certificate_keys), 1):
        yield Secret(f"certificate key {number} of a join", value)


def _of_the_cluster(lab: LabSite, _: Seen) -> Iterator[Secret]:
    """What the backend gave the cluster, and the key that a node made for the backend."""
    text = lab.shell("cp1", f"cat /etc/appliance/runai/runai-{lab.name}.yaml")
    values = yaml.safe_load(text)
    yield Secret("cluster's client secret", values["controlPlane"]["clientSecret"])
    yield Secret("backend's key", lab.shell("cp1", "cat /etc/appliance/runai/backend.key"))
    yield Secret("registry's key", lab.shell("cp1", "cat /etc/appliance/tls/registry.key"))
    yield Secret("cluster CA's key", lab.shell("cp1", "cat /etc/kubernetes/pki/ca.key"))


Source = Callable[[LabSite, Seen], Iterator[Secret]]
SOURCES: tuple[Source, ...] = (_vault, _kept_here, _of_joins, _of_the_cluster)


def secrets_of(lab: LabSite, seen: Seen) -> tuple[Secret, ...]:
    """All of them, as they are now."""
    return tuple(secret for source in SOURCES for secret in source(lab, seen))


def state_files(lab: LabSite) -> Iterator[tuple[str, Path]]:
    """(name below the state directory, path) of what the tool keeps; the vendor's tar is no log."""
    state = lab.directory / ".appliance"
    for path in sorted(state.rglob("*")):
        name = path.relative_to(state).as_posix()
        if path.is_file() and not name.startswith("vendor/"):
            yield name, path
