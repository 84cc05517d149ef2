"""The border of a support bundle: an archive and documents that somebody sent."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

from appliance.adapters.support.explaining import explain_bundle
from appliance.model.state.observed import Observed
from appliance.model.support.record import observed_document, site_document
from tests import samples
from tests.fuzz.campaign import SITE, Border
from tests.fuzz.mutation import Mutator

_DESIRED = samples.desired(samples.site())
_SITE = _DESIRED.site
DOCUMENTS: dict[str, Any] = {
    "site.json": site_document(_SITE),
    "observed.json": observed_document(_SITE, _DESIRED, Observed({}, samples.cluster(_DESIRED))),
    "facts/w1.json": samples.converged(_SITE.node("w1"), _DESIRED),
    "health.json": {"checks": [{"check": "login", "findings": [{"node": "x", "seen": "y"}]}]},
    "plan.json": {"steps": [{"name": "runai", "reasons": [{"node": "x", "text": "y"}]}]},
    "unanswered.json": [{"where": "w2", "what": "x", "cause": "y"}],
    "bundle.json": {"schema": 1, "site": "rack"},
}


def support_bundle(mutator: Mutator, folder: Path) -> None:
    """One document is changed, or the archive itself."""
    changed = mutator.chance.choice((*DOCUMENTS, ""))
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, document in DOCUMENTS.items():
            plain = json.dumps(document).encode()
            content = mutator.text(document) if name == changed else plain
            member = tarfile.TarInfo(f"support/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    made = stream.getvalue()
    path = folder / SITE / "support.tar"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made if changed else mutator.content(made))
    found = explain_bundle(path)
    json.dumps([vars(cause) for cause in found.causes]).encode()
    "".join(found.doubts).encode("utf-8", "backslashreplace")


SUPPORT: tuple[Border, ...] = (Border("support bundle", support_bundle),)
