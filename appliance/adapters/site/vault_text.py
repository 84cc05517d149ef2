"""The content of an opened vault: secrets by name, as a playbook reads them.

Ansible evaluates a secret with Jinja's brackets as a template, unless it is marked ``!unsafe``: a
secret with brackets and without the mark is refused by name. What must not be here: opening a vault
(``appliance.adapters.site.vault``), and any secret in a message.
"""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from appliance.errors import ConfigError
from appliance.model.documents.pages import VAULT_EDIT
from appliance.model.site.vault_ref import TEMPLATE, UNSAFE

_OURS: Final = "vault_"
_HINT: Final = f"in the site's directory: {VAULT_EDIT}"
_PLAIN: Final = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Plain YAML and the mark ``!unsafe``, read as Ansible reads it."""


def _unmarked(loader: _Loader, node: yaml.Node) -> Any:
    bare = copy.copy(node)
    bare.tag = loader.resolve(type(node), node.value, (True, False))  # type: ignore[no-untyped-call]
    return loader.construct_object(bare, deep=True)


_Loader.add_constructor(UNSAFE, _unmarked)


def read_secrets(file: Path, text: str) -> Mapping[str, str]:
    """The secrets of a vault; lists and mappings are returned as JSON, null as "".

    Raises:
        ConfigError: the vault has no mapping.
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with one mark more
        if data is None:
            return {}
        if isinstance(data, dict):
            return {str(key): _text(value) for key, value in data.items()}
    except (yaml.YAMLError, ValueError, RecursionError):
        # Not chained: the parser's message would quote a line of the secrets.
        pass
    raise ConfigError(
        f"{file} is not a mapping of names to secrets",
        hint=f"edit it with: ansible-vault edit {shlex.quote(str(file))}",
    )


def with_secrets(file: Path, text: str, changes: Mapping[str, str | None]) -> str:
    """The text of a vault with secrets set, or taken out where the value is None.

    Every other line stays as it is, comments included.

    Args:
        file: the vault's, for messages.
        text: as it is.
        changes: name -> secret; one line each, without line ends.

    Raises:
        ConfigError: the text has a form in which that cannot be done.
    """
    lines = text.splitlines(keepends=True)
    root = _composed(text)
    if isinstance(root, yaml.MappingNode) and not root.flow_style:
        spans = [(key.value, *_span(root, number)) for number, (key, _) in enumerate(root.value)]
        for name, begin, end in reversed(spans):
            if name in changes:
                new = changes[name]
                lines[begin:end] = [] if new is None else [_line(name, new)]
        added = [name for name in changes if name not in {span[0] for span in spans}]
    else:
        added = list(changes)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    more = [_line(name, secret) for name in added if (secret := changes[name]) is not None]
    changed = "".join([*lines, *more])
    wanted = {**read_secrets(file, text), **changes}
    if read_secrets(file, changed) != {k: v for k, v in wanted.items() if v is not None}:
        raise ConfigError(f"{file} has a form that this tool does not change", hint=_HINT)
    return changed


def _composed(text: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = yaml.compose(text, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError):
        # Not chained: the parser's message would quote a line of the secrets.
        return None
    return node


def _span(root: yaml.MappingNode, number: int) -> tuple[int, int]:
    """The first line of an entry, and the line after its last."""
    key, value = root.value[number]
    if isinstance(value, yaml.ScalarNode) and value.style in (None, "'", '"'):
        return key.start_mark.line, value.end_mark.line + 1
    following = root.value[number + 1 :]
    return key.start_mark.line, following[0][0].start_mark.line if following else 1_000_000


def _line(name: str, secret: str) -> str:
    mark = f"{UNSAFE} " if TEMPLATE.search(secret) else ""
    return f"{name}: {mark}{json.dumps(secret)}\n"


def require_plain(file: Path, text: str) -> None:
    """Refuse values that Ansible would evaluate or not read as secrets; quote no secret.

    Raises:
        ConfigError: one detail for each invalid secret.
    """
    root = yaml.compose(text, yaml.SafeLoader)
    faults = list(dict.fromkeys(_faults(root))) if isinstance(root, yaml.MappingNode) else []
    if faults:
        raise ConfigError(
            f"{file} has {len(faults)} fault{'s' if len(faults) != 1 else ''}: {faults[0]}",
            hint=_HINT,
            details=faults[1:],
        )


def _faults(root: yaml.MappingNode) -> Iterator[str]:
    for key, value in root.value:
        name = _name(key)
        if name is None:
            yield f"line {key.start_mark.line + 1}: the name does not begin with {_OURS}"
            continue
        problems = set(_problems(value, set()))
        yield from (f"{name}: {problem}" for problem in sorted(problems))


def _name(key: yaml.Node) -> str | None:
    """A secret's name; another name could be a variable of Ansible or of a role."""
    text = key.value if isinstance(key, yaml.ScalarNode) else ""
    plain = text.startswith(_OURS) and text.isidentifier() and text.isascii()
    return text if plain and key.tag.startswith(_PLAIN) else None


def _problems(node: yaml.Node, seen: set[int]) -> Iterator[str]:
    """The problems of one secret; a marked value is never a template."""
    if node.tag == UNSAFE or id(node) in seen:
        return
    seen.add(id(node))
    if not node.tag.startswith(_PLAIN):
        yield f"the tag {node.tag[:20]} is not supported; write the value itself"
    elif isinstance(node, yaml.ScalarNode):
        if TEMPLATE.search(node.value):
            yield (
                "Ansible would evaluate the value, because it has {{, {% or {#; "
                f"write {UNSAFE} before the value, after the colon and a space"
            )
    else:
        for inner in _inside(node):
            yield from _problems(inner, seen)


def _inside(node: yaml.Node) -> Iterator[yaml.Node]:
    for item in node.value:
        yield from item if isinstance(item, tuple) else (item,)


def _text(value: object) -> str:
    """A secret as text; a mapping of them as JSON, which can be read back; null as an empty one."""
    if value is None:
        return ""
    return json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
