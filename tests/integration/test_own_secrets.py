"""The real helm says which values it would install with, and none of them is the vendor's after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.model.components.runai.vendor_defaults import BACKEND
from tests.standins.test_vendor_bundle_standin import ADDRESS, ALWAYS, admin_cli
from tests.unit.modules.loading import load
from tests.unit.modules.test_own_secrets import OWN, ROWS

pytestmark = pytest.mark.bundle

own_secrets = load("own_secrets")
VERSIONS = {"2.6.2": ("--airgapped",), "2.8.2": ("--registry", "reg:5000")}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_defaults_of_the_chart_are_seen_and_replaced(
    bundle_directory: Path, tmp_path: Path, version: str
) -> None:
    cli = admin_cli(version, tmp_path)
    done = cli.run("generate-values", *ALWAYS, *ADDRESS, *VERSIONS[version], REGISTRY_URL="r:5000")
    assert done.returncode == 0, done.stderr
    (chart,) = cli.folder.glob("**/runai-backend-*.tgz")
    want: dict[str, Any] = {
        "helm": str(bundle_directory / "bin/helm"),
        "name": "runai-backend",
        "chart": str(chart),
        "values_files": [str(cli.folder / "runai-backend-values.yaml")],
    }
    run = load("helm_release").run
    before = own_secrets.would_be(want, run)
    assert own_secrets.in_force(before, ROWS) == [one.name for one in BACKEND]
    over, _ = own_secrets.overlay(before, ROWS, OWN, False)
    (tmp_path / "own.yaml").write_text(json.dumps(over))
    want["values_files"].append(str(tmp_path / "own.yaml"))
    after = own_secrets.would_be(want, run)
    assert own_secrets.in_force(after, ROWS) == []
