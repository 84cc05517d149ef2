"""The repository's shape: its top level, its READMEs, and how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.contract import tree

FOLDERS = {"appliance", "playbooks", "roles", "inventories", "hardware", "molecule", "tests"}
DOTFILES = {".ci", ".config", ".gitignore", ".pre-commit-config.yaml"}
LONGEST_FILE = 400
# Of a package's folder, README included: what a reader takes in at one look.
MOST_ENTRIES = 16
LONGEST_README = 60
LONGEST_SHELL = 30
# What machines write or read whole: module sums, recorded output, the table of a release.
TABLES = (
    "tests/data", "appliance/releases", "appliance/docs/changelog.md", "tests/release/opened.json",
    "appliance/lab/standins/vendor_bundle_standin/go",
    "appliance/lab/standins/nfs_provisioner_standin/go",
)  # fmt: skip
# The files of a node's image, laid out as its operating system wants them.
ANOTHERS_LAYOUT = ("appliance/lab/node/rootfs", "tests/data")
# The floor of the benchmark is a plain shell script on purpose; the vendor's script is one.
SCRIPTS = (
    "tests/benchmarks/floor",
    "appliance/lab/standins/vendor_bundle_standin",
    "molecule/node_reset_default/member.sh",
)
NOBODYS_NAMES = {"utils", "helpers", "common", "misc", "lib", "scripts", "util", "helper"}


def test_the_top_level_holds_exactly_what_the_design_names() -> None:
    assert {path.parts[0] for path in tree.files()} == {
        *FOLDERS,
        *DOTFILES,
        "pyproject.toml",
        "README.md",
    }


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_every_top_level_folder_says_what_belongs_in_it(folder: str) -> None:
    path = Path(folder) / "README.md"
    lines = tree.read(path).splitlines()
    assert len(lines) <= LONGEST_README, f"{path} has {len(lines)} lines"
    assert lines[0].startswith("# ")


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    long = {}
    for path in tree.files():
        if any(path.is_relative_to(folder) for folder in TABLES):
            continue
        lines = len(tree.read(path).splitlines())
        if lines > LONGEST_FILE:
            long[str(path)] = lines
    assert long == {}


def test_no_package_has_more_entries_than_a_reader_takes_in() -> None:
    inside = tree.under("appliance")
    packages = {path.parent for path in inside if path.name == "__init__.py"}
    entries = {
        str(package): len({path.relative_to(package).parts[0] for path in inside
                           if path.is_relative_to(package)})
        for package in packages
    }  # fmt: skip
    assert len(entries) > 10, "the premise: packages are seen"
    assert {package: many for package, many in entries.items() if many > MOST_ENTRIES} == {}


def test_no_file_is_a_link() -> None:
    """A tree that is copied without links has files of one line in their place (decision 99)."""
    assert [str(path) for path in tree.files() if (tree.ROOT / path).is_symlink()] == []


def test_nothing_is_named_for_having_no_home() -> None:
    homeless = [
        str(path)
        for path in tree.files()
        if not any(path.is_relative_to(folder) for folder in ANOTHERS_LAYOUT)
        and NOBODYS_NAMES & {part.split(".")[0] for part in path.parts}
    ]
    assert homeless == []


def test_shell_is_rare_and_short() -> None:
    shell = [path for path in tree.files() if path.suffix in {".sh", ".bash"}]
    assert [str(path) for path in shell if not str(path).startswith(SCRIPTS)] == []
    assert len(tree.read(Path(".ci/run")).splitlines()) < LONGEST_SHELL


def test_every_package_says_what_belongs_and_what_must_not() -> None:
    silent = [
        str(path)
        for path in tree.under("appliance")
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(tree.read(path)))
    ]
    assert silent == []


def test_a_lab_site_is_never_committed() -> None:
    assert tree.under("inventories/lab") == []


def test_no_state_of_a_site_is_in_the_tree() -> None:
    assert [str(path) for path in tree.files() if ".appliance" in path.parts] == []


def test_stand_ins_are_no_package() -> None:
    inside = tree.under("appliance/lab/standins")
    assert [str(path) for path in inside if path.name == "__init__.py"] == []
    imports = [str(path) for path in inside if "import appliance" in tree.read(path)
               or "from appliance" in tree.read(path)]  # fmt: skip
    assert imports == []


def test_only_the_command_lines_edge_ends_the_process() -> None:
    ends = [
        str(path)
        for path in tree.under("appliance")
        if path.suffix == ".py"
        and path != Path("appliance/cli/exits.py")
        and not path.is_relative_to("appliance/lab/standins")
        and not path.is_relative_to("appliance/probe")
        # Programs of an installer, which ends by their status.
        and not path.is_relative_to("appliance/installer")
        for node in ast.walk(ast.parse(tree.read(path)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in {("sys", "exit"), ("os", "_exit"), ("os", "system")}
    ]
    assert ends == []


def test_every_test_is_named_as_a_sentence() -> None:
    short = [
        f"{path}: {node.name}"
        for path in tree.under("tests")
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(tree.read(path)))
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 3
    ]
    assert short == []


def test_ci_runs_the_readmes_test_command() -> None:
    section = tree.read(Path("README.md")).split("## Test it", 1)[1].split("\n## ", 1)[0]
    commands = re.findall(r"(?m)^python3 .*pytest(?: -n [0-9])?$", section)
    assert len(commands) == 1
    found = subprocess.run(
        ["bash", "-c", _reading_line()],
        cwd=tree.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == commands


def _reading_line() -> str:
    """The line of .ci/run that reads the command, made to print it."""
    (line,) = re.findall(r"(?m)^command=\$\((sed .*)\)$", tree.read(Path(".ci/run")))
    return str(line)
