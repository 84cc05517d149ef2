"""The effective site as rows and as plain data: every value, and where it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from appliance.model.site.files.diagnostics import Document, Where, dotted
from appliance.model.site.groups import GROUPS
from appliance.model.site.settings import Node, Site

DEFAULT = "default"


def site_rows(site: Site, document: Document) -> Iterator[tuple[str, Any, str]]:
    """Yield key, value and source of every setting, nested keys on rows of their own."""
    yield from _rows(site.settings, (), document)


def _rows(settings: BaseModel, above: Where, document: Document) -> Iterator[tuple[str, Any, str]]:
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        where = (*above, name)
        if isinstance(value, BaseModel):
            yield from _rows(value, where, document)
        else:
            plain = settings.model_dump(mode="json", include={name})[name]
            yield dotted(where), plain, _source(where, document)


def _source(where: Where, document: Document) -> str:
    inside: Any = document.data
    for part in where:
        if not isinstance(inside, Mapping) or part not in inside:
            return DEFAULT
        inside = inside[part]
    return f"{document.file}:{document.line(where)}"


def node_as_json(node: Node) -> dict[str, Any]:
    """A node as plain data."""
    return {
        "name": node.name,
        "address": str(node.address),
        "groups": [group for group in GROUPS if group in node.groups],
        "hardware": node.hardware,
        "gpus": node.gpus,
        "bmc_address": str(node.bmc_address) if node.bmc_address else None,
        "bmc_fingerprint": node.bmc_fingerprint,
        "bmc_system": node.bmc_system,
        "mac": node.mac,
        "notes": node.notes,
    }


def site_as_json(site: Site, document: Document) -> dict[str, Any]:
    """The site as plain data; its keys are a contract."""
    return {
        "name": site.name,
        "directory": str(site.directory),
        "settings": site.settings.model_dump(mode="json"),
        "sources": {key: source for key, _, source in site_rows(site, document)},
        "lan_cidrs": [str(lan) for lan in site.lan_cidrs],
        "nodes": [node_as_json(node) for node in site.nodes],
        "warnings": list(site.warnings),
    }
