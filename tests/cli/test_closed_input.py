"""A command whose standard input is closed: an answer, and no fault of this tool."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.site_cases import copy_of_good


def without_input(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, started by a shell with ``<&-``."""
    return subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", command, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


MAIN = "from appliance.cli.exits import main; main()"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("node", "ssh", "master1"), 4, "its host key is not in"),
        (("site", "inventory"), 0, "next: ansible"),
    ],
)
def test_a_closed_input_is_an_empty_one(
    words: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    site = copy_of_good(tmp_path / "rack7")
    done = without_input(MAIN, *words, "--site", str(site))
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


def test_no_file_takes_the_place_of_a_closed_input() -> None:
    code = (
        "import sys; from appliance.cli import exits; exits._fill_standard_descriptors();"
        "print(open('/dev/zero').fileno() > 2, repr(sys.stdin.read()), sys.stdin.isatty())"
    )
    assert without_input(code).stdout == "True '' False\n"


def test_an_inventory_needs_no_password_file(tmp_path: Path) -> None:
    site = copy_of_good(tmp_path / "rack7")
    (site / ".appliance").mkdir(mode=0o700, exist_ok=True)
    (site / ".appliance/vault-password").touch(mode=0o644)
    done = without_input(MAIN, "site", "inventory", "--site", str(site))
    assert done.returncode == 0, done.stderr
    assert "--ask-vault-pass" in done.stderr
