"""Every broken site gives its faults, each once, with file and line; as data."""

from pathlib import Path

import pytest

from appliance.adapters.site.files import check_site, load_site
from appliance.errors import ConfigError
from tests import golden
from tests.site_cases import KNOWN, break_site, case_names, copy_of_good


@pytest.mark.parametrize("name", case_names())
def test_a_broken_site_is_refused_with_exactly_its_faults(name: str, tmp_path: Path) -> None:
    site = tmp_path / "rack7"
    expected = break_site(name, site)
    with pytest.raises(ConfigError) as refused:
        load_site(site, known=KNOWN)
    messages = list(refused.value.details)
    for fault in expected:
        place = f"{site / fault.file}:{fault.line}: "
        matching = [m for m in messages if m.startswith(place) and all(s in m for s in fault.says)]
        assert len(matching) == 1, f"wanted {place} {fault.says}, got {messages}"
        messages.remove(matching[0])
    assert not messages, "more was said than was wrong"
    assert refused.value.exit_code == 3
    assert refused.value.hint


@pytest.mark.parametrize("name", case_names())
def test_each_fault_of_a_broken_site_is_reported_as_recorded(name: str, tmp_path: Path) -> None:
    break_site(name, tmp_path / "rack7")
    found = check_site(tmp_path / "rack7", known=KNOWN)
    said = "".join(f"{fault}\n" for fault in (*found.faults, *found.warnings))
    golden.agree("broken_sites", name, golden.steady(said, (tmp_path, "FOLDER")))


def test_every_message_says_what_would_be_right(tmp_path: Path) -> None:
    for name in case_names():
        break_site(name, tmp_path / name)
        for fault in check_site(tmp_path / name, known=KNOWN).faults:
            assert fault.problem, name
            assert fault.remedy, name
            assert "\n" not in str(fault), name


def test_there_are_enough_cases() -> None:
    assert len(case_names()) >= 40


def test_the_site_that_the_cases_break_is_whole(tmp_path: Path) -> None:
    check = check_site(copy_of_good(tmp_path / "rack7"), known=KNOWN)
    assert check.faults == ()
    assert check.warnings == ()
