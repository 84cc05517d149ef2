"""``appliance bundle``: everything the nodes will need, on one medium."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import output_option, yes_option
from appliance.cli.render import print_json, print_table
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.model.bundle import BundledArtifact, BundleManifest

_MEGABYTE = 1_000_000
directory_argument = click.argument(
    "directory", metavar="DIR", type=click.Path(path_type=Path, file_okay=False)
)


@click.group()
def bundle() -> None:
    """Build, check and show bundles: all that an install needs, without internet."""


@bundle.command()
@click.option("--release", required=True, envvar="APPLIANCE_RELEASE", help="Which release.")
@click.option(
    "--os", "os_name", required=True, envvar="APPLIANCE_OS",
    help="The nodes' operating system: ubuntu-20.04 or debian-12.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=4, show_default=True,
    envvar="APPLIANCE_JOBS", help="How many artifacts are taken at a time.",
)  # fmt: skip
@click.option(
    "--files", type=click.Path(path_type=Path, file_okay=False, exists=True),
    envvar="APPLIANCE_FILES", help="Folder of files that only you can bring, each with a .sha256.",
)  # fmt: skip
@click.option(
    "--standins", is_flag=True, envvar="APPLIANCE_STANDINS",
    help="Put the lab's stand-ins in the place of NVIDIA's and Run:ai's parts. Never for a site.",
)  # fmt: skip
@yes_option
@output_option
@directory_argument
def build(
    directory: Path, release: str, os_name: str, jobs: int, files: Path | None, output: str,
    *, standins: bool, yes: bool,
) -> None:  # fmt: skip
    """Build a bundle in DIR, or go on with one that was interrupted.

    No host is touched. What will happen on this machine:

    \b
    - each artifact is taken from the first of its sources that works;
    - sources that can not be reached are skipped within seconds, and named;
    - whatever is finished stays in the cache, nothing is fetched or compiled twice;
    - DIR/manifest.json is written last: without it DIR is no bundle.

    Example: appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 ./bundle
    """
    from appliance.cli.bundle_parts import build as run
    from appliance.workflows.bundle_build import unverified

    built = run(
        release, os_name, directory, jobs=jobs, files=files, replace_other=yes, standins=standins
    )
    result = _summary(directory, built.manifest, built.digest)
    result["verified_never"] = [item.name for item in unverified(built.manifest)]
    _show_summary(result, output)


@bundle.command()
@output_option
@directory_argument
def verify(directory: Path, output: str) -> None:
    """Check every byte of the bundle in DIR and name all faults at once.

    Nothing is changed. Exit 5 when a file is missing, extra or not what the manifest says.

    Example: appliance bundle verify ./bundle
    """
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.adapters.bundle_images import image_faults

    found = BundleDirectory(directory)
    faults = list(dict.fromkeys([*found.faults(), *image_faults(directory, found.manifest)]))
    result = _summary(directory, found.manifest, found.digest)
    result["faults"] = faults
    if output == "json":
        print_json(result)
    if faults:
        manifest = found.manifest
        raise NotHealthy(
            f"the bundle {directory} is not whole: {len(faults)} faults",
            details=faults,
            hint=f"appliance bundle build --release {manifest.release} --os {manifest.os} "
            f"{directory} mends it from the cache",
        )
    if output == "table":
        _show_summary({key: value for key, value in result.items() if key != "faults"}, output)


@bundle.command()
@click.option("--all", "everything", is_flag=True, help="Each package and wheel, too.")
@output_option
@directory_argument
def show(directory: Path, output: str, *, everything: bool) -> None:
    """Show what the bundle in DIR holds, where it came from and what vouches for it.

    Nothing is read but the manifest; 'verify' checks the bytes.

    Example: appliance bundle show ./bundle
    """
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.workflows.bundle_build import unverified

    found = BundleDirectory(directory)
    never = [item.name for item in unverified(found.manifest)]
    if output == "json":
        print_json({"digest": found.digest, "verified_never": never, **found.manifest.as_json()})
        return
    _show_summary(_summary(directory, found.manifest, found.digest), output)
    click.echo()
    shown = [
        item
        for item in found.manifest.artifacts
        if everything or item.kind not in {"package", "wheel"}
    ]
    print_table(
        ("kind", "name", "version", "MB", "source", "vouched for by", "skipped"),
        [_row(item) for item in shown],
    )
    click.echo()
    for line in _skipped(shown):
        click.echo(line)
    click.echo("verified never: " + (", ".join(never) or "none"))
    for name in found.manifest.standins:
        click.echo(f"STANDIN: {name}")


def _summary(directory: Path, manifest: BundleManifest, digest: str) -> dict[str, Any]:
    kinds = [item.kind for item in manifest.artifacts]
    return {
        "bundle": str(directory),
        "digest": digest,
        "release": manifest.release,
        "os": manifest.os,
        "created": manifest.created,
        "files": len(manifest.files),
        "bytes": sum(item.size for item in manifest.files),
        **{f"{kind}s": kinds.count(kind) for kind in dict.fromkeys(kinds)},
        **({"standins": list(manifest.standins)} if manifest.standins else {}),
    }


def _show_summary(result: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(result)
        return
    for key, value in result.items():
        shown = ", ".join(value) or "none" if isinstance(value, list) else value
        click.echo(f"{key.replace('_', ' ')}: {shown}")


def _row(item: BundledArtifact) -> tuple[object, ...]:
    return (
        item.kind,
        f"{item.name} (STANDIN)" if item.standin else item.name,
        item.version,
        f"{item.size / _MEGABYTE:.1f}",
        f"{item.source.kind} {item.source.ref}",
        item.source.verified,
        ", ".join(kind for kind, _, _ in item.source.skipped),
    )


def _skipped(items: list[BundledArtifact]) -> list[str]:
    found = {
        f"skipped: {kind} {ref}: {reason}"
        for item in items
        for kind, ref, reason in item.source.skipped
    }
    return sorted(found)
