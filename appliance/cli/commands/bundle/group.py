"""``appliance bundle``: everything the nodes need, on one medium."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.commands.bundle.carry import (
    delta_summary,
    have,
    join,
    parts_summary,
    plain,
    verify_parts,
)
from appliance.cli.commands.bundle.carry import show as show_facts
from appliance.cli.help.complete import releases, systems
from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    REAL,
    Place,
    allowed_signers_option,
    gpu_operands_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.render import print_json, print_table
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from datetime import datetime

    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.model.bundle.faults import BundleFault
    from appliance.model.bundle.manifest import BundledArtifact, BundleManifest
    from appliance.model.bundle.signature import Signature

_MEGABYTE = 1_000_000
directory_argument = click.argument("directory", metavar="DIR", type=Place(file_okay=False))


def _kernels(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse text that is not a kernel version: it becomes part of package names."""
    from appliance.model.site.fields import is_kernel

    for value in values:
        if not is_kernel(value):
            raise click.BadParameter(
                f"{value!r} is not a kernel version: uname -r prints one, such as 5.4.0-216-generic"
            )
    return values


def _part_bytes(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """The bytes of a SIZE."""
    from appliance.model.bundle.carry.parts import size_of

    if value is None:
        return None
    try:
        return size_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group(cls=Nouns)
def bundle() -> None:
    """Build, check and show bundles: everything that an offline install needs."""


bundle.add_command(have)
bundle.add_command(join)


@bundle.command()
@click.option(
    "--release", required=True, envvar="APPLIANCE_RELEASE", shell_complete=releases,
    help="The release to build.",
)  # fmt: skip
@click.option(
    "--os", "os_name", required=True, envvar="APPLIANCE_OS", shell_complete=systems,
    help="The nodes' operating system: ubuntu-20.04, debian-12 or debian-11.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(1, 64), default=4, show_default=True,
    envvar="APPLIANCE_JOBS", help="How many artifacts to fetch in parallel.",
)  # fmt: skip
@click.option(
    "--files", type=Place(file_okay=False, exists=True),
    envvar="APPLIANCE_FILES", help="Folder of files that you supply yourself, each with a .sha256.",
)  # fmt: skip
@click.option(
    "--sign-key", type=Place(dir_okay=False, exists=True),
    envvar="APPLIANCE_SIGN_KEY", help="SSH key to sign the complete bundle with.",
)  # fmt: skip
@click.option(
    "--keyring", "keyrings", multiple=True,
    type=Place(dir_okay=False, exists=True),
    help="File with public keys of package archives, armoured or binary; repeatable. Only keys "
    "that the release names are used.",
)  # fmt: skip
@click.option(
    "--standins", is_flag=True, envvar="APPLIANCE_STANDINS",
    help="Replace NVIDIA's and Run:ai's components by the lab's stand-ins. Never for a site.",
)  # fmt: skip
@gpu_operands_option
@click.option(
    "--kernel", "kernels", multiple=True, metavar="VERSION", callback=_kernels,
    help="A kernel of nodes with GPUs, as uname -r prints it. Repeatable. Without --kernel and "
    "--site: the newest 5.4 and the newest 5.15 kernel of Ubuntu 20.04.",
)  # fmt: skip
@click.option(
    "--site", type=Place(file_okay=False, exists=True),
    help="Take the kernels that gpu.kernels in this site's site.yml names.",
)  # fmt: skip
@click.option(
    "--without", metavar="LIST", type=Place(dir_okay=False, exists=True),
    help="Leave out the files of this list by 'bundle have': build a delta, for a site that has "
    "them.",
)  # fmt: skip
@click.option(
    "--parts", "part_bytes", metavar="SIZE", callback=_part_bytes,
    help="Then also write the bundle as files of at most SIZE, such as 4G for FAT32, into "
    "DIR-parts-DIGEST.",
)  # fmt: skip
@click.option(
    "--updates-since", type=click.DateTime(formats=["%Y-%m-%d"]), metavar="DATE",
    help="Also carry security updates and kernels that were built since DATE, such as 2026-10-01, "
    "for the packages of --installed.",
)  # fmt: skip
@click.option(
    "--installed", metavar="LIST", type=Place(dir_okay=False, exists=True),
    help="The list of 'site packages': what the nodes have. Needed by --updates-since.",
)  # fmt: skip
@yes_option
@output_option
@directory_argument
def build(
    directory: Path, release: str, os_name: str, jobs: int, files: Path | None,
    sign_key: Path | None, keyrings: tuple[Path, ...], kernels: tuple[str, ...],
    site: Path | None, without: Path | None, part_bytes: int | None,
    updates_since: datetime | None, installed: Path | None, output: str, *,
    standins: bool, gpu_operands: str, yes: bool,
) -> None:  # fmt: skip
    """Build a bundle in DIR, or resume an interrupted build.

    No host is touched. What will happen on this machine:

    \b
    - too little space, a missing key of a package archive, or an artifact
      without any source is refused first;
    - a bundle of another release in DIR is replaced after a question or --yes;
    - each artifact is fetched from the first of its sources that works;
    - a source that cannot be reached is skipped within seconds and reported;
    - finished artifacts stay in the cache: none is fetched or compiled twice;
    - DIR/manifest.json is written last: without it DIR is not a bundle;
    - the signature of an earlier manifest is removed; --sign-key makes a new one;
    - image, modules and headers of each kernel go into it, for NVIDIA's driver;
    - with --without, DIR holds the whole manifest and only what the list lacks;
    - with --updates-since, what 'node patch' installs is an own part of it.

    Example: appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 ./bundle
    """
    from appliance.builder.build import unverified
    from appliance.cli.commands.bundle import parts

    if (updates_since is None) != (installed is None):
        raise click.UsageError(
            "--updates-since and --installed belong together; at the site, write the list: "
            "appliance site packages --out FILE"
        )
    built = parts.build(
        release, os_name, directory,
        jobs=jobs, files=files, sign_key=sign_key, replace_other=yes, standins=standins,
        genuine=gpu_operands == REAL,
        keyrings=keyrings, kernels=parts.kernels_of(site, kernels), without=without,
        part_bytes=part_bytes, since=updates_since and updates_since.date(), installed=installed,
    )  # fmt: skip
    result = _summary(directory, built.manifest, built.digest, parts.signature_of(directory))
    result["verified_never"] = [item.name for item in unverified(built.manifest)]
    if part_bytes is not None:
        result |= parts_summary(parts.cut(directory, part_bytes))
    if without is not None:
        result |= delta_summary(parts.delta_of(built, without), built.manifest, share=True)
    _show_summary(result, output)


@bundle.command()
@click.option(
    "--key", required=True, type=Place(dir_okay=False, exists=True),
    envvar="APPLIANCE_SIGN_KEY",
    help="SSH key to sign with, or its .pub if the SSH agent holds the key.",
)  # fmt: skip
@output_option
@directory_argument
def sign(directory: Path, key: Path, output: str) -> None:
    """Sign the bundle in DIR with an SSH key.

    No host is touched. What will happen on this machine:

    \b
    - every byte is checked first: only a complete bundle is signed;
    - DIR/manifest.json.sig is written and replaces an earlier signature;
    - ssh-keygen asks for the key's passphrase, unless the SSH agent holds the key.

    Example: appliance bundle sign --key ~/.ssh/id_ed25519 ./bundle
    """
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.bundle.signature import SshSigner
    from appliance.builder.sign import sign_bundle

    bundle = BundleDirectory(directory)
    done = sign_bundle(bundle, SshSigner(directory, key), lambda text: click.echo(text, err=True))
    result = {"bundle": str(directory), "digest": bundle.digest, "signed": done.signature}
    _show_summary({**result, "replaced": done.replaced}, output)


@bundle.command()
@allowed_signers_option
@output_option
@directory_argument
def verify(directory: Path, allowed_signers: Path | None, output: str) -> None:
    """Check every byte of the bundle in DIR and report every fault.

    Nothing is changed. Exit 5 if a file is missing, unexpected or differs from the manifest, or,
    with --allowed-signers, if no allowed signer signed the manifest.

    Example: appliance bundle verify --allowed-signers ./allowed_signers ./bundle
    """
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.bundle.images import image_faults
    from appliance.adapters.bundle.parts_media import is_parts_folder

    if is_parts_folder(directory) and not (directory / "manifest.json").is_file():
        verify_parts(directory, allowed_signers, output)
        return
    bundle = BundleDirectory(directory)
    signature = bundle.signature(allowed_signers)
    images = image_faults(directory, bundle.manifest, bundle.elsewhere)
    broken = list(dict.fromkeys([*bundle.faults(), *images]))
    faults = [*map(str, broken), *([signature.fault] if signature.fault else [])]
    result = _summary(directory, bundle.manifest, bundle.digest, signature)
    result |= delta_summary(bundle.delta, bundle.manifest)
    result["faults"] = faults
    if output == "json":
        print_json(plain(result))
    if faults:
        raise _not_healthy(bundle, broken, faults)
    if output == "table":
        _show_summary({key: value for key, value in result.items() if key != "faults"}, output)


@bundle.command()
@click.option(
    "--all", "everything", is_flag=True, help="List every package, update and wheel, too."
)
@allowed_signers_option
@output_option
@directory_argument
def show(directory: Path, allowed_signers: Path | None, output: str, *, everything: bool) -> None:
    """Show the contents of the bundle in DIR, their sources and how each was verified.

    Reads only the manifest and its signature; 'verify' checks the bytes.

    Example: appliance bundle show ./bundle
    """
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.builder.build import unverified

    bundle = BundleDirectory(directory)
    never = [item.name for item in unverified(bundle.manifest)]
    signature = bundle.signature(allowed_signers)
    if output == "json":
        head = {"digest": bundle.digest, "signature": signature.as_json(), "verified_never": never}
        left_out = plain(delta_summary(bundle.delta, bundle.manifest))
        print_json({**head, **left_out, **bundle.manifest.as_json()})
        return
    head = _summary(directory, bundle.manifest, bundle.digest, signature)
    _show_summary({**head, **delta_summary(bundle.delta, bundle.manifest)}, output)
    click.echo()
    shown = [
        item
        for item in bundle.manifest.artifacts
        if everything or item.kind not in {"package", "update", "wheel"}
    ]
    print_table(
        ("kind", "name", "version", "MB", "source", "verified by", "skipped"),
        [_row(item) for item in shown],
        spare=("skipped", "verified by"),
    )
    click.echo()
    for line in _skipped(shown):
        click.echo(line)
    click.echo("never verified: " + (", ".join(never) or "none"))
    for name in bundle.manifest.standins:
        click.echo(f"STANDIN: {name}")


def _not_healthy(
    bundle: BundleDirectory, broken: list[BundleFault], faults: list[str]
) -> NotHealthy:
    """``broken``: faults of the files; ``faults``: these and the fault of the signature."""
    from appliance.model.bundle.faults import cure

    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    place, delta = bundle.directory, bundle.delta
    sign = f"let an allowed signer sign it: appliance bundle sign --key FILE {shlex.quote(place)}"
    if broken:
        message = "is damaged"
        hint = cure(place, bundle.manifest, broken, delta=delta is not None)
        if len(faults) > len(broken):
            hint += f"; then {sign}"
    else:
        whole = "is complete" if delta is None else "is a whole delta"
        message, hint = f"{whole}, but not signed by an allowed signer", sign
    return NotHealthy(f"the bundle {place} {message}: {count}", details=faults, hint=hint)


def _summary(
    directory: Path, manifest: BundleManifest, digest: str, signature: Signature
) -> dict[str, Any]:
    kinds = [item.kind for item in manifest.artifacts]
    return {
        "bundle": str(directory),
        "digest": digest,
        "release": manifest.release,
        "os": manifest.os,
        "created": manifest.created,
        "signature": signature,
        "files": len(manifest.files),
        "bytes": sum(item.size for item in manifest.files),
        **{f"{kind}s": kinds.count(kind) for kind in dict.fromkeys(kinds)},
        **_pythons(manifest),
        **({"updates_since": manifest.updates.since} if manifest.updates else {}),
        **({"standins": list(manifest.standins)} if manifest.standins else {}),
    }


def _pythons(manifest: BundleManifest) -> dict[str, list[str]]:
    tried = [f"{python} ({how})" for python, how in sorted(manifest.pythons.items())]
    return {"wheels_for_python": tried} if tried else {}


def _show_summary(result: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(plain(result))
    else:
        show_facts(result)


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
    lines = {
        f"skipped: {kind} {ref}: {reason}"
        for item in items
        for kind, ref, reason in item.source.skipped
    }
    return sorted(lines)
