"""Updates are installed as planned: nothing on hold, no removal, new kernels on hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

module = load("updates_installed", role="node_patch")
packages = module.packages
SAMPLE = "sample\t1.0\tii \nheld\t1.0\thi \nlinux-image-5.4.0-150-generic\t1\thi \n"
KERNEL = "linux-image-5.4.0-216-generic"


class Asked:
    """A module with its options, on a machine of the test."""

    check_mode = False

    def __init__(self, **wanted: str) -> None:
        self.params: dict[str, Any] = {
            "packages": {name.replace("_", "-"): version for name, version in wanted.items()},
            "source_list": "/etc/appliance/updates.list",
            "kernel_patterns": ["linux-image-*", "linux-headers-*", "linux-modules-*"],
            "lock_wait_seconds": 1,
            "deadline_seconds": 1,
        }


class Machine:
    """dpkg and apt: the job installs what its command names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, query: str = SAMPLE) -> None:
        self.query, self.rc = query, 0
        self.commands: list[list[str]] = []
        self.environments: list[Any] = []
        self.held: list[str] = []
        monkeypatch.setattr(module, "runner", lambda _module: self.run)
        monkeypatch.setattr(module, "NodeJob", lambda *_args, **_more: self)
        monkeypatch.setattr(packages, "wait_for_lock", lambda _seconds: None)
        monkeypatch.setattr(packages, "write_configuration", lambda *_: "/apt.conf")
        monkeypatch.setattr(packages, "source_of", lambda _: ("https://x/updates", "0f" * 32))
        monkeypatch.setattr(packages, "updates_pending", lambda: False)

    def is_running(self) -> bool:
        return False

    def run(self, argv: list[str], *more: Any, **__: Any) -> Any:
        if argv[0] == "dpkg-query":
            return 0, self.query, ""
        if argv[0] == "apt-mark":
            self.held += argv[2:]
            return 0, "", ""
        self.commands.append(argv)
        self.environments.append(more[0])
        for word in argv:
            name, equals, version = word.partition("=")
            if equals:
                lines = [one for one in self.query.splitlines() if not one.startswith(name + "\t")]
                self.query = "\n".join([*lines, f"{name}\t{version}\tii ", ""])
        return {"rc": self.rc, "stdout": "", "stderr": "it failed", "command": argv}, True


def test_only_what_differs_is_installed_and_holds_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    done = module.converge(Asked(sample="2.0"))
    assert (done["changed"], done["installed"]) == (True, {"sample": "2.0"})
    (command,) = machine.commands
    assert command[-2:] == ["install", "sample=2.0"]
    assert "--allow-change-held-packages" not in command
    # What is not named stays, also where another package wants it newer.
    assert machine.environments[0]["UPGRADES"] == " sample "
    # No policy file: services start again.
    assert command[2] == ""
    assert module.converge(Asked(sample="2.0"))["changed"] is False


def test_a_package_on_hold_is_refused_before_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    with pytest.raises(packages.PackagesError, match="held is on hold on this node"):
        module.converge(Asked(sample="2.0", held="2.0"))
    assert machine.commands == []


def test_a_package_on_hold_in_its_version_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(monkeypatch)
    assert module.converge(Asked(held="1.0"))["changed"] is False


def test_a_new_kernel_goes_on_hold_and_other_packages_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    module.converge(Asked(sample="2.0", **{KERNEL: "5.4.0-216.236"}))
    assert machine.held == [KERNEL]


def test_an_interrupted_dpkg_is_completed_where_nothing_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, "sample\t1.0\tii \nhalf\t1.0\tiF \n")
    with pytest.raises(packages.PackagesError, match="still differ: half"):
        module.converge(Asked(sample="1.0"))
    assert machine.commands[0][-2:] == ["install", "--fix-broken"]


def test_check_mode_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, asked = Machine(monkeypatch), Asked(sample="2.0")
    asked.check_mode = True
    assert module.converge(asked)["changed"] is True
    assert machine.commands == []


def test_the_role_names_a_list_of_its_own() -> None:
    role = Path(__file__).resolve().parents[3] / "roles/node_patch"
    assert "updates.list" in (role / "vars/main.yml").read_text()
    assert "packages.list" not in (role / "tasks/main.yml").read_text()
