"""Who logs in to the backend: known before it is installed, or its cluster waits for nothing."""

from __future__ import annotations

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.facts import Answers, Facts
from appliance.model.documents.pages import VAULT_EDIT
from appliance.model.state.findings import Finding
from appliance.model.state.prerequisites import CLUSTER_RELEASE

PASSWORD_NAME = "vault_runai_admin_password"  # noqa: S105 - the name of one


def is_asked(facts: Facts) -> bool:
    """Whether an install would log in: nobody brought the values, and the cluster is not made."""
    return not facts.runai.cluster_values_file and not _has_cluster(facts)


def _has_cluster(facts: Facts) -> bool:
    releases = facts.surroundings.releases if facts.surroundings else {}
    return any(name.endswith(f"/{CLUSTER_RELEASE}") for name in releases)


def login(facts: Facts) -> Answers:
    """The password is in the vault, unless a person brings the cluster's values."""
    user = facts.runai.admin_user
    if facts.runai.cluster_values_file:
        yield Skipped("runai.cluster_values_file is given: nobody has to log in")
    elif _has_cluster(facts):
        yield Skipped("the cluster is in the backend already")
    elif facts.login_known is None:
        yield Skipped("the vault's password is not at hand: set ANSIBLE_VAULT_PASSWORD_FILE")
    elif not facts.login_known:
        yield Finding(
            "control host",
            "login",
            "error",
            f"no {PASSWORD_NAME} in the vault",
            f"the password of {user}: the cluster is made in the backend with it",
            f"put it there: {VAULT_EDIT}",
        )
    else:
        yield f"{user}, with the password of the vault"
