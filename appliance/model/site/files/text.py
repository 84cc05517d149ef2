"""A site written out: commented YAML made from the typed model, so the comments are never stale.

A key that was given is written; one that was not stands as a comment with its default, to be
uncommented. What must not be here: writing files, and secrets.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import yaml
from pydantic import BaseModel

from appliance.model.site.files.diagnostics import model_of
from appliance.model.site.files.schema import HOSTS_SCHEMA, NODE_SCHEMA, SITE_SCHEMA
from appliance.model.site.groups import GROUPS
from appliance.model.site.settings import NodeSettings, SiteSettings

_NAMES_ITS_SCHEMA: Final = "# yaml-language-server: $schema="
SCHEMA_LINE: Final = f"{_NAMES_ITS_SCHEMA}../../{SITE_SCHEMA}"
NODE_SCHEMA_LINE: Final = f"{_NAMES_ITS_SCHEMA}../{NODE_SCHEMA}"
HOSTS_SCHEMA_LINE: Final = f"{_NAMES_ITS_SCHEMA}{HOSTS_SCHEMA}"
_WIDTH: Final = 98

_SITE_HEAD: Final = f"""\
---
{SCHEMA_LINE}
#
# The settings of this appliance. Plain values only: no Jinja, no secrets (those are in vault.yml).
# Lines that begin with "# key:" show a default; uncomment one to change it.
# After an edit: appliance site check
"""
_HOSTS_HEAD: Final = f"""\
---
{HOSTS_SCHEMA_LINE}
#
# The groups of each node. Only groups and names here: settings of one node are in
# host_vars/<node>.yml, settings of all nodes in group_vars/all/site.yml.
"""
_NODE_HEAD: Final = f"---\n{NODE_SCHEMA_LINE}\n"


def site_text(settings: Mapping[str, Any]) -> str:
    """Write group_vars/all/site.yml."""
    return _SITE_HEAD + "".join(_keys(SiteSettings, settings, 0))


def node_text(values: Mapping[str, Any], remarks: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write host_vars/<node>.yml.

    Args:
        values: keys that are given.
        remarks: key that is not given -> the lines that stand as its comment.
    """
    return _NODE_HEAD + "".join(_keys(NodeSettings, values, 0, remarks or {}))


def hosts_text(groups: Mapping[str, Sequence[str]]) -> str:
    """Write hosts.yml: every group, the empty ones too, each with what it is for."""
    lines = [_HOSTS_HEAD, "all:\n  children:\n"]
    for group, purpose in {**GROUPS, **{name: "" for name in groups if name not in GROUPS}}.items():
        names = groups.get(group, ())
        lines.append(f"    # {purpose}\n    {group}:\n")
        lines.append("      hosts:\n" if names else "      hosts: {}\n")
        lines.extend(f"        {name}: {{}}\n" for name in names)
    return "".join(lines)


def _keys(
    model: type[BaseModel],
    values: Mapping[str, Any],
    depth: int,
    remarks: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    indent = "  " * depth
    lines: list[str] = []
    for name, info in model.model_fields.items():
        inner = model_of(model, name)
        if depth == 0:
            lines.append("\n")
        lines.extend(_comment(info.description or _about(inner), indent))
        given = values.get(name)
        if inner is not None and isinstance(given, Mapping) and given:
            lines.append(f"{indent}{name}:\n")
            lines.extend(_keys(inner, given, depth + 1))
        elif name in values and (inner is None or given != {}):
            lines.extend(_dump(name, given, indent))
        elif name in remarks:
            lines.extend(f"{indent}# {line}\n" for line in remarks[name])
        else:
            default = info.get_default(call_default_factory=True)
            lines.extend(_commented_default(name, default, inner, indent))
    for name in values:
        if name not in model.model_fields:
            lines.extend(_dump(name, values[name], indent))
    return lines


def _commented_default(
    name: str, default: Any, inner: type[BaseModel] | None, indent: str
) -> list[str]:
    if inner is not None and default is None:
        if not any(info.is_required() for info in inner.model_fields.values()):
            return _commented_default(name, inner(), inner, indent)
        required = (key for key, info in inner.model_fields.items() if info.is_required())
        keys = ", ".join(f"{key}: ..." for key in required)
        return [f"{indent}# {name}: {{{keys}}}\n"]
    if isinstance(default, BaseModel):
        block = [f"{name}:\n"]
        for key, value in default.model_dump(mode="json").items():
            block.extend(_comment(type(default).model_fields[key].description or "", "  "))
            block.extend(_dump(key, value, "  "))
        return [f"{indent}# {line}" for line in block]
    value = default
    if default is not None and not isinstance(default, bool | int | str | dict | list):
        value = list(default) if isinstance(default, tuple) else str(default)
    return [f"{indent}# {line}" for line in _dump(name, value, "")]


def _about(inner: type[BaseModel] | None) -> str:
    return (inner.__doc__ or "").strip().splitlines()[0] if inner else ""


def _comment(text: str, indent: str) -> list[str]:
    wrapped = textwrap.wrap(text.replace("\n", " "), _WIDTH - len(indent) - 2)
    return [f"{indent}# {line}\n" for line in wrapped]


def _dump(name: str, value: Any, indent: str) -> list[str]:
    plain = _plain(value)
    # None: lists and innermost mappings on one line; a bare value needs the block style.
    flow = None if isinstance(plain, dict | list) else False
    text = yaml.safe_dump({name: plain}, sort_keys=False, default_flow_style=flow, width=_WIDTH)
    return [f"{indent}{line}\n" for line in text.splitlines()]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value
