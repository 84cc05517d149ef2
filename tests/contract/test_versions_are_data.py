"""No program and no role knows a version: releases are data, and the code asks them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from appliance.adapters.local.content import list_releases, load_release
from tests.contract import tree

# Kubernetes' own versions and minor versions, and the names of the releases that have them.
VERSIONS = sorted(
    {
        text
        for name in list_releases()
        for version in [load_release(name).versions.kubernetes]
        for text in (name, version, ".".join(version.split(".")[:2]))
    }
)
KNOWN = re.compile(rf"(?<![\w.])v?(?:{'|'.join(map(re.escape, VERSIONS))})(?![\w.]*\d)")
# Documentation of Ansible's modules, and of variables: for people.
PROSE = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
# Of the rest, a version of Go looks the same.
APART = {"description", "short_description", "name", "minimum_go"}


def docstrings(module: ast.Module) -> set[int]:
    """The nodes of a module that only people read."""
    found = set()
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            found.add(id(body[0].value))
        if (
            isinstance(node, ast.Assign)
            and {target.id for target in node.targets if isinstance(target, ast.Name)} & PROSE
        ):
            found.add(id(node.value))
    return found


def strings_of_program(path: Path) -> Iterator[str]:
    module = ast.parse(path.read_text(encoding="utf-8"))
    prose = docstrings(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def strings_of_data(data: object) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key not in APART:
                yield from strings_of_data(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings_of_data(value)
    else:
        yield str(data)


def strings_of(path: Path) -> Iterator[str]:
    if path.suffix == ".py":
        return strings_of_program(path)
    if path.suffix == ".yml":
        return strings_of_data(yaml.safe_load(path.read_text(encoding="utf-8")))
    return iter([path.read_text(encoding="utf-8")])


def searched() -> list[Path]:
    folders = ("appliance", "roles", "playbooks")
    kinds = {".py", ".yml", ".j2", ".sh"}
    apart = (tree.ROOT / "appliance" / "releases", tree.ROOT / "appliance" / "docs")
    return [
        path
        for folder in folders
        for path in sorted((tree.ROOT / folder).rglob("*"))
        if path.suffix in kinds and not any(path.is_relative_to(one) for one in apart)
    ]


def test_no_program_and_no_role_names_a_version_of_kubernetes() -> None:
    paths = searched()
    assert len(paths) > 500
    found = [
        f"{path.relative_to(tree.ROOT)}: {match.group()}"
        for path in paths
        for text in strings_of(path)
        if (match := KNOWN.search(text))
    ]
    assert found == []


def test_no_program_of_the_control_host_names_a_runtimes_socket() -> None:
    sockets = {load_release(name).runtime.socket for name in list_releases()}
    assert len(sockets) > 1
    apart = tree.ROOT / "appliance" / "probe"
    paths = [path for path in searched() if path.is_relative_to(tree.ROOT / "appliance")]
    found = [
        f"{path.relative_to(tree.ROOT)}: {socket}"
        for path in paths
        if path.suffix == ".py" and not path.is_relative_to(apart)
        for text in strings_of(path)
        for socket in sockets
        if socket in text
    ]
    assert found == []


def test_the_search_sees_a_version_wherever_it_may_stand(tmp_path: Path) -> None:
    program = tmp_path / "a.py"
    program.write_text('"""Of 1.23.5."""\nTABLE = {"1.23": "3.5"}\n')
    assert [bool(KNOWN.search(text)) for text in strings_of(program)] == [True, False]
    data = tmp_path / "a.yml"
    data.write_text("description: such as 1.23.5\nversion: 1.23.5\n")
    assert [text for text in strings_of(data) if KNOWN.search(text)] == ["1.23.5"]
    assert not KNOWN.search("11.23.5")
    assert not KNOWN.search("1.230")
    assert KNOWN.search("kubeadm:v1.23.5")
