"""What an upgrade prints of settings that were changed by hand has no secret."""

from __future__ import annotations

import dataclasses
import json

import pytest

from appliance.model.upgrade.evidence import Evidence, Silence
from appliance.model.upgrade.losses import Carrier, find_losses
from appliance.model.upgrade.points.versions import dropped
from tests.unit.upgrade.handmade import Change, arguments, changed, kubelet, replaced
from tests.unit.upgrade.secret_settings import SECRETS

NAMED: dict[str, list[Change]] = {
    "an option that is named so": [
        arguments("kube-apiserver", "--oidc-client-secret=hunter2-hunter2")
    ],
    "a key that is named so": [kubelet("registryToken", "hunter2-hunter2")],
    "an address with a login": [kubelet("proxy", "https://ada:hunter2-hunter2@proxy.example")],
    "a key that is a secret itself": [kubelet("https://ada:hunter2-hunter2@a.example", "x")],
    "a list of options": [kubelet("extra", ["--password", "hunter2-hunter2"])],
}
CASES = {**SECRETS, **NAMED}


def losses_of(changes: list[Change]) -> Evidence:
    found = find_losses(changed(*changes), Carrier())
    assert not isinstance(found, Silence), found
    assert found
    return Evidence(losses=found)


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_no_gate_tells_a_secret_of_a_setting_that_kubeadm_would_drop(changes: list[Change]) -> None:
    gates = dropped(losses_of(changes))
    told = json.dumps([[gate.sentence(), gate.cure, vars(gate)] for gate in gates])
    assert all(gate.stops for gate in gates)
    assert "hunter2" not in told
    assert "424242" not in told


@pytest.mark.parametrize("changes", CASES.values(), ids=CASES)
def test_a_setting_is_given_up_by_the_name_that_was_printed(changes: list[Change]) -> None:
    evidence = losses_of(changes)
    assert not isinstance(evidence.losses, Silence)
    labels = frozenset(loss.label for loss in evidence.losses)
    assert not any(gate.stops for gate in dropped(dataclasses.replace(evidence, accepted=labels)))


def test_a_switch_is_told_whatever_its_name() -> None:
    change = replaced("kube-apiserver", "enable-bootstrap-token-auth", "false")
    (gate,) = dropped(losses_of([change]))
    assert "enable-bootstrap-token-auth on cp1 is false; kubeadm renders true" in gate.found
