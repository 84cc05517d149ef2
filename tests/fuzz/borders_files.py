"""Borders of files: a site, a bundle, a vendor bundle, the journal, what a registry says."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.images import image_faults
from appliance.adapters.bundle.mirror import read_mirror
from appliance.adapters.bundle.oci import referenced
from appliance.adapters.bundle.parts_media import part_fault, parts_in, read_documents
from appliance.adapters.bundle.vendor_bundle import read_contents
from appliance.adapters.control_plane.journal import FileJournal
from appliance.adapters.site.files import SETTINGS, check_site
from appliance.adapters.site.yaml_lines import read_yaml
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.bundle.carry.delta import Delta, left_out
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.carry.parts import (
    INDEX,
    PARTS_DELTA,
    PARTS_MANIFEST,
    Part,
    PartsIndex,
    segments,
    travelling,
)
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.bundle.vendor.bundle import VendorBundle
from appliance.model.control.handover import handover
from appliance.model.control.lock import LockVerdict
from appliance.model.documents.strict_json import Unreadable
from appliance.model.site.files.diagnostics import Document
from appliance.model.site.files.view import site_as_json
from appliance.model.state.journal import Record
from tests import samples
from tests.fakes import RUN_A, RUN_B
from tests.fuzz.campaign import SITE, Border
from tests.fuzz.mutation import Mutator
from tests.site_cases import KNOWN, copy_of_good
from tests.vendor_bundles import tiny_bundle

SITE_FILES = ("hosts.yml", "group_vars/all/site.yml", "host_vars/gpu1.yml", "known_hosts")


def site_directory(mutator: Mutator, folder: Path) -> None:
    """One file of a good site is changed; what passes the check can be shown."""
    site = folder / SITE / "rack7"
    if not site.exists():
        copy_of_good(site)
    path = site / mutator.chance.choice(SITE_FILES)
    good = path.read_bytes()
    path.write_bytes(mutator.content(good))
    try:
        found = check_site(site, known=KNOWN)
        for fault in found.faults:
            str(fault).encode()
        if found.site is not None:
            json.dumps(site_as_json(found.site, _settings(found.documents))).encode()
    finally:
        path.write_bytes(good)


def _settings(documents: Sequence[Document]) -> Document:
    return next(one for one in documents if one.file == SETTINGS)


YAML_PIECES = (
    *(b"a: ", b"b", b": ", b"- ", b"\n", b"  ", b"{", b"}", b"[", b"]", b", ", b"'", b'"', b"|\n"),
    *(b"&a ", b"*a", b"<<: ", b"!!int ", b"!!bool ", b"!!timestamp ", b"!!null ", b"!!float "),
    *(b"!!binary ", b"!!set ", b"!!str ", b"!x ", b"? ", b"# c\n", b"---\n", b"...\n", b"%YAML 1"),
    *(b"1:20:30", b"0x1f", b"1e5", b".inf", b"2001-99-99", b"\\ud800", b'"\\x1b"', b"\t", b"~"),
    *(
        b"\xff",
        b"\xef\xbb\xbf",
        b"\x00",
        b"12_3",
        b"0o7",
        b"yes",
        b"=",
        b">\n ",
        b"!!seq ",
        b"!!map ",
    ),
)


# Whole values: with a tag in front or without, each is a value that some constructor reads.
YAML_TAGS = (b"", b"", b"", b"!!int ", b"!!float ", b"!!bool ", b"!!timestamp ", b"!!null ", b"&a ")
YAML_VALUES = (
    *(b"x", b'""', b"''", b"1", b"-1", b"1_0", b"0x1f", b"0o7", b"0b1", b"1:20:30", b"1:20:30.5"),
    *(
        b"1" + b":20" * 200,
        b"1e5",
        b".inf",
        b"-.INF",
        b".nan",
        b"2001-99-99",
        b"2001-12-14t21:59:43",
    ),
    *(b"2001-12-14 21:59:43.10 -5", b"yes", b"~", b"=", b"*a", b"{a: 1}", b"[1, [2, {b: 3}]]"),
    *(
        b"[" * 60 + b"]" * 60,
        b'"\\ud800"',
        b'"\\x1b[2K"',
        b'"\\0"',
        b"{<<: *a, b: 1}",
        b"{? [1] : 2}",
    ),
    *(
        b"9" * 300,
        b"|\n    text\n    more",
        b">-\n    folded",
        b"'it''s'",
        b"{{ x }}",
        b'"{% x %}"',
    ),
)
YAML_KEYS = (b"a", b"b", b"c", b"<<", b"1", b"yes", b'"k"', b"? k\n", b"~", b"a.b", b"2001-01-01")


def yaml_text(mutator: Mutator, folder: Path) -> None:
    """Lines of keys and values, or pieces of YAML in any order."""
    del folder
    chance = mutator.chance
    if chance.random() < 0.7:
        text = b"".join(
            b"%s%s: %s%s\n"
            % (
                chance.choice((b"", b"", b"", b"  ", b"- ")),
                chance.choice(YAML_KEYS),
                chance.choice(YAML_TAGS),
                chance.choice(YAML_VALUES),
            )
            for _ in range(chance.choice((1, 1, 2, 3, 6)))
        )
    else:
        text = b"".join(chance.choices(YAML_PIECES, k=chance.choice((3, 8, 20, 60))))
    document, faults = read_yaml(mutator.content(text) if chance.random() < 0.2 else text, "x.yml")
    for fault in faults:
        str(fault).encode()
    json.dumps(document.data, default=str).encode()


BLOB = "0" * 64
MANIFEST: dict[str, Any] = {
    **samples.manifest().as_json(),
    "files": [
        {"path": "bin/tool", "sha256": BLOB, "size": 4},
        {"path": f"images/blobs/sha256/{BLOB}", "sha256": BLOB, "size": 2},
    ],
    "artifacts": [
        {
            **{"name": "tool", "version": "1", "kind": "binary", "path": "bin/tool"},
            **{"sha256": BLOB, "size": 4},
            "source": {
                **{"kind": "go", "ref": "r", "verified": "gosum"},
                "skipped": [{"kind": "url", "ref": "u", "reason": "w"}],
            },
        }
    ],
}


class _Says(SshNodes):
    def __init__(self, text: str) -> None:
        super().__init__(samples.site())
        self.text = text

    def run(self, *_words: Any, **_more: Any) -> Answer:
        return Answer(0, self.text, "")


def bundle_manifest(mutator: Mutator, folder: Path) -> None:
    """A bundle's manifest, here and on the services node, and the index of its images."""
    bundle = folder / SITE / "bundle"
    (bundle / "bin").mkdir(parents=True, exist_ok=True)
    (bundle / "bin" / "tool").write_bytes(b"tool")
    (bundle / "images" / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (bundle / "images" / "blobs" / "sha256" / BLOB).write_bytes(
        mutator.text({"config": {"digest": f"sha256:{BLOB}", "size": 2}, "layers": []})
    )
    indexed = {
        "digest": f"sha256:{BLOB}",
        "annotations": {"org.opencontainers.image.ref.name": next(iter(MANIFEST["images"]))},
    }
    (bundle / "images" / "index.json").write_bytes(mutator.text({"manifests": [indexed]}))
    text = mutator.text(MANIFEST)
    read_mirror(samples.desired(with_bundle=False), _Says(text.decode("utf-8", "replace")))
    (bundle / "manifest.json").write_bytes(text)
    found = BundleDirectory(bundle)
    found.faults()
    image_faults(bundle, found.manifest)
    manifest = found.manifest
    manifest.packages_of(*manifest.package_roots)
    manifest.binary_sha256("kubeadm")
    json.dumps(manifest.as_json()).encode()


def travelling_bundle(mutator: Mutator, folder: Path) -> None:
    """What comes on a stick: a list, the document of a delta, and the documents of parts."""
    stick = folder / SITE / "stick"
    stick.mkdir(exist_ok=True)
    manifest = json.dumps(MANIFEST).encode()
    digest = hashlib.sha256(manifest).hexdigest()
    held = HaveList.of(BundleManifest.parse(MANIFEST), digest)
    delta = Delta("bundle delta", digest, BLOB, ("bin/tool",))
    # Only the blob of two bytes travels.
    index = PartsIndex("bundle parts", digest, 1, (Part(1, BLOB), Part(1, BLOB)), ("bin/tool",))
    documents = {
        PARTS_MANIFEST: manifest,
        PARTS_DELTA: json.dumps(delta.as_json()).encode(),
        INDEX: json.dumps(index.as_json()).encode(),
    }
    changed = mutator.chance.choice([*documents, "list"])
    for name, content in documents.items():
        (stick / name).write_bytes(mutator.content(content) if name == changed else content)
    text = held.text().encode()
    found = HaveList.parse(mutator.content(text) if changed == "list" else text, "LIST")
    (stick / index.name(1)).write_bytes(b"x")
    read = read_documents(stick)
    left_out(read.manifest.files, found)
    for number, paths in parts_in([stick], read.index).items():
        part_fault(paths[0], read.index, number)
    list(segments(travelling(read.manifest, read.delta), read.index.part_bytes))


def vendor_bundle(mutator: Mutator, folder: Path) -> None:
    """The vendor's tar, or what lies in it."""
    good = folder / SITE / "good"
    if not good.exists():
        good.mkdir()
        tiny_bundle("2.7.1", good).rename(good / "plain.tar")
        tiny_bundle("2.7.1", good, compressed=True).rename(good / "packed.tar.gz")
    content = (
        good / mutator.chance.choice(("plain.tar", "plain.tar", "packed.tar.gz"))
    ).read_bytes()
    path = folder / SITE / "runai.tar"
    path.write_bytes(_in_headers(mutator, content))
    found = VendorBundle(read_contents(path))
    for fault in found.faults("1.23.5"):
        fault.encode("utf-8", "backslashreplace")
    json.dumps(vars(found.contents)).encode()


def _in_headers(mutator: Mutator, content: bytes) -> bytes:
    """Half of the changes hit a header, where there is something to read."""
    if mutator.chance.random() < 0.5 or len(content) < 2048:
        return mutator.content(content)
    at = mutator.chance.randrange(len(content) // 512) * 512
    return content[:at] + mutator.content(content[at : at + 512]) + content[at + 512 :]


RECORD = Record(
    *(RUN_A, 1, "node role set", "host", ("cp1", "w1"), ("w1: swap is on",)),
    *("2026-01-01T00:00:00+00:00", 2.5, "failed", "ada", "0.1.0", "ab" * 32),
    before={"w1": "aa"},
    after={"w1": "bb"},
    error="w1: no",
    host="laptop",
    arguments=("w1", "--role", "gpu"),
).as_json()
NAMES = (
    *(f"{RUN_A}-001.json", f"{RUN_A}-001.json", f"{RUN_B}-001.json", f"../{RUN_A}-001.json"),
    *("../../theirs", "index.sqlite", "/theirs", ".hidden.json", "a\x00b.json", "x" * 300),
)


def journal_record(mutator: Mutator, folder: Path) -> None:
    """Records that other machines wrote, and files that lie in the journal."""
    place = folder / SITE / ".appliance" / "journal"
    if place.exists():
        shutil.rmtree(place)
    journal = FileJournal(place)
    merged = journal.merge(
        {
            mutator.chance.choice(NAMES): mutator.text(RECORD).decode("utf-8", "replace")
            for _ in range(2)
        }
    )
    for sentence in merged.skipped:
        sentence.encode("utf-8", "backslashreplace")
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{RUN_B}-002.json").write_bytes(mutator.text({**RECORD, "run": RUN_B, "sequence": 2}))
    (place / "index.sqlite").write_bytes(mutator.content(b"SQLite format 3\x00" * 64))
    journal.skipped()
    journal.durations()
    found = handover(journal.read(), LockVerdict("open"))
    if found.unfinished is not None:
        (found.unfinished.sentence + " ".join(found.unfinished.words)).encode()
    journal.read(limit=1)
    journal.append(_own(mutator))


def _own(mutator: Mutator) -> Record:
    """A record of this machine, with whatever a program said in it."""
    said = mutator.content(b"w1: the program said: error\n").decode("utf-8", "surrogateescape")
    fields: dict[str, Any] = {**RECORD, "run": RUN_B, "sequence": 9, "error": said, "host": said}
    del fields["schema"]
    return Record(**fields)


IMAGE = {
    "config": {"digest": f"sha256:{BLOB}", "size": 2},
    "layers": [{"digest": f"sha256:{BLOB}", "size": 2}],
}


def registry_manifest(mutator: Mutator, folder: Path) -> None:
    """The manifest of an image, as a registry gives it."""
    del folder
    for blob in referenced(mutator.data(IMAGE)):
        if "/" in blob.sha256 or len(blob.sha256) != 64:
            raise AssertionError(f"{blob.sha256!r} names a file")


FILES: tuple[Border, ...] = (
    Border("site directory", site_directory),
    Border("YAML", yaml_text),
    Border("bundle manifest", bundle_manifest),
    Border("delta and parts", travelling_bundle),
    Border("vendor bundle", vendor_bundle),
    Border("journal records", journal_record),
    Border("registry manifest", registry_manifest, (Unreadable,)),
)
