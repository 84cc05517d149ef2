"""An operator's first five minutes at night: what is wrong, since when, and what to type.

The rack is faked (``faked_rack.py``): a worker loses power and comes back, and a key is not taken.
The tests of this file tell one story and run in its order.
What the screen shows is in ``tests/data/golden/terminal/first_five_at_night.txt``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import Interrupted, NodeUnreachable, NotHealthy
from tests import golden
from tests.terminal.desk import put_program, steady
from tests.terminal.faked_rack import World
from tests.terminal.rack import INIT, rack
from tests.terminal.tmux import Terminal

SITE = "inventories/rack"
REAL = "inventories/rack0"


def kept(section: str, text: str) -> None:
    golden.agree("terminal/first_five_at_night", section, steady(text))


def typed(shell: Terminal, section: str, line: str, code: int = 0) -> str:
    """Type the line, keep its screen, and return what it says."""
    answer = shell.types(line)
    kept(section, answer.text)
    assert answer.code == code, answer.text
    return answer.text


@pytest.fixture(scope="module", autouse=True)
def site(folder: Path, shell: Terminal) -> Path:
    """The rack's directory; the shell knows it, as an operator's does."""
    found = folder / SITE
    found.mkdir(parents=True)
    (found / "hosts.yml").write_text("---\n", "utf-8")
    World(installed=False).write(found)
    put_program(folder, "tests.terminal.faked_rack", str(found))
    shell.types("PATH=$PWD/.venv/bin:$PATH; export APPLIANCE_SITE=inventories/rack")
    return found


def test_an_install_is_watched_and_ended_with_ctrl_c(shell: Terminal, site: Path) -> None:
    World(installed=False, hangs="runtime").write(site)
    shell.begins("appliance install --yes")
    shell.wait("step runtime", (site / "hangs").exists, 60)
    kept("01 a live install", shell.shows("Install the packages"))
    shell.key("C-c")
    answer = shell.ends()
    kept("02 ended with Ctrl-C", answer.text)
    assert answer.code == Interrupted.exit_code


def test_the_same_command_resumes(shell: Terminal, site: Path) -> None:
    World(installed=False).write(site)
    text = typed(shell, "03 the same command again", "appliance install --yes")
    assert "runtime" in text


def test_a_third_run_has_nothing_to_do(shell: Terminal, site: Path) -> None:
    World().write(site)
    typed(shell, "04 a third run", "appliance install --yes")


def test_what_ran_is_in_the_history(shell: Terminal) -> None:
    typed(shell, "05 history", "appliance history")


def test_a_healthy_rack_fits_one_screen(shell: Terminal) -> None:
    text = typed(shell, "06 status", "appliance status")
    assert text.count("Ready") == 3


def test_a_node_that_went_away_is_named(shell: Terminal, site: Path) -> None:
    World(away=("w1",)).write(site)
    typed(shell, "07 status, a node went away", "appliance status")
    typed(shell, "08 for a script", "appliance status --exit-code", NotHealthy.exit_code)
    typed(shell, "09 plan", "appliance plan")


def test_a_rack_that_went_away_is_named(shell: Terminal, site: Path) -> None:
    World(away=("cp1", "w1", "w2")).write(site)
    typed(shell, "10 status, all went away", "appliance status")


def test_the_node_returns(shell: Terminal, site: Path) -> None:
    World().write(site)
    text = typed(shell, "11 status, it is back", "appliance status --exit-code")
    assert text.count("Ready") == 3


def test_a_key_that_is_not_taken_is_named(shell: Terminal, folder: Path) -> None:
    put_program(folder, "appliance.cli.exits")
    shell.types(INIT.format(site=REAL, domain="rack0.example"))
    with rack(folder / "keys") as nodes:
        shell.types(f"echo '{nodes.settings()}' >>{REAL}/group_vars/all/site.yml")
        shell.types(f"cp keys/known_hosts {REAL}/known_hosts")
        nodes.servers.refusing = {"w1"}
        typed(shell, "12 a key that one node refuses", f"appliance status --site {REAL}")
        nodes.servers.refusing = {"cp1", "w1", "w2"}
        line = f"appliance plan --site {REAL}"
        typed(shell, "13 a wrong key", line, NodeUnreachable.exit_code)
        assert not any("memfd" in asked for asked in nodes.servers.asked.get("cp1", [])[1:])
