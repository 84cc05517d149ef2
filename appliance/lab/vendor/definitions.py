"""The stand-in's CustomResourceDefinitions, version by version, as the vendor's own have them.

What must not be here: the names and fields themselves; they are in ``definitions.yml`` of the
stand-in, each with its source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

# In 2.5 and later; short names only where the vendor has them.
_POLICIES: Final = (
    ("Deployment", ""),
    ("Inference", "inf"),
    ("Interactive", "i"),
    ("Training", "t"),
)
_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TYPES: Final[Mapping[str, dict[str, Any]]] = {
    "strings": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "any": _ANY,
    "quantity": {"x-kubernetes-int-or-string": True},
}


def definitions(line: tuple[int, int], folder: Path) -> list[dict[str, Any]]:
    """The definitions of a version of Run:ai, by the newest generation that is not later."""
    known = yaml.safe_load((folder / "definitions.yml").read_text(encoding="utf-8"))
    fit = [one for one in known["generations"] if _line(one["from"]) <= line]
    if not fit:
        return []
    found = [_definition(one, known["fields"]) for one in fit[-1]["definitions"]]
    return [*found, *_of_workloads()] if fit[-1].get("policies") else found


def written(line: tuple[int, int], folder: Path) -> bytes:
    """The same as one file."""
    documents = yaml.safe_dump_all(definitions(line, folder), sort_keys=False)
    return b"# STANDIN: resources as the vendor's definitions have them.\n" + documents.encode()


def _line(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _definition(one: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    names = list(one["versions"])
    versions = []
    for name, parts in one["versions"].items():
        stored = name == names[-1]
        spec = _schema({key: kind for part in parts for key, kind in fields[part].items()})
        if stored and one.get("required"):
            spec["required"] = list(one["required"])
        versions.append(_version(name, spec, one, served=True, stored=stored))
    return _object(one["name"], one["kind"], one["scope"], one.get("short"), versions)


def _of_workloads() -> Iterator[dict[str, Any]]:
    """Policies and workloads: their v1 is known, and not served."""
    for kind, short in _POLICIES:
        for what, many, letter in (("Policy", "policies", "p"), ("Workload", "workloads", "w")):
            plural = f"{kind.lower()}{many}"
            versions = [
                _version(name, _ANY, {"status": True}, served=stored, stored=stored)
                for name, stored in (("v1", False), ("v2alpha1", True))
            ]
            name, brief = f"{plural}.run.ai", short + letter if short else None
            yield _object(name, f"{kind}{what}", "Namespaced", brief, versions)


def _object(
    name: str, kind: str, scope: str, short: str | None, versions: list[dict[str, Any]]
) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        **({"shortNames": [short]} if short else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "labels": {"standin": "true"}},
        "spec": {"group": group, "names": names, "scope": scope, "versions": versions},
    }


def _version(
    name: str, spec: dict[str, Any], one: Mapping[str, Any], *, served: bool, stored: bool
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if one.get("keep"):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if one.get("status"):
        schema["properties"] = {"spec": spec, "status": _ANY}
    else:
        schema["properties"] = {"spec": spec}
    if one.get("keep") and not spec.get("properties"):
        del schema["properties"]
    return {
        "name": name,
        "served": served,
        "storage": stored,
        **({"subresources": {"status": {}}} if one.get("status") else {}),
        "schema": {"openAPIV3Schema": schema},
    }


def _schema(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {key: _type(kind) for key, kind in fields.items()}}


def _type(kind: Any) -> dict[str, Any]:
    if isinstance(kind, str):
        return dict(_TYPES.get(kind, {"type": kind}))
    if "list of" in kind:
        items = _schema(kind["list of"])
        return {"type": "array", "items": {**items, "required": list(kind["required"])}}
    return _schema(kind)
