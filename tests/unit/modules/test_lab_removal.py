"""What `lab down` removes from this machine, against a podman that filters as the real one does."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.modules.loading import ROOT, from_file

UTILS = ROOT / "roles" / "lab_node" / "module_utils"


class Ended(Exception):
    """What the module said."""


class FakePodman:
    """Two labs; an empty label value in a filter means any, as with podman 4.3."""

    def __init__(self) -> None:
        self.containers = {"aaa1": ("lab", "lab-cp1"), "bbb2": ("demo", "demo-cp1")}
        self.volumes = {"lab-cp1-var": ("lab", "lab-cp1"), "demo-cp1-var": ("demo", "demo-cp1")}
        self.networks = {"appliance-lab": "lab", "appliance-demo": "demo"}
        self.removals: list[list[str]] = []
        self.failed: Any = None

    def __call__(self, argv: list[str], **_options: object) -> str:
        words = argv[1:]
        if "rm" in words[:2]:
            self.removals.append(words)
            self.containers.pop(words[-1], None)
            return ""
        if words[1:2] == ["exists"]:
            if words[0] == "container" and words[2] not in self.containers:
                raise self.failed(argv, 1, "")
            return ""
        wanted = next((word.split("=")[2] for word in words if word.startswith("label=")), "")
        if words[0] == "ps":
            rows = [(lab, f"{lab} {key} {name}") for key, (lab, name) in self.containers.items()]
        elif words[0] == "volume":
            rows = [(lab, f"{lab} {key} {node}") for key, (lab, node) in self.volumes.items()]
        else:
            rows = [(self.networks[words[2]], f"{self.networks[words[2]]} {words[2]}")]
        return "\n".join(row for lab, row in rows if wanted in ("", lab))


@pytest.fixture
def lab_modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    package = importlib.import_module("ansible.module_utils")
    found = {}
    for name in ("lab_commands", "lab_container", "lab_machine"):
        full = f"ansible.module_utils.{name}"
        found[name] = from_file(full, UTILS / f"{name}.py")
        monkeypatch.setitem(sys.modules, full, found[name])
        monkeypatch.setattr(package, name, found[name], raising=False)
    path = ROOT / "roles" / "lab_node" / "library" / "lab_nodes.py"
    found["lab_nodes"] = from_file("lab_nodes_under_test", path)
    return found


def absent(modules: dict[str, ModuleType], lab: str, tmp_path: Path) -> tuple[FakePodman, Any]:
    """Run the module's removal for a lab."""
    podman = FakePodman()
    said: dict[str, Any] = {}

    def end(**values: Any) -> None:
        said.update(values)
        raise Ended

    module = SimpleNamespace(
        params={"lab": lab, "only": [], "state": "absent"},
        check_mode=False,
        exit_json=end,
        fail_json=end,
    )
    lab_nodes: Any = modules["lab_nodes"]
    podman.failed = modules["lab_commands"].CommandFailed
    modules["lab_commands"].run = podman  # type: ignore[attr-defined]
    modules["lab_machine"].RECORD = tmp_path / "absent"  # type: ignore[attr-defined]
    modules["lab_machine"].CONTROL_GROUPS = tmp_path  # type: ignore[attr-defined]
    lab_nodes.STATE_DIR = tmp_path
    lab_nodes.AnsibleModule = lambda **_spec: module
    with pytest.raises(Ended):
        lab_nodes.main()
    return podman, said


@pytest.mark.parametrize("name", ["", "-", "Lab", "lab\n"])
def test_a_name_that_no_lab_can_have_removes_nothing(
    lab_modules: dict[str, ModuleType], name: str, tmp_path: Path
) -> None:
    podman, said = absent(lab_modules, name, tmp_path)
    assert podman.removals == []
    assert "No lab can have the name" in said["msg"]


def test_only_what_carries_this_labs_label_is_removed_and_nothing_is_forced_out_of_use(
    lab_modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    podman, said = absent(lab_modules, "lab", tmp_path)
    assert podman.removals == [
        ["rm", "--force", "--time", "0", "--volumes", "aaa1"],
        ["volume", "rm", "lab-cp1-var"],
        ["network", "rm", "appliance-lab"],
    ]
    assert said["changed"]


def test_a_network_of_that_name_that_is_not_the_labs_stays(
    lab_modules: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakePodman, "__init__", _with_a_strangers_network)
    podman, _said = absent(lab_modules, "lab", tmp_path)
    assert podman.removals == []


def _with_a_strangers_network(podman: FakePodman) -> None:
    podman.containers, podman.volumes, podman.removals = {}, {}, []
    podman.networks = {"appliance-lab": "<no-value>"}


def test_after_the_last_lab_only_values_that_a_lab_sets_are_put_back(
    lab_modules: dict[str, ModuleType], tmp_path: Path
) -> None:
    machine: Any = lab_modules["lab_machine"]
    before = {
        "kernel.panic": "0",
        "vm.swappiness": "60",
        "vm.overcommit_memory": "0",
        "net.ipv4.ip_forward": "0",
    }
    now = {
        "kernel.panic": "10",
        "vm.swappiness": "10",
        "vm.overcommit_memory": "2",
        "net.ipv4.ip_forward": "1",
    }
    for bridged in (True, False):
        values = dict(now)
        machine.RECORD = tmp_path / "record.json"
        machine.RECORD.write_text(json.dumps(before))
        machine.LINKS = tmp_path / "net"
        (tmp_path / "net" / "docker0" / "bridge").mkdir(parents=True, exist_ok=True)
        machine.LINKS = tmp_path / "net" if bridged else tmp_path / "none"
        machine.read, machine.write = values.get, values.__setitem__
        machine.other_labs = lambda _lab: []
        machine.restore("lab")
        assert values["kernel.panic"] == "0"
        # Set by nobody of ours, or to a value that no lab sets.
        assert (values["vm.swappiness"], values["vm.overcommit_memory"]) == ("10", "2")
        assert values["net.ipv4.ip_forward"] == ("1" if bridged else "0")
