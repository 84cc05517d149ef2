"""Secrets in files that are not encrypted: found by the name of a key or the look of a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.model.site.files.diagnostics import Document, SiteFault, Where, dotted

_NAME = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|secret|token|credentials?|(api|access|ca)_?key)(_|$)"
)
_FILE = re.compile(r"_(file|path|dir|url|seconds|enabled)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# What pushing to the site's registry needs; it stands in a web server's configuration as it is.
REGISTRY_PASSWORD = "vault_registry_password"  # noqa: S105 - a name, no secret
_SHAPE = re.compile(r"[A-Za-z0-9_-]{24,128}")
_VAULT = "group_vars/all/vault.yml"
# Of Run:ai's backend: the first user's password, and the others with theirs.
_INITIAL = ("admin", "users")
# Free-form parts of site.yml -> the mapping of the vault that is merged over them.
_MERGED: dict[Where, str] = {
    ("runai", "values"): "vault_runai_values",
    ("runai", "cluster_values"): "vault_runai_cluster_values",
    ("role_overrides", "runai_backend", "runai_backend_values"): "vault_runai_values",
    ("role_overrides", "runai_cluster", "runai_cluster_values"): "vault_runai_cluster_values",
}


def missing_in(vault: Mapping[str, str]) -> str | None:
    """Return what the vault lacks that an install needs, as a sentence; None when it lacks nothing.

    The values themselves are never part of it.
    """
    value = vault.get(REGISTRY_PASSWORD, "")
    if not value:
        return f"{REGISTRY_PASSWORD} is missing; it is needed to push to the site's registry"
    if not _SHAPE.fullmatch(value):
        return f"{REGISTRY_PASSWORD} is not 24 to 128 letters, digits, '-' and '_'"
    return None


def secrets_in(document: Document) -> Iterator[tuple[Where, SiteFault]]:
    """Find what looks like a secret: its place and the fault."""
    yield from _walk(document, (), document.data)


def _walk(document: Document, where: Where, value: Any) -> Iterator[tuple[Where, SiteFault]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            here = (*where, key)
            if _is_secret(where, key, inner):
                yield here, _fault(document, here, f"{dotted(here)!r} looks like a secret")
            else:
                yield from _walk(document, here, inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk(document, (*where, index), inner)
    elif isinstance(value, str) and _PEM.search(value):
        yield where, _fault(document, where, f"{dotted(where)!r} holds a private key")


def _is_secret(where: Where, key: str, value: Any) -> bool:
    if where and where[-1] == "initTenant" and key in _INITIAL:
        return _is_filled(value) or (key == "users" and bool(value))
    return _is_secret_name(key) and _is_filled(value)


def _is_secret_name(key: str) -> bool:
    snake = _CAMEL.sub("_", key).lower().replace("-", "_")
    return _NAME.search(snake) is not None and _FILE.search(snake) is None


def _is_filled(value: Any) -> bool:
    return isinstance(value, str | int | list) and not isinstance(value, bool) and value != ""


def _fault(document: Document, where: Where, problem: str) -> SiteFault:
    remedy = f"move it to {_VAULT}"
    for path, name in _MERGED.items():
        if where[: len(path)] == path:
            remedy += f": {name}, a mapping that is merged over these values"
    return document.fault(where, f"{problem}, in a file that is not encrypted", remedy)
