"""Explains a support bundle on this machine: its documents, and what this version knows."""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.local.content import load_release
from appliance.adapters.support.reader import read_bundle
from appliance.model.state.desired import Desired
from appliance.model.support.judgement import Explanation, Symptoms, explain
from appliance.model.support.record import Recorded


def explain_bundle(path: Path) -> Explanation:
    """Read a bundle, run the checks on its facts, and search its logs.

    Raises:
        NotHealthy: it is no support bundle, or damaged.
    """
    symptoms = Symptoms()
    documents = read_bundle(path, symptoms.line)
    return explain(documents, symptoms, _desired)


def _desired(recorded: Recorded) -> Desired:
    """The desired state of a bundle, by the release of its name in this version.

    Raises:
        ConfigError: this version has no such release.
    """
    return Desired(recorded.site, load_release(recorded.wish.release))
