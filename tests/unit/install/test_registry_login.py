"""A registry that takes a write without a login is due; one that did not answer is not."""

from __future__ import annotations

import pytest

from appliance.model.components.registry.unmet import registry
from appliance.model.state.observed import Observed
from tests import samples


def unmet(code: object) -> list[str]:
    desired = samples.desired(samples.site())
    node = desired.site.services_node
    document = samples.converged(node, desired)
    document["registry"]["writing"] = {"code": code, "ok": False, "url": "x", "error": None}
    seen = samples.node_facts({node.name: document})
    return list(registry(node, desired, Observed(seen, samples.cluster(desired))))


@pytest.mark.parametrize("code", [200, 202, 404, 405, 403, 500])
def test_any_answer_but_a_wish_for_a_login_makes_the_step_due(code: int) -> None:
    (said,) = unmet(code)
    assert "accepts a write without a login" in said
    assert str(code) in said


@pytest.mark.parametrize("code", [401, None])
def test_a_wish_for_a_login_or_no_answer_is_no_reason(code: int | None) -> None:
    assert unmet(code) == []
