"""A site that names who may sign bundles refuses every other bundle before any change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import PreflightFailed
from appliance.model.bundle.signature import Signature
from appliance.model.checks.preflight import preflight
from appliance.workflows.install import InstallRequest, InstallResult, install
from tests import samples
from tests.fakes import (
    FakeJournal,
    FakeRack,
    run,
)
from tests.sessions import fake_session
from tests.unit.preflight import machines

UNSIGNED = Signature("missing", fault="manifest.json.sig: missing: this bundle is not signed")
GOOD = Signature("good", signer="ada@example", key="ED25519 SHA256:x")


class Bench:
    """A rack whose machines have nothing to complain of, and a site with signers."""

    def __init__(self, signature: Signature | None) -> None:
        site = samples.site(bundle_signers="/site/allowed_signers")
        self.rack = FakeRack(replace(samples.desired(site), signature=signature))
        for node in site.nodes:
            self.rack.documents[node.name] = machines.bare(node)
        self.journal = FakeJournal()

    def install(self, *, dry_run: bool = False) -> InstallResult:
        session = fake_session(self.rack, self.journal, preflight=preflight)
        request = InstallRequest(self.rack.desired, run(), dry_run=dry_run)
        return install(request, session, lambda _plan: True)


def test_a_bundle_that_none_of_them_signed_is_refused_before_any_change() -> None:
    bench = Bench(UNSIGNED)
    with pytest.raises(PreflightFailed, match="this bundle is not signed") as refused:
        bench.install()
    assert refused.value.exit_code == 3
    assert "expected a signature by a key in /site/allowed_signers" in refused.value.message
    assert "appliance bundle sign" in (refused.value.hint or "")
    assert (bench.rack.plays, bench.journal.records) == ([], [])


def test_the_plan_shows_the_refusal() -> None:
    refusals = Bench(UNSIGNED).install(dry_run=True).plan.refusals
    assert [refusal.check for refusal in refusals] == ["bundle_signature"]


@pytest.mark.parametrize("signature", [GOOD, None])
def test_a_bundle_that_one_of_them_signed_is_taken(signature: Signature | None) -> None:
    bench = Bench(signature)
    assert bench.install().steps
    assert bench.rack.plays
