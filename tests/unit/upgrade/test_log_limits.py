"""Docker bounds the logs of containers; on containerd the kubelet does, by the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.local.content import load_release
from appliance.model.components.control_plane.log_limits import kubelet_size, log_limits
from appliance.model.state.desired import Desired
from appliance.model.upgrade.evidence import Evidence, Silence
from appliance.model.upgrade.handmade.carrying import carried_kubelet, carrier_of
from appliance.model.upgrade.losses import find_losses
from appliance.model.upgrade.points.versions import dropped
from tests import samples
from tests.unit.upgrade.handmade import KUBELET, Change, changed, documents, kubelet

ON_CONTAINERD = "k8s-1.24.17-r1"
OURS = {"containerLogMaxSize": "50Mi", "containerLogMaxFiles": 3}


def desired(release: str = ON_CONTAINERD, **changes: Any) -> Desired:
    return Desired(samples.site(1, 1, **changes), load_release(release))


def overridden(size: object, files: object) -> dict[str, Any]:
    names = {"docker_engine_log_max_size": size, "docker_engine_log_max_files": files}
    return {"role_overrides": {"docker_engine": names}}


def test_a_kubelet_on_containerd_keeps_what_docker_kept() -> None:
    assert log_limits(desired()) == OURS
    assert log_limits(desired("k8s-1.23.17-r1")) == {}
    docker = Path(__file__).parents[3] / "roles/docker_engine/defaults/main.yml"
    limits = yaml.safe_load(docker.read_text())
    default = overridden(
        limits["docker_engine_log_max_size"], limits["docker_engine_log_max_files"]
    )
    assert log_limits(desired(**default)) == OURS


def test_what_a_site_overrides_of_docker_holds_on_containerd() -> None:
    found = log_limits(desired(**overridden("1g", "7")))
    assert found == {"containerLogMaxSize": "1Gi", "containerLogMaxFiles": 7}
    # A kubelet with one file does not start.
    assert log_limits(desired(**overridden("10m", 1)))["containerLogMaxFiles"] == 2


def test_the_kubelets_own_settings_of_a_site_come_first() -> None:
    own = {"kubelet": {"containerLogMaxSize": "20Mi"}}
    found = log_limits(desired(kubernetes=own, **overridden("1g", 7)))
    assert found == {"containerLogMaxSize": "20Mi", "containerLogMaxFiles": 7}


@pytest.mark.parametrize(
    ("docker", "kubernetes"),
    [
        ("50m", "50Mi"),
        ("50M", "50Mi"),
        ("50mb", "50Mi"),
        ("50MiB", "50Mi"),
        ("1.5g", "1536Mi"),
        ("2048k", "2Mi"),
        ("1000", "1000"),
        (4096, "4Ki"),
        ("-1", "-1"),
        ("0", None),
        ("m", None),
        ("50q", None),
        ("", None),
        (True, None),
        ([1], None),
    ],
)
def test_a_size_of_docker_is_a_quantity_of_kubernetes(docker: object, kubernetes: object) -> None:
    assert kubelet_size(docker) == kubernetes


def carried(*changes: Change, wish: Desired | None = None) -> Any:
    """The kubelet's configuration that is written before kubeadm runs."""
    found, carrier = changed(*changes), carrier_of(wish or desired())
    losses = find_losses(found, carrier)
    assert not isinstance(losses, Silence), losses
    return carried_kubelet(found, losses, carrier)


def of_cluster(key: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["kubelet_configuration"][key] = value

    return change


def test_an_upgrade_to_containerd_brings_the_limits() -> None:
    assert carried() == {**KUBELET, **OURS}
    assert carried(wish=desired("k8s-1.23.17-r1")) is None


def test_limits_that_the_cluster_has_stay() -> None:
    has = of_cluster("containerLogMaxSize", "20Mi")
    everywhere = kubelet("containerLogMaxSize", "20Mi", "cp1", "cp2", "w1")
    assert carried(has, everywhere) == {
        **KUBELET,
        "containerLogMaxSize": "20Mi",
        "containerLogMaxFiles": 3,
    }


def test_a_node_that_has_not_got_the_limits_yet_is_not_hand_made() -> None:
    brought = [of_cluster(key, value) for key, value in OURS.items()]
    carrier = carrier_of(desired())
    assert find_losses(changed(*brought), carrier) == ()
    other = find_losses(changed(*brought, kubelet("containerLogMaxSize", "1Gi")), carrier)
    assert not isinstance(other, Silence)
    assert [loss.name for loss in other] == ["kubelet.containerLogMaxSize"]


def test_the_list_of_the_plan_says_what_is_brought() -> None:
    losses = find_losses(documents(), carrier_of(desired()))
    (gate,) = dropped(Evidence(losses=losses, brought=OURS))
    assert "containerLogMaxSize 50Mi, containerLogMaxFiles 3" in gate.sentence()
