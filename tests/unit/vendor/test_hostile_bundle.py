"""A vendor bundle that somebody made to harm is a file with faults: no memory, no traceback."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from appliance.adapters.bundle import vendor_bundle
from appliance.adapters.bundle.vendor_bundle import known_vendor_bundle, load_vendor_bundle
from appliance.cli import app
from appliance.model.bundle.vendor.bundle import VendorBundle
from tests import samples
from tests.vendor_bundles import tiny_bundle, with_member, without

KUBERNETES = "1.23.5"
CHART = "deploy/runai-cluster-2.7.1.tgz"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))


def faults(path: Path) -> tuple[str, ...]:
    return VendorBundle(vendor_bundle.read_contents(path)).faults(KUBERNETES)


def packed(**files: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


CHARTS: dict[str, bytes] = {
    "broken": b"name: [",
    "not UTF-8": b"\xff\xfe\x00name",
    "tagged": b"!!python/object/apply:os.system [id]",
    "deep": b"[" * 20_000,
    "an impossible date": b"name: 2001-99-99",
    "no mapping": b"- name",
    "a list for a name": b"name: [a]\nversion: 1.0.0",
    "an empty number": b'name: x\nversion: !!int ""',
    "a bomb": b"a: &a [x,x,x,x,x,x,x,x,x]\n"
    + b"".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n".encode()
        for n in range(12)
    )
    + b"name: *m\nversion: 1.0.0",
}


@pytest.mark.parametrize("content", CHARTS.values(), ids=CHARTS.keys())
def test_a_chart_that_is_not_readable_is_a_fault_of_the_file(
    tmp_path: Path, content: bytes
) -> None:
    chart = packed(**{"runai-cluster__Chart.yaml": content})
    path = without(tiny_bundle("2.7.1", tmp_path), "runai-cluster-2.7.1.tgz")
    said = faults(with_member(path, tarfile.TarInfo(CHART), chart))
    assert any(f"the chart {CHART} in it has no readable Chart.yaml" in fault for fault in said)


MANIFESTS: dict[str, bytes] = {
    "tags by number": b'[{"RepoTags": 5}]',
    "layers by number": b'[{"Layers": 1}]',
    "tags that are numbers": b'[{"RepoTags": [5]}]',
    "a configuration that is none": b'[{"Config": {}}]',
    "an image that is none": b"[5]",
    "deep": b"[" * 100_000,
    "no JSON": b"\xff",
}


@pytest.mark.parametrize("content", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_docker_archive_that_is_not_readable_is_a_fault_of_the_file(
    tmp_path: Path, content: bytes
) -> None:
    archive = packed(**{"manifest.json": content})
    member = tarfile.TarInfo("deploy/images/odd.tar.gz")
    said = faults(with_member(tiny_bundle("2.7.1", tmp_path), member, archive))
    assert any("the archive deploy/images/odd.tar.gz in it" in fault for fault in said)


def header(kind: bytes, size: int, *, chained: int = 1) -> bytes:
    """Headers of one extended kind, each as long as it says."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, size
    padded = -(-size // 512) * 512
    return (member.tobuf(tarfile.GNU_FORMAT) + bytes(padded)) * chained


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g", b"X"])
def test_a_name_of_hundreds_of_megabytes_takes_no_memory(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "runai-2.7.1.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(header(kind, 64 << 20))
    tracemalloc.start()
    said = faults(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a name or header is longer than" in said[0]
    assert peak < 16 << 20


@pytest.mark.parametrize("kind", [b"L", b"x", b"g"])
def test_headers_in_headers_without_end_are_a_fault(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "runai-2.7.1.tar"
    path.write_bytes(header(kind, 512, chained=3000))
    assert faults(path)


def test_a_sparse_file_and_a_negative_size_are_faults(tmp_path: Path) -> None:
    sparse = tarfile.TarInfo("deploy/hole")
    sparse.type = tarfile.GNUTYPE_SPARSE
    (tmp_path / "sparse").write_bytes(sparse.tobuf(tarfile.GNU_FORMAT))
    assert faults(tmp_path / "sparse")[0] == "the archive has a sparse file"
    content = bytearray(tarfile.TarInfo("deploy/x").tobuf(tarfile.GNU_FORMAT))
    content[124:136] = b"\xff" * 12
    content[148:156] = b"        "
    content[148:156] = b"%06o\0 " % sum(content)
    (tmp_path / "negative").write_bytes(content)
    assert "negative size" in faults(tmp_path / "negative")[0]


def test_only_a_command_that_installs_from_it_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    site = dataclasses.replace(samples.site(runai={"vendor_bundle": path.name}), directory=tmp_path)
    monkeypatch.setattr("appliance.adapters.site.files.load_site", lambda _: site)
    with monkeypatch.context() as closed:
        closed.setattr(vendor_bundle, "read_contents", lambda _: pytest.fail("it was read"))
        looking = app.Application().connect(tmp_path).desired
    assert (looking.vendor_bundle, looking.vendor_bundle_unread) == (None, True)
    installing = app.Application().connect(tmp_path, reads_vendor_bundle=True).desired
    assert (installing.vendor_bundle, installing.vendor_bundle_unread) == (
        load_vendor_bundle(path),
        False,
    )
    assert app.Application().connect(tmp_path).desired.vendor_bundle == installing.vendor_bundle


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 100_000, json.dumps({"charts": [5]})])
def test_a_memory_that_is_damaged_is_none(tmp_path: Path, text: str) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    site = dataclasses.replace(samples.site(runai={"vendor_bundle": path.name}), directory=tmp_path)
    first = load_vendor_bundle(path)
    (kept,) = (tmp_path / "cache" / "vendor-bundles").iterdir()
    kept.write_text(text)
    assert known_vendor_bundle(site) is None
    assert load_vendor_bundle(path) == first
