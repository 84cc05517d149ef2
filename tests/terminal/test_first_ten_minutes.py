"""A newcomer's first ten minutes: README's commands, typed by somebody who has only README.

The tests of this file tell one story and run in its order; each begins where the one before ended.
What the screen shows is in ``tests/data/golden/terminal/first_ten_minutes.txt``.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from appliance.errors import Interrupted, NodeUnreachable, Refused
from tests import golden, samples
from tests.ssh_server import Servers, is_silent, servers
from tests.terminal.desk import steady
from tests.terminal.tmux import Terminal

USAGE = 2
README = golden.ROOT / "README.md"
SITE = "inventories/rack7"
# The site of README, with loopback in place of its network: nothing else may be asked from here.
NEW = (
    "appliance site init inventories/rack0 --domain rack0.example --control-plane cp1=127.0.7.1/24"
    " --worker w1=127.0.7.2/24 --worker w2=127.0.7.3/24 --new-vault-password"
)


def readme(beginning: str) -> str:
    """README's command that begins so, on one line as it can be pasted."""
    text = README.read_text("utf-8").replace("\\\n", "")
    (line,) = re.findall(rf"(?m)^ *({re.escape(beginning)}.*)$", text)
    return re.sub(r" +", " ", line)


def kept(section: str, screen: str) -> None:
    golden.agree("terminal/first_ten_minutes", section, steady(screen))


def typed(shell: Terminal, section: str, line: str, code: int = 0) -> str:
    """Type the line, keep its screen, and return it."""
    answer = shell.types(line)
    kept(section, answer.screen)
    assert answer.code == code, answer.screen
    return answer.screen


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
    shell.types(NEW)
    typed(shell, "10 no key", "appliance plan --site inventories/rack0", Refused.exit_code)


@pytest.fixture(scope="module")
def rack(shell: Terminal, folder: Path) -> Iterator[Servers]:
    """Servers of the site ``rack0``: w2 is silent, and every login is taken."""
    site = folder / "inventories" / "rack0"
    with servers(site) as found:
        served = found.serve(samples.site(), dict.fromkeys(("cp1", "w1", "w2"), is_silent))
        settings = site / "group_vars" / "all" / "site.yml"
        ssh = served.settings.ssh
        with settings.open("a") as written:
            written.write(f"ssh: {{port: {ssh.port}, private_key: id_ecdsa, become: false}}\n")
        yield found


def test_ctrl_c_ends_a_plan_at_once(shell: Terminal, rack: Servers) -> None:
    shell.begins("appliance plan --site inventories/rack0")
    shell.wait("a probe on each node", lambda: len(rack.asked) == 3, 30)
    shell.key("C-c")
    answer = shell.ends(10)
    assert answer.code == Interrupted.exit_code
    kept("11 Ctrl-C during plan", answer.screen)
