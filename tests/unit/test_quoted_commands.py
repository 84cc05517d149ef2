"""What comes from a node, a cluster or a site is one word of the command that a person is told."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from appliance.adapters.runai.jumpboxes import _extract
from appliance.adapters.site.files import refusal
from appliance.adapters.site.vault_text import read_secrets
from appliance.errors import ApplianceError
from appliance.model.checks.health.cluster import storage_class
from appliance.model.components.gpu.operator import refusal_of
from appliance.model.components.runai.backend_certificate import (
    BackendCertificate,
    certificate_faults,
)
from appliance.model.state.cluster.cluster import GpuOperator
from appliance.model.state.cluster.prerequisites import Prerequisites
from appliance.workflows.session.member_records import read_records
from tests.fakes import FakeArchive

HOSTILE = "x;touch${IFS}PWNED;`id`'"
FILE = f"/srv/{HOSTILE}"


def _raised(act: Callable[[], object]) -> str:
    with pytest.raises(ApplianceError) as told:
        act()
    return told.value.hint or ""


def _record() -> str:
    archive = FakeArchive()
    archive.documents[f"members/{HOSTILE}"] = "{"
    return _raised(lambda: read_records(archive).require())


def _bundle() -> str:
    return _raised(lambda: _extract(Path(FILE), "runai", Path("/tmp/runai")))  # noqa: S108


def _site() -> str:
    return refusal(Path(FILE), cast("Any", SimpleNamespace(faults=[]))).hint or ""


def _vault() -> str:
    return _raised(lambda: read_secrets(Path(FILE), "[]"))


def _certificate() -> str:
    (fault,) = certificate_faults(BackendCertificate(FILE, "it is no PEM"), "runai.test", 0.0, 30)
    return fault.hint


def _helm_release() -> str:
    return refusal_of(GpuOperator(HOSTILE, HOSTILE, "1.9.0"))[2]


def _storage_class() -> str:
    facts = SimpleNamespace(prerequisites=Prerequisites(default_storage_classes=("a", HOSTILE)))
    (finding,) = storage_class(cast("Any", facts))
    return str(cast("Any", finding).hint)


HINTS = {
    "a document of the archive": (_record, f"/var/lib/appliance/archive/members/{HOSTILE}"),
    "the vendor bundle that a site names": (_bundle, FILE),
    "the folder of a site": (_site, FILE),
    "a vault": (_vault, FILE),
    "the certificate that a site names": (_certificate, FILE),
    "a release of helm and its namespace": (_helm_release, HOSTILE),
    "a storage class": (_storage_class, HOSTILE),
}


@pytest.mark.parametrize(("hint", "word"), HINTS.values(), ids=HINTS)
def test_a_hostile_text_is_one_word_of_the_command(hint: Callable[[], str], word: str) -> None:
    told = hint()
    quoted = shlex.quote(word)
    assert quoted in told
    assert "PWNED" not in told.replace(quoted, "")
