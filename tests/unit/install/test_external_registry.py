"""What roles are told about the organisation's registry, and where its name leads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.site.authority_files import registry_ca
from appliance.errors import ConfigError
from appliance.model.checks.probe_request import probe_arguments
from appliance.model.components.registry import pod_guard, variables
from appliance.model.plan.test_image import pod_test_image
from appliance.model.site.vault_ref import CA_CERTIFICATE, VaultRef
from tests import samples

OWN = samples.site()
EXTERNAL = {"ca": "/ca.crt", "address": "198.51.100.9", "project": "gpu", "user": "bot"}
HARBOR = samples.site(registry="harbor.test:443", external_registry=EXTERNAL)
OPEN = samples.site(registry="harbor.test:443", external_registry={"ca": "/ca.crt"})


def test_the_services_node_runs_no_registry_where_the_organisation_has_one() -> None:
    group = "appliance_external_registry"
    assert variables.groups(samples.desired(OWN)) == {group: {"hosts": {}}}
    assert variables.groups(samples.desired(HARBOR)) == {group: {"hosts": {"cp1": None}}}


def test_roles_are_told_the_login_by_reference_and_the_organisations_ca() -> None:
    found = variables.variables(samples.planned_run(samples.desired(HARBOR)))
    password = VaultRef("vault_external_registry_password")
    assert found["container_registry_ca_certificate"] == samples.EXTERNAL_CA
    assert found["registry_trust_ca_certificate"] == samples.EXTERNAL_CA
    assert found["container_registry_password"] == found["registry_trust_password"] == password
    assert (found["container_registry_user"], found["registry_trust_user"]) == ("bot", "bot")
    assert (found["container_registry_name"], found["container_registry_port"]) == (
        "harbor.test",
        443,
    )
    assert found["container_registry_project"] == "gpu"
    assert found["kubernetes_node_registry"] == "harbor.test:443/gpu"
    assert found["registry_trust_registry"] == "harbor.test:443"


def test_nodes_pull_as_a_user_who_may_not_push() -> None:
    users = {**EXTERNAL, "pull_user": "reader"}
    site = samples.site(registry="harbor.test:443", external_registry=users)
    found = variables.variables(samples.planned_run(samples.desired(site)))
    assert (found["container_registry_user"], found["registry_trust_user"]) == ("bot", "reader")
    assert found["registry_trust_password"] == VaultRef("vault_external_registry_pull_password")
    assert found["container_registry_password"] == VaultRef("vault_external_registry_password")


def test_a_registry_without_a_login_needs_no_secret() -> None:
    found = variables.variables(samples.planned_run(samples.desired(OPEN)))
    assert (found["registry_trust_user"], found["registry_trust_password"]) == ("", "")
    assert found["container_registry_password"] == ""


def test_the_appliances_own_registry_is_told_as_before() -> None:
    found = variables.variables(samples.planned_run(samples.desired(OWN)))
    assert found["container_registry_password"] == VaultRef("vault_registry_password")
    assert found["registry_trust_ca_certificate"] == CA_CERTIFICATE
    assert not {"registry_trust_user", "container_registry_user"} & set(found)


def test_a_ca_that_was_not_read_stops_before_a_play() -> None:
    desired = replace(samples.desired(HARBOR), registry_ca=None)
    with pytest.raises(ConfigError, match=r"the registry's CA /ca\.crt was not read"):
        variables.variables(samples.planned_run(desired))


def test_its_name_leads_to_its_address_and_not_to_the_services_node() -> None:
    names = samples.desired(HARBOR).host_names
    assert names["198.51.100.9"] == ("harbor.test",)
    assert "artifacts.rack.test" in names["198.18.7.11"]
    assert not any("harbor.test" in found for found in samples.desired(OPEN).host_names.values())
    assert "registry.rack.test" in samples.desired(OWN).host_names["198.18.7.11"]


def test_every_image_is_named_with_the_project() -> None:
    desired = samples.desired(HARBOR)
    facts = samples.node_facts({"cp1": samples.converged(HARBOR.services_node, desired)})["cp1"]
    image = pod_test_image(HARBOR, facts, "busybox")
    assert image is not None
    assert image.startswith("harbor.test:443/gpu/busybox@sha256:")


def test_pods_may_reach_the_organisations_registry() -> None:
    rules = pod_guard.rules(HARBOR.node("w1"), HARBOR)
    assert not any("--dport 443 " in rule for rule in rules)
    assert any("--dport 5000 " in rule for rule in pod_guard.rules(OWN.node("w1"), OWN))


def test_the_probe_is_given_the_ca_and_the_address() -> None:
    words = probe_arguments(samples.desired(HARBOR))
    pairs = dict(zip(words[::2], words[1::2], strict=True))
    assert pairs["--registry"] == "harbor.test:443"
    assert pairs["--registry-ca"] == samples.EXTERNAL_CA
    assert pairs["--registry-address"] == "198.51.100.9"
    assert pairs["--registry-prefix"] == "harbor.test:443/gpu"
    assert "--registry-ca" not in probe_arguments(samples.desired(OWN))


def test_only_certificates_are_read_from_the_file_that_a_site_names(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(f"subject=x\n{samples.EXTERNAL_CA}-----BEGIN PRIVATE KEY-----\nAAAA\n")
    site = samples.site(external_registry={"ca": str(path)})
    assert registry_ca(site) == samples.EXTERNAL_CA
    assert registry_ca(OWN) is None
    path.write_text("no certificate")
    with pytest.raises(ConfigError, match=r"the registry's CA .* holds no PEM certificate"):
        registry_ca(site)
    path.unlink()
    with pytest.raises(ConfigError, match="is not readable"):
        registry_ca(site)
