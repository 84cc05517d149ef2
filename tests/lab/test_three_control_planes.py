"""Three control planes and one worker: one of the three may go, the API stays at its name."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import succeed
from tests.lab.conftest import LabSite, wait_for

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory, bundle_directory: Path) -> Iterator[LabSite]:
    """An installed lab of its own."""
    name = "trio"
    site = tmp_path_factory.mktemp("trio") / name
    succeed("lab", "down", "--name", name, "--yes")
    words = ("--control-planes", "3", "--workers", "1", "--bundle", str(bundle_directory))
    succeed("lab", "up", "--name", name, "--site", str(site), "--yes", *words, timeout=2400)
    yield LabSite(name, site, bundle_directory)
    succeed("lab", "down", "--name", name, "--yes")


def _nodes_through_the_endpoint(lab: LabSite) -> dict[str, str]:
    """Node -> Ready status, asked from the worker through the name every kubeconfig holds."""
    kubelet = "/etc/kubernetes/kubelet.conf"
    assert f"https://api.{lab.name}.test:8443" in lab.shell("w1", f"grep server: {kubelet}")
    command = f"kubectl --kubeconfig {kubelet} --request-timeout=5s get nodes -o json"
    found = json.loads(lab.shell("w1", command))
    return {
        item["metadata"]["name"]: next(
            c["status"] for c in item["status"]["conditions"] if c["type"] == "Ready"
        )
        for item in found["items"]
    }


def test_all_four_are_ready_through_the_endpoint(trio: LabSite) -> None:
    assert _nodes_through_the_endpoint(trio) == {
        trio.node(name): "True" for name in ("cp1", "cp2", "cp3", "w1")
    }


def test_one_control_plane_stops_and_the_api_still_answers(trio: LabSite) -> None:
    holder = next(
        name
        for name in ("cp1", "cp2", "cp3")
        if "198.18." in trio.shell(name, "ip -brief address show eth0").partition("/")[2]
    )
    subprocess.run(["podman", "stop", "--time", "60", trio.node(holder)], check=True, timeout=120)
    try:
        state = ["podman", "inspect", "--format", "{{.State.Running}}", trio.node(holder)]
        running = subprocess.run(state, capture_output=True, text=True, check=True)
        assert running.stdout.strip() == "false"

        def noticed() -> bool:
            try:
                return _nodes_through_the_endpoint(trio)[trio.node(holder)] != "True"
            except AssertionError:
                return False  # the address is on its way to another node

        wait_for("the API, at its name, to say that the stopped node is gone", noticed, 180)
    finally:
        subprocess.run(["podman", "start", trio.node(holder)], check=True, timeout=120)
    wait_for(
        "all four to be Ready again",
        lambda: set(_nodes_through_the_endpoint(trio).values()) == {"True"},
        240,
    )
