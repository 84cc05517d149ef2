"""Which Run:ai runs on which Kubernetes: what is not in the table fits nowhere."""

from __future__ import annotations

import pytest

from appliance.model.bundle.release.runai_versions import runs_on


@pytest.mark.parametrize(
    ("version", "kubernetes", "fits"),
    [
        ((2, 7), "v1.23.5", True),
        ((2, 7), "v1.25.0", False),
        ((2, 9), "v1.23.5", False),
        ((2, 10), "v1.23.5", False),
        ((2, 11), "v1.23.5", False),
        ((2, 11), "", False),
        ((2, 7), "", False),
        ((2, 7), "no version", False),
    ],
)
def test_only_what_the_table_names_fits(
    version: tuple[int, int], kubernetes: str, fits: bool
) -> None:
    assert runs_on(version, kubernetes) is fits
