"""How a bundle travels: ``bundle have``, ``bundle join``, and what deltas and parts show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import Place, output_option
from appliance.cli.screen.render import print_json
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.builder.parts import PartsResult
    from appliance.cli.app import Application
    from appliance.model.bundle.carry.delta import Delta
    from appliance.model.bundle.manifest import BundleManifest

_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Fact:
    """A value of a summary: for a person, and for ``--output json``."""

    text: str
    data: Any

    def words(self) -> str:
        """For one line of output."""
        return self.text

    def as_json(self) -> Any:
        """For JSON; the keys are a contract."""
        return self.data


def delta_summary(
    delta: Delta | None, manifest: BundleManifest, *, share: bool = False
) -> dict[str, Fact]:
    """What a delta expects at the site; empty for a whole bundle.

    Args:
        delta: what is left out.
        manifest: the bundle's.
        share: also compare its size with the whole bundle's.
    """
    if delta is None:
        return {}
    expected = delta.expected_bytes(manifest)
    data = {"without": delta.without, "files": len(delta.files), "bytes": expected}
    found = {"delta": Fact(delta.words(manifest), data)}
    if share:
        whole = sum(file.size for file in manifest.files)
        ratio = round((whole - expected) / whole, 4) if whole else 1.0
        found["delta_share_of_whole"] = Fact(delta.share_words(manifest), ratio)
    return found


def parts_summary(done: PartsResult) -> dict[str, Fact]:
    """Where the parts are, and what to do with them."""
    count, largest = len(done.index.parts), done.index.part_bytes / _MEGABYTE
    text = f"{count} file{'s' if count != 1 else ''} of at most {largest:.0f} MB in {done.folder}"
    data = {
        "folder": str(done.folder),
        "count": count,
        "part_bytes": done.index.part_bytes,
        "kept": done.kept,
    }
    return {"parts": Fact(text, data)}


@click.command()
@click.option(
    "--site", type=Place(file_okay=False, exists=True),
    help="The site whose services node is asked, instead of DIR.",
)  # fmt: skip
@click.option("--out", type=Place(dir_okay=False), help="File to write. Default: standard output.")
@click.argument("directory", metavar="[DIR]", required=False, type=Place(file_okay=False))
@click.pass_obj
def have(app: Application, directory: Path | None, site: Path | None, out: Path | None) -> None:
    """List what a bundle holds, by the sha256 of its files.

    The list is one JSON document, for 'bundle build --without' on the build
    machine. Nothing is changed.

    \b
    - DIR: the manifest of this bundle is read; 'verify' checks its bytes;
    - --site: the manifest of the bundle on the services node, after the checks
      of every command;
    - the list has digests and sizes only: no secret of the site.

    Example: appliance bundle have --site inventories/rack7 --out have.json
    """
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.bundle.have import mirrored_list
    from appliance.model.bundle.carry.delta import megabytes
    from appliance.model.bundle.carry.have import HaveList

    if directory is not None and site is None:
        bundle = BundleDirectory(directory)
        found = HaveList.of(bundle.manifest, bundle.digest)
    elif site is not None and directory is None:
        found = mirrored_list(app.connect(site).load_inventory())
    else:
        raise click.UsageError("give either DIR or --site SITE")
    if out is None:
        click.echo(found.text(), nl=False)
    else:
        from appliance.adapters.bundle.have import write_have

        write_have(out, found)
    size = megabytes(sum(file.size for file in found.files))
    click.echo(
        f"note: bundle {found.bundle[:12]} of {found.release} for {found.os} holds {size} MB, in "
        f"{len(found.files)} different files; on the build machine: "
        f"appliance bundle build --without {out or 'LIST'}",
        err=True,
    )


@click.command()
@click.option(
    "--to", "target", required=True, type=Place(file_okay=False),
    help="The directory that becomes the bundle: empty, new, or of an earlier call.",
)  # fmt: skip
@output_option
@click.argument("places", metavar="PARTS...", nargs=-1, required=True, type=Place(exists=True))
def join(places: tuple[Path, ...], target: Path, output: str) -> None:
    """Join the parts of a bundle from one or several media.

    PARTS are the folders of the media, or single files of parts. No host is
    touched. What will happen on this machine:

    \b
    - each part is read once, and counts only if its sha256 is right;
    - with some parts missing, those are named, and the exit code is 1: connect
      the next medium, and run the command again with its folder;
    - a medium that was pulled costs only the part that was being read;
    - DIR/manifest.json is written last, after every file was compared with it.

    Example: appliance bundle join /media/stick1 --to /srv/bundle
    """
    from appliance.builder.join import join_parts

    done = join_parts(places, target, lambda text: click.echo(text, err=True))
    joined = list(done.joined)
    if output == "json":
        print_json({"bundle": str(target), "digest": done.digest, "joined": joined})
        return
    click.echo(f"bundle: {target}")
    click.echo(f"digest: {done.digest}")
    if not joined:
        click.echo("the parts were joined before: nothing was done")


def verify_parts(folder: Path, allowed: Path | None, output: str) -> None:
    """Check the parts in one folder; parts of other media are no fault."""
    from appliance.adapters.bundle.parts_media import part_fault, parts_in, read_documents
    from appliance.model.bundle.carry.parts import numbers_in_words

    documents = read_documents(folder)
    index = documents.index
    found = parts_in([folder], index)
    signature = documents.judge(allowed)
    broken = [fault for n, paths in found.items() if (fault := part_fault(paths[0], index, n))]
    faults = [*broken, *([signature.fault] if signature.fault else [])]
    elsewhere = [number for number in index.numbers if number not in found]
    result: dict[str, Any] = {
        "parts": str(folder),
        "digest": index.bundle,
        "release": documents.manifest.release,
        "os": documents.manifest.os,
        "signature": signature,
        "count": len(index.parts),
        "here": Fact(numbers_in_words(list(found)), sorted(found)),
        "on_other_media": Fact(numbers_in_words(elsewhere), elsewhere),
        **delta_summary(documents.delta, documents.manifest),
    }
    if output == "json":
        print_json({**plain(result), "faults": faults})
    if faults:
        raise NotHealthy(
            f"the parts in {folder} are damaged: {len(faults)} fault"
            f"{'s' if len(faults) != 1 else ''}",
            details=faults,
            hint="copy the damaged parts to the medium again, from the folder that the build wrote",
        )
    if output == "table":
        show(result)


def show(result: dict[str, Any]) -> None:
    """Print a summary, one value a line."""
    for key, value in result.items():
        shown = ", ".join(value) or "none" if isinstance(value, list) else value
        shown = shown.words() if hasattr(shown, "words") else shown
        click.echo(f"{key.replace('_', ' ')}: {shown}")


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """A summary as data."""
    return {
        key: value.as_json() if hasattr(value, "as_json") else value
        for key, value in result.items()
    }
