"""What a node says of itself before a restore, read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.backup.restore_view import read_view
from appliance.model.documents.strict_json import Unreadable


@pytest.mark.parametrize(
    "changes",
    [
        {"etcd": "wonderful"},
        {"free_bytes": -1},
        {"marks": {"x": ["a\x1b"]}},
        {"marks": {f"k{n}": [] for n in range(101)}},
        {"manifests": "etcd"},
        {"authorities": 1},
    ],
)
def test_a_node_that_answers_in_another_form_is_not_believed(changes: dict[str, Any]) -> None:
    document = {
        "marks": {},
        "etcd_data": True,
        "manifests": [],
        "authorities": True,
        "member": {},
        "joined": True,
        "etcd": "silent",
        "free_bytes": 1,
        **changes,
    }
    with pytest.raises(Unreadable):
        read_view(document)
