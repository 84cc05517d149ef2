"""Signed package archives with suites and components, laid out as Ubuntu's and Docker's are."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.prerequisites import require

ARCHITECTURE = "amd64"


class Keys:
    """OpenPGP keys of a test: one for each owner."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def make(self, owner: str, *, expired: bool = False) -> None:
        """A signing key; an expired one was valid for a day in 2020."""
        then = ["--faked-system-time", "20200101T000000"] if expired else []
        self.gpg(
            *then, "--passphrase", "", "--quick-generate-key", f"{owner}@example.test", "ed25519",
            "sign", "1d" if expired else "never",
        )  # fmt: skip

    def fingerprint(self, owner: str) -> str:
        lines = self.gpg("--with-colons", "--list-keys", f"{owner}@example.test").decode()
        found = re.search(r"^[a-z]+:{9}([0-9A-F]{40}):$", lines, re.MULTILINE)
        assert found is not None, "the premise: gpg lists fingerprints"
        return found[1]

    def export(self, *owners: str, armour: bool = False) -> bytes:
        names = [f"{owner}@example.test" for owner in owners]
        return self.gpg(*(["--armor"] if armour else []), "--export", *names)

    def gpg(self, *argv: str | Path) -> bytes:
        return subprocess.run(
            ["gpg", "--batch", "--yes", "--homedir", self._home, *argv],
            check=True,
            capture_output=True,
        ).stdout


@contextmanager
def keys() -> Iterator[Keys]:
    """A home for keys in a short path: an agent's socket needs one."""
    require("gpg", "gpg-agent", "gpgconf")
    with tempfile.TemporaryDirectory(prefix="gpg-") as name:
        yield Keys(Path(name))
        subprocess.run(["gpgconf", "--homedir", name, "--kill", "all"], check=False)


class Suites:
    """One archive on disk: ``pool`` and ``dists/<suite>/<component>/binary-amd64``."""

    def __init__(self, folder: Path, keys: Keys, owner: str) -> None:
        self.folder, self.keys, self.owner = folder, keys, owner
        self._suites: dict[tuple[str, str], list[str]] = {}
        (folder / "pool").mkdir(parents=True)

    def add(
        self,
        suite: str,
        component: str,
        name: str,
        version: str = "1.0",
        files: dict[str, str] | None = None,
        **fields: str,
    ) -> None:
        """A package with some files, whose mode is that of a program."""
        tree = self.folder.parent / f"trees-{self.folder.name}" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        for path, content in {f"usr/share/{name}/version": version, **(files or {})}.items():
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(content)
            (tree / path).chmod(0o755)
        control = {
            "Package": name, "Version": version, "Architecture": ARCHITECTURE,
            "Maintainer": "Nobody <nobody@example.test>",
            **{key.replace("_", "-"): value for key, value in fields.items()},
            "Description": "a package of a test",
        }  # fmt: skip
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        (tree / "DEBIAN/control").write_text(text)
        # As archives name files: without the epoch.
        file = f"pool/{name}_{version.partition(':')[2] or version}_{ARCHITECTURE}.deb"
        subprocess.run(
            ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, self.folder / file],
            check=True,
            capture_output=True,
        )
        packed = (self.folder / file).read_bytes()
        place = (
            f"Filename: {file}\nSize: {len(packed)}\nSHA256: {hashlib.sha256(packed).hexdigest()}\n"
        )
        self._suites.setdefault((suite, component), []).append(text + place)

    def publish(
        self,
        suites: Sequence[str],
        components: Sequence[str],
        *,
        valid_until: str = "",
        signer: str = "",
        signed_in: str = "",
    ) -> None:
        """Write and sign the indexes of these suites."""
        for suite in suites:
            # A suite that is a path has no components: one index, beside the signature.
            folder = self.folder if suite == "/" else self.folder / "dists" / suite
            lines = [
                "Origin: test", f"Suite: {suite}", f"Codename: {suite}",
                f"Date: {datetime.now(UTC):%a, %d %b %Y %H:%M:%S} UTC",
                *([f"Valid-Until: {valid_until}"] if valid_until else []),
                f"Architectures: {ARCHITECTURE}",
                *([f"Components: {' '.join(components)}"] if components else []), "SHA256:",
            ]  # fmt: skip
            for component in components or ("",):
                index = "\n".join(self._suites.get((suite, component), [])).encode()
                below = f"{component}/binary-{ARCHITECTURE}/" if component else ""
                (folder / below).mkdir(parents=True, exist_ok=True)
                for name, content in {
                    f"{below}Packages": index,
                    f"{below}Packages.gz": gzip.compress(index, mtime=0),
                }.items():
                    (folder / name).write_bytes(content)
                    digest = hashlib.sha256(content).hexdigest()
                    lines.append(f" {digest} {len(content)} {name}")
            (folder / "Release").write_text("\n".join(lines) + "\n")
            self.sign(folder, signer or self.owner, signed_in)

    def sign(self, folder: Path, owner: str, when: str = "") -> None:
        then = ["--faked-system-time", when] if when else []
        self.keys.gpg(
            *then, "--local-user", f"{owner}@example.test", "--clearsign",
            "--output", folder / "InRelease", folder / "Release",
        )  # fmt: skip
