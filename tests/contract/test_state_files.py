"""State is written in one place: private from the first folder on, and whole or not at all."""

from __future__ import annotations

import re

import pytest

from tests.contract.tree import ROOT

PACKAGE = ROOT / "appliance"
# They write elsewhere than into a site: bundles, the cache, a lab's own files, downloads.
ELSEWHERE = (
    *("bundle/oci_layout.py", "bundle/signature.py", "local/cache.py", "local/state_files.py"),
    *("hardware/redfish_session.py", "runai/backend_certificate.py"),
    *("imaging/medium.py", "imaging/serving.py"),
    # A whole site, in a folder of its own beside where it goes.
    "local/site_copy.py",
)
FORBIDDEN = {
    r"\.mkdir\(": "make_folder",
    r"\.write_text\(": "replace_file or write_once",
    r"open\(\"w\"": "replace_file or write_once",
}


@pytest.mark.parametrize("pattern", FORBIDDEN, ids=FORBIDDEN.get)
def test_files_of_a_site_are_written_by_state_files_alone(pattern: str) -> None:
    found = []
    for path in sorted((PACKAGE / "adapters").rglob("*.py")):
        name = str(path.relative_to(PACKAGE / "adapters"))
        if not name.startswith(ELSEWHERE):
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{name}:{n}" for n, line in enumerate(lines, 1) if re.search(pattern, line)]
    assert found == [], f"use {FORBIDDEN[pattern]} of state_files"
