"""Shared storage in the settings of a lab that was made without it."""

from __future__ import annotations

import json
import re
from typing import Any

from appliance.lab.site.site import NFS, NFS_OVERRIDES
from tests.lab.conftest import LabSite


def write_storage(lab: LabSite, **changes: Any) -> None:
    """Give the site shared storage, or other values for it."""
    nfs = json.dumps({"server": lab.node("cp1"), **NFS, **changes})
    path = lab.directory / "group_vars" / "all" / "site.yml"
    text, found = re.subn(r"(?m)^(# )?nfs: \{.*$", f"nfs: {nfs}", path.read_text())
    assert found == 1
    override = f"  nfs_server: {json.dumps(NFS_OVERRIDES['nfs_server'])}\n"
    if "nfs_server_implementation" not in text:
        text = text.replace("role_overrides:\n", f"role_overrides:\n{override}")
    path.write_text(text)
