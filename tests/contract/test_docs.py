"""What the docs tell people to type exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from appliance import __version__
from appliance.adapters.local.content import load_release
from appliance.builder.archive_keys import PLACES
from appliance.cli.app import cli
from appliance.model.plan.steps import INSTALL
from appliance.model.programs import Use, used_by
from tests.contract import tree

OPERATIONS = tree.ROOT / "appliance" / "docs" / "operations"
PAGES = [tree.ROOT / "README.md", *sorted((tree.ROOT / "appliance" / "docs").rglob("*.md"))]


def commands_in(text: str) -> Iterator[str]:
    """Each command line that begins with ``appliance`` inside a fenced block, joined and bare."""
    for block in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            # Beside a command, two spaces away, stands what it is for; brackets mean optional.
            command = re.split(r"\s{2,}| # ", line.strip().removeprefix("$ "))[0]
            command = command.translate({ord("["): None, ord("]"): None})
            if command.startswith("appliance "):
                yield command


def _typed() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        for command in commands_in(page.read_text(encoding="utf-8")):
            yield page, command


def parse(words: list[str]) -> None:
    """Refuse words that no command takes, as the command line itself does."""
    command: click.Command = cli
    words = words[1:] if words[:1] == ["--debug"] else words
    # A command remembers the first help option that it was asked for: it must be the real one.
    context = click.Context(cli, help_option_names=["-h", "--help"])
    while isinstance(command, click.Group):
        if words and words[0] in {"-h", "--help", "-V", "--version"}:
            return
        found = command.get_command(context, words[0]) if words else None
        assert found is not None, f"there is no command {words[:1]}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    command.make_parser(context).parse_args(list(words))


def test_every_command_in_the_docs_exists_with_its_options() -> None:
    wrong = []
    for page, command in _typed():
        try:
            parse(shlex.split(command)[1:])
        except (AssertionError, ValueError, click.ClickException) as error:
            wrong.append(f"{page.relative_to(tree.ROOT)}: {command}: {error}")
    assert wrong == []
    assert len(list(_typed())) > 20


STEPS = [(step.name, step.summary) for step in INSTALL]


def test_the_page_and_the_help_of_install_list_the_steps_of_the_table() -> None:
    page = (OPERATIONS / "install.md").read_text(encoding="utf-8")
    table = page.partition("| step |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE) == STEPS
    command = cli.get_command(click.Context(cli), "install")
    said = command.help if command else ""
    assert re.findall(r"^ *- (\w+): (.+)$", said or "", re.MULTILINE) == STEPS


def test_the_readme_names_the_steps_that_are_no_playbook() -> None:
    readme = tree.read(Path("README.md"))
    sentence = readme.partition("Most steps are Ansible playbooks;")[2].partition(" write to")[0]
    assert re.findall(r"`(\w+)`", sentence) == [
        step.name for step in INSTALL if not step.has_playbook
    ]


def test_the_readme_and_the_page_of_install_name_the_programs_of_the_admin_host() -> None:
    for path in (tree.ROOT / "README.md", OPERATIONS / "install.md"):
        text = path.read_text(encoding="utf-8")
        for row in used_by([Use.PLAYS, Use.BRING]):
            assert f"`{row.name}`" in text, f"{path.name}: {row.name}"


def test_the_page_of_builds_names_every_place_that_is_searched_for_keys() -> None:
    text = (OPERATIONS / "build-a-bundle.md").read_text(encoding="utf-8")
    assert [place for place in PLACES if f"`{place}`" not in text] == []


def test_the_page_of_containers_names_the_image_as_it_is_built() -> None:
    text = (OPERATIONS / "run-the-tool-in-a-container.md").read_text(encoding="utf-8")
    (image,) = (
        item
        for item in load_release("k8s-1.23.5-r1").artifacts_on("ubuntu-20.04")
        if item.kind == "controller"
    )
    assert set(re.findall(r"controller/[\w.-]+", text)) == {image.path}
    assert set(re.findall(r"appliance-controller:[\w.]+\w", text)) == {
        f"{image.name}:{__version__}"
    }


def test_what_a_page_asks_for_again_has_a_play() -> None:
    again = {
        name
        for page in PAGES
        for name in re.findall(r"--only (\w+) --again", page.read_text(encoding="utf-8"))
    }
    assert again - {"STEP"} <= {step.name for step in INSTALL if step.has_playbook}
    assert {"artifacts", "network", "control_plane", "runtime"} <= again


@pytest.mark.parametrize(
    "path", sorted((OPERATIONS.parent / "decisions").glob("*.md")), ids=lambda path: path.stem
)
def test_a_decision_has_its_number_in_its_title(path: Path) -> None:
    title = path.read_text(encoding="utf-8").splitlines()[0]
    assert title.startswith(f"# {int(path.stem[:4])}. ")
