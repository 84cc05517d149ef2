"""The administrator's kubeconfig: whose it is, where it is valid, and what it never overwrites."""

from __future__ import annotations

import os
import shlex
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.kubernetes.connection import admin_kubeconfig as adapter
from appliance.adapters.kubernetes.connection.client import credentials_of
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable, Refused
from appliance.model.components.control_plane.admin_kubeconfig import MARK, api_addresses
from appliance.model.site.settings import Node, Site
from tests import samples
from tests.unit.adapters.api_servers import ApiServer, KubeconfigNodes, kubeconfig_of, serving

NAME = {"name": "kubernetes", "port": 6443}


class Nodes(KubeconfigNodes):
    """Nodes with an admin.conf, without one (empty), or away (none named)."""

    def read_as_root(self, node: Node, path: str, **more: Any) -> Answer:
        if node.name not in self.kubeconfigs:
            raise NodeUnreachable(f"{node.name}: no answer")
        if not self.kubeconfigs[node.name]:
            return Answer(1, "", f"head: cannot open '{path}'\n")
        return super().read_as_root(node, path, **more)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    kubeconfig_of(tmp_path)
    with serving(tmp_path, {}) as found:
        yield found


def site_of(folder: Path, masters: int = 1, **changes: Any) -> Site:
    return replace(
        samples.site(masters, control_plane_endpoint=NAME, **changes), directory=folder / "site"
    )


def test_the_credentials_are_those_of_the_first_node_that_gives_them(tmp_path: Path) -> None:
    nodes = Nodes({"cp1": "", "cp3": kubeconfig_of(tmp_path)}, {})
    credentials, source = adapter.find_credentials(site_of(tmp_path, 3), nodes)
    assert b"PRIVATE KEY" in credentials.key
    assert source == "cp3:/etc/kubernetes/admin.conf"
    assert "PRIVATE" not in repr(credentials)


def test_without_a_cluster_the_command_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no cluster yet") as caught:
        adapter.find_credentials(
            site_of(tmp_path, 3), Nodes(dict.fromkeys(["cp1", "cp2", "cp3"], ""), {})
        )
    assert caught.value.hint == "create it: appliance install"


def test_an_unreachable_control_plane_is_no_missing_cluster(tmp_path: Path) -> None:
    with pytest.raises(NodeUnreachable) as caught:
        adapter.find_credentials(site_of(tmp_path, 3), Nodes({"cp1": "", "cp2": "{}"}, {}))
    assert [one.partition(":")[0] for one in caught.value.details] == ["cp1", "cp2", "cp3"]
    assert "incomplete" in caught.value.details[1]


def test_the_file_of_the_install_will_do_when_no_node_answers(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    kept = site.state_directory / "kubeconfig"
    kept.parent.mkdir(parents=True)
    kept.write_text(kubeconfig_of(tmp_path))
    credentials, source = adapter.find_credentials(site, Nodes({}, {}))
    assert (b"CERTIFICATE" in credentials.certificate, source) == (True, str(kept))


def test_the_api_is_reached_where_its_certificate_has_the_name_and_the_ca(
    tmp_path: Path, server: ApiServer
) -> None:
    credentials = credentials_of(kubeconfig_of(tmp_path))
    # Made again: the server's certificate is now another CA's.
    other = adapter.find_reach(site_of(tmp_path), credentials, [f"127.0.0.1:{server.port}"])
    assert other.problem.startswith("another certificate is there")


def test_the_address_of_the_kubeconfig_is_the_first_that_answers(tmp_path: Path) -> None:
    credentials = credentials_of(kubeconfig_of(tmp_path))
    with serving(tmp_path, {}) as server:
        there = f"127.0.0.1:{server.port}"
        found = adapter.find_reach(site_of(tmp_path), credentials, ["127.0.0.1:1", there])
        assert found == adapter.Reach(there)
        named = samples.site(control_plane_endpoint={"name": "api.rack.test"})
        assert "api.rack.test" in adapter.find_reach(named, credentials, [there]).problem
    silent = adapter.find_reach(site_of(tmp_path), credentials, ["127.0.0.1:1"])
    assert silent == adapter.Reach("127.0.0.1:1", "Connection refused")


def test_an_endpoint_of_three_comes_before_its_servers() -> None:
    endpoint = {"name": "api", "port": 8443, "balancer": "keepalived",
                "virtual_address": "198.18.7.9"}  # fmt: skip
    site = samples.site(3, control_plane_endpoint=endpoint)
    assert api_addresses(site) == (
        "198.18.7.9:8443", "198.18.7.11:6443", "198.18.7.12:6443", "198.18.7.13:6443",
    )  # fmt: skip


def test_kubectl_would_find_server_name_and_credentials_in_the_file(tmp_path: Path) -> None:
    site = site_of(tmp_path)
    before = credentials_of(kubeconfig_of(tmp_path))
    text = adapter.text_of(site, before, "198.18.7.11:6443")
    document = yaml.safe_load(text)
    assert document["clusters"][0]["cluster"]["server"] == "https://198.18.7.11:6443"
    assert document["clusters"][0]["cluster"]["tls-server-name"] == "kubernetes"
    assert credentials_of(text) == before


def test_the_tunnel_is_as_strict_as_every_connection(tmp_path: Path) -> None:
    site = site_of(tmp_path, ssh={"user": "ada", "jump_host": "ops@jump.example", "port": 2222})
    words = shlex.split(adapter.tunnel_command(site))
    assert words[:3] == ["ssh", "-p", "2222"]
    assert "StrictHostKeyChecking=yes" in words
    assert f"UserKnownHostsFile={site.known_hosts}" in words
    assert words[words.index("-L") + 1] == "16443:198.18.7.11:6443"
    proxy = next(word for word in words if word.startswith("ProxyCommand="))
    assert "StrictHostKeyChecking=yes" in proxy
    assert "ops@jump.example" in proxy
    assert words[-1] == "ada@198.18.7.11"


def test_the_holder_is_read_from_the_certificate(tmp_path: Path) -> None:
    holder = adapter.holder_of(credentials_of(kubeconfig_of(tmp_path)))
    assert holder is not None
    assert (holder.user, holder.groups) == ("kubernetes", ())
    assert len(holder.until) == len("2027-01-01")


def test_a_file_of_ours_is_replaced_and_a_foreign_one_never(tmp_path: Path) -> None:
    path = tmp_path / "new" / "rack7"
    adapter.write_kubeconfig(path, f"{MARK}\nold\n")
    assert path.stat().st_mode & 0o777 == 0o600
    adapter.write_kubeconfig(path, f"{MARK}\nnew\n")
    assert path.read_text() == f"{MARK}\nnew\n"
    assert path.stat().st_mode & 0o777 == 0o600
    foreign = tmp_path / "config"
    foreign.write_text("apiVersion: v1\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    for other in (foreign, link, tmp_path):
        with pytest.raises(Refused, match="not written by this command"):
            adapter.write_kubeconfig(other, f"{MARK}\nnew\n")
    assert foreign.read_text() == "apiVersion: v1\n"
    with pytest.raises(Refused, match="cannot be written"):
        adapter.write_kubeconfig(foreign / "below", MARK)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_writes_no_file_that_another_user_owns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rack7"
    path.write_text(f"{MARK}\nlaid out for root\n")
    os.chown(path, 54321, 54321)
    monkeypatch.delenv("SUDO_UID", raising=False)
    with pytest.raises(Refused, match="not written by this command"):
        adapter.write_kubeconfig(path, f"{MARK}\nfrom the node\n")
    assert "from the node" not in path.read_text()
    monkeypatch.setenv("SUDO_UID", "54321")
    adapter.write_kubeconfig(path, f"{MARK}\nof who typed sudo\n")
    assert path.stat().st_uid == 54321


def test_a_certificate_of_a_node_that_lies_names_nobody(tmp_path: Path) -> None:
    good = credentials_of(kubeconfig_of(tmp_path))
    der = ssl.PEM_cert_to_DER_cert(good.certificate.decode())
    assert b"kubernetes" in der
    pem = ssl.DER_cert_to_PEM_cert(der.replace(b"kubernetes", b"\xff" * 10)).encode()
    assert adapter.holder_of(replace(good, certificate=pem)) is None
