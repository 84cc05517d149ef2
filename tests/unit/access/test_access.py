"""Researchers' access: which flags, when they hold, what forbids them, and the kubeconfig."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.checks.preflight import probe_arguments
from appliance.model.components.access import oidc
from appliance.model.components.access.kubeconfig import researcher_kubeconfig
from appliance.model.components.access.variables import variables as access_vars
from appliance.model.plan.planner import Scope, plan
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed
from tests import samples

ISSUER = "https://runai.rack.test/auth/realms/runai"


def _wish(**changes: Any) -> Desired:
    enabled = {"enabled": True, **changes.pop("access", {})}
    return samples.desired(samples.site(workers=1, runai={"access": enabled}, **changes))


def _cluster(desired: Desired, configured: dict[str, str]) -> Cluster:
    running = {"cp1": oidc.wanted_flags(desired)}
    return replace(samples.cluster(desired), api_flags=ApiFlags(configured, running))


def _observed(desired: Desired, *, flags: dict[str, str] | None = None, **api: Any) -> Observed:
    wanted = oidc.wanted_flags(desired)
    documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    document = documents["cp1"]
    document["kubernetes"]["apiserver"] = {
        "oidc": wanted if flags is None else flags,
        "oidc_ca_sha256": samples.CA,
        "change_unfinished": False,
        **api,
    }
    document["issuer"] = {"url": ISSUER, "ok": True, "issuer": ISSUER, "keys": 1, "error": None}
    return Observed(samples.node_facts(documents), _cluster(desired, wanted))


def _unmet(desired: Desired, observed: Observed) -> list[str]:
    return list(oidc.unmet(desired.site.node("cp1"), desired, observed))


def test_local_users_have_the_vendors_flags_and_the_ca() -> None:
    assert oidc.wanted_flags(_wish()) == {
        "oidc-ca-file": "/etc/kubernetes/pki/appliance-oidc-ca.crt",
        "oidc-client-id": "runai",
        "oidc-issuer-url": ISSUER,
        "oidc-username-prefix": "-",
    }


def test_sso_has_another_client_and_knows_users_by_their_mail() -> None:
    found = oidc.wanted_flags(_wish(access={"mode": "sso"}))
    assert found["oidc-client-id"] == "runai-cli-sso"
    assert found["oidc-username-claim"] == "email"


def test_a_sites_exceptions_are_flags_like_any_other() -> None:
    more = {"api_oidc": {"api_oidc_more_flags": {"oidc-groups-claim": "groups", "v": "4"}}}
    found = oidc.wanted_flags(_wish(role_overrides=more))
    assert found["oidc-groups-claim"] == "groups"
    assert "v" not in found, "another family is none of the role's"


def test_access_that_holds_everywhere_needs_nothing() -> None:
    desired = _wish()
    assert _unmet(desired, _observed(desired)) == []


@pytest.mark.parametrize(
    ("flags", "api", "sentence"),
    [
        ({}, {}, "the manifest of its API server has no --oidc-issuer-url"),
        (None, {"change_unfinished": True}, "a change of its API server's flags is unfinished"),
        (None, {"oidc_ca_sha256": None}, "appliance-oidc-ca.crt does not hold the issuer's CA"),
    ],
)
def test_whatever_differs_on_the_node_is_named(
    flags: dict[str, str] | None, api: dict[str, Any], sentence: str
) -> None:
    desired = _wish()
    assert sentence in "\n".join(_unmet(desired, _observed(desired, flags=flags, **api)))


def test_flags_that_run_and_are_not_configured_would_be_lost_and_are_named() -> None:
    desired = _wish()
    observed = replace(_observed(desired), cluster=_cluster(desired, {}))
    assert "ClusterConfiguration has no --oidc-ca-file" in _unmet(desired, observed)


def test_a_flag_that_the_site_does_not_have_is_named() -> None:
    desired = _wish()
    flags = {**oidc.wanted_flags(desired), "oidc-groups-claim": "g"}
    (said,) = _unmet(desired, _observed(desired, flags=flags))
    manifest = "the manifest of its API server"
    assert said == f"{manifest} has --oidc-groups-claim, which the site does not ask for"


def test_what_restarts_with_the_api_server_is_waited_for() -> None:
    desired = _wish()
    observed = _observed(desired)
    assert isinstance(observed.cluster, Cluster)
    pods = tuple(
        replace(pod, ready=pod.app != "kube-scheduler", reason="kube-scheduler: CrashLoopBackOff")
        for pod in observed.cluster.pods
    )
    observed = replace(observed, cluster=replace(observed.cluster, pods=pods))
    (said,) = _unmet(desired, observed)
    assert said == "pod kube-scheduler-cp1 is not ready: kube-scheduler: CrashLoopBackOff"


def test_without_an_api_the_step_is_due() -> None:
    desired = _wish()
    assert "the API does not answer" in _unmet(
        desired, replace(_observed(desired), cluster=NoCluster())
    )


def _with_issuer(observed: Observed, **issuer: Any) -> Observed:
    document = {**observed.node_facts["cp1"].document, "issuer": issuer or None}
    return replace(
        observed, node_facts={**observed.node_facts, **samples.node_facts({"cp1": document})}
    )


@pytest.mark.parametrize(
    ("issuer", "sentence"),
    [
        ({}, f"{ISSUER}: not checked"),
        ({"ok": False, "error": "unable to get local issuer certificate"}, "local issuer certifi"),
        ({"ok": False, "issuer": "https://a.test", "error": "x"}, "the name https://a.test"),
    ],
)
def test_an_issuer_that_is_not_believed_forbids_the_step(
    issuer: dict[str, Any], sentence: str
) -> None:
    desired = _wish()
    observed = _with_issuer(_observed(desired, flags={}), **issuer)
    found = plan(desired, observed, (), Scope(only="access"))
    assert [step.name for step in found.steps] == ["access"]
    (refusal,) = found.refusals
    assert sentence in refusal.sentence()
    assert "/etc/appliance/ca.crt" in refusal.hint


def test_the_issuer_is_judged_later_when_the_control_plane_is_yet_to_come() -> None:
    desired = _wish()
    documents = {node.name: samples.bare(node) for node in desired.site.nodes}
    found = plan(desired, Observed(samples.node_facts(documents), NoCluster()))
    assert "access" in [step.name for step in found.steps]
    assert found.refusals == ()


def test_a_site_without_access_has_no_such_step_and_queries_no_issuer() -> None:
    desired = samples.desired()
    assert "--issuer" not in probe_arguments(desired)
    assert access_vars(samples.planned_run(desired)) == {}
    assert plan(desired, Observed({}, NoCluster()), (), Scope(only="access")).steps == ()
    assert oidc.is_enabled(oidc.with_access(desired.site))


def test_the_probe_and_the_role_get_the_organisations_ca() -> None:
    desired = replace(_wish(), issuer_ca="PEM")
    assert probe_arguments(desired)[-4:] == ("--issuer", ISSUER, "--issuer-ca", "PEM")
    found = access_vars(samples.planned_run(desired))
    assert found["api_oidc_ca_certificate"] == "PEM"
    assert found["kubeadm_control_plane_pki_files"] == {oidc.CA_FILE: "PEM"}
    assert access_vars(samples.planned_run(_wish()))["api_oidc_ca_certificate"] == CA_CERTIFICATE


def test_a_researchers_kubeconfig_has_the_vendors_shape_and_no_credential() -> None:
    site = _wish().site
    found = researcher_kubeconfig(site, "ada", cluster_ca="CA", issuer_ca="I", project="team-a")
    (user,) = found["users"]
    assert user["name"] == "runai-authenticated-user"
    assert user["user"] == {
        "auth-provider": {
            "name": "oidc",
            "config": {
                "airgapped": "true",
                "auth-flow": "cli",
                "realm": "runai",
                "client-id": "runai",
                "idp-issuer-url": ISSUER,
                "idp-certificate-authority-data": base64.b64encode(b"I\n").decode(),
            },
        }
    }
    assert found["clusters"][0]["cluster"]["server"] == "https://api.rack.test:6443"
    assert found["contexts"][0]["context"] == {
        "cluster": "rack",
        "user": "runai-authenticated-user",
        "namespace": "runai-team-a",
    }
    assert found["current-context"] == found["contexts"][0]["name"] == "ada@rack"


def test_a_researchers_kubeconfig_for_sso_opens_a_browser() -> None:
    site = _wish(access={"mode": "sso"}).site
    found = researcher_kubeconfig(site, "ada", cluster_ca="CA")
    assert found["users"][0]["user"]["auth-provider"]["config"] == {
        "airgapped": "true",
        "auth-flow": "remote-browser",
        "realm": "runai",
        "client-id": "runai-cli-sso",
        "idp-issuer-url": ISSUER,
        "subject-claim-field": "email",
        "redirect-uri": "https://runai.rack.test/oauth-code",
    }
    assert "namespace" not in found["contexts"][0]["context"]
