"""What the roles of step ``runai`` are told: paths and names, secrets by reference only."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from appliance.adapters.local.content import find_content_root
from appliance.errors import ConfigError
from appliance.model.components.runai.unmet import releases, site_values
from appliance.model.components.runai.variables import variables as runai_vars
from appliance.model.plan.steps import BY_NAME
from appliance.model.site.vault_ref import CA_CERTIFICATE, VaultRef
from appliance.model.state.certificates import values_digest
from appliance.model.state.cluster.cluster import RunaiLogins
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from tests import samples
from tests.vendor_bundles import judged

CONTENT = find_content_root()


def told(version: str, **runai: Any) -> dict[str, Any]:
    desired = wished(version, **runai)
    return runai_vars(samples.planned_run(desired, Observed({}, samples.cluster(desired))))


def wished(version: str, **runai: Any) -> Desired:
    settings = {"runai": {"vendor_bundle": "runai.tar", **runai}}
    desired = samples.desired(samples.site(1, 2, **settings))
    return dataclasses.replace(desired, vendor_bundle=judged(version=version))


def test_the_backend_is_told_where_everything_is() -> None:
    found = told("2.7.1")
    assert found["runai_backend_domain"] == "runai.rack.test"
    assert found["runai_backend_bundle_dir"].startswith("/var/lib/appliance/runai/")
    assert found["runai_backend_chart"].endswith("runai-backend-2.7.1.tgz")
    assert "--airgapped" in found["runai_backend_arguments"]
    assert found["runai_cluster_chart"].endswith("runai-cluster-2.7.1.tgz")


def test_secrets_are_references_to_the_vault() -> None:
    desired = wished("2.7.1", certificate="/etc/backend.crt")
    desired = dataclasses.replace(desired, backend_certificate="PEM of a chain")
    found = runai_vars(samples.planned_run(desired, Observed({}, samples.cluster(desired))))
    assert found["runai_cluster_password"] == VaultRef("vault_runai_admin_password", "''")
    assert found["runai_backend_certificate_key"] == VaultRef("vault_runai_tls_key")
    assert found["runai_backend_certificate"] == "PEM of a chain"
    assert "PRIVATE KEY" not in str(found)


def test_a_certificate_that_cannot_be_read_is_refused_and_no_other_is_issued() -> None:
    with pytest.raises(ConfigError, match=r"/etc/backend\.crt"):
        told("2.7.1", certificate="/etc/backend.crt")


def test_values_of_the_vault_are_references_too() -> None:
    found = told("2.7.1")
    backend, part = found["runai_backend_secret_values"], found["runai_cluster_secret_values"]
    assert backend == VaultRef("vault_runai_values", "{}")
    assert part == VaultRef("vault_runai_cluster_values", "{}")


@pytest.mark.parametrize(
    ("status", "asks"),
    [("deployed", False), ("failed", True), ("pending-install", True), (None, True)],
)
def test_the_backend_is_asked_again_until_the_release_is_deployed(
    status: str | None, asks: bool
) -> None:
    desired = wished("2.7.1")
    seen = samples.cluster(desired)
    releases = tuple(
        dataclasses.replace(release, status=status or "")
        for release in seen.releases
        if status or release.name != "runai-cluster"
    )
    told = runai_vars(
        samples.planned_run(desired, Observed({}, dataclasses.replace(seen, releases=releases)))
    )
    assert told["runai_cluster_is_new"] is asks


def test_a_run_that_was_killed_before_the_backend_saw_the_cluster_is_made_up_for() -> None:
    desired = wished("2.7.1")
    seen = dataclasses.replace(samples.cluster(desired), runai_unconfirmed=True)
    told = runai_vars(samples.planned_run(desired, Observed({}, seen)))
    assert told["runai_cluster_is_new"] is False
    assert told["runai_cluster_is_unconfirmed"] is True
    (missing,) = releases(desired, Observed({}, seen))
    assert "did not list" in missing
    named = dataclasses.replace(
        desired, site=samples.site(runai={"cluster_values_file": "runai-rack.yaml"})
    )
    assert not any("did not list" in one for one in releases(named, Observed({}, seen)))


@pytest.mark.parametrize(
    ("access", "noted", "asks"),
    [
        (False, RunaiLogins(()), False),
        (False, RunaiLogins(None), True),
        (False, RunaiLogins(("test@run.ai",)), True),
        (True, RunaiLogins(()), True),
        (True, RunaiLogins((), researchers=False), True),
        (True, RunaiLogins((), researchers=True), False),
    ],
)
def test_logins_are_asked_about_until_they_are_as_they_should_be(
    access: bool, noted: RunaiLogins, asks: bool
) -> None:
    desired = wished("2.7.1", access={"enabled": access})
    seen = dataclasses.replace(samples.cluster(desired), runai_logins=noted)
    found = runai_vars(samples.planned_run(desired, Observed({}, seen)))
    assert found["runai_cluster_logins_are_open"] is asks
    assert found["runai_cluster_researchers"] is access


def test_the_vendors_first_logins_of_every_version_are_tried() -> None:
    tried = {one["user"]: one["known"] for one in told("2.7.1")["runai_cluster_first_passwords"]}
    assert tried == {
        "test@run.ai": ["password", "Abcd!234"],
        "admin@run.ai": ["admin", "password", "Abcd!234"],
    }


@pytest.mark.parametrize("file", ["values.yml", "connection.yml"])
def test_only_a_login_asks_for_the_password(file: str) -> None:
    tasks = yaml.safe_load((CONTENT / "roles/runai_cluster/tasks" / file).read_text())
    refusal = tasks[0]["ansible.builtin.assert"]
    assert refusal["that"] == "runai_cluster_password | length > 0"
    assert "vault_runai_admin_password" in refusal["fail_msg"]


def test_without_a_certificate_the_sites_authority_signs_one() -> None:
    found = told("2.7.1")
    assert found["runai_backend_certificate"] == ""
    assert found["runai_backend_certificate_key"] == ""


def test_the_cluster_trusts_whoever_signed_the_backends_certificate() -> None:
    assert told("2.7.1")["runai_cluster_ca_certificate"] == CA_CERTIFICATE
    desired = dataclasses.replace(
        wished("2.7.1", certificate="/c.crt"), issuer_ca="PEM of a CA", backend_certificate="PEM"
    )
    found = runai_vars(samples.planned_run(desired, Observed({}, samples.cluster(desired))))
    assert found["runai_cluster_ca_certificate"] == "PEM of a CA"
    assert found["runai_backend_ca_certificate"] == "PEM of a CA"


def test_what_is_given_the_ca_and_what_is_listened_to_come_from_the_table_of_versions() -> None:
    found = told("2.7.1")
    assert found["runai_backend_trusting"] == [{"names": "*backend-backend", "required": True}]
    assert found["runai_cluster_trusting"][0] == {"names": "runai-agent", "required": True}
    listened = [one["names"] for one in found["runai_cluster_trusting"]]
    assert found["runai_cluster_talkers"] == listened


def test_the_login_believes_that_same_authority() -> None:
    role = CONTENT / "roles/runai_cluster"
    tasks = yaml.safe_load((role / "tasks/main.yml").read_text())
    names = yaml.safe_load((role / "vars/main.yml").read_text())
    entry = next(
        entry
        for task in tasks
        for entry in task.get("text_files", {}).get("files", ())
        if entry["content"] == "{{ runai_cluster_ca_certificate }}"
    )
    for file in ("values", "connection"):
        (asked,) = (
            task["block"]
            for task in yaml.safe_load((role / f"tasks/{file}.yml").read_text())
            if "block" in task
        )
        module = f"runai_cluster_{file}"
        login = next(task[module] for task in asked if module in task)
        assert login["authority"] == entry["path"] == "{{ __runai_cluster_authority }}"
    assert names["__runai_cluster_authority"] == "/etc/appliance/runai/backend-ca.crt"


def test_the_backends_certificate_is_watched_while_the_clusters_part_is_waited_for() -> None:
    role = CONTENT / "roles/runai_cluster"
    tasks = yaml.safe_load((role / "tasks/ready.yml").read_text())
    wait, again = (task["kube_ready"] for task in tasks if "kube_ready" in task)
    assert "certificate" not in again
    assert wait["certificate"].startswith("{{ __runai_cluster_certificate if ")
    names = yaml.safe_load((role / "vars/main.yml").read_text())
    assert names["__runai_cluster_certificate"] == "/etc/appliance/runai/backend.crt"


def test_system_nodes_are_those_that_the_inventory_means() -> None:
    assert told("2.7.1")["runai_backend_system_nodes"] == []
    assert told("2.7.1", system_on_control_plane=True)["runai_backend_system_nodes"] == ["cp1"]


def test_an_exception_for_a_role_takes_the_place_of_the_sites_values() -> None:
    given = {"runai_backend": {"runai_backend_values": {"a": 1}}}
    runai = {"values": {"b": 2}, "cluster_values": {"c": 3}}
    desired = samples.desired(samples.site(1, 2, runai=runai, role_overrides=given))
    assert site_values(desired) == {"runai-backend": {"a": 1}, "runai-cluster": {"c": 3}}


def test_keys_that_are_numbers_are_compared_as_the_text_that_ansible_makes_of_them() -> None:
    numbered: dict[Any, str] = {2: "a", 10: "b"}
    assert values_digest(numbered) == values_digest({"10": "b", "2": "a"})


def test_pods_ask_the_services_host_only_where_the_site_has_no_dns() -> None:
    assert told("2.7.1")["runai_backend_dns_server"] == ""
    desired = wished("2.7.1", own_dns=True)
    found = runai_vars(samples.planned_run(desired, Observed({}, samples.cluster(desired))))
    services = desired.site.services_node.ip
    assert found["runai_backend_dns_server"] == services
    assert desired.manifest is not None
    served = runai_vars(samples.planned_run(desired))
    assert served["site_dns_enabled"] is True
    names = [name for known in served["site_dns_hosts"].values() for name in known]
    assert "runai.rack.test" in names


def test_a_site_without_runai_tells_the_roles_nothing_but_that_there_is_no_dns_server() -> None:
    desired = samples.desired(samples.site(1, 2))
    every = runai_vars(samples.planned_run(desired))
    assert [name for name in every if not name.startswith("site_dns_")] == []
    assert desired.manifest is not None
    told = runai_vars(samples.planned_run(desired))
    assert (told["site_dns_enabled"], told["site_dns_packages"]) == (False, {})


def test_a_services_host_outside_the_cluster_answers_for_the_name_too() -> None:
    whole = samples.site(1, 2, runai={"vendor_bundle": "runai.tar", "own_dns": True})
    groups = {"cp1": {"control_plane"}, "w2": {"services"}}
    nodes = tuple(
        dataclasses.replace(node, groups=frozenset(groups.get(node.name, node.groups)))
        for node in whole.nodes
    )
    site = dataclasses.replace(whole, nodes=nodes)
    step = BY_NAME["runai"]
    assert {node.name for node in step.nodes(site)} == {"cp1", "w1", "w2"}
    asked = dataclasses.replace(samples.desired(site), vendor_bundle=judged(version="2.7.1"))
    seen = {node.name: samples.bare(node) for node in site.nodes}
    observed = Observed(samples.node_facts(seen), samples.cluster(asked))
    assert step.unmet is not None
    assert list(step.unmet(site.node("w2"), asked, observed)) == [
        "dnsmasq, which resolves the backend's name, does not run"
    ]


AUTHENTICATED = {
    "runai-operator": {"config": {"researcher-service": {"args": {"authEnabled": True}}}}
}


def test_with_researchers_logins_the_clusters_part_asks_for_them_too() -> None:
    assert told("2.7.1")["runai_cluster_values"] == {}
    found = told("2.7.1", access={"enabled": True}, cluster_values={"runai-operator": {"x": 1}})
    assert found["runai_cluster_values"] == {
        "runai-operator": {**AUTHENTICATED["runai-operator"], "x": 1}
    }


def test_a_plan_sees_that_the_logins_were_switched_on() -> None:
    off, on = wished("2.7.1"), wished("2.7.1", access={"enabled": True})
    assert site_values(on)["runai-cluster"] == AUTHENTICATED
    assert values_digest(site_values(on)) != values_digest(site_values(off))


def test_what_the_site_says_itself_of_logins_wins() -> None:
    own = {"runai-operator": {"config": {"researcher-service": {"args": {"authEnabled": False}}}}}
    found = told("2.7.1", access={"enabled": True}, cluster_values=own)
    assert found["runai_cluster_values"] == own


def test_secrets_in_place_of_the_vendors_are_references_with_nothing_in_their_place() -> None:
    found = told("2.7.1")
    for role in ("backend", "cluster"):
        rows = found[f"runai_{role}_vendor_defaults"]
        assert {row["secret"] for row in rows} == set(found[f"runai_{role}_own_secrets"])
        for name, reference in found[f"runai_{role}_own_secrets"].items():
            assert reference == VaultRef(name, "''")
