"""The image of a lab node: what mmdebstrap is told for each operating system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.lab.layout import SYSTEMS
from tests.unit.modules.loading import ROOT, load

MODULE = load("lab_image", role="lab_node")
RECIPE = ROOT / "appliance/lab/node"


def _read(system: str) -> dict[str, Any]:
    found: dict[str, Any] = MODULE.read_recipe({"recipe_dir": RECIPE, "operating_system": system})
    return found


def _words(system: str, *options: str) -> list[str]:
    words: list[str] = MODULE.build_command(
        Path("/staged"), _read(system), Path("/node.tar"), Path("/debian.sources"), list(options)
    )
    return words


@pytest.mark.parametrize(
    ("system", "suite", "merges"),
    [("debian-12", "bookworm", False), ("debian-11", "bullseye", True)],
)
def test_each_system_has_its_suite_and_a_merged_usr(system: str, suite: str, merges: bool) -> None:
    words = _words(system)
    assert words[-3:] == [suite, "/node.tar", "/debian.sources"]
    hooks = [word for word in words if word.startswith("--setup-hook=")]
    assert bool(hooks) is merges
    assert all('ln -s usr/sbin "$1/sbin";' in hook for hook in hooks)


def test_the_machines_apt_options_build_the_image_and_are_not_in_it() -> None:
    words = _words("debian-11", 'Acquire::http::Proxy "http://proxy.test:3128";')
    assert '--aptopt=Acquire::http::Proxy "http://proxy.test:3128"' in words
    assert '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"' in words


def test_no_image_changes_sysctls_of_the_machine_it_runs_on() -> None:
    removed = set(_read("debian-11")["removed_files"])
    assert {"usr/lib/sysctl.d/50-pid-max.conf", "usr/lib/sysctl.d/protect-links.conf"} <= removed


def test_a_system_that_the_recipe_does_not_know_is_refused_with_those_it_knows() -> None:
    with pytest.raises(MODULE.CommandFailed, match="run rocky-9; the recipe knows") as caught:
        _read("rocky-9")
    assert all(system in str(caught.value) for system in SYSTEMS)


def test_the_role_lets_in_the_systems_of_the_recipe() -> None:
    spec = yaml.safe_load((ROOT / "roles/lab_node/meta/argument_specs.yml").read_text())
    for entry in ("main", "image"):
        option = spec["argument_specs"][entry]["options"]["lab_node_operating_system"]
        assert tuple(option["choices"]) == SYSTEMS
