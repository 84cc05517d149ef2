"""A fault of a new site names the option, once, and the hint fits it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appliance.errors import ConfigError
from tests.unit.site.test_site_init import THREE, new, write

MASTER = {"master1": "198.51.100.11/24"}
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (
        "typo in the name of a model's node",
        {"hardware": {"mastr1": "quanta/s5sp"}},
        ["--hardware mastr1=quanta/s5sp: no such node; did you mean 'master1'?"],
    ),
    (
        "typo in a model",
        {"hardware": {"gpu1": "quanta/d43n"}},
        [
            "--hardware gpu1=quanta/d43n: the hardware model 'quanta/d43n' is unknown; "
            "did you mean 'quanta/d43n-3u'?"
        ],
    ),
    (
        "a name that no host may have",
        {"control_plane": {"Master_1": "198.51.100.11/24"}},
        [
            "--control-plane Master_1=198.51.100.11/24: 'Master_1' is not a node name by RFC 1123; "
            "write lower-case letters, digits and hyphens, at most 63, without the domain"
        ],
    ),
    (
        "a bad name with a bad address",
        {"gpu_workers": {"GPU_1": "198.51.100.21"}},
        [
            "--worker GPU_1=198.51.100.21: 'GPU_1' is not a node name by RFC 1123; "
            "write lower-case letters, digits and hyphens, at most 63, without the domain",
            "--worker GPU_1=198.51.100.21: '198.51.100.21' has no prefix length: its LAN is "
            "unknown; write it like 198.51.100.21/24",
        ],
    ),
    (
        "three without an address for keepalived",
        {"control_plane": THREE},
        [
            "--control-plane: 3 control-plane nodes need a load balancer for the endpoint; "
            "add --virtual-address ADDRESS, a free address in their LAN"
        ],
    ),
    (
        "an address for keepalived that a node has",
        {"control_plane": THREE, "virtual_address": "198.51.100.11"},
        [
            "--virtual-address: 198.51.100.11 is also cp1's address; "
            "write an address that no host has; it moves between the control-plane nodes"
        ],
    ),
    (
        "none at all",
        {"control_plane": {}},
        [
            "--control-plane: no node is in the group control_plane; name 1 or 3 of them: "
            "--control-plane NAME=ADDRESS/PREFIX"
        ],
    ),
    (
        "a release that is not there",
        {"release": "k8s-1.23.5-r2"},
        [
            "--release k8s-1.23.5-r2: the release 'k8s-1.23.5-r2' is unknown; "
            "did you mean 'k8s-1.23.5-r1'?"
        ],
    ),
    (
        "an operating system that is not there",
        {"operating_system": "ubuntu-20.4"},
        [
            "--os ubuntu-20.4: k8s-1.23.5-r1 is not tested on 'ubuntu-20.4'; "
            "did you mean 'ubuntu-20.04'?"
        ],
    ),
    (
        "a DNS server by name",
        {"dns_servers": ("ns1.example",)},
        ["--dns: 'ns1.example' is not an IPv4 address; write it like 198.51.100.2"],
    ),
    (
        "a zone that is none",
        {"domain": "Rack_7.internal"},
        [
            "--domain Rack_7.internal: 'Rack_7.internal' is not a DNS name; "
            "write lower-case letters, digits and hyphens, separated by dots: appliance.example"
        ],
    ),
    (
        "an address twice",
        {"gpu_workers": {"gpu1": "198.51.100.11/24"}},
        [
            "--worker gpu1=198.51.100.11/24: 198.51.100.11 is also master1's address; "
            "give each node and each BMC an address of its own"
        ],
    ),
    (
        "a user",
        {"user": "Root User"},
        ["--user: 'Root User' is not a Linux user name; write it like ubuntu"],
    ),
]


@pytest.mark.parametrize(
    ("changes", "faults"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_each_fault_is_blamed_on_its_option_and_said_once(
    changes: dict[str, Any], faults: list[str], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as refused:
        write(tmp_path / "rack7", new(**changes))
    assert list(refused.value.details) == faults
    assert not (tmp_path / "rack7").exists()


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"dns_servers": ("ns1",)}, "correct --dns, then run the same command again"),
        (
            {"release": "k8s-9", "hardware": {"gpu1": "none/none"}},
            "correct --release, --hardware, then run the same command again; to see the releases: "
            "appliance site schema; to see the models: appliance hardware list",
        ),
    ],
)
def test_the_hint_fits_the_faults(changes: dict[str, Any], hint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        write(tmp_path / "rack7", new(**changes))
    assert refused.value.hint == hint


def test_the_choice_about_gpus_is_written_out(tmp_path: Path) -> None:
    for gpu, expected in ((True, "\ngpu:\n"), (False, "\ngpu: null\n"), (None, "\ngpu: null\n")):
        directory = tmp_path / f"rack-{gpu}".lower()
        write(directory, new(gpu=gpu))
        text = (directory / "group_vars/all/site.yml").read_text()
        assert expected in text
        assert ("\n  driver: host\n" in text) is (gpu is True)
    write(tmp_path / "without", new(gpu_workers={}))
    assert "\n# gpu:\n" in (tmp_path / "without/group_vars/all/site.yml").read_text()
