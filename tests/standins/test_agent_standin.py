"""The stand-in of the cluster part's agent reports what the backend's history is made of."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.lab.vendor.bundle import FOLDER
from tests.unit.modules.loading import from_file


def test_an_agent_reports_the_jobs_of_projects_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    agent: Any = from_file("agent_standin", FOLDER / "images/agent.py")
    status = {
        "whole": {"conditions": [{"type": "Complete", "status": "True"}]},
        "broken": {"conditions": [{"type": "Failed", "status": "True"}]},
        "begun": {},
    }
    items = [{"metadata": {"uid": n, "name": n}, "status": one} for n, one in status.items()]
    asked: list[str] = []
    sent: list[Any] = []

    def kubernetes(path: str) -> Any:
        asked.append(path)
        return {"items": items if path.endswith("/runai-p/jobs") else []}

    monkeypatch.setattr(agent, "kubernetes", kubernetes)
    monkeypatch.setattr(agent, "ask", lambda *given: sent.append(given))
    agent.jobs("secret", [])
    agent.jobs("secret", ["empty"])
    assert sent == []
    agent.jobs("secret", ["empty", "p"])
    spaces = [f"/apis/batch/v1/namespaces/runai-{name}/jobs" for name in ("empty", "empty", "p")]
    assert asked == spaces
    ((url, password, _, found),) = sent
    assert url.endswith("/jobs")
    assert password == "secret"  # noqa: S105 - a test
    assert {one["name"]: one["phase"] for one in found} == {
        "whole": "Succeeded", "broken": "Failed", "begun": "Running"
    }  # fmt: skip
    assert {one["project"] for one in found} == {"p"}
