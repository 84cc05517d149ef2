"""What is wrong with a bundle's files, and what mends each kind of fault.

Building again mends what a build made. What no build put there is left alone by it, on purpose, so
it goes by hand; so does what stands in a build's way.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from appliance.model.bundle import BundleManifest

# build: by building again; stranger: nobody's of ours; in the way: no build can write there;
# access: this user may not read it.
Kind = Literal["build", "stranger", "in the way", "access"]
_SHOWN: Final = 3


@dataclass(frozen=True)
class BundleFault:
    """One fault.

    Attributes:
        text: one sentence, its path first.
        path: relative to the bundle, of what a person has to touch; empty where a build mends it.
    """

    text: str
    kind: Kind = "build"
    path: str = ""

    def __str__(self) -> str:
        return self.text


def cure(directory: str, manifest: BundleManifest, faults: Sequence[BundleFault]) -> str:
    """What to do about faults, in the order in which it helps; empty where there are none."""
    return "; then ".join(_cures(directory, manifest, faults))


def build_command(directory: str, manifest: BundleManifest) -> str:
    """The command that builds this bundle again, with the options that it needs."""
    options = [
        *("--release", manifest.release, "--os", manifest.os),
        *(["--standins"] if manifest.standins else []),
    ]
    # A placeholder, so it is not quoted: nobody wrote down where the files came from.
    files = ["--files FOLDER"] if any(a.source.kind == "file" for a in manifest.artifacts) else []
    return " ".join(["appliance bundle build", shlex.join(options), *files, shlex.quote(directory)])


def _cures(
    directory: str, manifest: BundleManifest, faults: Sequence[BundleFault]
) -> Iterator[str]:
    def places(kind: Kind) -> str:
        paths = dict.fromkeys(fault.path for fault in faults if fault.kind == kind)
        shown = [shlex.quote(f"{directory}/{path}") for path in list(paths)[:_SHOWN]]
        more = len(paths) - len(shown)
        return " ".join(shown) + (f" and {more} more" if more else "")

    if where := places("access"):
        yield f"give this user the right to read {where}, or be one who may"
    if where := places("stranger"):
        yield f"take away by hand what no build put there and none removes: {where}"
    if where := places("in the way"):
        yield f"take away what is in the way of the bundle's own file: {where}"
    if any(fault.kind in ("build", "in the way") for fault in faults):
        rest = "it" if len({fault.kind for fault in faults}) == 1 else "the rest"
        build = build_command(directory, manifest)
        yield f"{build} mends {rest}, from the cache or the internet"
