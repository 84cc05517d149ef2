"""The fuzz of every border: with fixed seeds in CI, with free ones and far more before a release.

One input can be tried again: the row names its seed, and a fault the number of the input.
"""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance.adapters.site.yaml_lines import read_yaml
from appliance.model.documents.strict_json import Unreadable, read_json
from tests.fuzz.borders_files import FILES, YAML_PIECES
from tests.fuzz.borders_nodes import NODES
from tests.fuzz.borders_support import SUPPORT
from tests.fuzz.campaign import Border, run

BORDERS = FILES + NODES + SUPPORT
SEED = 12
# About a minute of one processor in all: fewer where an input takes milliseconds.
INPUTS = {
    "site directory": 800,
    "YAML": 4000,
    "bundle manifest": 1000,
    "delta and parts": 1000,
    "vendor bundle": 1000,
    "journal records": 1000,
    "registry manifest": 2000,
    "support bundle": 400,
    "probe document": 1500,
    "archive and adopt": 600,
    "kept documents": 2000,
    "lock": 3000,
    "maintenance": 2000,
    "etcd's members": 3000,
    "BMC": 1000,
    "failed task": 3000,
}
RELEASE_INPUTS = 20_000
ONE_BORDER = pytest.mark.parametrize("border", BORDERS, ids=lambda border: border.name)


def _assert_holds(border: Border, seed: int, inputs: int, folder: Path) -> None:
    outcome = run(border, seed, inputs, folder)
    print(outcome.line())  # noqa: T201 - a row of the release's table
    assert outcome.faults() == []
    assert outcome.tried == inputs
    assert outcome.refused < inputs, "the premise: some inputs get through"


@ONE_BORDER
def test_no_input_is_a_traceback_or_changes_what_is_elsewhere(
    border: Border, tmp_path: Path
) -> None:
    _assert_holds(border, SEED, INPUTS[border.name], tmp_path)


@pytest.mark.slow
@ONE_BORDER
def test_no_input_of_a_free_seed_is_a_traceback_or_changes_what_is_elsewhere(
    border: Border, tmp_path: Path
) -> None:
    given_seed = os.environ.get("APPLIANCE_FUZZ_SEED")
    seed = int(given_seed) if given_seed else random.SystemRandom().randrange(1 << 31)
    _assert_holds(border, seed, RELEASE_INPUTS, tmp_path)


@settings(
    derandomize=True,
    database=None,
    max_examples=400,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(st.sampled_from(YAML_PIECES), max_size=25))
def test_no_row_of_yaml_pieces_is_a_traceback(pieces: list[bytes]) -> None:
    _, faults = read_yaml(b"".join(pieces), "x.yml")
    assert all(fault.line >= 1 for fault in faults)


@settings(derandomize=True, database=None, max_examples=400, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60))
def test_no_content_is_more_than_unreadable_json(content: bytes | str) -> None:
    with contextlib.suppress(Unreadable):
        read_json(content)


def test_a_traceback_and_a_change_elsewhere_are_found(tmp_path: Path) -> None:
    """The campaign itself: it must see what it looks for."""

    def harm(mutator: object, folder: Path) -> None:
        del mutator
        (folder / "theirs").write_text("ours")
        raise KeyError("x")

    outcome = run(Border("a border that lets all through", harm), SEED, 3, tmp_path)
    assert outcome.tracebacks == {next(iter(outcome.tracebacks)): 3}
    assert len(outcome.changes) == 1
    assert "theirs" in outcome.changes[0]
    assert len(outcome.faults()) == 2
