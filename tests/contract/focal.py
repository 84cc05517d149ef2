"""What Ubuntu 20.04's programs know, and the configuration files that our roles write for them.

The tables lie in ``tests/data/focal``, one a program, each with its source. A table says which
words a file may begin its statements with; it does not judge their values.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar, trust_as_template

from tests.contract import tree

FOLDER = tree.ROOT / "tests" / "data" / "focal"
Table = Mapping[str, Any]


@functools.cache
def table(name: str) -> dict[str, Any]:
    """One file of the folder."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return found


@dataclass(frozen=True)
class Written:
    """One file that a role writes: where it says so, and the words as they stand in the role."""

    task: tree.Task
    role: tree.Role
    raw_path: str
    raw_content: str

    def rendered(self, more: Mapping[str, Any]) -> tuple[str, str]:
        """The path and the content with these variables on top of the role's own."""
        folder = tree.ROOT / self.role.folder
        own = {**self.role.defaults, **(tree.load(self.role.folder / "vars" / "main.yml") or {})}
        variables = {
            **{name: _trusted(value) for name, value in {**own, **more}.items()},
            "ansible_search_path": [str(folder)],
            "role_path": str(folder),
            "playbook_dir": str(tree.ROOT / "playbooks"),
        }
        _plugins()
        templar = Templar(loader=DataLoader(), variables=variables)
        path, content = (
            str(templar.template(trust_as_template(text)))
            for text in (self.raw_path, self.raw_content)
        )
        return path, content


@functools.cache
def _plugins() -> None:
    init_plugin_loader()


def _trusted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trusted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_trusted(item) for item in value]
    return trust_as_template(value) if isinstance(value, str) else value


def _entries(files: Any) -> list[dict[str, str]]:
    """The files of a task; a list that a variable gives is one entry under that variable's name."""
    return [{"path": files}] if isinstance(files, str) else files


def written() -> Iterator[Written]:
    """Every file that a role writes with ``text_files`` or a module of Ansible's own."""
    for role in tree.roles():
        for path in tree.under(str(role.folder / "tasks")):
            for task in tree.tasks_in(path):
                if task.module == "text_files":
                    for entry in _entries(task.options["files"]):
                        yield Written(task, role, entry["path"], entry.get("content", ""))
                elif task.module in {"template", "copy", "lineinfile", "blockinfile"}:
                    options = task.options
                    yield Written(task, role, options.get("dest", options.get("path", "")), "")


# --- which statements a file has, and which of them the table does not know ----------------------


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield line


def _first_words(text: str, known: Table) -> set[str]:
    words = {re.split(r"[\s=]", line.strip(), maxsplit=1)[0] for line in _lines(text)}
    return words - set(known["directives"])


def _chrony(text: str, known: Table) -> set[str]:
    if "DAEMON_OPTS" not in text:
        return _first_words(text, known)
    levels = re.findall(r"-F\s*(-?\d+)", text)
    return {f"-F {level}" for level in levels if int(level) not in known["filter_levels"]}


def _haproxy(text: str, known: Table) -> set[str]:
    unknown, section = set(), ""
    for line in _lines(text):
        words = line.split()
        if not line[0].isspace():
            section = words[0]
            unknown |= set() if section in known["sections"] else {section}
            continue
        names = known["sections"].get(section, words)
        if " ".join(words[:2]) not in names and words[0] not in names:
            unknown.add(" ".join(words[:2]))
        skipped = {"server": 3, "default-server": 1}.get(words[0])
        if skipped:
            unknown |= _options(words[skipped:], known["server_options"])
    return unknown


def _options(words: list[str], known: Table) -> set[str]:
    rest = iter(words)
    unknown = set()
    for word in rest:
        if word in known["with_a_value"]:
            next(rest, "")
        elif word not in known["alone"]:
            unknown.add(word)
    return unknown


def _keepalived(text: str, known: Table) -> set[str]:
    values = ("unicast_peer {", "virtual_ipaddress {", "track_script {")
    words, within = set(), False
    for line in map(str.strip, _lines(text)):
        within = within and line != "}"
        if not within and line != "}":
            words.add(line.split()[0])
        within = within or line in values
    return words - set(known["directives"])


def _nginx(text: str, known: Table) -> set[str]:
    # What is quoted is a value, braces and semicolons in it too.
    bare = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "text", "\n".join(_lines(text)))
    statements = re.split(r"[;{}]", bare)
    return {statement.split()[0] for statement in statements if statement.strip()} - set(
        known["directives"]
    )


def _systemd(text: str, known: Table) -> set[str]:
    unknown, section = set(), ""
    for line in _lines(text):
        if line.startswith("["):
            section = line.strip("[] ")
        elif line.partition("=")[0] not in known["sections"].get(section, []):
            unknown.add(f"[{section}] {line.partition('=')[0]}")
    return unknown


def _paths(document: Any, above: str = "") -> Iterator[str]:
    if isinstance(document, dict) and document:
        for key, value in document.items():
            yield from _paths(value, f"{above}.{key}" if above else str(key))
    else:
        yield above


def _registry(text: str, known: Table) -> set[str]:
    patterns = [re.compile(re.escape(key).replace(r"\*", ".*")) for key in known["keys"]]
    return {
        path
        for path in _paths(yaml.safe_load(text))
        if not any(pattern.fullmatch(path) for pattern in patterns)
    }


def _apt(text: str, known: Table) -> set[str]:
    """The keys of a configuration at its outermost level, or the options of one-line sources."""
    sources = re.findall(r"(?m)^deb\s+\[([^\]]*)\]", text)
    options = {word.partition("=")[0] for found in sources for word in found.split()}
    if sources:
        return options - set(known["source_options"])
    patterns = [
        re.compile(re.escape(key).replace(r"\*", r"[\w.-]+"), re.IGNORECASE)
        for key in known["keys"]
    ]
    bare = re.sub(r"\{[^{}]*\}", "{}", re.sub(r"(?m)^\s*//.*$", "", text))
    keys = re.findall(r"(?m)^\s*([A-Za-z][\w:.-]*)\s*(?:\{|\"|;)", bare)
    return {key for key in keys if not any(pattern.fullmatch(key) for pattern in patterns)}


def _exports(text: str, known: Table) -> set[str]:
    given = ",".join(re.findall(r"\(([^)]*)\)", text)).split(",")
    return {option.partition("=")[0] for option in given} - set(known["directives"])


CHECKS: dict[str, Callable[[str, Table], set[str]]] = {
    "apt": _apt,
    "chrony": _chrony,
    "dnsmasq": _first_words,
    "dnsmasq-service": _first_words,
    "docker-registry": _registry,
    "haproxy": _haproxy,
    "keepalived": _keepalived,
    "nfs-utils": _exports,
    "nginx": _nginx,
    "systemd": _systemd,
}


def unknown(name: str, text: str) -> set[str]:
    """The statements of a file that the program of Ubuntu 20.04 does not know."""
    return CHECKS[name](text, table(name))
