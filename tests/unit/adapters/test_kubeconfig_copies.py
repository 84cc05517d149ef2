"""Each copy of the administrator's kubeconfig is tested by a request with its own credentials."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.kubernetes.connection.copies import KubeconfigCopies, script_of
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable
from appliance.model.components.control_plane.kubeconfig_copies import KubeconfigCopy
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.adapters.api_servers import KubeconfigNodes, kubeconfig_of, serving

NODES = "/api/v1/nodes?limit=1"
LISTED = b'{"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": []}'


class Nodes(KubeconfigNodes):
    """Control-plane nodes with a copy each; one that has none here is off."""

    def run_as_root(
        self,
        node: Node,
        script: str,
        *,
        stdin: bytes = b"",
        timeout: float = 60,
        or_self: bool = False,
    ) -> Answer:
        assert "/var/lib/appliance/kubeconfigs/" in script
        assert (stdin, timeout, or_self) == (b"", 20, False)
        if node.name not in self.kubeconfigs:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        return Answer(0, self.kubeconfigs[node.name], "")


def copies_of(
    folder: Path, kept: str | None, theirs: Mapping[str, str], ports: Mapping[str, int]
) -> list[KubeconfigCopy]:
    site = replace(samples.site(masters=2), directory=folder)
    site.state_directory.mkdir(exist_ok=True)
    if kept is not None:
        (site.state_directory / "kubeconfig").write_text(kept)
    return list(KubeconfigCopies(site, Nodes(theirs, ports)).test(site.control_plane))


def test_a_copy_works_where_the_api_lists_nodes_for_it(tmp_path: Path) -> None:
    config = kubeconfig_of(tmp_path)
    with serving(tmp_path, {NODES: 200}) as server:
        server.bodies[NODES] = LISTED
        ports = {"cp1": server.port, "cp2": server.port}
        found = copies_of(tmp_path, config, {"cp1": config, "cp2": config}, ports)
        assert server.asked == [NODES] * 3
    assert [one.problem for one in found] == ["", "", ""]
    assert [one.place for one in found][:2] == [
        "cp1:~ubuntu/.kube/config",
        "cp2:~ubuntu/.kube/config",
    ]
    assert found[2].place.endswith("/.appliance/kubeconfig")


def test_an_api_that_does_not_know_the_copy_is_a_problem(tmp_path: Path) -> None:
    config = kubeconfig_of(tmp_path)
    with serving(tmp_path, {NODES: 401}) as server:
        ports = {"cp1": server.port, "cp2": server.port}
        found = copies_of(tmp_path, config, {"cp1": config, "cp2": config}, ports)
    assert ["401" in one.problem for one in found] == [True, True, True]
    assert not any(one.may_pass for one in found)


@pytest.mark.parametrize("status", [None, 500])
def test_a_server_that_starts_tells_nothing_of_the_copy(status: int | None, tmp_path: Path) -> None:
    config = kubeconfig_of(tmp_path)
    with serving(tmp_path, {NODES: status or 200}) as server:
        ports = {"cp1": server.port} if status else {}
        found = copies_of(tmp_path, config, {"cp1": config, "cp2": ""}, ports)
    assert found[0].problem
    assert [one.may_pass for one in found] == [True, False, True]


def test_what_cannot_be_read_or_reached_is_a_problem_and_what_is_anothers_is_not(
    tmp_path: Path,
) -> None:
    found = copies_of(tmp_path, None, {"cp1": ""}, {})
    assert [(one.problem, one.is_ours) for one in found] == [
        ("", False),
        ("cp2: no answer on port 22", True),
        ("it cannot be read: No such file or directory", True),
    ]
    found = copies_of(tmp_path, "half", {"cp1": "half", "cp2": "half"}, {})
    assert all("incomplete" in one.problem for one in found)


def test_the_copy_of_this_machine_is_tested_by_the_first_server_that_accepts_it(
    tmp_path: Path,
) -> None:
    config = kubeconfig_of(tmp_path)
    with serving(tmp_path, {NODES: 200}) as server:
        server.bodies[NODES] = LISTED
        found = copies_of(tmp_path, config, {"cp1": "", "cp2": ""}, {"cp2": server.port})
    assert found[2].problem == ""


@pytest.mark.parametrize("ours", [True, False])
def test_a_file_that_the_tool_did_not_write_stays_on_its_node(ours: bool, tmp_path: Path) -> None:
    home, stamps = tmp_path / "home", tmp_path / "stamps"
    (home / ".kube").mkdir(parents=True)
    stamps.mkdir()
    (home / ".kube/config").write_text("a key")
    digest = hashlib.sha256(b"a key" if ours else b"another").hexdigest()
    (stamps / "ada.sha256").write_text(digest + "\n")
    done = subprocess.run(
        ["sh", "-c", script_of("ada", str(stamps), str(home))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ("a key" if ours else "")
    assert "path=~ubuntu/.kube/config\n" in script_of("ubuntu")
