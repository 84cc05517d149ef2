"""JSON Schema of a site's files, for editors."""

from __future__ import annotations

import json
from typing import Any

from appliance.model.site.settings import NodeSettings, SiteSettings


def site_schema() -> dict[str, Any]:
    """Make the schema of group_vars/all/site.yml."""
    return _schema(SiteSettings.model_json_schema(), "group_vars/all/site.yml of a site")


def site_schema_text() -> str:
    """Write that schema, as a site keeps it."""
    return json.dumps(site_schema(), indent=2) + "\n"


def node_schema() -> dict[str, Any]:
    """Make the schema of host_vars/<node>.yml."""
    return _schema(NodeSettings.model_json_schema(), "host_vars/<node>.yml of a site")


def _schema(schema: dict[str, Any], title: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": title,
    }
