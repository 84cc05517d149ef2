"""A newcomer's first ten minutes: README's commands, typed by somebody who has only README.

The tests of this file tell one story and run in its order; each begins where the one before ended.
What the screen shows is in ``tests/data/golden/terminal/first_ten_minutes.txt``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.errors import Interrupted, NodeUnreachable, Refused
from tests import golden
from tests.terminal.desk import steady
from tests.terminal.rack import INIT, Rack, rack
from tests.terminal.tmux import Terminal

USAGE = 2
README = golden.ROOT / "README.md"
SITE = "inventories/rack7"
NEW = "inventories/rack0"


def readme(beginning: str) -> str:
    """README's command that begins so, on one line as it can be pasted."""
    text = README.read_text("utf-8").replace("\\\n", "")
    (line,) = re.findall(rf"(?m)^ *({re.escape(beginning)}.*)$", text)
    return re.sub(r" +", " ", line)


def kept(section: str, text: str) -> None:
    golden.agree("terminal/first_ten_minutes", section, steady(text))


def typed(shell: Terminal, section: str, line: str, code: int = 0) -> str:
    """Type the line, keep its screen, and return it."""
    answer = shell.types(line)
    kept(section, answer.text)
    assert answer.code == code, answer.text
    return answer.text


def test_the_help_is_the_first_thing_that_is_read(shell: Terminal) -> None:
    shell.types("PATH=$PWD/.venv/bin:$PATH")
    typed(shell, "01 help", "appliance --help")


def test_a_typo_is_answered(shell: Terminal) -> None:
    typed(shell, "02 a typo", "appliance instal", USAGE)
    typed(shell, "03 a typo in a group", "appliance site chekc", USAGE)


def test_a_node_that_no_option_names_is_refused(shell: Terminal, folder: Path) -> None:
    line = readme(f"appliance site init {SITE}").replace("--hardware master1=", "--hardware mastr1=")
    assert "mastr1" in line
    typed(shell, "04 hardware of a node that is missing", line, Refused.exit_code)
    assert not (folder / SITE).exists()


def test_readmes_site_is_written_as_printed(shell: Terminal, folder: Path) -> None:
    typed(shell, "05 a site", readme(f"appliance site init {SITE}"))
    assert (folder / SITE / "hosts.yml").is_file()


def test_readmes_site_is_not_written_twice(shell: Terminal) -> None:
    typed(shell, "06 the same again", readme(f"appliance site init {SITE}"), Refused.exit_code)


def test_readmes_site_is_checked_as_printed(shell: Terminal) -> None:
    typed(shell, "07 site check", f"appliance site check --site {SITE}")


def test_a_mistake_in_a_file_is_found_with_its_line(shell: Terminal) -> None:
    shell.types(f"sed -i 's/^domain:/domian:/' {SITE}/group_vars/all/site.yml")
    line = f"appliance site check --site {SITE}"
    typed(shell, "08 a mistake in a file", line, Refused.exit_code)
    shell.types(f"sed -i 's/^domian:/domain:/' {SITE}/group_vars/all/site.yml")


def test_a_bundle_is_refused_before_anything_is_fetched(shell: Terminal) -> None:
    line = (
        f"appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 --site {SITE} ./bundle"
    )
    typed(shell, "09 bundle build", line, Refused.exit_code)


def test_a_login_without_a_key_is_refused(shell: Terminal) -> None:
    shell.types(INIT.format(site=NEW, domain="rack0.example"))
    typed(shell, "10 no key", f"appliance plan --site {NEW}", Refused.exit_code)


@pytest.fixture(scope="module")
def nodes(shell: Terminal, folder: Path) -> Iterator[Rack]:
    """The nodes of the site that was written before; the site says how to log in."""
    assert (folder / NEW).is_dir()
    with rack(folder / "keys") as found:
        shell.types(f"echo '{found.settings()}' >>{NEW}/group_vars/all/site.yml")
        yield found


def test_unknown_host_keys_are_refused(shell: Terminal, nodes: Rack) -> None:
    typed(shell, "11 unknown host keys", f"appliance plan --site {NEW}", NodeUnreachable.exit_code)
    assert nodes.servers.asked == {}


def test_host_keys_are_confirmed_before_anything_runs(shell: Terminal, nodes: Rack) -> None:
    shell.begins(f"appliance install --dry-run --site {NEW} --accept-host-keys")
    shell.shows(r"\[y/N\]: *$")
    shell.key("Enter")
    answer = shell.ends()
    kept("12 host keys that nobody confirmed", answer.text)
    assert answer.code == Refused.exit_code
    assert nodes.servers.asked == {}
    shell.begins(f"appliance install --dry-run --site {NEW} --accept-host-keys")
    shell.shows(r"\[y/N\]: *$")
    shell.key("y")
    shell.key("Enter")
    kept("13 a dry run", shell.ends().text)


def test_a_plan_of_bare_nodes_is_read_on_one_terminal(shell: Terminal, nodes: Rack) -> None:
    shell.types(f"cp keys/known_hosts {NEW}/known_hosts")
    answer = shell.types(f"appliance plan --site {NEW}")
    kept("14 a plan", answer.text)


def test_ctrl_c_ends_a_plan_at_once(shell: Terminal, nodes: Rack) -> None:
    nodes.silent = {"w1"}
    nodes.servers.asked.clear()
    shell.begins(f"appliance plan --site {NEW}")
    shell.wait("a probe on each node", lambda: len(nodes.servers.asked) == 3, 30)
    shell.key("C-c")
    answer = shell.ends(20)
    nodes.silent = set()
    kept("15 Ctrl-C during plan", answer.text)
    assert answer.code == Interrupted.exit_code


def test_the_same_command_runs_again(shell: Terminal, nodes: Rack) -> None:
    answer = shell.types(f"appliance plan --site {NEW}")
    kept("16 the same command again", answer.text)


def test_a_node_that_is_not_cabled_is_named(shell: Terminal, nodes: Rack) -> None:
    nodes.servers.stop("w2")
    answer = shell.types(f"appliance plan --site {NEW}")
    kept("17 a node that does not answer", answer.text)
    answer = shell.types(f"appliance install --site {NEW}")
    kept("18 install", answer.text)


def test_a_rack_without_power_is_named(shell: Terminal, nodes: Rack) -> None:
    nodes.servers.stop("w1")
    nodes.servers.stop("cp1")
    line = f"appliance plan --site {NEW}"
    typed(shell, "19 no node answers", line, NodeUnreachable.exit_code)
