"""First contact with simulated BMCs over TLS: pinned by their fingerprint, and then read."""

from __future__ import annotations

import hashlib
import socket
import ssl
from pathlib import Path

import pytest

from appliance.adapters.hardware.prospects import RedfishProspects
from appliance.model.checks.discovery.found import Failed, Found
from appliance.model.checks.discovery.targets import Target, targets
from tests.standins.simulated_bmcs import ADDRESS, LOGIN, configured, simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bmcs")


def where() -> Target:
    return targets([f"bmc:{ADDRESS}"])[0]


def test_a_bmc_is_pinned_and_then_tells_its_machine(folder: Path) -> None:
    with simulated(folder, configured(tree="quanta-d43n-3u.json", changes={})) as (server,):
        bmcs = RedfishProspects(LOGIN["user"], server.server_address[1])
        pins = bmcs.keys([where()])
        der = ssl.PEM_cert_to_DER_cert((folder / "bmc.crt").read_text())
        assert pins == {where(): hashlib.sha256(der).hexdigest()}
        pin = pins[where()]
        assert isinstance(pin, str)
        found = bmcs.read([where()], {where(): pin}, LOGIN["password"])[where()]
        assert isinstance(found, Found), found
        assert (found.gpus, found.prefix, found.has_key) == (4, None, False)
        assert found.serial
        other = bmcs.read([where()], {where(): "ab" * 32}, LOGIN["password"])[where()]
        assert isinstance(other, Failed)
        assert "fingerprint" in other.reason
        wrong = bmcs.read([where()], {where(): pin}, "wrong")[where()]
        assert isinstance(wrong, Failed)
        assert LOGIN["password"] not in wrong.reason


def test_what_is_no_bmc_is_a_reason() -> None:
    with socket.create_server((ADDRESS, 0)) as listening:
        port = listening.getsockname()[1]
        bmcs = RedfishProspects("admin", port)
    answer = bmcs.keys([where()])[where()]
    assert isinstance(answer, Failed)
    assert f"no TLS on port {port}" in answer.reason


def test_a_bmc_that_never_ends_its_handshake_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.adapters.hardware.prospects.HANDSHAKE_SECONDS", 0.3)
    with socket.create_server((ADDRESS, 0)) as silent:
        bmcs = RedfishProspects("admin", silent.getsockname()[1])
        assert isinstance(bmcs.keys([where()])[where()], Failed)
