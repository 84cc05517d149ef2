"""On a real terminal of 80 x 24, against real nodes: an install is watched, ended and resumed.

Then a node goes away and comes back. Times and names of a lab differ from run to run, so the words
are kept by ``tests/terminal``; here each screen has to be readable and to say what is so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from appliance.errors import Interrupted, NotHealthy
from tests import golden, processes
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support import faults
from tests.terminal.desk import environment, put_program
from tests.terminal.reading import broken_words, inside_words, rows_of
from tests.terminal.tmux import COLUMNS, ROWS, Answer, Terminal, terminal

pytestmark = pytest.mark.lab

# A step that takes a while, on nodes that have it already.
AGAIN = "appliance install --only runtime --again --yes"
SECONDS = 300.0


@pytest.fixture(scope="module")
def shell(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A shell of an operator, who named the site once."""
    folder = tmp_path_factory.mktemp("desk")
    put_program(folder, "appliance.cli.exits", tree=golden.ROOT)
    told = {"APPLIANCE_SITE": str(installed_lab.directory)}
    with terminal(folder, environment(folder) | told) as found:
        found.types("PATH=$PWD/.venv/bin:$PATH")
        yield found


def read(answer: Answer, code: int = 0) -> str:
    """What a command said, which can be read, and ended so."""
    assert answer.code == code, answer.text
    assert inside_words(answer.text) == []
    return answer.text


def test_the_live_table_can_be_read_and_ctrl_c_ends_it(
    installed_lab: LabSite, shell: Terminal
) -> None:
    shell.begins(AGAIN)
    screen = shell.shows(r"(?m)^runtime +running +\w", SECONDS)
    rows = rows_of(screen)
    assert rows["runtime"] == "running", screen
    assert len(screen.splitlines()) <= ROWS
    assert max(len(row) for row in screen.splitlines()) <= COLUMNS
    site = str(installed_lab.directory)

    def plays() -> list[str]:
        lines = processes.command_lines().values()
        return [line for line in lines if "ansible-playbook" in line and site in line]

    wait_for("the play of step runtime", lambda: bool(plays()), 60)
    shell.key("C-c")
    text = read(shell.ends(120), Interrupted.exit_code)
    assert "interrupted while runtime was running" in text.replace("\n", "")
    assert plays() == []


def test_the_same_command_resumes_and_the_next_has_nothing_to_do(
    installed_lab: LabSite, shell: Terminal
) -> None:
    text = read(shell.types(AGAIN, SECONDS))
    assert rows_of(text)["runtime"] == "verified", text
    line = f"appliance install --bundle {installed_lab.bundle} --yes"
    assert "nothing to do" in read(shell.types(line, SECONDS))


def test_what_ran_is_in_the_history_with_whole_words(shell: Terminal) -> None:
    answer = shell.types("appliance history --last 5")
    read(answer)
    piped = shell.types("appliance history --last 5 | cat")
    table = answer.text.partition("\nin every row:")[0]
    assert broken_words(table, piped.text) == set()
    assert "interrupted" in answer.text


def test_a_node_that_went_away_is_named_and_so_is_its_return(
    installed_lab: LabSite, shell: Terminal
) -> None:
    installed_lab.settled()
    name = installed_lab.node("w2")
    with faults.sshd_stopped(name):
        assert not faults.ssh_answers(installed_lab.address("w2")), "the premise"
        text = read(shell.types("appliance status --exit-code", SECONDS), NotHealthy.exit_code)
        assert re.search(rf"(?m)^{name} .*\bunreachable\b", text), text
        line = "appliance health --stage cluster --without-pods"
        text = read(shell.types(line, SECONDS), NotHealthy.exit_code)
        assert name in text
    installed_lab.settled()
    text = read(shell.types("appliance status", SECONDS))
    assert "3 of 3 nodes Ready" in text
    assert "unreachable" not in text
