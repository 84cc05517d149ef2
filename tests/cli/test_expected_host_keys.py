"""Host keys of machines that get the site's CA keys: ``--yes`` alone compares none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from appliance.cli.commands.cluster.new_machines import NewMachinesOptions, expected_keys
from appliance.cli.commands.site.host_keys import keep
from appliance.cli.exits import run
from appliance.errors import Refused
from appliance.model.site.settings import Site
from tests import samples
from tests.cli.test_restore_new_machines import words
from tests.unit.restore.test_site_from_backup import made

Capture = pytest.CaptureFixture[str]
KEYS = {name: paramiko.ECDSAKey.generate() for name in ("cp1", "w1")}
ADDRESSES = {"cp1": ("198.18.7.11", 22), "w1": ("198.18.7.21", 22)}
PRINTS = {name: key.fingerprint for name, key in KEYS.items()}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return replace(samples.site(), directory=tmp_path)


def _options(*, dry_run: bool = False, yes: bool = True, expected: str = "") -> NewMachinesOptions:
    return NewMachinesOptions(
        "rack7.backup",
        Path("key"),
        Path("rack7"),
        accept_host_keys=True,
        expected_keys=(expected,) if expected else (),
        dry_run=dry_run,
        yes=yes,
    )


def test_yes_alone_accepts_no_key_and_shows_all_of_them(site: Site, capsys: Capture) -> None:
    expected = expected_keys(_options())
    with pytest.raises(Refused, match="cp1, w1: nobody said") as caught:
        keep(site, ADDRESSES, KEYS, assume_yes=True, expected=expected)
    assert "--expect-host-key SHA256:" in str(caught.value.hint)
    told = capsys.readouterr().err
    assert all(f"{name} ({ADDRESSES[name][0]}): " in told for name in KEYS)
    assert all(one in told for one in PRINTS.values())
    assert not site.known_hosts.exists()


def test_a_key_that_is_not_expected_is_named_and_none_is_saved(site: Site) -> None:
    with pytest.raises(Refused, match=r"^w1: nobody said"):
        keep(site, ADDRESSES, KEYS, assume_yes=True, expected=[PRINTS["cp1"]])
    assert not site.known_hosts.exists()


def test_expected_keys_are_saved_without_a_question(site: Site) -> None:
    keep(site, ADDRESSES, KEYS, assume_yes=True, expected=PRINTS.values())
    lines = site.known_hosts.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["198.18.7.11", "198.18.7.21"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (_options(yes=False), None),
        (_options(dry_run=True), None),
        (_options(), frozenset()),
        (_options(yes=False, expected="SHA256:a"), frozenset({"SHA256:a"})),
        (_options(dry_run=True, expected="SHA256:a"), frozenset({"SHA256:a"})),
    ],
)
def test_where_a_person_compares_nothing_else_is_asked(
    options: NewMachinesOptions, expected: frozenset[str] | None
) -> None:
    assert expected_keys(options) == expected


def test_the_option_needs_the_one_that_accepts(tmp_path: Path) -> None:
    made(tmp_path)
    assert run(words(tmp_path, "--expect-host-key", "SHA256:a")) == 2
    typed = words(tmp_path, "--accept-host-keys", "--expect-host-key", "SHA256:a")
    assert run([word for word in typed if word != "--new-machines"]) == 2
