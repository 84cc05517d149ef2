"""What completion offers for a value: from the site's files and this installation, never a node."""

from __future__ import annotations

import os
from pathlib import Path

import click


def node_names(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes of the site, without those that were typed already; after a comma as well."""
    from appliance.adapters.site.host_names import host_names

    before, comma, begun = incomplete.rpartition(",")
    typed = {*before.split(","), *_typed(context)}
    names = (name for name in host_names(_site(context)) if name not in typed)
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun)]


def any_node(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Nodes of the site."""
    from appliance.adapters.site.host_names import host_names

    return [name for name in host_names(_site(context)) if name.startswith(incomplete)]


def _site(context: click.Context) -> Path:
    return Path(str(context.params.get("site") or os.environ.get("APPLIANCE_SITE") or "."))


def _typed(context: click.Context) -> list[str]:
    found = (context.params.get(key) for key in ("node", "nodes", "name"))
    return [
        str(word)
        for value in found
        for word in (value if isinstance(value, tuple | list) else [value])
        if word
    ]


def releases(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Releases of this installation."""
    from appliance.adapters.local.shipped import list_releases

    return [name for name in list_releases() if name.startswith(incomplete)]


def systems(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Operating systems of nodes."""
    from appliance.lab.layout import SYSTEMS

    return [name for name in ("ubuntu-20.04", *SYSTEMS) if name.startswith(incomplete)]


def models(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Hardware models; after ``NODE=`` as well."""
    from appliance.adapters.local.shipped import find_content_root

    folder = find_content_root() / "hardware"
    before, equals, begun = incomplete.rpartition("=")
    names = (
        str(path.relative_to(folder).with_suffix("")) for path in sorted(folder.glob("*/*.yml"))
    )
    return [f"{before}{equals}{name}" for name in names if name.startswith(begun)]


def pages(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Pages of this installation; decisions only when a number was begun."""
    from appliance.adapters.local.pages import DECISIONS
    from appliance.adapters.local.pages import pages as all_pages

    return [
        page.name
        for page in all_pages()
        if page.name.startswith(incomplete) and (incomplete or page.kind != DECISIONS)
    ]
