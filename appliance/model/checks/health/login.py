"""The login for the backend must be known before Run:ai is installed."""

from __future__ import annotations

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.documents.pages import VAULT_EDIT
from appliance.model.state.cluster.prerequisites import CLUSTER_RELEASE
from appliance.model.state.findings import Finding

PASSWORD_NAME = "vault_runai_admin_password"  # noqa: S105 - the name of one


def is_asked(inputs: HealthInputs) -> bool:
    """Whether an install would log in: nobody brought the values, and the cluster is not made."""
    return not inputs.runai.cluster_values_file and not _has_cluster(inputs)


def _has_cluster(inputs: HealthInputs) -> bool:
    releases = inputs.prerequisites.releases if inputs.prerequisites else {}
    return any(name.endswith(f"/{CLUSTER_RELEASE}") for name in releases)


def login(inputs: HealthInputs) -> Answers:
    """The password is in the vault, unless a person brings the cluster's values."""
    user = inputs.runai.admin_user
    if inputs.runai.cluster_values_file:
        yield Skipped("runai.cluster_values_file is set: no login is needed")
    elif _has_cluster(inputs):
        yield Skipped("the backend already has this cluster")
    elif inputs.login_known is None:
        yield Skipped("the vault's password is not available: set ANSIBLE_VAULT_PASSWORD_FILE")
    elif not inputs.login_known:
        yield Finding(
            "control host",
            "login",
            "error",
            f"no {PASSWORD_NAME} in the vault",
            f"the password of {user}, which creates the cluster in the backend",
            f"add it, in the site's directory: {VAULT_EDIT}",
        )
    else:
        yield f"{user}, with the password of the vault"
