"""Every dependency has an upper bound, and the constraints hold a version within its bounds."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = [
    Requirement(text)
    for text in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"])
]
CONSTRAINED = {
    canonicalize_name(one.name): one
    for line in (ROOT / ".config" / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
    for one in [Requirement(line)]
}


@pytest.mark.parametrize("required", REQUIRED, ids=lambda one: one.name)
def test_a_dependency_is_bounded_above_and_constrained_within(required: Requirement) -> None:
    assert any(bound.operator in ("<", "==") for bound in required.specifier)
    (pin,) = CONSTRAINED[canonicalize_name(required.name)].specifier
    assert pin.operator == "=="
    assert required.specifier.contains(pin.version)


@pytest.mark.parametrize(
    ("name", "known_bad"), [("jinja2", "3.1.5"), ("cryptography", "44.0.0"), ("paramiko", "3.3.1")]
)
def test_versions_with_known_holes_are_not_taken(name: str, known_bad: str) -> None:
    (required,) = (one for one in REQUIRED if canonicalize_name(one.name) == name)
    assert not required.specifier.contains(known_bad)
