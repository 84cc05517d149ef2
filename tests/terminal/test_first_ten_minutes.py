"""A newcomer's first ten minutes: README's commands, typed by somebody who has only README.

The tests of this file tell one story and run in its order; each begins where the one before ended.
What the screen shows is in ``tests/data/golden/terminal/first_ten_minutes.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appliance.errors import Interrupted, NodeUnreachable, Refused
from tests.terminal.rack import INIT, Rack, rack
from tests.terminal.story import Story, readme

USAGE = 2
ASKED = r"\[y/N\]: *$"
SITE, NEW = "inventories/rack7", "inventories/rack0"
INIT_OF_README = readme(f"appliance site init {SITE}")


def test_the_help_is_the_first_thing_that_is_read(story: Story) -> None:
    text = story.types("01 help", "appliance --help")
    assert "site init" in text


def test_a_typo_is_answered(story: Story) -> None:
    assert "appliance install" in story.types("02 a typo", "appliance instakl", USAGE)
    assert "check" in story.types("03 a typo in a group", "appliance site chekk", USAGE)


def test_hardware_of_a_node_that_is_missing_is_refused(story: Story) -> None:
    line = INIT_OF_README.replace("--hardware master1=", "--hardware mastr1=")
    assert "mastr1" in line
    text = story.types("04 hardware of a node that is missing", line, Refused.exit_code)
    assert "did you mean 'master1'" in text.replace("\n", "")
    assert not (story.folder / SITE).exists()


def test_readmes_site_is_written_as_printed(story: Story) -> None:
    story.types("05 a site", INIT_OF_README)
    assert (story.folder / SITE / "hosts.yml").is_file()


def test_readmes_site_is_not_written_twice(story: Story) -> None:
    hosts = story.folder / SITE / "hosts.yml"
    before = hosts.stat()
    story.types("06 the same again", INIT_OF_README, Refused.exit_code)
    assert hosts.stat() == before


def test_readmes_site_is_checked_as_printed(story: Story) -> None:
    assert "no fault" in story.types("07 site check", f"appliance site check --site {SITE}")


def test_a_mistake_in_a_file_is_found_with_its_line(story: Story) -> None:
    file = f"{SITE}/group_vars/all/site.yml"
    story.prepare(f"sed -i 's/^domain:/domainn:/' {file}")
    line = f"appliance site check --site {SITE}"
    assert "site.yml:18" in story.types("08 a mistake in a file", line, Refused.exit_code)
    story.prepare(f"sed -i 's/^domainn:/domain:/' {file}")


def test_what_no_option_says_of_gpus_is_asked(story: Story) -> None:
    line = INIT_OF_README.replace(SITE, f"{SITE}-2").replace(" --gpu ", " ")
    story.answers("09 a question about GPUs", line, r"\[Y/n\]: *$", "Enter")
    written = (story.folder / f"{SITE}-2" / "group_vars" / "all" / "site.yml").read_text()
    assert "\ngpu:" in written


def test_a_bundle_is_refused_before_anything_is_fetched(story: Story) -> None:
    line = "appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04"
    story.types("10 bundle build", f"{line} --site {SITE} ./bundle", Refused.exit_code)
    assert not (story.folder / "bundle").exists()


def test_a_login_without_a_key_is_refused(story: Story) -> None:
    story.prepare(INIT.format(site=NEW, domain="rack0.example"))
    text = story.types("11 no key", f"appliance plan --site {NEW}", Refused.exit_code)
    assert "no SSH key" in text


@pytest.fixture(scope="module")
def nodes(story: Story) -> Iterator[Rack]:
    """The nodes of the site that was written before; the site says how to log in."""
    assert (story.folder / NEW).is_dir()
    with rack(story.folder / "keys") as found:
        story.prepare(f"echo '{found.settings()}' >>{NEW}/group_vars/all/site.yml")
        yield found


def test_unknown_host_keys_are_refused(story: Story, nodes: Rack) -> None:
    line = f"appliance plan --site {NEW}"
    text = story.types("12 unknown host keys", line, NodeUnreachable.exit_code)
    assert "--accept-host-keys" in text
    assert nodes.servers.asked == {}


def test_host_keys_are_confirmed_before_anything_runs(story: Story, nodes: Rack) -> None:
    line = f"appliance install --dry-run --site {NEW} --accept-host-keys"
    story.answers("13 host keys, not confirmed", line, ASKED, "Enter", Refused.exit_code)
    assert nodes.servers.asked == {}
    text = story.answers("14 host keys, confirmed", line, ASKED, "y Enter")
    assert "control_plane" in text


def test_a_plan_of_bare_nodes_is_printed(story: Story, nodes: Rack) -> None:
    story.prepare(f"cp {nodes.known_hosts} {NEW}/known_hosts")
    assert "workers" in story.types("15 plan", f"appliance plan --site {NEW}")


def test_ctrl_c_ends_a_plan_and_the_same_command_runs_again(story: Story, nodes: Rack) -> None:
    nodes.silent = {"w1"}
    nodes.servers.asked.clear()
    line = f"appliance plan --site {NEW}"
    story.stops("16 Ctrl-C", line, lambda: len(nodes.servers.asked) == 3, Interrupted.exit_code)
    nodes.silent = set()
    assert "workers" in story.types("17 the same command again", line)


def test_a_node_that_is_not_cabled_is_named(story: Story, nodes: Rack) -> None:
    nodes.servers.stop("w2")
    assert "left out" in story.types("18 a missing node", f"appliance plan --site {NEW}")
    line = f"appliance install --site {NEW}"
    assert "--bundle" in story.types("19 no bundle", line, Refused.exit_code)


def test_a_rack_without_power_is_named(story: Story, nodes: Rack) -> None:
    nodes.servers.stop("w1")
    nodes.servers.stop("cp1")
    line = f"appliance plan --site {NEW}"
    story.types("20 no node answers", line, NodeUnreachable.exit_code)
