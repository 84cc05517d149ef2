#!/usr/bin/python3
"""STANDIN for packages of an operating system and their updates, as folders.

Usage: archive_standin.py FOLDER
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

CONF = "/etc/sample-agent.conf"
BEFORE = {
    "sample-agent": ("1.0", ""),
    "sample-held": ("1.0", ""),
    "sample-cut": ("1.0", ""),
}
UPDATES = {
    "sample-agent": ("2.0", "sample-new"),
    "sample-held": ("2.0", ""),
    "sample-new": ("1.0", ""),
    "linux-image-6.1.0-999-sample": ("6.1.999-1", ""),
}


def build(name, version, depends, folder):
    """Build one package; return its paragraph of the index."""
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\n"
    control += "Maintainer: STANDIN <standin@example.invalid>\n"
    control += f"Depends: {depends}\n" if depends else ""
    control += f"Description: STANDIN for {name}\n"
    files = {"/DEBIAN/control": control, f"/usr/lib/{name}/version": version + "\n"}
    if name == "sample-agent":
        files["/DEBIAN/conffiles"] = CONF + "\n"
        files[CONF] = f"version = {version}\n"
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            place = Path(root + path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o644)
        Path(root).chmod(0o755)
        package = Path(folder, name + ".deb")
        subprocess.run(["/usr/bin/dpkg-deb", "--build", root, str(package)], check=True)  # noqa: S603 - our own words
    raw = package.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    return control + f"Filename: ./{package.name}\nSize: {len(raw)}\nSHA256: {digest}\n"


def main(place):
    """Build what is installed, then the updates; the index comes last."""
    for folder, packages in (("before", BEFORE), ("updates", UPDATES)):
        where = Path(place, folder)
        where.mkdir(parents=True, exist_ok=True)
        index = "\n".join(build(name, *packages[name], where) for name in sorted(packages))
        (where / "Packages").write_text(index)


if __name__ == "__main__":
    main(sys.argv[1])
