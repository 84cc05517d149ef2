"""The keys of a release's archives, from this machine's keyrings and from files of the operator.

Only keys whose fingerprint the release names are taken, whatever else a file holds. What must not
be here: checking signatures (apt does it, with the keys taken here).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from appliance.adapters.local import processes
from appliance.adapters.local.cache import Cache
from appliance.adapters.local.plain_files import read_plain
from appliance.errors import BundleRefused
from appliance.model.bundle.archives.archive import (
    AptArchive,
    keyring_options,
    missing_keys,
    without_keys,
)
from appliance.model.bundle.archives.openpgp import (
    LARGEST_KEYRING,
    NotAKeyring,
    PublicKey,
    read_keys,
)

# Where packages and administrators put keyrings (apt-key(8), sources.list(5) on Signed-By).
PLACES = (
    "/usr/share/keyrings",
    "/etc/apt/keyrings",
    "/etc/apt/trusted.gpg.d",
    "/etc/apt/trusted.gpg",
)
_ENDINGS = (".gpg", ".asc", ".pgp")


def find_keys(
    archives: Sequence[AptArchive],
    given: Sequence[Path],
    *,
    again: str = "",
    root: Path = Path("/"),
) -> Mapping[str, bytes]:
    """Fingerprint -> the key, for the keys that these archives may be signed with.

    Args:
        archives: the archives of a release.
        given: keyrings of the operator; they come before this machine's.
        again: the command to type again; the options for missing keys are added to it.
        root: the tree with this machine's keyrings.

    Raises:
        BundleRefused: a given file is no keyring or holds none of these keys, or an archive has
            no key; all archives at once.
    """
    wanted = {name for item in archives for name in item.keyring.fingerprints}
    found: dict[str, bytes] = {}
    for path in given:
        keys = _given(path)
        _require_one(path, keys, wanted)
        _add(found, keys, wanted)
    for path in _keyrings(root):
        _add(found, _at_hand(path), wanted)
    if missing := without_keys(archives, found):
        raise _refusal(missing, given, again, root)
    return found


def keyring_file(cache: Cache, archive: AptArchive, keys: Mapping[str, bytes]) -> Path:
    """A file with exactly the keys of an archive; the same keys give the same path."""
    ring = b"".join(keys[name] for name in sorted(archive.keyring.fingerprints & set(keys)))
    digest, _ = cache.add_bytes(ring)
    path = cache.work("archive-keys") / f"{digest[:32]}.gpg"
    cache.place(digest, path)
    return path


def _add(found: dict[str, bytes], keys: Sequence[PublicKey], wanted: set[str]) -> None:
    for key in keys:
        if key.fingerprint in wanted:
            found.setdefault(key.fingerprint, key.content)


def _given(path: Path) -> tuple[PublicKey, ...]:
    try:
        return read_keys(read_plain(path, most_bytes=LARGEST_KEYRING, follow=True))
    except OSError as error:
        raise BundleRefused(
            f"--keyring {path} cannot be read: {error.strerror}",
            hint="name a file with the public keys of an archive",
        ) from error
    except NotAKeyring as error:
        raise BundleRefused(
            f"--keyring {path}: {error}",
            hint="download the file again; gpg --show-keys FILE shows the keys of a keyring",
        ) from error


def _require_one(path: Path, keys: Sequence[PublicKey], wanted: set[str]) -> None:
    if wanted.isdisjoint(key.fingerprint for key in keys):
        raise BundleRefused(
            f"--keyring {path} holds no key that the release names",
            details=[
                f"it holds: {', '.join(key.fingerprint for key in keys[:8]) or 'no key'}",
                f"the release names: {', '.join(sorted(wanted)) or 'no key'}",
            ],
            hint="run the command without this --keyring: it then shows which file to download",
        )


def _keyrings(root: Path) -> Iterator[Path]:
    for place in PLACES:
        path = root / place.lstrip("/")
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
        except OSError:
            continue
        yield from (item for item in inside if item.suffix in _ENDINGS and item.is_file())


def _at_hand(path: Path) -> tuple[PublicKey, ...]:
    """The keys of a file of this machine; none of a file that is no keyring."""
    try:
        return read_keys(read_plain(path, most_bytes=LARGEST_KEYRING, follow=True))
    except (OSError, NotAKeyring):
        return ()


def _refusal(
    missing: Sequence[AptArchive], given: Sequence[Path], again: str, root: Path
) -> BundleRefused:
    packages = _packages_here({item.keyring.package for item in missing} - {""})
    places = [*map(str, given), *(str(root / place.lstrip("/")) for place in PLACES)]
    options = keyring_options(missing, packages)
    which = "a package archive" if len(missing) == 1 else f"{len(missing)} package archives"
    return BundleRefused(
        f"this machine lacks the signing keys of {which} of the release",
        details=missing_keys(missing, places, packages),
        hint=" ".join([again or "appliance bundle build", *options]),
    )


def _packages_here(names: set[str]) -> frozenset[str]:
    """The packages that this machine's own archives can install."""
    return frozenset(
        name
        for name in names
        if processes.run(["apt-cache", "madison", name], check=False).stdout.strip()
    )
