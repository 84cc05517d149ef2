"""What the probe is asked for a site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.model.checks.preflight import probe_arguments
from appliance.probe.__main__ import main
from tests import samples


def test_the_probe_is_told_the_peers_the_names_and_the_services() -> None:
    arguments = probe_arguments(samples.desired())
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    programs = options.pop("--programs").split(",")
    assert {"rsync", "openssl", "flock"} <= set(programs)
    assert not {"docker", "kubeadm", "nvidia-smi", "sudo"} & set(programs)
    assert options == {
        "--facts": "/etc/appliance-lab/facts",
        "--registry": "registry.rack.test:5000",
        "--artifacts": "artifacts.rack.test:9443",
        "--peers": "198.18.7.11,198.18.7.21,198.18.7.22",
        "--resolve": "registry.rack.test,artifacts.rack.test,api.rack.test",
    }


def test_the_virtual_address_is_looked_for_too() -> None:
    endpoint = {
        "name": "api.rack.test",
        "port": 8443,
        "balancer": "keepalived",
        "virtual_address": "198.18.7.10",
    }
    arguments = probe_arguments(samples.desired(samples.site(3, control_plane_endpoint=endpoint)))
    assert "198.18.7.10" in arguments[arguments.index("--peers") + 1].split(",")
    assert arguments[arguments.index("--virtual") + 1] == "198.18.7.10"


def test_the_probe_understands_every_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(__file__).parents[2] / "data" / "probe" / "bare-debian-12"
    recorded = ("--root", str(folder / "root"), "--outputs", str(folder / "outputs"))
    main([*probe_arguments(samples.desired()), *recorded, "--facts", str(tmp_path)])
    found = json.loads(capsys.readouterr().out)
    assert found["registry"]["serving"]["url"] == "https://registry.rack.test:5000/v2/"
    assert set(found["resolver"]["resolves"]) == {
        "registry.rack.test",
        "artifacts.rack.test",
        "api.rack.test",
    }
