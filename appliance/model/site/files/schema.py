"""JSON Schemas of a site's files, for editors: what may be written, and what it means.

They follow the typed models. What must not be here: reading which releases and models exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from appliance.model.site.files.diagnostics import model_of
from appliance.model.site.files.draft import KnownContent
from appliance.model.site.groups import GROUPS
from appliance.model.site.settings import NodeSettings, SiteSettings

# Dot names: neither Ansible nor the check of strays reads them. Git takes them.
SITE_SCHEMA: Final = ".site.schema.json"
NODE_SCHEMA: Final = ".node.schema.json"
HOSTS_SCHEMA: Final = ".hosts.schema.json"
_MAPPING: Final = "object"
_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
_OCTET: Final = r"(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_IPV4: Final = rf"^{_OCTET}(\.{_OCTET}){{3}}$"


def schemas(known: KnownContent) -> dict[str, dict[str, Any]]:
    """File of a site -> the schema in it.

    Args:
        known: the releases, operating systems and hardware models to choose from.
    """
    return {
        SITE_SCHEMA: site_schema(known),
        NODE_SCHEMA: node_schema(known),
        HOSTS_SCHEMA: hosts_schema(),
    }


def schema_texts(known: KnownContent) -> dict[str, str]:
    """The same as text, as a site keeps them."""
    return {name: json.dumps(found, indent=2) + "\n" for name, found in schemas(known).items()}


def site_schema(known: KnownContent) -> dict[str, Any]:
    """Make the schema of group_vars/all/site.yml."""
    schema = _schema(SiteSettings, "group_vars/all/site.yml of a site")
    systems = {system for name in known.releases for system in known.releases[name]}
    _choices(schema, "appliance_release", known.releases)
    _choices(schema, "operating_system", systems)
    return schema


def node_schema(known: KnownContent) -> dict[str, Any]:
    """Make the schema of host_vars/<node>.yml."""
    schema = _schema(NodeSettings, "host_vars/<node>.yml of a site")
    _choices(schema, "hardware", known.hardware)
    schema["properties"]["hardware"]["enum"].append(None)
    return schema


def hosts_schema() -> dict[str, Any]:
    """Make the schema of hosts.yml: the groups, and node names with an empty value."""
    nodes = {
        "description": "The nodes of the group, each as a key with an empty value: gpu1: {}",
        "type": [_MAPPING, "null"],
        "propertyNames": {"pattern": _NAME},
        "additionalProperties": {"type": [_MAPPING, "null"], "maxProperties": 0},
    }
    groups = {
        name: {
            "description": purpose,
            **_mapping({"hosts": nodes}, required=False),
            "type": [_MAPPING, "null"],
        }
        for name, purpose in GROUPS.items()
    }
    children = {"description": "The groups of this site.", **_mapping(groups, required=False)}
    everything = {"description": "Every node.", **_mapping({"children": children})}
    return _titled(_mapping({"all": everything}), "hosts.yml of a site")


def _mapping(properties: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = list(properties)
    return {**found, "additionalProperties": False}


def _titled(schema: Mapping[str, Any], title: str) -> dict[str, Any]:
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def _choices(schema: dict[str, Any], key: str, choices: Iterable[str]) -> None:
    schema["properties"][key]["enum"] = sorted(choices)


def _schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    schema = model.model_json_schema()
    sections: dict[str, Any] = schema.get("$defs", {})
    for part in (schema, *sections.values()):
        for name, value in part.get("properties", {}).items():
            part["properties"][name] = _readable(value, sections)
    for name, value in schema["properties"].items():
        _describe(value, model_of(model, name))
    _describe_inside(model, sections)
    return _titled(schema, title)


def _describe_inside(model: type[BaseModel], sections: Mapping[str, Any]) -> None:
    for name in model.model_fields:
        inner = model_of(model, name)
        if inner is not None:
            for key, value in sections[inner.__name__]["properties"].items():
                _describe(value, model_of(inner, key))
            _describe_inside(inner, sections)


def _describe(value: dict[str, Any], inner: type[BaseModel] | None) -> None:
    """Give a section the description of its model; an editor shows it beside the key."""
    if "description" not in value and inner is not None and inner.__doc__:
        value["description"] = inner.__doc__.strip().splitlines()[0]


def _readable(value: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema without ``anyOf`` for null, of which a validator only says that none fits."""
    choices = value.get("anyOf", ())
    real = [choice for choice in choices if choice != {"type": "null"}]
    if len(real) == len(choices) or len(real) != 1:
        return _exact(value)
    rest = {key: inner for key, inner in value.items() if key != "anyOf"}
    (only,) = real
    if "$ref" in only:
        # The keywords for an object judge no null: the type is all that has to allow it.
        sections[only["$ref"].rpartition("/")[2]]["type"] = [_MAPPING, "null"]
        return {**only, **rest}
    found = _exact(only)
    if "enum" in found:
        found["enum"] = [*found["enum"], None]
    return {**found, "type": [found["type"], "null"], **rest}


def _exact(value: Mapping[str, Any]) -> dict[str, Any]:
    """An address by a pattern: validators take ``format`` for a comment."""
    found = dict(value)
    if found.get("format") == "ipv4":
        found["pattern"] = _IPV4
    if isinstance(found.get("items"), Mapping):
        found["items"] = _exact(found["items"])
    return found
