"""``appliance lab up --like SITE``: what was kept of a site, as the plan of a lab."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from appliance.errors import BundleRefused
from appliance.lab.like import like_extras, like_name

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.commands.lab.parts import LabParts
    from appliance.model.upgrade.rehearsal.likeness import Likeness

# What the site decides, so that nobody may ask for it as well.
_SHAPE = {
    "control_planes": "--control-planes",
    "workers": "--workers",
    "gpus": "--gpus",
}


def require_no_shape(context: click.Context) -> None:
    """Refuse options that say what the site says.

    Raises:
        click.UsageError: names the first one.
    """
    for parameter, option in _SHAPE.items():
        if context.get_parameter_source(parameter) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option} with --like: the site decides that")


def like_parts(
    app: Application,
    like: Path,
    given: tuple[str, Path | None, Path | None, str | None],
    operating_system: str,
    *,
    runai: str,
    bmcs: bool,
    genuine: bool,
) -> LabParts:
    """Everything that ``lab up --like`` needs.

    Args:
        app: reaches sites.
        like: the directory of the site.
        given: the lab's name, its site's directory, its bundle and release, as typed.
        operating_system: of the lab's nodes.
        runai: the version of Run:ai whose stand-in is installed; empty: none.
        bmcs: whether each node has a BMC.
        genuine: whether NVIDIA's own operands are among the stand-ins.

    Raises:
        PreflightFailed: too little is known of the site.
        BundleRefused: the bundle of the site's release is missing.
    """
    from appliance.cli.commands.lab.parts import LabParts

    name, site, bundle, release = given
    source = click.get_current_context().get_parameter_source("name")
    likeness = likeness_of(app, like, release)
    if source is ParameterSource.DEFAULT:
        name = like_name(likeness.site)
    extras = replace(like_extras(likeness, runai=runai), bmcs=bmcs)
    parts = LabParts(
        app, name, site, bundle, likeness.release, extras,
        operating_system=operating_system, genuine=genuine, like=likeness,
    )  # fmt: skip
    _require_bundle(parts, like)
    return parts


def likeness_of(app: Application, directory: Path, release: str | None) -> Likeness:
    """The plan of a lab like the site in a directory; nothing is asked of the site.

    Raises:
        ConfigError: the site's files or its release are wrong.
        PreflightFailed: too little is known of it.
    """
    from appliance.adapters.local.content import load_release
    from appliance.cli.screen.render import show_warnings
    from appliance.cli.wiring import last_facts
    from appliance.model.upgrade.rehearsal.likeness import SeenSite, plan_likeness

    site = app.site(directory)
    kept = last_facts(site).read()
    if kept.unread:
        show_warnings(list(kept.unread))
    name = release or site.settings.appliance_release
    kubernetes = load_release(name).versions.kubernetes
    version = f"v{kubernetes.removeprefix('v')}"
    records = app.journal(directory).read()
    folder = str(site.directory.resolve())
    return plan_likeness(SeenSite(site, name, version, kept.nodes, kept.cluster, records, folder))


def _require_bundle(parts: LabParts, like: Path) -> None:
    """Refuse without the bundle of the site's release for the lab's operating system."""
    from appliance.adapters.bundle.directory import BundleDirectory

    wanted = f"the bundle of {parts.release} for {parts.operating_system}"
    standins = " --standins" if parts.standins else ""
    hint = (
        f"appliance lab up --like {shlex.quote(str(like))} --bundle DIR (to build it: appliance "
        f"bundle build --release {parts.release} --os {parts.operating_system}{standins} DIR)"
    )
    if not (parts.bundle / "manifest.json").is_file():
        raise BundleRefused(f"found no bundle in {parts.bundle}, expected {wanted}", hint=hint)
    manifest = BundleDirectory(parts.bundle).manifest
    if (manifest.release, manifest.os) != (parts.release, parts.operating_system):
        raise BundleRefused(
            f"found the bundle of {manifest.release} for {manifest.os} in {parts.bundle}, "
            f"expected {wanted}",
            hint=hint,
        )


def like_lines(like: Likeness) -> list[str]:
    """What the lab has of the site, and what it has not, one line each."""
    from appliance.lab.alike import not_made

    lines = [f"like {like.site}, with {like.release}"]
    for node in like.nodes:
        what = ", ".join(node.groups)
        others = f", for {', '.join(node.stands_for)} as well" if node.stands_for else ""
        seen = f"seen {node.seen}" if node.seen else "never seen"
        lines.append(f"{node.name}: {what}{others}; {seen}")
    for one, nodes, reason in not_made(like):
        where = f" on {', '.join(nodes)}" if nodes else ""
        why = f"; not in the lab: {reason}" if reason else ""
        lines.append(f"made by hand{where}: {one.sentence()}{why}")
    return lines + [f"otherwise than the site: {text}" for text in like.differences]


def rehearse_hint(site: Path, *, bare: bool) -> str:
    """The command that rehearses the upgrade in the lab, or the restore in a bare one."""
    if bare:
        return (
            "appliance cluster restore FILE --identity KEY --new-machines --bundle DIR --site "
            + shlex.quote(str(site))
        )
    return f"appliance cluster upgrade --to RELEASE --bundle DIR --site {shlex.quote(str(site))}"
