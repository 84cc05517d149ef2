"""Broken sites as data: a good site, one change, and the faults that must be found."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.local.hardware_models import hardware_names
from appliance.model.site.files.draft import KnownContent

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "inventories" / "example"
# A good site that the cases break; the example may say more than it.
GOOD = ROOT / "tests" / "data" / "site"
CASES = Path(__file__).parent / "data" / "broken_sites"

# The choices are fixed here, so that a new release or role changes no expectation.
KNOWN = KnownContent(
    releases={"k8s-1.23.5-r1": frozenset({"ubuntu-20.04", "debian-12"})},
    hardware=frozenset(hardware_names(ROOT / "hardware")),
    roles={
        "api_oidc": frozenset({"api_oidc_more_flags"}),
        "docker_engine": frozenset({"docker_engine_options", "docker_engine_packages"}),
        "flannel": frozenset(),
        "kubeadm_control_plane": frozenset(
            {"kubeadm_control_plane_kubeconfig_path", "kubeadm_control_plane_deadline_seconds"}
        ),
        "runai_bundle": frozenset({"runai_bundle_file", "runai_bundle_deadline_seconds"}),
        "runai_cli": frozenset({"runai_cli_users"}),
    },
)


@dataclass(frozen=True)
class Expected:
    """A fault that must be found."""

    file: str
    line: int
    says: tuple[str, ...]


def case_names() -> list[str]:
    """Every case, by name."""
    return sorted(path.stem for path in CASES.glob("*.yml"))


def copy_of_good(directory: Path) -> Path:
    """Copy the good site."""
    shutil.copytree(GOOD, directory)
    return directory


def break_site(name: str, directory: Path) -> list[Expected]:
    """Make the site of a case and return the faults it must have."""
    case = yaml.safe_load((CASES / f"{name}.yml").read_text(encoding="utf-8"))
    copy_of_good(directory)
    _change(case, directory)
    return [_expected(directory, fault) for fault in case["faults"]]


def _change(case: dict[str, Any], directory: Path) -> None:
    for edit in case.get("edit", ()):
        path = directory / edit["file"]
        text = path.read_text(encoding="utf-8")
        assert edit["old"] in text, f"the good site has no {edit['old']!r} any more"
        path.write_text(text.replace(edit["old"], edit["new"], 1), encoding="utf-8")
    for file in case.get("delete", ()):
        (directory / file).unlink()
    for file in case.get("folder", ()):
        (directory / file).unlink()
        (directory / file).mkdir()
    for file, target in case.get("link", {}).items():
        path = directory / file
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        path.symlink_to(target)
    for file, text in case.get("write", {}).items():
        (directory / file).write_text(text, encoding="utf-8")
    for file, text in case.get("append", {}).items():
        path = directory / file
        path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")
    for file, octets in case.get("bytes", {}).items():
        (directory / file).write_bytes(bytes.fromhex(octets))


def _expected(directory: Path, fault: dict[str, Any]) -> Expected:
    line = fault.get("line")
    if line is None:
        lines = (directory / fault["file"]).read_text(encoding="utf-8").splitlines()
        wanted = fault["at"]
        found = [
            number
            for number, text in enumerate(lines, 1)
            if (text.endswith(wanted[:-1]) if wanted.endswith("$") else wanted in text)
            and not text.lstrip().startswith("#")
        ]
        line = found[fault.get("nth", 1) - 1]
    return Expected(fault["file"], line, tuple(str(part) for part in fault["says"]))
