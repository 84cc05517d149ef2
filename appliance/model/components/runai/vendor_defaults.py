"""Secrets that the vendor's charts bring along, the same ones for every customer.

Source: the values file of the backend that the vendor published itself (run-ai/public,
``runai-backend-helm-values-2.0.58.yaml``, last changed in June 2022), and the first passwords in
its installation pages. A chart of another version may have other keys: only what is found in the
values with exactly such a value is replaced, so no chart gets a key that it lacks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from appliance.model.bundle.release.runai_versions import LINES

TENANT: Final = "backend.initTenant"
FIRST_USER: Final = "test@run.ai"
TENANT_ADMIN: Final = "admin@run.ai"
ADMIN_PASSWORD: Final = "vault_runai_admin_password"  # noqa: S105 - a name
TENANT_PASSWORD: Final = "vault_runai_tenant_admin_password"  # noqa: S105 - a name


class VendorDefault(NamedTuple):
    """A place in the values of a chart, and what takes the place of the vendor's own secret.

    Attributes:
        path: keys, joined by dots.
        known: what the vendor puts there.
        secret: name in the vault of what comes instead.
        user: whose password, where the place is a description of users.
    """

    path: str
    known: tuple[str, ...]
    secret: str
    user: str = ""

    @property
    def name(self) -> str:
        """The place, for people."""
        return f"{self.path} ({self.user})" if self.user else self.path


_FIRST_PASSWORDS: Final = tuple(dict.fromkeys(line.first_password for line in LINES.values()))
_DATABASE: Final = "vault_runai_database_password"
BACKEND: Final = (
    VendorDefault(TENANT, _FIRST_PASSWORDS, ADMIN_PASSWORD, FIRST_USER),
    VendorDefault(TENANT, ("admin", *_FIRST_PASSWORDS), TENANT_PASSWORD, TENANT_ADMIN),
    VendorDefault("backend.secret.jwtSecret", ("jwt_secret",), "vault_runai_jwt_secret"),
    VendorDefault(
        "backend.secret.sessionSecret", ("session_secret",), "vault_runai_session_secret"
    ),
    VendorDefault("postgresql.postgresqlPassword", ("password",), _DATABASE),
    VendorDefault("postgresql.postgresqlPostgresPassword", ("password",), _DATABASE),
    VendorDefault("global.db.password", ("password",), _DATABASE),
    VendorDefault(
        "global.grafana.dbPassword", ("password",), "vault_runai_grafana_database_password"
    ),
)
# What a login is tried with after an install; the places above may not be all.
FIRST_LOGINS: Final = {one.user: one.known for one in BACKEND if one.user}
# The vendor's page: to be changed where admin@run.ai has another password than the default.
CLUSTER: Final = (
    VendorDefault("runai-operator.config.runaiBackend.password", ("admin",), TENANT_PASSWORD),
)
SECRETS: Final = tuple(dict.fromkeys(one.secret for one in (*BACKEND, *CLUSTER)))
# A login's password must satisfy the rules of the realm: letters of both sizes, digit, sign.
LOGINS: Final = (ADMIN_PASSWORD, TENANT_PASSWORD)


def new_secret(name: str, random: str) -> str:
    """Make a secret of its kind from random letters and digits."""
    return f"Ra1-{random[:28]}" if name in LOGINS else random
