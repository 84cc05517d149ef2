"""The table of variables in a role's README, made from its spec and its defaults.

``python -m tests.contract.variable_tables [ROLE ...]`` writes it (all roles when none is named).
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from tests.contract import tree
from tests.contract.tree import Role

BEGIN = "<!-- variables: generated from defaults/main.yml and meta/argument_specs.yml -->"
END = "<!-- variables: end -->"
REWRITE = "run: python -m tests.contract.variable_tables {}"


def variable_table(role: Role) -> str:
    """The table between its markers."""
    rows = ["", "| variable | type | default | meaning |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {option.get('type', 'str')} | {_default(role, name)} | {_what(option)} |"
        for name, option in role.options.items()
    ]
    return "\n".join([BEGIN, *rows, END])


def _default(role: Role, name: str) -> str:
    if name not in role.defaults:
        return "required" if role.options[name].get("required") else "none"
    text = json.dumps(role.defaults[name], ensure_ascii=False)
    return "`" + " ".join(text.split()).replace("|", "\\|") + "`"


def _what(option: dict[str, Any]) -> str:
    told = option.get("description", "")
    text = " ".join(told) if isinstance(told, list) else str(told)
    choices = option.get("choices")
    more = f" One of {', '.join(map(str, choices))}." if choices else ""
    return (" ".join(text.split()) + more).replace("|", "\\|")


def write(role: Role) -> None:
    """Put the table into the role's README, in the place of the old one or at the end."""
    path = tree.ROOT / role.folder / "README.md"
    text = path.read_text(encoding="utf-8")
    table = variable_table(role)
    if BEGIN in text:
        pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
        text = re.sub(pattern, lambda _: table, text, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n## Variables\n\n{table}\n"
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or [item.name for item in tree.roles()]:
        write(Role(wanted))
