"""An operator's first five minutes at night: what is wrong, since when, and what to type.

The rack is faked (``faked_rack.py``): a worker loses power and comes back. The servers that take no
key are real. The tests of this file tell one story and run in its order.
What the screen shows is in ``tests/data/golden/terminal/first_five_at_night.txt``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from appliance.errors import Interrupted, NodeUnreachable, NotHealthy
from tests.prerequisites import require
from tests.terminal.faked_rack import World
from tests.terminal.rack import INIT, rack
from tests.terminal.reading import rows_of
from tests.terminal.story import Story

USAGE = 2
SITE, REAL = "inventories/rack", "inventories/rack0"


@pytest.fixture(scope="module", autouse=True)
def site(story: Story) -> Path:
    """The rack's directory; the shell knows it, as an operator's does."""
    found = story.folder / SITE
    found.mkdir(parents=True)
    (found / "hosts.yml").write_text("---\n", "utf-8")
    story.has("tests.terminal.faked_rack", str(found))
    story.prepare(f"export APPLIANCE_SITE={SITE}")
    return found


def test_an_install_is_watched_and_ended_with_ctrl_c(story: Story, site: Path) -> None:
    World(installed=False, hangs="runtime").write(site)

    def watched() -> bool:
        if not (site / "hangs").exists():
            return False
        screen = story.looks("01 a live install", "Install the packages")
        assert rows_of(screen) == {
            **dict.fromkeys(("preflight", "host", "artifacts"), "verified"),
            "runtime": "running",
            **dict.fromkeys(("registry", "control_plane", "network", "workers"), "waiting"),
        }
        return True

    line = "appliance install --yes"
    text = story.stops("02 ended with Ctrl-C", line, watched, Interrupted.exit_code)
    assert "interrupted while runtime was running" in text
    assert text.count("\nruntime ") == 1
    assert len(re.findall("(?m)^appliance install  ", text)) == 1, "drawn a row too low"


def test_the_same_command_resumes(story: Story, site: Path) -> None:
    World(installed=False).write(site)
    text = story.types("03 the same command again", "appliance install --yes")
    assert "verified: preflight, runtime" in text


def test_a_third_run_has_nothing_to_do(story: Story, site: Path) -> None:
    World().write(site)
    assert "nothing to do" in story.types("04 a third run", "appliance install --yes")


def test_what_ran_is_in_the_history(story: Story) -> None:
    text = story.table("05 history", "appliance history", below="in every row:")
    assert "interrupted" in text


def test_a_healthy_rack_fits_one_screen(story: Story) -> None:
    text = story.table("06 status", "appliance status --exit-code", below="cluster:")
    assert "3 of 3 nodes Ready" in text
    assert len(text.splitlines()) < 24


def test_a_node_that_went_away_is_named(story: Story, site: Path) -> None:
    World(away=("w1",)).write(site)
    assert "unreachable" in story.types("07 status, a node went away", "appliance status")
    story.types("08 the same, for a script", "appliance status --exit-code", NotHealthy.exit_code)
    story.types("09 plan", "appliance plan", NodeUnreachable.exit_code)


def test_a_state_has_a_colour_and_no_color_takes_it_away(story: Story) -> None:
    story.shell.types("appliance status")
    assert re.search(r"\x1b\[31m *unreachable", story.shell.coloured())
    assert re.search(r"\x1b\[32m *Ready", story.shell.coloured())
    story.shell.types("NO_COLOR=1 appliance status")
    assert "unreachable" in story.shell.coloured()
    assert "\x1b[" not in story.shell.coloured()


def test_a_rack_that_went_away_is_named(story: Story, site: Path) -> None:
    World(away=("cp1", "w1", "w2")).write(site)
    story.types("10 status, all went away", "appliance status")
    story.types("11 plan, all went away", "appliance plan", NodeUnreachable.exit_code)


def test_the_return_of_a_node_is_watched(story: Story, site: Path) -> None:
    World(away=("w1",)).write(site)
    story.shell.begins("appliance status --watch 2")
    story.looks("12 a live status", r"\n\d+ faults?: [^$]*next: [^$]*$")
    World().write(site)
    screen = story.looks("13 a live status, it is back", r"\nhealthy\s*$")
    assert "3 of 3 nodes Ready" in screen
    story.shell.key("C-c")
    assert story.shell.ends().code == Interrupted.exit_code


def test_a_word_of_kubectl_is_answered_with_the_command_that_does_it(story: Story) -> None:
    text = story.types("14 a word of kubectl", "appliance drain w1", USAGE)
    assert "appliance node maintain" in text


def test_a_page_is_found_by_a_symptom_and_read_in_a_pager(story: Story) -> None:
    """The pages are not kept here: what they say is theirs."""
    require("less")
    assert "unplanned-downtime" in story.shell.types("appliance docs").text
    found = story.shell.types("appliance docs --search 'no answer'")
    assert found.code == 0
    assert "appliance docs unplanned-downtime" in found.text
    story.shell.begins("appliance docs emergency-card")
    screen = story.shell.shows("Emergency card[^$]*appliance status")
    assert len(screen.splitlines()) == 24
    story.shell.key("q")
    assert story.shell.ends().code == 0


def test_a_key_that_is_not_taken_is_named(story: Story) -> None:
    story.has("appliance.cli.exits")
    story.prepare("unset APPLIANCE_SITE", INIT.format(site=REAL, domain="rack0.example"))
    with rack(story.folder / "keys") as nodes:
        story.prepare(
            f"echo '{nodes.settings()}' >>{REAL}/group_vars/all/site.yml",
            f"cp {nodes.known_hosts} {REAL}/known_hosts",
        )
        nodes.servers.refusing = {"w1"}
        text = story.types("15 one node takes no key", f"appliance plan --site {REAL}")
        assert "authentication failed" in text
        assert "w1" not in nodes.servers.asked
        nodes.servers.refusing = {"cp1", "w1", "w2"}
        line = f"appliance plan --site {REAL}"
        text = story.types("16 a wrong key", line, NodeUnreachable.exit_code)
        assert "authentication failed" in text
