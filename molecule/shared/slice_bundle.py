"""Make a small bundle out of a whole one: packages, crane, a few images and files, as hard links.

Usage: slice_bundle.py WHOLE SLICE NAME:TAG|FOLDER/FILE...
"""

import json
import os
import shutil
import sys
from pathlib import Path


def blobs_of(whole: Path, digest: str) -> set[str]:
    """Return the paths of a manifest and of everything it names."""
    path = f"images/blobs/{digest.replace(':', '/')}"
    document = json.loads((whole / path).read_text())
    parts = [document["config"], *document["layers"]] if "layers" in document else []
    return {path, *(f"images/blobs/{part['digest'].replace(':', '/')}" for part in parts)}


def wanted(whole: Path, manifest: dict, images: list[str]) -> set[str]:
    """Return the paths that the slice holds."""
    paths = {entry["path"] for entry in manifest["files"] if entry["path"].startswith("apt/")}
    paths |= {"bin/crane", "images/oci-layout", "images/index.json"}
    return paths.union(*(blobs_of(whole, manifest["images"][image]) for image in images))


def place(source: Path, target: Path) -> None:
    """Link a file, or copy it to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def main(whole: Path, target: Path, names: list[str]) -> None:
    """Make the slice; the manifest comes last."""
    manifest = json.loads((whole / "manifest.json").read_text())
    images = [name for name in names if ":" in name]
    paths = wanted(whole, manifest, images) | {name for name in names if "/" in name}
    shutil.rmtree(target, ignore_errors=True)
    for path in sorted(paths):
        place(whole / path, target / path)
    manifest["images"] = {image: manifest["images"][image] for image in images}
    manifest["files"] = [entry for entry in manifest["files"] if entry["path"] in paths]
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
