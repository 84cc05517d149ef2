"""Documents that the nodes hold are kept in the site's state, and nowhere else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from appliance.adapters.control_plane.kept_documents import KeptDocuments
from appliance.model.documents.strict_json import Unreadable


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "site" / ".appliance"


def test_a_document_is_kept_once_privately_and_renewed_when_it_differs(state: Path) -> None:
    kept = KeptDocuments(state)
    assert kept.keep("maintenance/w1/run.json", "{}\n")
    assert not kept.keep("maintenance/w1/run.json", "{}\n")
    assert kept.keep("maintenance/w1/run.json", '{"a": 1}\n')
    path = state / "maintenance" / "w1" / "run.json"
    assert path.read_text() == '{"a": 1}\n'
    assert path.stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name",
    [
        "passports/../../elsewhere.json",
        "../elsewhere.json",
        "/elsewhere.json",
        "passports/.hidden",
        "passports/a b",
        "passports/a\nb",
        "passports//a",
        "passports/",
        "vault-password",
        "passports/" + "x" * 300,
        "a/b/c/d/e",
        "passports/na\u00efve",
    ],
    ids=repr,
)
def test_a_name_that_is_no_documents_is_refused_and_nothing_is_written(
    tmp_path: Path, state: Path, name: str
) -> None:
    with pytest.raises(Unreadable, match="its name"):
        KeptDocuments(state).keep(name, "{}")
    assert list(tmp_path.rglob("*.json")) == []


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, '"\\ud800"'])
def test_what_is_not_json_is_refused(state: Path, text: str) -> None:
    with pytest.raises(Unreadable):
        KeptDocuments(state).keep("passports/w1.json", text)


def test_a_folder_that_leads_out_and_a_place_that_is_taken_are_refused(
    tmp_path: Path, state: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    state.mkdir(parents=True)
    (state / "passports").symlink_to(tmp_path / "elsewhere")
    (state / "maintenance").write_text("a file")
    (state / "members" / "w1.json").mkdir(parents=True)
    kept = KeptDocuments(state)
    for name in ("passports/w1.json", "maintenance/w1.json", "members/w1.json"):
        with pytest.raises(Unreadable):
            kept.keep(name, "{}")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_two_adoptions_at_once_meet_no_error(state: Path) -> None:
    kept = KeptDocuments(state)
    texts = [f'"{number}"' for number in range(100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: kept.keep("passports/w1.json", text), texts))
    assert [path.name for path in (state / "passports").iterdir()] == ["w1.json"]
