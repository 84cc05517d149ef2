"""``appliance kubeconfig``: files, modes, notes, refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from appliance.adapters.kubernetes.connection import admin_kubeconfig as adapter
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from tests import samples
from tests.unit.adapters.api_servers import KubeconfigNodes, kubeconfig_of

Capture = pytest.CaptureFixture[str]
Site = Callable[..., None]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    """The site of --site, with what a test says of its SSH and whether the API is reached."""
    monkeypatch.delenv("APPLIANCE_SITE", raising=False)
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    # The days of a certificate are the golden text's.
    monkeypatch.setattr(
        adapter,
        "holder_of",
        lambda _: adapter.Holder("kubernetes-admin", ("system:masters",), "2027-11-26"),
    )

    def given(problem: str = "", **ssh: str) -> None:
        desired = samples.desired(replace(samples.site(ssh=ssh), directory=tmp_path))
        nodes = KubeconfigNodes({"cp1": kubeconfig_of(tmp_path)}, {})

        def connect(*_: object, **__: object) -> SiteSession:
            return SiteSession(desired.site, desired, nodes, nodes, None)  # type: ignore[arg-type]

        monkeypatch.setattr(Application, "connect", connect)
        monkeypatch.setattr(
            adapter,
            "find_reach",
            lambda _site, _credentials, given: adapter.Reach(
                (*given, "198.18.7.11:6443")[0], problem
            ),
        )

    given()
    return given


def server_of(text: str) -> str:
    return str(yaml.safe_load(text)["clusters"][0]["cluster"]["server"])


@pytest.mark.usefixtures("site")
def test_a_file_is_written_for_its_owner_alone(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "rack7"
    words = ["kubeconfig", "--site", str(tmp_path), "--out", str(out)]
    assert run(words) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert server_of(out.read_text()) == "https://198.18.7.11:6443"
    shown = capsys.readouterr()
    assert f"kubectl --kubeconfig {out} get nodes" in shown.out
    assert "kubernetes-admin of system:masters, until 2027-11-26" in shown.err
    assert "cannot be revoked" in shown.err
    assert "PRIVATE" not in shown.out + shown.err
    assert run(words) == 0, "its own file is replaced"
    capsys.readouterr()
    out.write_text("somebody's own\n")
    assert run(words) == 3
    assert "was not changed" in capsys.readouterr().err
    assert out.read_text() == "somebody's own\n"


def test_an_api_that_this_machine_does_not_reach_gets_a_tunnel(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    site("no answer within 3 s")
    assert run(["kubeconfig", "--site", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "warning: 198.18.7.11:6443: no answer within 3 s" in shown.err
    assert "-L 16443:198.18.7.11:6443" in shown.err
    assert f"--out {tmp_path / 'out'} --address 127.0.0.1:16443" in shown.err
    assert server_of((tmp_path / "out").read_text()) == "https://198.18.7.11:6443"


def test_behind_a_jump_host_the_server_is_the_end_of_a_tunnel(
    site: Site, tmp_path: Path, capsys: Capture
) -> None:
    site("Connection refused", jump_host="ops@jump.example")
    out = tmp_path / "out"
    assert run(["kubeconfig", "--site", str(tmp_path), "--out", str(out)]) == 0
    assert server_of(out.read_text()) == "https://127.0.0.1:16443"
    assert "leave this running" in capsys.readouterr().err


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("address", ["", "a:b", "h:0", "h:65536", "-x", "https://h:1"])
def test_an_address_is_a_host_and_a_port(address: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(["kubeconfig", "--site", str(tmp_path), f"--address={address}"]) == 2
    assert "is not HOST or HOST:PORT" in capsys.readouterr().err
