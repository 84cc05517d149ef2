"""Secrets in files that are not encrypted: found by the name of a key or the look of a value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appliance.model.site.files.diagnostics import Document, SiteFault, Where, dotted

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_NAME = re.compile(
    r"(^|_)(pass|passwd|password|passphrase|secret|token|credentials?|(api|access|ca)_?key)(_|$)"
)
_FILE = re.compile(r"_(file|path|dir|url|seconds|enabled)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
# What pushing to the site's registry needs; it stands in a web server's configuration as it is.
REGISTRY_PASSWORD = "vault_registry_password"  # noqa: S105 - a name, no secret
# The passwords of the organisation's registry; only the base64 of a login contains them.
EXTERNAL_PASSWORD = "vault_external_registry_password"  # noqa: S105 - a name, no secret
PULL_PASSWORD = "vault_external_registry_pull_password"  # noqa: S105 - a name, no secret
_PRINTABLE = re.compile(r"[ -~]{1,256}")
_SHAPE = re.compile(r"[A-Za-z0-9_-]{24,128}")
# Which password -> how it looks, why an install needs it, and how it looks in words.
_REGISTRY_SECRETS = {
    REGISTRY_PASSWORD: (
        _SHAPE,
        "it is needed to push to the site's registry",
        "24 to 128 letters, digits, '-' and '_'",
    ),
    EXTERNAL_PASSWORD: (
        _PRINTABLE,
        "external_registry.user in site.yml needs it",
        "1 to 256 printable ASCII characters",
    ),
    PULL_PASSWORD: (
        _PRINTABLE,
        "external_registry.pull_user in site.yml needs it",
        "1 to 256 printable ASCII characters",
    ),
}
_VAULT = "group_vars/all/vault.yml"
# Of Run:ai's backend: the first user's password, and the others with theirs.
_INITIAL = ("admin", "users")
# Free-form parts of site.yml -> the mapping of the vault that is merged over them.
MERGED: dict[Where, str] = {
    ("runai", "values"): "vault_runai_values",
    ("runai", "cluster_values"): "vault_runai_cluster_values",
    ("role_overrides", "runai_backend", "runai_backend_values"): "vault_runai_values",
    ("role_overrides", "runai_cluster", "runai_cluster_values"): "vault_runai_cluster_values",
}


def push_secret(site: Site) -> str | None:
    """Return the vault's name for the password with which images are pushed; None: no login."""
    external = site.settings.external_registry
    if external is None:
        return REGISTRY_PASSWORD
    if external.user:
        return EXTERNAL_PASSWORD
    return PULL_PASSWORD if external.pull_user else None


def pull_secret(site: Site) -> str | None:
    """Return the vault's name for the password with which images are pulled; None: no login."""
    external = site.settings.external_registry
    if external is None:
        return None
    return PULL_PASSWORD if external.pull_user else push_secret(site)


def registry_secrets(site: Site) -> tuple[str, ...]:
    """Return the vault's names for the passwords of the site's registry."""
    return tuple(sorted({name for name in (push_secret(site), pull_secret(site)) if name}))


def missing_in(
    vault: Mapping[str, str], wanted: Collection[str] = (REGISTRY_PASSWORD,)
) -> str | None:
    """Return what the vault lacks that an install needs, as a sentence; None when it lacks nothing.

    The values themselves are never part of it.

    Args:
        vault: the secrets by name.
        wanted: the registry's passwords, as :func:`registry_secrets` names them.
    """
    for name in wanted:
        pattern, why, shape = _REGISTRY_SECRETS[name]
        value = vault.get(name, "")
        if not value:
            return f"{name} is missing; {why}"
        if not pattern.fullmatch(value):
            return f"{name} is not {shape}"
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
    for path, name in MERGED.items():
        if where[: len(path)] == path:
            remedy += f": {name}, a mapping that is merged over these values"
    return document.fault(where, f"{problem}, in a file that is not encrypted", remedy)
