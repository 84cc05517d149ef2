"""The faults of a bundle's files, and the remedy for each kind.

Building again repairs the files that a build writes. A build never touches foreign files, on
purpose: the operator removes them by hand, and also whatever blocks the path of a bundle's file.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest

# build: building again repairs it; stranger: a file that no build wrote; in the way: something
# blocks the path of a file; access: this user may not read it.
Kind = Literal["build", "stranger", "in the way", "access"]
_SHOWN: Final = 3


@dataclass(frozen=True)
class BundleFault:
    """One fault.

    Attributes:
        text: one sentence, the path first.
        path: the path, relative to the bundle, that a person has to fix; empty if a build can.
    """

    text: str
    kind: Kind = "build"
    path: str = ""

    def __str__(self) -> str:
        return self.text


def cure(
    directory: str, manifest: BundleManifest, faults: Sequence[BundleFault], *, delta: bool = False
) -> str:
    """The remedies in the order to apply them; empty without faults.

    Args:
        directory: the bundle's.
        manifest: the bundle's.
        faults: what is wrong with its files.
        delta: whether it leaves out what a site has.
    """
    return "; then ".join(_cures(directory, manifest, faults, delta=delta))


def build_command(directory: str, manifest: BundleManifest, *, delta: bool = False) -> str:
    """The command that builds this bundle again, with its options."""
    # A release's own stand-in is a program, compiled where the vendor's file cannot be reached.
    asked = any(item.standin and item.source.kind != "go" for item in manifest.artifacts)
    options = [
        *("--release", manifest.release, "--os", manifest.os),
        *(["--standins"] if asked else []),
    ]
    # A placeholder, not quoted: the manifest does not record the folder of the files.
    files = ["--files FOLDER"] if any(a.source.kind == "file" for a in manifest.artifacts) else []
    files += ["--without LIST"] if delta else []
    return " ".join(["appliance bundle build", shlex.join(options), *files, shlex.quote(directory)])


def _cures(
    directory: str, manifest: BundleManifest, faults: Sequence[BundleFault], *, delta: bool
) -> Iterator[str]:
    def places(kind: Kind) -> str:
        paths = dict.fromkeys(fault.path for fault in faults if fault.kind == kind)
        shown = [shlex.quote(f"{directory}/{path}") for path in list(paths)[:_SHOWN]]
        more = len(paths) - len(shown)
        return " ".join(shown) + (f" and {more} more" if more else "")

    if where := places("access"):
        yield f"let this user read {where}, or use a user who can"
    if where := places("stranger"):
        yield f"remove by hand what no build wrote: {where}"
    if where := places("in the way"):
        yield f"remove what blocks the path of a bundle's file: {where}"
    if any(fault.kind in ("build", "in the way") for fault in faults):
        rest = "it" if len({fault.kind for fault in faults}) == 1 else "the rest"
        build = build_command(directory, manifest, delta=delta)
        yield f"{build} repairs {rest}, from the cache or the internet"
