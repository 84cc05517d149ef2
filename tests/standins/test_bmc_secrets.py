"""No password of a BMC is told anywhere: every command that asks one runs, and all is searched."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.lab.runai.known_secrets import forms
from tests.standins.bmc_site import CANARY, USER, BmcSite, bmc_site

pytestmark = pytest.mark.slow

CUT = "--hard --allow-outage --serial SN-gpu1 --yes"
# With the exit code; SITE is the site, OUT a folder that is searched, OWN one that is not. The
# nodes themselves are off.
# tests/contract/test_secrets_search.py holds it against the command line itself.
COMMANDS = (
    ("node power status --site SITE", 0),
    ("node power status gpu1 --site SITE --output json --debug", 0),
    (f"node power off gpu1 --site SITE {CUT}", 0),
    ("node power on gpu1 master1 --site SITE --yes", 0),
    (f"node power cycle gpu1 --site SITE {CUT}", 0),
    ("hardware inspect --site SITE --by bmc --output json", 0),
    ("hardware qualify gpu1 --site SITE --by bmc --no-trials --report OUT/report.html", 5),
    ("hardware record gpu1 --to OUT/gpu1-redfish.json --site SITE", 0),
    ("hardware record master1 --to OUT/master1-redfish.json --site SITE", 0),
    ("hardware bios show gpu1 --all --site SITE", 0),
    (f"hardware bios set gpu1 --models OUT/models --site SITE {CUT}", 0),
    (
        f"site init OUT/found --discover bmc:203.0.113.21 --bmc-user {USER} "
        "--bmc-password-file OWN/password --yes",
        3,  # one machine alone has no role, which is found out after the login
    ),
    ("hardware bmc-password gpu1 master1 --site SITE --yes", 0),
    ("node power status --site SITE --output json", 0),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmcSite]:
    """Every command has run."""
    with bmc_site(tmp_path_factory.mktemp("bmc-secrets")) as found:
        meant = {"SITE": found.directory, "OUT": found.folder, "OWN": found.secrets}
        for line, code in COMMANDS:
            words = line.split()
            for name, path in meant.items():
                words = [str(path) + one[len(name) :] if _is(one, name) else one for one in words]
            done = found.run(*words)
            assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        yield found


def _is(word: str, name: str) -> bool:
    return word == name or word.startswith(f"{name}/")


@pytest.fixture(scope="module")
def passwords(site: BmcSite) -> tuple[str, ...]:
    """The first one, and those that replaced it."""
    known = site.vault()
    made = tuple(known[f"vault_bmc_password_{name}"] for name in ("gpu1", "master1"))
    assert len({CANARY, *made}) == 3, "both were replaced"
    return (CANARY, *made)


def told(text: str, passwords: tuple[str, ...]) -> bool:
    """Whether a password is in a text: as it is, in JSON, in an address, or in base64."""
    return any(form in text for one in passwords for form in (*forms(one), quote(one, safe="")))


def files_with(folder: Path, passwords: tuple[str, ...]) -> list[str]:
    """The files under a folder that have a password in them."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(
        str(path.relative_to(folder))
        for path in files
        if told(path.read_bytes().decode("latin-1"), passwords)
    )


def test_each_command_asked_the_bmcs(site: BmcSite) -> None:
    said = "".join(site.printed)
    for evidence in ("reports power Off", "reports power On", "SN-gpu1", "SN-master1"):
        assert evidence in said
    assert "control-plane nodes are wanted" in said
    for name in ("report.html", "gpu1-redfish.json", "master1-redfish.json"):
        assert (site.folder / name).stat().st_size > 0


def test_no_password_is_printed(site: BmcSite, passwords: tuple[str, ...]) -> None:
    assert [text for text in site.printed if told(text, passwords)] == []


def test_no_password_is_in_a_file(site: BmcSite, passwords: tuple[str, ...]) -> None:
    """The site with its vault, state, logs, what was recorded, the home, temporary files."""
    assert files_with(site.folder, passwords) == []
    assert list((site.directory / ".appliance/journal").rglob("*.json")), "the premise: a journal"


def test_no_password_is_in_the_process_list(site: BmcSite, passwords: tuple[str, ...]) -> None:
    seen = site.watch.seen
    for program in (
        "appliance node power cycle",
        "appliance hardware bmc-password",
        "ansible-vault",
    ):
        assert any(program in line for line in seen), f"the premise: {program} was seen"
    assert [line for line in seen if told(line, passwords)] == []


@pytest.mark.parametrize("how", ["plain", "address", "base64"])
def test_a_password_would_be_found(site: BmcSite, how: str) -> None:
    """In a file, and in an argument."""
    written = {
        "plain": CANARY,
        "address": quote(CANARY, safe=""),
        "base64": b64encode(f"{USER}:{CANARY}".encode()).decode(),
    }[how]
    planted = site.folder / "home/planted"
    planted.write_text(f"x {written} y")
    try:
        assert files_with(site.folder, (CANARY,)) == ["home/planted"]
    finally:
        planted.unlink()
    before = set(site.watch.seen)
    site.run("docs", written)
    assert any(told(line, (CANARY,)) for line in site.watch.seen - before)
    site.watch.seen.difference_update(site.watch.seen - before)
    del site.printed[-2:]
