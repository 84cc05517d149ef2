"""Files from the web and from the operator, against a real server."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.local.cache import recipe_key
from appliance.builder.sources.local import OperatorFile
from appliance.builder.sources.source import Context
from appliance.builder.sources.url import Url
from appliance.errors import SourceUnavailable
from appliance.model.bundle.release.release import Artifact
from appliance.model.bundle.release.sources import FileSource, UrlSource
from tests.integration.bundle.web import Web

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def tool(source: UrlSource | FileSource) -> Artifact:
    return Artifact(name="tool", kind="binary", version="1", sources=(source,))


def url_of(web: Web, **fields: str) -> UrlSource:
    web.pages.setdefault("/tool", ("application/octet-stream", CONTENT))
    return UrlSource(kind="url", url=f"{web.base}/tool", **fields)


def test_a_file_with_a_digest_is_fetched_once(web: Web, context: Context) -> None:
    spec = url_of(web, sha256=SHA256)
    fetched = Url().fetch(tool(spec), spec, context)
    assert (fetched.verified, fetched.file.path, fetched.file.sha256) == (
        "sha256",
        "bin/tool",
        SHA256,
    )
    assert fetched.file.executable
    Url().fetch(tool(spec), spec, context)
    assert web.asked == ["/tool"]


def test_another_content_than_the_digest_is_refused_and_forgotten(
    web: Web, context: Context
) -> None:
    spec = url_of(web, sha256="0" * 64)
    with pytest.raises(SourceUnavailable, match=f"has sha256 {SHA256}, expected 0000"):
        Url().fetch(tool(spec), spec, context)
    assert not context.cache.path(SHA256).exists()
    assert not list((context.cache.root / "work/downloads").iterdir())


def test_a_file_without_a_digest_is_never_verified_until_it_is_locked(
    web: Web, context: Context
) -> None:
    spec = url_of(web)
    fetched = Url().fetch(tool(spec), spec, context)
    assert (fetched.verified, fetched.learned) == ("never", (spec.url, SHA256))
    assert Url().fetch(tool(spec), spec, context) == fetched
    assert web.asked == ["/tool"]
    locked = replace(context, locked={spec.url: SHA256})
    assert Url().fetch(tool(spec), spec, locked).verified == "lock"
    changed = replace(context, locked={spec.url: "1" * 64})
    with pytest.raises(SourceUnavailable, match="expected 1111"):
        Url().fetch(tool(spec), spec, changed)


def test_a_download_goes_on_where_it_broke_off(web: Web, context: Context) -> None:
    spec = url_of(web, sha256=SHA256)
    web.cut_after = 1000
    with pytest.raises(SourceUnavailable, match="cannot be fetched"):
        Url().fetch(tool(spec), spec, context)
    Url().fetch(tool(spec), spec, context)
    assert web.ranges == ["bytes=1000-"]
    assert context.cache.path(SHA256).read_bytes() == CONTENT


def test_a_first_download_never_mixes_two_files(web: Web, context: Context) -> None:
    """Nothing vouches for it yet: what is learned has to be one file, as its server had it."""
    spec = url_of(web)
    web.etags["/tool"] = '"one"'
    web.cut_after = 1000
    with pytest.raises(SourceUnavailable, match="cannot be fetched"):
        Url().fetch(tool(spec), spec, context)
    changed = CONTENT[::-1]
    web.pages["/tool"], web.etags["/tool"] = ("application/octet-stream", changed), '"two"'
    assert Url().fetch(tool(spec), spec, context).learned == (
        spec.url,
        hashlib.sha256(changed).hexdigest(),
    )


def test_a_first_download_goes_on_only_with_a_validator(web: Web, context: Context) -> None:
    spec = url_of(web)
    web.cut_after = 1000
    with pytest.raises(SourceUnavailable, match="cannot be fetched"):
        Url().fetch(tool(spec), spec, context)
    web.etags["/tool"] = '"one"'
    web.cut_after = 2000
    with pytest.raises(SourceUnavailable, match="cannot be fetched"):
        Url().fetch(tool(spec), spec, context)
    assert web.ranges == [], "the server had given nothing to compare by"
    assert Url().fetch(tool(spec), spec, context).learned == (spec.url, SHA256)
    assert web.ranges == ["bytes=2000-"]
    assert not list((context.cache.root / "work/downloads").iterdir())


def test_a_download_that_was_complete_but_not_kept_is_not_fetched_again(
    web: Web, context: Context
) -> None:
    spec = url_of(web, sha256=SHA256)
    key = recipe_key({"kind": "url", "url": spec.url})
    (context.cache.work("downloads") / key).write_bytes(CONTENT)
    Url().fetch(tool(spec), spec, context)
    assert web.ranges == [f"bytes={len(CONTENT)}-"]


def test_a_file_is_taken_out_of_its_archive(web: Web, context: Context) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("./linux/tool")
        member.size = 4
        archive.addfile(member, io.BytesIO(b"tool"))
    web.pages["/tool"] = ("application/gzip", packed.getvalue())
    spec = url_of(web, member="linux/tool")
    fetched = Url().fetch(tool(spec), spec, context)
    assert context.cache.path(fetched.file.sha256).read_bytes() == b"tool"
    absent = url_of(web, member="linux/other")
    with pytest.raises(SourceUnavailable, match="no readable linux/other"):
        Url().fetch(tool(absent), absent, context)


def test_a_missing_page_and_a_closed_port_are_reported(web: Web, context: Context) -> None:
    spec = UrlSource(kind="url", url=f"{web.base}/nothing")
    with pytest.raises(SourceUnavailable, match="answers 404"):
        Url().fetch(tool(spec), spec, context)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spec = UrlSource(kind="url", url=f"http://127.0.0.1:{port}/tool")
    with pytest.raises(SourceUnavailable, match="cannot be reached"):
        Url().fetch(tool(spec), spec, context)


def test_a_host_that_swallows_packets_costs_seconds_once(context: Context) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(0)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        for name in range(12):
            spec = UrlSource(kind="url", url=f"{address}/{name}")
            with pytest.raises(SourceUnavailable, match="no answer within 1 s"):
                Url().fetch(tool(spec), spec, context)
        assert time.monotonic() - began < 9


def test_the_operators_file_comes_with_its_digest(context: Context, tmp_path: Path) -> None:
    spec = FileSource(kind="file", name="licensed.run")
    with pytest.raises(SourceUnavailable, match="--files"):
        OperatorFile().fetch(tool(spec), spec, context)
    context = replace(context, files=tmp_path)
    (tmp_path / "licensed.run").write_bytes(CONTENT)
    with pytest.raises(SourceUnavailable, match=r"licensed\.run\.sha256 does not exist"):
        OperatorFile().fetch(tool(spec), spec, context)
    (tmp_path / "licensed.run.sha256").write_text(f"{SHA256}  licensed.run\n")
    assert OperatorFile().fetch(tool(spec), spec, context).verified == "sha256"
    (tmp_path / "licensed.run.sha256").write_text(f"{'0' * 64}  licensed.run\n")
    with pytest.raises(SourceUnavailable, match="has another one"):
        OperatorFile().fetch(tool(spec), spec, context)
