"""Finds every place that deletes: in Python, in what programs are told, in tasks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.contract.tree import ROOT

FOLDERS = ("appliance", "roles", "playbooks")
# Pure: what deletes is there in words for people alone; releases/ holds other people's sources.
TEXT_ONLY = ("appliance/model/", "appliance/docs/", "appliance/cli/help/")
# Deleting, or putting something in the place of what was there.
CALLS = frozenset(
    {
        *("unlink", "rmtree", "rmdir", "removedirs", "rename", "renames", "move"),
        *("truncate", "ftruncate", "chown", "lchown", "fchown"),
    }
)
# Emptying, and opening to others, what may be there. Where the same function puts a file in the
# place of another one, these fill and dress the new one, and the replacing is what is listed.
FILLS = frozenset({"write_text", "write_bytes", "open w", "chmod", "lchmod", "fchmod"})
REPLACES = frozenset({"replace", "os.replace", "rename"})
# Below the cache, or on machines that a lab made: overwriting loses nothing there.
MADE_AGAIN = (
    *("appliance/builder/sources/", "appliance/builder/fetch.py", "appliance/lab/"),
    "roles/lab_node/",
)
# On modules alone: lists and strings have them too.
OF_MODULES = {("os", "remove"), ("os", "replace"), ("shutil", "move")}
PATH_REPLACE = 1  # Path.replace has one argument, str.replace two.
# kubernetes' client: delete_node, delete_namespaced_lease, delete_collection_…
# What a patch of a Node says stands in the place of others' taints, labels and annotations.
API = re.compile(r"delete_[a-z_]+$|create_namespaced_pod_eviction$|(?:patch|replace)_node$")
# What is told to a program: as words of an argv, in a shell's text, in a task.
WORDS = re.compile(
    r"(?<![\w./-])(?:rm -|mv (?=\S))"
    r"|(?<![\w-])(?:find\b.*-delete|--delete(?:-delay|-excluded)?|kubeadm reset"
    r"|wipefs|mkfs|lvremove|truncate -s|umount|(?:volume|network|container|image) (?:rm|prune)"
    r"|system prune|kubectl\b.* delete|helm uninstall|member/remove"
    r"|(?:docker|podman|crictl) (?:rm|rmi|kill)"
    r"|systemctl (?:[\w-]+ )*(?:disable|mask|poweroff|reboot|halt)"
    r"|ip6?tables(?:-\w+)*-restore|ip6?tables\b.* -[FXDZ]|(?:apt-get|apt|dpkg) (?:-\S+ )*"
    r"(?:remove|purge|autoremove|--purge))(?![\w-])"
)
ARGV = frozenset(
    {
        *("rm", "rmi", "rmdir", "delete", "reset", "purge", "prune", "uninstall", "umount", "del"),
        *("disable", "mask", "poweroff", "reboot", "halt", "kill", "remove", "autoremove", "mv"),
        *("-F", "-X", "-D", "--flush", "--delete", "--delete-chain", "truncate", "wipefs"),
    }
)
ABSENT = re.compile(
    r"^\s*(?:state|absent): (?:absent|true)\b|['\"]absent['\"]: true|^\s*state: stopped\b"
    r"|^\s*(?:purge|autoremove): true\b"
)


def places() -> dict[str, Counter[str]]:
    """``file`` -> what deletes there, and how often.

    ``function: call`` of Python, the line of anything else.
    """
    found: dict[str, Counter[str]] = {}
    for path in sorted(path for name in FOLDERS for path in (ROOT / name).rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts or path.suffix in {".md", ".rst"}:
            continue
        name = str(path.relative_to(ROOT))
        if name.startswith(TEXT_ONLY):
            continue
        text = path.read_text(errors="replace")
        here = Counter(of_python(text) if path.suffix == ".py" else of_lines(text))
        if name.startswith(MADE_AGAIN):
            here = Counter({k: n for k, n in here.items() if k.partition(": ")[2] not in FILLS})
        if here:
            found[name] = here
    return found


def of_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        plain = line.strip()
        if plain.startswith(("#", "fail_msg", "description:", "hint")):
            continue
        words = plain.lstrip("- ").split()
        argv = plain.startswith("- ") and len(words) == 1 and words[0] in ARGV
        if argv or WORDS.search(plain) or ABSENT.search(line):
            yield plain


def of_python(text: str) -> Iterator[str]:
    found = [
        (function, what)
        for function, node in _within(ast.parse(text), "module")
        for what in _of_node(node)
    ]
    replacing = {function for function, what in found if what in REPLACES}
    for function, what in found:
        if not (what in FILLS and function in replacing):
            yield f"{function}: {what}"


def _of_node(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        name = _deletes(node)
        if name:
            yield name
    elif isinstance(node, ast.Attribute) and node.attr == "O_TRUNC":
        yield "open w"  # of a descriptor: os.fdopen empties nothing
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from (f"argv {word}" for word in _argv_words(node))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_script(node.value):
        for line in node.value.splitlines():
            yield from (f"shell {match.group().strip()}" for match in WORDS.finditer(line))


def _within(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        inner = function
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = child.name if function == "module" else f"{function}.{child.name}"
        yield inner, child
        yield from _within(child, inner)


def _deletes(call: ast.Call) -> str | None:
    """The name of what a call deletes with, or None."""
    function = call.func
    words = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    told = next((f"argv {word}" for word in words if word in ARGV), None)
    # An adapter may be told the name of what it calls.
    told = next((word for word in words if isinstance(word, str) and API.match(word)), told)
    if isinstance(function, ast.Name):
        opened = function.id == "open" and _truncates(call, 1)
        return "open w" if opened else function.id if function.id in CALLS else told
    if isinstance(function, ast.Attribute):
        return _of_method(call, function) or told
    return None


def _of_method(call: ast.Call, function: ast.Attribute) -> str | None:
    owner = function.value.id if isinstance(function.value, ast.Name) else ""
    if (owner, function.attr) in OF_MODULES:
        return f"{owner}.{function.attr}"
    if function.attr == "replace" and len(call.args) == PATH_REPLACE and not call.keywords:
        return "replace"
    if function.attr == "open" and _truncates(call, 1 if owner in ("io", "tarfile") else 0):
        return "open w"
    return function.attr if function.attr in CALLS | FILLS or API.match(function.attr) else None


def _argv_words(node: ast.List | ast.Tuple) -> Iterator[str]:
    words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
    yield from (str(word) for word in words if word in ARGV)


def _truncates(call: ast.Call, position: int) -> bool:
    """Whether a mode, by position or name, empties what is there."""
    modes = [
        *call.args[position : position + 1],
        *(k.value for k in call.keywords if k.arg == "mode"),
    ]
    return any(
        isinstance(mode, ast.Constant)
        and isinstance(mode.value, str)
        and mode.value.startswith("w")
        for mode in modes
    )


def _is_script(text: str) -> bool:
    """Whether a text may be a command or a script, and is no sentence for people."""
    return "\n" in text or not re.search(r"[.:;] [A-Za-z]", text)
