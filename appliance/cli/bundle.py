"""``appliance bundle``: everything the nodes will need, on one medium."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import allowed_signers_option, output_option, yes_option
from appliance.cli.render import print_json, print_table
from appliance.errors import NotHealthy

if TYPE_CHECKING:
    from appliance.model.bundle import BundledArtifact, BundleManifest
    from appliance.model.bundle_faults import BundleFault
    from appliance.model.signature import Signature

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
    "--sign-key", type=click.Path(path_type=Path, dir_okay=False, exists=True),
    envvar="APPLIANCE_SIGN_KEY", help="SSH key that signs the bundle when it is whole.",
)  # fmt: skip
@click.option(
    "--standins", is_flag=True, envvar="APPLIANCE_STANDINS",
    help="Put the lab's stand-ins in the place of NVIDIA's and Run:ai's parts. Never for a site.",
)  # fmt: skip
@yes_option
@output_option
@directory_argument
def build(
    directory: Path, release: str, os_name: str, jobs: int, files: Path | None,
    sign_key: Path | None, output: str, *, standins: bool, yes: bool,
) -> None:  # fmt: skip
    """Build a bundle in DIR, or go on with one that was interrupted.

    No host is touched. What will happen on this machine:

    \b
    - each artifact is taken from the first of its sources that works;
    - sources that can not be reached are skipped within seconds, and named;
    - whatever is finished stays in the cache, nothing is fetched or compiled twice;
    - DIR/manifest.json is written last: without it DIR is no bundle;
    - a signature of an earlier manifest is removed, --sign-key makes a new one.

    Example: appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 ./bundle
    """
    from appliance.cli.bundle_parts import build as run
    from appliance.cli.bundle_parts import signature_of
    from appliance.workflows.bundle_build import unverified

    built = run(
        release, os_name, directory,
        jobs=jobs, files=files, sign_key=sign_key, replace_other=yes, standins=standins,
    )  # fmt: skip
    result = _summary(directory, built.manifest, built.digest, signature_of(directory))
    result["verified_never"] = [item.name for item in unverified(built.manifest)]
    _show_summary(result, output)


@bundle.command()
@click.option(
    "--key", required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True),
    envvar="APPLIANCE_SIGN_KEY", help="SSH key to sign with, or its .pub when the agent has it.",
)  # fmt: skip
@output_option
@directory_argument
def sign(directory: Path, key: Path, output: str) -> None:
    """Sign the bundle in DIR with an SSH key.

    No host is touched. What will happen on this machine:

    \b
    - every byte is checked first: only a whole bundle is signed;
    - DIR/manifest.json.sig is written, over another one if there is one;
    - ssh-keygen asks for the key's passphrase itself, unless the SSH agent has the key.

    Example: appliance bundle sign --key ~/.ssh/id_ed25519 ./bundle
    """
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.adapters.bundle_signature import SshSigner
    from appliance.workflows.bundle_sign import sign_bundle

    found = BundleDirectory(directory)
    done = sign_bundle(found, SshSigner(directory, key), lambda text: click.echo(text, err=True))
    result = {"bundle": str(directory), "digest": found.digest, "signed": done.signature}
    _show_summary({**result, "replaced": done.replaced}, output)


@bundle.command()
@allowed_signers_option
@output_option
@directory_argument
def verify(directory: Path, allowed_signers: Path | None, output: str) -> None:
    """Check every byte of the bundle in DIR and name all faults at once.

    Nothing is changed. Exit 5 when a file is missing, extra or not what the manifest says, and,
    with --allowed-signers, when none of them signed the manifest.

    Example: appliance bundle verify --allowed-signers ./allowed_signers ./bundle
    """
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.adapters.bundle_images import image_faults

    found = BundleDirectory(directory)
    signature = found.signature(allowed_signers)
    broken = list(dict.fromkeys([*found.faults(), *image_faults(directory, found.manifest)]))
    faults = [*map(str, broken), *([signature.fault] if signature.fault else [])]
    result = _summary(directory, found.manifest, found.digest, signature)
    result["faults"] = faults
    if output == "json":
        print_json(_plain(result))
    if faults:
        raise _not_healthy(directory, found.manifest, broken, faults)
    if output == "table":
        _show_summary({key: value for key, value in result.items() if key != "faults"}, output)


@bundle.command()
@click.option("--all", "everything", is_flag=True, help="Each package and wheel, too.")
@allowed_signers_option
@output_option
@directory_argument
def show(directory: Path, allowed_signers: Path | None, output: str, *, everything: bool) -> None:
    """Show what the bundle in DIR holds, where it came from and what vouches for it.

    Nothing is read but the manifest and its signature; 'verify' checks the bytes.

    Example: appliance bundle show ./bundle
    """
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.workflows.bundle_build import unverified

    found = BundleDirectory(directory)
    never = [item.name for item in unverified(found.manifest)]
    signature = found.signature(allowed_signers)
    if output == "json":
        said = {"digest": found.digest, "signature": signature.as_json(), "verified_never": never}
        print_json({**said, **found.manifest.as_json()})
        return
    _show_summary(_summary(directory, found.manifest, found.digest, signature), output)
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


def _not_healthy(
    directory: Path, manifest: BundleManifest, broken: list[BundleFault], faults: list[str]
) -> NotHealthy:
    """``broken``: what is wrong with the files; ``faults``: that, and the signature."""
    from appliance.model.bundle_faults import cure

    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    sign = f"one of them signs it: appliance bundle sign --key FILE {shlex.quote(str(directory))}"
    if broken:
        message, hint = "is not whole", cure(str(directory), manifest, broken)
        if len(faults) > len(broken):
            hint += f"; then {sign}"
    else:
        message, hint = "is whole, and not signed by an allowed signer", sign
    return NotHealthy(f"the bundle {directory} {message}: {count}", details=faults, hint=hint)


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
        **({"standins": list(manifest.standins)} if manifest.standins else {}),
    }


def _show_summary(result: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(_plain(result))
        return
    for key, value in result.items():
        shown = ", ".join(value) or "none" if isinstance(value, list) else value
        shown = value.words() if key == "signature" else shown
        click.echo(f"{key.replace('_', ' ')}: {shown}")


def _plain(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value.as_json() if key == "signature" else value for key, value in result.items()}


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
