"""What adapters bring for the checks: pods' messages, helm's secrets, this machine's resolver."""

from __future__ import annotations

from appliance.adapters.kubernetes.pod_tests.network import read_messages
from appliance.adapters.kubernetes.releases import newest
from appliance.adapters.local.control_host import resolve
from appliance.model.bundle.release.runai_versions import version_of_bundle
from appliance.model.state.cluster.prerequisites import Prerequisites


def test_messages_of_pods_are_faults_and_names() -> None:
    seen = read_messages(
        ["cp1", "w1"],
        {
            "cp1": ["= runai.rack.test 198.18.7.21 198.18.7.22"],
            "w1": ["no answer from the pod on cp1 (10.244.0.3)", "= runai.rack.test"],
        },
    )
    assert seen.asked == ("cp1", "w1")
    assert seen.faults == ("w1: no answer from the pod on cp1 (10.244.0.3)",)
    assert seen.names["cp1"]["runai.rack.test"] == ("198.18.7.21", "198.18.7.22")
    assert seen.names["w1"]["runai.rack.test"] == ()


def _secret(name: str, version: str, status: str) -> dict[str, object]:
    labels = {"name": name, "owner": "helm", "version": version, "status": status}
    return {"namespace": name, "labels": labels}


def test_the_newest_revision_of_a_release_counts() -> None:
    found = newest(
        [
            _secret("runai-backend", "9", "superseded"),
            _secret("runai-backend", "10", "failed"),
            _secret("gpu-operator", "1", "deployed"),
        ]
    )
    assert {f"{item.namespace}/{item.name}": item.status for item in found} == {
        "runai-backend/runai-backend": "failed",
        "gpu-operator/gpu-operator": "deployed",
    }


def test_a_backend_that_is_there_is_known_by_its_release() -> None:
    assert Prerequisites(releases={"runai-backend/runai-backend": "failed"}).has_backend
    assert not Prerequisites(releases={"gpu-operator/gpu-operator": "deployed"}).has_backend


def test_a_name_that_does_not_resolve_has_no_address() -> None:
    assert resolve(["no-such-host.invalid"], 1.0) == {"no-such-host.invalid": ()}
    assert resolve(["localhost"])["localhost"] == ("127.0.0.1",)


def test_a_vendor_bundle_tells_its_version_by_its_name() -> None:
    assert version_of_bundle("runai-2.8.12.tar.gz") == (2, 8)
    assert version_of_bundle("runai-air-gapped-2.10.3.tar") == (2, 10)
    assert version_of_bundle("runai-2.5.tar") == (2, 5)
    assert version_of_bundle("runai-airgapped-package-2.25.1.tar.gz") is None
    assert version_of_bundle("backup.tar") is None
